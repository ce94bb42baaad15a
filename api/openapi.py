"""The OpenAPI document: schemas of bodies that the routes read as bytes, and of problems."""

from __future__ import annotations

from typing import Any

from fastapi import FastAPI
from fastapi.openapi.utils import get_openapi
from pydantic import BaseModel, ConfigDict
from pydantic.json_schema import JsonSchemaMode, models_json_schema

from gangfit.api import examples
from gangfit.api.documents import CheckRequest, DefragmentRequest
from gangfit.api.faults import Scalar
from gangfit.api.problems import MEDIA_TYPE
from gangfit.models import CheckReport, Defragmentation, Plan, Snapshot

Json = dict[str, Any]


class Fault(BaseModel):
    """One thing wrong with the body."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    pointer: str
    """JSON pointer (RFC 6901) to the field; empty: the whole body."""
    field: str
    """The same in dotted form."""
    message: str
    """Field, value and what is allowed."""
    value: Scalar
    """The value as sent; a short description if it is long or no scalar."""


class ProblemDocument(BaseModel):
    """RFC 9457 problem."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    type: str
    """`urn:gangfit:problem:<name>`; the name tells problems apart."""
    title: str
    """Meaning of the status."""
    status: int
    """The HTTP status."""
    detail: str
    """What happened here."""
    instance: str
    """`urn:uuid:…` of this occurrence, also in the server's log if the fault is the server's."""
    errors: list[Fault] = []
    """What is wrong with the body, up to 100 entries."""


_MODELS: list[tuple[type[BaseModel], JsonSchemaMode]] = [
    (Snapshot, "validation"),
    (CheckRequest, "validation"),
    (DefragmentRequest, "validation"),
    (Plan, "serialization"),
    (CheckReport, "serialization"),
    (Defragmentation, "serialization"),
    (ProblemDocument, "serialization"),
]
_REFERENCES, _DEFINITIONS = models_json_schema(_MODELS, ref_template="#/components/schemas/{model}")
_SCHEMAS: dict[type[BaseModel], Json] = {model: _REFERENCES[model, mode] for model, mode in _MODELS}

_PROBLEMS = {
    400: "The body is no JSON text, or broken gzip.",
    413: "The body is over the limit, before or after decompression.",
    415: "Content-Type is not application/json, or Content-Encoding neither gzip nor identity.",
    422: "The body is JSON, but no valid input; every fault is named.",
    500: "A fault of the server.",
    503: "The queue is full; Retry-After says when to try again.",
}


def takes(model: type[BaseModel], **samples: Json) -> Json:
    """`openapi_extra` of a route with this JSON body."""
    named = {name: {"value": value} for name, value in samples.items()}
    return {
        "requestBody": {
            "required": True,
            "content": {"application/json": {"schema": _SCHEMAS[model], "examples": named}},
        }
    }


def answers(model: type[BaseModel], description: str, sample: Json) -> dict[int | str, Json]:
    """`responses` of a route: this model, or a problem."""
    responses: dict[int | str, Json] = {
        200: {
            "description": description,
            "content": {"application/json": {"schema": _SCHEMAS[model], "example": sample}},
        }
    }
    for status, meaning in _PROBLEMS.items():
        content: Json = {"schema": _SCHEMAS[ProblemDocument]}
        if status == 422:
            content["example"] = examples.PROBLEM
        responses[status] = {"description": meaning, "content": {MEDIA_TYPE: content}}
    responses[503]["headers"] = {"Retry-After": {"description": "Seconds to wait.", "schema": {"type": "integer"}}}
    return responses


def install(app: FastAPI) -> None:
    """Put the schemas that `takes` and `answers` refer to into the app's OpenAPI document."""

    def document() -> Json:
        if app.openapi_schema is None:
            schema = get_openapi(title=app.title, version=app.version, description=app.description, routes=app.routes)
            schema.setdefault("components", {}).setdefault("schemas", {}).update(_DEFINITIONS["$defs"])
            app.openapi_schema = schema
        return app.openapi_schema

    app.openapi = document  # type: ignore[method-assign]  # FastAPI's documented way to extend the document
