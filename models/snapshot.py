"""Snapshot: everything one round needs, as it comes over the wire."""

from __future__ import annotations

import gc
import math
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from functools import cached_property
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, JsonValue, field_validator, model_validator
from pydantic_core import PydanticKnownError

from gangfit.models.gang import PendingGang, RunningGang
from gangfit.models.hostlist import expand
from gangfit.models.policy import Policy
from gangfit.models.scalars import (
    MAX_GANGS,
    MAX_NODES,
    Amount,
    CpuMilli,
    Frozen,
    Gpus,
    Instant,
    Labels,
    MemoryMib,
    Name,
    Resources,
    Weight,
    empty,
)
from gangfit.models.validation import validate_snapshot

NODE_LEVEL = "node"
"""Name of the implicit last level."""
DEFAULT_TENANT = "default"
"""Tenant that exists without being declared."""


class Level(Frozen):
    """One tier of the topology tree."""

    name: Name
    """For example `spine` or `rack`; `node` is taken by the implicit last level."""
    weight: Weight | None = None
    """Cost of each further domain of this level that a gang touches; default 4 × the next finer level's."""


class Topology(Frozen):
    """The levels, coarse → fine. The node is always the last, implicit level."""

    levels: Annotated[tuple[Level, ...], Field(max_length=16)] = ()
    """Coarse → fine; none is allowed."""
    node_weight: Weight = 1
    """Cost of each further node that a gang touches."""

    def weights(self) -> list[int]:
        """Weight of every level, coarse → fine, the node last; length levels + 1."""
        result = [self.node_weight]
        for level in reversed(self.levels):
            result.append(4 * result[-1] if level.weight is None else level.weight)
        return result[::-1]


class Taint(Frozen):
    """Keeps members off a node unless they tolerate it (Kubernetes meaning; both effects act alike here)."""

    key: Name
    """Taint key."""
    value: Annotated[str, Field(max_length=253)] = ""
    """Taint value."""
    effect: Literal["NoSchedule", "NoExecute"] = "NoSchedule"
    """Soft taints (PreferNoSchedule) are not taken: they would be silently ignored."""


class Used(Frozen):
    """What on a node is taken by something that is no gang of this snapshot."""

    gpus: Gpus = 0
    """GPUs taken."""
    cpu_milli: CpuMilli = 0
    """Millicores taken."""
    memory_mib: MemoryMib = 0
    """MiB taken."""
    resources: Resources = empty()
    """Other named resources taken; some node has them."""


_NOTHING = Used()
"""Shared by all nodes without `used`: pydantic would deep-copy a default that holds a dict."""


class Node(Frozen):
    """A node, or with a hostlist such as `node[001-032]` as name several alike nodes."""

    name: Name
    """Unique after expansion; placements use single names."""
    path: tuple[Name | None, ...] = ()
    """One entry per level, coarse → fine. Null: unknown; the node is a domain of its own at that level and below,
    and can't serve a gang that requires the level."""
    gpus: Gpus
    """GPUs of the node."""
    cpu_milli: CpuMilli | None = None
    """Allocatable CPU in millicores; null: not limited."""
    memory_mib: MemoryMib | None = None
    """Allocatable memory in MiB; null: not limited."""
    resources: Resources = empty()
    """Any other named integer resource (not gpus, cpu_milli, memory_mib); what isn't named is 0."""
    gpu_model: Name | None = None
    """For example `H100`."""
    labels: Labels = empty()
    """Labels that selectors match."""
    taints: tuple[Taint, ...] = ()
    """Taints that tolerations answer."""
    state: Literal["ready", "cordoned", "down"] = "ready"
    """Only ready nodes take new members."""
    used: Used = Field(default_factory=lambda: _NOTHING, json_schema_extra={"default": _NOTHING.model_dump()})
    """Taken by what is no gang here."""


