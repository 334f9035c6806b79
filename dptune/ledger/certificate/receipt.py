"""A signed receipt: what a ledger promised and held on a day, so that a later change of it is noticed.

It holds the statement, the ledger's mark (identity, number and hash of the last charge), SHA-256 of every row of the
ledger and of each study's questions, and the versions in use, signed with Ed25519 (``cryptography``). What it proves:
who has the private key vouched for this statement of this ledger. What it does not: that every release went through
this ledger.
"""

from __future__ import annotations

import datetime
import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from dptune.errors import InputError, LedgerError, MissingExtra
from dptune.ledger.statement import library_versions
from dptune.training.ledger import CentralLedger

try:
    from cryptography.exceptions import InvalidSignature, UnsupportedAlgorithm
    from cryptography.hazmat.primitives.asymmetric.ed25519 import Ed25519PrivateKey, Ed25519PublicKey
    from cryptography.hazmat.primitives.serialization import load_pem_private_key, load_pem_public_key
except ImportError:
    raise MissingExtra('signed receipts need cryptography: pip install "dptune[cryptography]".') from None

FORMAT = "dptune receipt 1"


def sign(ledger: CentralLedger, key: str | Path, *, delta: float) -> dict[str, Any]:
    """Return a receipt of the ledger as it is, as JSON data.

    Args:
        ledger: a ledger of a trusted curator.
        key: path of an Ed25519 private key in PEM (``openssl genpkey -algorithm ed25519 -out key.pem``).
        delta: at which the statement gives epsilon.

    Raises:
        InputError: the file is not such a key.
    """
    private = _key(key, lambda pem: load_pem_private_key(pem, password=None), Ed25519PrivateKey)
    body = {
        "format": FORMAT,
        "signed_at": datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds"),
        "statement": json.loads(ledger.statement(delta=delta).to_json()),
        "ledger": ledger.state(),
        "versions": library_versions(),
        "public_key": private.public_key().public_bytes_raw().hex(),
    }
    return {**body, "signature": private.sign(_canonical(body)).hex()}


def verify(receipt: Mapping[str, Any], ledger: CentralLedger, *, signer: str | Path | None = None) -> None:
    """Refuse a receipt that was changed, that somebody else signed, or that is of another state of the ledger.

    Args:
        receipt: what :func:`sign` returned.
        ledger: that it is held against.
        signer: path of the public key in PEM that must have signed; None to trust the key inside the receipt, which
            then proves that receipt and ledger belong together, and not who signed.

    Raises:
        InputError: it is not a receipt, its text was changed, or another key signed it.
        LedgerError: the ledger is another one, was changed, or has gone on since.
    """
    _check_signature(receipt, signer)
    signed, now = receipt["ledger"], ledger.state()
    ledger.check_mark(signed["mark"])
    if now["mark"] != signed["mark"]:
        raise LedgerError(
            f"the ledger has gone on since it was signed at {receipt['signed_at']}: charges were made after number "
            f"{signed['mark']['seq']}. Those before are as they were. Ask for a receipt of today."
        )
    if now != signed:
        raise LedgerError(
            f"the ledger was changed since it was signed at {receipt['signed_at']}: its rows are not those of the "
            "receipt, with the same last charge. (A value recorded since, or a fact fixed since, is a change, too: "
            "then ask for a receipt of today.)"
        )


def _check_signature(receipt: Mapping[str, Any], signer: str | Path | None) -> None:
    if not isinstance(receipt, Mapping) or receipt.get("format") != FORMAT:
        raise InputError(f"a receipt is what `dptune sign` printed, with the format {FORMAT!r}.")
    body = {name: value for name, value in receipt.items() if name != "signature"}
    try:
        inside = bytes.fromhex(body["public_key"])
        signature = bytes.fromhex(receipt["signature"])
    except (KeyError, TypeError, ValueError):
        raise InputError("the receipt lacks a readable key or signature; ask for it again.") from None
    if signer is not None and inside != _key(signer, load_pem_public_key, Ed25519PublicKey).public_bytes_raw():
        raise InputError(f"the receipt was signed with another key than that in {signer}.")
    try:
        Ed25519PublicKey.from_public_bytes(inside).verify(signature, _canonical(body))
    except (ValueError, InvalidSignature):
        changed = "the receipt's text is not what was signed: it was changed, so nothing in it counts."
        raise InputError(changed) from None


def _canonical(body: Mapping[str, Any]) -> bytes:
    return json.dumps(body, sort_keys=True, separators=(",", ":"), allow_nan=False).encode()


def _key(path: str | Path, load: Callable[[bytes], object], kind: Any) -> Any:
    try:
        key = load(Path(path).read_bytes())
    except (OSError, ValueError, TypeError, UnsupportedAlgorithm) as error:
        raise InputError(f"{path} cannot be read as a key in PEM without a password: {error}.") from None
    if not isinstance(key, kind):
        raise InputError(f"{path} holds another kind of key; make one: openssl genpkey -algorithm ed25519 -out key.pem")
    return key
