"""Gangs: jobs that start whole or not at all."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gangfit.models.scalars import (
    CpuMilli,
    Ending,
    Frozen,
    Gpus,
    Instant,
    Labels,
    Members,
    MemoryMib,
    Name,
    Priority,
    Resources,
    Seconds,
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


class Checkpoint(Frozen):
    """How a running gang saves its progress."""

    last_s: Instant | None = None
    """Instant of the last complete checkpoint, at most `time_s`; null if there is none yet."""
    interval_s: Annotated[int, Field(strict=True, ge=1, le=10**9)] | None = None
    """Seconds between checkpoints."""
    bytes: Annotated[int, Field(strict=True, ge=0, le=10**18)] | None = None
    """Size of one checkpoint in bytes, over all members."""
    write_gbps: Annotated[float, Field(strict=True, gt=0, le=10**6)] | None = None
    """Write bandwidth of the whole gang in GB/s (10⁹ bytes)."""


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
    preemptible: Annotated[bool, Field(strict=True)] = True
    """Whether the gang may be asked to give way while it runs."""
    min_runtime_s: Seconds = 0
    """Younger than this it is not preempted; 7,200 is a good value."""
    grace_s: Seconds = 300
    """Time between the request to stop (SIGTERM) and the end (SIGKILL)."""
    restart_s: Seconds = 300
    """Time a restart costs before the gang makes progress again."""
    checkpoint: Checkpoint | None = None
    """How it saves progress; null: a preempted gang starts over."""
    preemptions: Annotated[int, Field(strict=True, ge=0, le=10**6)] = 0
    """How often it has been preempted since its last complete checkpoint."""


class PendingGang(Gang):
    """A gang that waits to start."""

    preempted_s: Instant | None = None
    """Instant at which it last lost its nodes to another gang; for `policy.preemption.settle_s` after it the gang may
    not preempt. At most `time_s`. Null: never."""
    expected_duration_s: Annotated[int, Field(strict=True, ge=1, le=10**9)] | None = None
    """How long it runs once it starts (a time limit, an estimate); null: unknown, it counts as never ending."""


class RunningGang(Gang):
    """A gang that holds its nodes."""

    placement: dict[Name, Members]
    """Node name → members on it; sums to `members`."""
    started_s: Instant = 0
    """Start instant, seconds since the epoch, at most `time_s`."""
    phase: Literal["running", "terminating"] = "running"
    """terminating: already asked to stop; its space may be promised (`starts_after`), its share no longer counts."""
    expected_end_s: Ending | None = None
    """When it is gone. Null: unknown, it counts as never ending; for a terminating gang `time_s` + `grace_s`. A running
    gang that should have ended by `time_s` counts as unknown, with a warning in the plan."""