class Share(Frozen):
    """Amounts of some resources; null or absent: not guarded (quota), not limited (limit)."""

    gpus: Amount | None = None
    """GPUs."""
    cpu_milli: Amount | None = None
    """Millicores."""
    memory_mib: Amount | None = None
    """MiB."""
    resources: Resources = {}
    """Any other named resource that some node has."""


class Tenant(Frozen):
    """An owner of gangs. Tenants form trees; gangs belong to leaves."""

    name: Name
    """Unique."""
    weight: Weight = 1
    """Fair-share weight relative to siblings; 0: only after all others."""
    quota: Share | None = None
    """Guarantee. Where no root tenant states one, each root's is its weighted share of capacity; otherwise a leaf's
    missing quota is 0 and a parent's missing quota sets no bound."""
    limit: Share | None = None
    """Hard cap on what the tenant and all below it hold."""
    parent: Name | None = None
    """Parent tenant; null: a root."""


def _at_least_one(nodes: tuple[Node, ...]) -> tuple[Node, ...]:
    """As `min_length=1`, which would count a faulty node as none and so make two faults of one."""
    if not nodes:
        raise PydanticKnownError("too_short", {"field_type": "Tuple", "min_length": 1, "actual_length": 0})
    return nodes


class Snapshot(Frozen):
    """One round's input. Wrong input is an error that names field, value and limit; nothing is dropped."""

    time_s: Instant = 0
    """The instant of the snapshot, seconds since the epoch."""
    topology: Topology = Topology()
    """Levels of the tree."""
    nodes: Annotated[
        tuple[Node, ...],
        Field(max_length=MAX_NODES, json_schema_extra={"minItems": 1}),
        AfterValidator(_at_least_one),
    ]
    """The nodes; hostlists are expanded."""
    tenants: Annotated[tuple[Tenant, ...], Field(max_length=MAX_GANGS)] = ()
    """Declared tenants; `default` exists without being declared."""
    running: Annotated[tuple[RunningGang, ...], Field(max_length=MAX_GANGS)] = ()
    """Gangs that hold nodes."""
    pending: Annotated[tuple[PendingGang, ...], Field(max_length=MAX_GANGS)] = ()
    """Gangs that wait."""
    policy: Policy = Policy()
    """How to solve."""
    meta: dict[Name, JsonValue] = {}
    """Free description (origin, licence); never read by the solver."""

    @cached_property
    def node_names(self) -> tuple[tuple[str, ...], ...]:
        """Single names of every entry of `nodes`, hostlists expanded."""
        return tuple(tuple(expand(node.name)) for node in self.nodes)

    def model_copy(self, *, update: Mapping[str, Any] | None = None, deep: bool = False) -> Self:
        """As pydantic's; names are expanded anew, since `update` may bring other nodes."""
        copied = super().model_copy(update=update, deep=deep)
        copied.__dict__.pop("node_names", None)
        return copied

    @field_validator("meta")
    @classmethod
    def _finite(cls, meta: dict[str, JsonValue]) -> dict[str, JsonValue]:
        if not _is_finite(meta):
            raise ValueError("NaN and infinity aren't JSON")
        return meta

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        validate_snapshot(self)
        return self

    @classmethod
    def model_validate(cls, obj: Any, **options: Any) -> Self:
        """As pydantic's, without garbage collection meanwhile."""
        with _collector_paused():
            return super().model_validate(obj, **options)

    @classmethod
    def model_validate_json(cls, json_data: str | bytes | bytearray, **options: Any) -> Self:
        """As pydantic's, without garbage collection meanwhile."""
        with _collector_paused():
            return super().model_validate_json(json_data, **options)


@contextmanager
def _collector_paused() -> Iterator[None]:
    """No garbage collection inside: reading only allocates, and every pass would scan the objects read so far."""
    enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if enabled:
            gc.enable()


def _is_finite(value: JsonValue) -> bool:
    """Whether no number in a JSON value is NaN or infinite."""
    if isinstance(value, float):
        return math.isfinite(value)
    if isinstance(value, list):
        return all(map(_is_finite, value))
    return all(map(_is_finite, value.values())) if isinstance(value, dict) else True
