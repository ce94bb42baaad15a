"""The documents that come in and go out: JSON bytes ↔ models. HTTP and CLI share them."""

from __future__ import annotations

from typing import Annotated, Any, TypeVar

from pydantic import BaseModel, ConfigDict, Field, ValidationError, ValidationInfo, field_validator

from gangfit.api.faults import from_validation
from gangfit.api.parse import parse
from gangfit.models import MAX_NODES, NODE_LEVEL, Plan, Snapshot

Model = TypeVar("Model", bound=BaseModel)


class CheckRequest(BaseModel):
    """A snapshot and the plan to check on it; the plan may hold placements only."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    snapshot: Snapshot
    """What the plan was made for."""
    plan: Plan
    """Plan of gangfit or of anyone else."""


class DefragmentRequest(BaseModel):
    """Which domains are to be emptied, and where."""

    model_config = ConfigDict(frozen=True, extra="forbid", use_attribute_docstrings=True)

    snapshot: Snapshot
    """The cluster; pending gangs stay pending, and its policy says nothing about who moves."""
    level: str
    """Level of the domains: one of the snapshot's, or `node`."""
    domains: Annotated[int, Field(strict=True, ge=1, le=MAX_NODES)] = 1
    """Intact domains wanted, those that are intact already included."""

    @field_validator("level")
    @classmethod
    def _known(cls, level: str, info: ValidationInfo) -> str:
        snapshot = info.data.get("snapshot")
        if snapshot is not None:
            known = [*(one.name for one in snapshot.topology.levels), NODE_LEVEL]
            if level not in known:
                raise ValueError(f"unknown level {level!r}; known: {', '.join(map(repr, known))}")
        return level


def snapshot(data: bytes) -> Snapshot:
    """Read a snapshot. Raises InputError with every fault."""
    return validate(Snapshot, parse(data))


def plan(data: bytes) -> Plan:
    """Read a plan. Raises InputError with every fault."""
    return validate(Plan, parse(data))


def check_request(data: bytes) -> CheckRequest:
    """Read `{snapshot, plan}`. Raises InputError with every fault."""
    return validate(CheckRequest, parse(data))


def defragment_request(data: bytes) -> DefragmentRequest:
    """Read `{snapshot, level, domains}`. Raises InputError with every fault."""
    return validate(DefragmentRequest, parse(data))


def validate(model: type[Model], document: dict[str, Any]) -> Model:
    """Build a model from a parsed document. Raises InputError with every fault."""
    try:
        return model.model_validate(document)
    except ValidationError as error:
        raise from_validation(error) from None


def dump(model: BaseModel) -> bytes:
    """The one JSON form of a model, compact, fields in declared order: the same bytes over HTTP and on the CLI."""
    return model.model_dump_json().encode()
