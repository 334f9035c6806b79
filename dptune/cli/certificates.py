"""What others want of a ledger: a certificate, a record for the public registry, a signed receipt."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Annotated

import typer

from dptune._statement import Statement
from dptune.certificate import About, Risk, checklist, record, to_yaml
from dptune.cli.shared import AnyLedger, CentralLedger, Delta, Ledger, app, delta_of, open_any
from dptune.errors import InputError
from dptune.local import UserLedger


@app.command()
def certificate(
    ledger: Ledger,
    delta: Delta = None,
    registry: Annotated[
        Path | None, typer.Option(help="print a record for the registry of deployments, with what this TOML file says")
    ] = None,
) -> None:
    """Print the statement, its risk in words, and NIST SP 800-226's questions; or a record for the public registry."""
    opened = open_any(ledger)
    if registry is not None:
        central = _central(opened)
        stated: Statement = central.statement(delta=delta_of([central], delta))
        typer.echo(to_yaml(record(stated, About.read(registry))), nl=False)
        return
    found = opened.statement() if isinstance(opened, UserLedger) else opened.statement(delta=delta_of([opened], delta))
    questions = "\n".join(f"  {item}" for item in checklist(found))
    typer.echo(f"{found.to_text()}\n\nRisk\n  {Risk.of_statement(found)}\n\nNIST SP 800-226\n{questions}")


@app.command()
def sign(
    ledger: Ledger,
    key: Annotated[Path, typer.Argument(help="private key: openssl genpkey -algorithm ed25519 -out key.pem")],
    delta: Delta = None,
) -> None:
    """Print a signed receipt of a ledger as it is: its statement, digests of its rows and questions, versions."""
    from dptune.certificate.receipt import sign as signed

    opened = _central(open_any(ledger))
    typer.echo(json.dumps(signed(opened, key, delta=delta_of([opened], delta)), indent=2))


@app.command()
def verify(
    receipt: Annotated[Path, typer.Argument(help="what `dptune sign` printed")],
    ledger: Ledger,
    signer: Annotated[Path | None, typer.Option(help="public key that must have signed")] = None,
) -> None:
    """Refuse a ledger that was changed since a receipt of it was signed, or a receipt that was changed."""
    from dptune.certificate.receipt import verify as check

    try:
        found = json.loads(receipt.read_text())
    except (OSError, ValueError) as error:
        raise InputError(f"{receipt} cannot be read as JSON: {error}.") from None
    check(found, _central(open_any(ledger)), signer=signer)
    whose = f"the key in {signer}" if signer else f"the key {found['public_key']} (--signer says whose it must be)"
    typer.echo(f"The ledger is as it was when it was signed at {found['signed_at']} with {whose}.")


def _central(opened: AnyLedger) -> CentralLedger:
    if isinstance(opened, UserLedger):
        raise InputError(
            "records and receipts are of a curator's ledger; this one is of users' own devices, each of which keeps a "
            "ledger of its own. `dptune certificate` without --registry says what it promises, and its risk in words."
        )
    return opened
