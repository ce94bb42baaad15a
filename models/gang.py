"""Gangs: jobs that start whole or not at all."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gangfit.models.scalars import (
    CpuMilli,
    Frozen,
    Gpus,
    Instant,
    Labels,
    Members,
    MemoryMib,
    Name,
    Priority,
    Resources,
    empty,
)


class Request(Frozen):
    """What one member takes on its node."""

    gpus: Gpus = 0
    """GPUs per member."""
    cpu_milli: CpuMilli = 0
    """CPU per member in millicores."""
    memory_mib: MemoryMib = 0
    """Memory per member in MiB."""
    resources: Resources = empty()
    """Any other named integer resource per member."""

    @model_validator(mode="after")
    def _asks_something(self) -> Self:
        if not (self.gpus or self.cpu_milli or self.memory_mib or any(self.resources.values())):
            raise ValueError("a member has to ask at least one of gpus, cpu_milli, memory_mib, resources")
        return self


class Toleration(Frozen):
    """Lets a gang's members onto nodes that carry a matching taint (Kubernetes meaning)."""

    key: Annotated[str, Field(max_length=253)] = ""
    """Taint key; empty with `operator: Exists` tolerates every taint."""
    operator: Literal["Equal", "Exists"] = "Exists"
    """`Exists`: any value of the key; `Equal`: this value only."""
    value: Annotated[str, Field(max_length=253)] = ""
    """Value to match with `operator: Equal`."""
    effect: Literal["NoSchedule", "NoExecute"] | None = None
    """Effect to match; null matches both."""

    @model_validator(mode="after")
    def _consistent(self) -> Self:
        if self.operator == "Exists" and self.value:
            raise ValueError(f"value {self.value!r} has no meaning with operator Exists; use Equal or leave it out")
        if self.operator == "Equal" and not self.key:
            raise ValueError("operator Equal needs a key")
        return self


class GangTopology(Frozen):
    """Where the members may sit relative to each other. Names are levels of the snapshot, or `node`."""

    required: Name | None = None
    """All members in one domain of this level, or the gang waits."""
    preferred: Name | None = None
    """As few domains of this level as possible, before any other distance counts."""


class Gang(Frozen):
    """What pending and running gangs have in common."""

    name: Name
    """Unique among all gangs of the snapshot."""
    tenant: Name = "default"
    """Tenant the gang belongs to."""
    priority: Priority = 0
    """Higher is considered first."""
    submitted_s: Instant = 0
    """Submission instant, seconds since the epoch; earlier is considered first among equal priorities."""
    members: Members
    """Members that start together."""
    request: Request
    """What each member takes."""
    topology: GangTopology = GangTopology()
    """Wishes about domains."""
    selector: Labels = empty()
    """Labels a node has to carry, each with this very value."""
    tolerations: tuple[Toleration, ...] = ()
    """Taints the members accept."""
    gpu_model: Name | None = None
    """GPU model a node has to have; null accepts any."""


class PendingGang(Gang):
    """A gang that waits to start."""


class Checkpoint(Frozen):
    """How a running gang saves its progress (description; acts with preemption)."""

    last_s: Instant | None = None
    """Instant of the last complete checkpoint; null if there is none yet."""
    interval_s: Annotated[int, Field(strict=True, ge=1, le=10**9)] | None = None
    """Seconds between checkpoints."""
    bytes: Annotated[int, Field(strict=True, ge=0, le=10**18)] | None = None
    """Size of one checkpoint in bytes, over all members."""
    write_gbps: Annotated[float, Field(gt=0, le=10**6)] | None = None
    """Write bandwidth of the whole gang in GB/s (10⁹ bytes)."""


class RunningGang(Gang):
    """A gang that holds its nodes."""

    placement: dict[Name, Members]
    """Node name → members on it; sums to `members`."""
    started_s: Instant = 0
    """Start instant, seconds since the epoch (description)."""
    preemptible: bool = True
    """Whether the gang may be asked to give way (description)."""
    checkpoint: Checkpoint | None = None
    """How it saves progress (description)."""
