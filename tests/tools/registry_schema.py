"""The names, types, allowed values and required fields of the registry's schema, without its text.

From schemas/deployments-schema.yaml of github.com/opendp/deployments-registry-data at commit
057e5d81cf60150dd3307e0cf4504b957802fb3b (its descriptions, and the fields of bibliographies, are left out).
"""

import json
from pathlib import Path
from typing import Any

from jsonschema import Draft7Validator

SCHEMA = json.loads(Path(__file__).with_suffix(".json").read_text(encoding="utf-8"))


def complaints(record: dict[str, Any]) -> list[str]:
    """What the registry's own check would say."""
    validator = Draft7Validator(SCHEMA, format_checker=Draft7Validator.FORMAT_CHECKER)
    return [error.message for error in validator.iter_errors(record)]
