"""The facts of the registry's schema: names, types, allowed values, what is required. Not its text.

From schemas/deployments-schema.yaml of github.com/opendp/deployments-registry-data at commit
057e5d81cf60150dd3307e0cf4504b957802fb3b (its descriptions, and the fields of bibliographies, are left out).
"""

from __future__ import annotations

from typing import Any

from jsonschema import Draft7Validator

FORMATS = Draft7Validator.FORMAT_CHECKER
TEXT: dict[str, Any] = {"type": "string"}


def one_of(*values: object) -> dict[str, Any]:
    return {"enum": list(values)}


def an_object(required: str = "", **properties: Any) -> dict[str, Any]:
    return {
        "type": "object",
        "additionalProperties": False,
        "required": required.split(),
        "properties": properties,
    }


def texts(names: str) -> dict[str, Any]:
    return dict.fromkeys(names.split(), TEXT)


SCHEMA = an_object(
    "url_slug deployment",
    url_slug=TEXT,
    deployment=an_object(
        "basic administrative",
        basic=an_object(
            "name data_curators description intended_use data_product_type data_product_region publication_date",
            **texts("name description intended_use data_product_region"),
            data_curators={
                "type": "array",
                "minItems": 1,
                "items": {
                    "type": "object",
                    "required": ["data_curator_name", "data_curator_type"],
                    "properties": {
                        "data_curator_name": TEXT,
                        "data_curator_type": one_of("Government", "Industry", "Nonprofit"),
                    },
                },
            },
            data_product_type=one_of(
                "Summary statistics",
                "Machine learning model",
                "Dataset",
                "Synthetic data",
                "Interactive API",
                "SQL queries",
            ),
            data_product_sector=one_of("Technology", "Healthcare", "Education", "Government", "Energy", "Finance"),
            publication_date={"type": "string", "format": "date"},
        ),
        dp_variant=an_object(
            variant_name=one_of("Pure DP", "Approximate DP", "Zero-concentrated DP", "Renyi DP", "Custom"),
            **texts("data_domain unprotected_quantities"),
        ),
        privacy_loss=an_object(
            **texts("privacy_unit privacy_unit_details"),
            number_of_privacy_units={"type": "integer"},
            privacy_parameters=an_object(
                epsilon={"type": "number"}, delta={"type": ["number", "string"]}, rho={"type": "number"}
            ),
            privacy_parameters_details={},
        ),
        deployment_model=an_object(
            model_name=one_of("Local", "Central", "Shuffle", "Federated", "Varies"),
            **texts("model_name_details trust_assumptions release_type_details data_source_type_details"),
            actors={},
            release_type=one_of("One release", "Many releases"),
            data_source_type=one_of("Static", "Dynamic"),
            access_type=one_of("Interactive", "Non-interactive"),
            access_type_details=TEXT,
        ),
        implementation=an_object(
            **texts("preprocessing_and_hyperparameter_tuning mechanisms composition post_processing justification"),
            utility={},
            additional_information={},
        ),
        administrative=an_object(
            "status registry_authors tier",
            evidence_sources={"type": "object"},
            status=one_of(
                "Converted",
                "Draft",
                "Pending",
                "Changes Required",
                "Approved",
                "Approved (Update Requested)",
                "Approved (Pending)",
            ),
            registry_authors={"type": "array", "minItems": 1, "items": TEXT},
            tier=one_of(1, 2, 3),
        ),
    ),
)


def complaints(record: dict[str, Any]) -> list[str]:
    """What the registry's own check would say."""
    return [error.message for error in Draft7Validator(SCHEMA, format_checker=FORMATS).iter_errors(record)]
