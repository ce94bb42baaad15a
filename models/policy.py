"""Policy: how a round is to be solved. Every field has a default; an empty policy gives a good plan."""

from __future__ import annotations

from typing import Annotated, Literal, Self

from pydantic import Field, model_validator

from gangfit.models.scalars import Frozen, Seconds


class PreemptionPolicy(Frozen):
    """Who may give way to whom."""

    within: Literal["never", "priority"] = "priority"
    """Inside a tenant: never, or gangs of strictly lower priority."""
    across: Literal["never", "reclaim", "priority"] = "reclaim"
    """Across tenants: never; reclaim: a tenant within its quota takes back what others hold above theirs, whatever the
    priorities; priority: gangs of strictly lower priority, too."""
    settle_s: Seconds = 600
    """A gang that was preempted may not preempt others for so long."""
    guard: Annotated[int, Field(strict=True, ge=1, le=1_000)] = 3
    """Guard against the death spiral: a gang preempted so often without a complete checkpoint in between is protected
    until it has run one checkpoint interval."""


class MovesPolicy(Frozen):
    """Whether running gangs may be placed anew to make room, before anybody is preempted."""

    mode: Literal["never", "allowed"] = "never"
    """never: running gangs stay where they are; allowed: preemptible ones may be stopped and started elsewhere."""
    max_gangs: Annotated[int, Field(strict=True, ge=1, le=10_000)] = 8
    """Most gangs moved in one round."""
    max_ratio: Annotated[float, Field(strict=True, gt=0, le=1_000)] = 2.0
    """Most GPUs moved for a gang, in multiples of the GPUs it asks."""


class Policy(Frozen):
    """Limits and switches of one round."""

    time_limit_s: Annotated[float, Field(strict=True, gt=0, le=3_600)] = 10.0
    """Time for the whole solve in seconds. The best greedy plan exists before search starts, so a short limit
    lowers the proof, never the plan below greedy. In deterministic mode: deterministic seconds of CP-SAT."""
    order: Literal["drf", "priority", "leximin"] = "drf"
    """Which gang is considered next. drf: within quota first, then below quota, then surplus, the smallest weighted
    dominant share inside each. priority: priority across tenants before that. leximin: the ascending vector of weighted
    dominant shares is made as large as can be, exactly, then as drf; needs `preemption.within` and `across` never."""
    preemption: PreemptionPolicy = PreemptionPolicy()
    """Which running gangs may be asked to give way, to whom, how soon and how often."""
    reservation: Literal["never", "head"] | None = None
    """head: the first gang that has to wait, and of which it is known when it could start, gets that start and its
    nodes promised; later gangs start only where they end before or leave them alone. Acts only where ends are known
    (`expected_end_s`, `expected_duration_s`). never: nothing is promised. Null: head; never
    with order leximin or with moves."""
    moves: MovesPolicy = MovesPolicy()
    """Whether running gangs may be moved for others, and how far."""
    tolerance: Annotated[float, Field(strict=True, ge=0, le=1)] = 0.0
    """By what share two tiers may be exceeded for the sake of the next: lost GPU-seconds of the lowest priority that
    loses any for fewer gangs preempted, tree distance for fewer shared uplinks. The plan states what was traded."""
    seed: Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)] = 0
    """Seed of the search."""
    workers: Annotated[int, Field(strict=True, ge=1, le=64)] = 2
    """Search threads. Deterministic mode always uses one."""
    deterministic: Annotated[bool, Field(strict=True)] = False
    """The same snapshot, seed and versions give the same plan, byte for byte: limits count deterministic time and
    the plan carries no wall times."""
    overcommit: Literal["reject", "clamp"] = "reject"
    """A node on which `used` and running gangs take more than it has: `reject` refuses the snapshot, `clamp` takes
    the node as full and says so in the plan's warnings."""

    @property
    def reserves(self) -> bool:
        """Whether a gang that has to wait may be promised a start."""
        by_default = self.order != "leximin" and self.moves.mode == "never"
        return self.reservation == "head" or (self.reservation is None and by_default)

    @model_validator(mode="after")
    def _no_head_without_order(self) -> Self:
        if self.order == "leximin" and self.reservation == "head":
            raise ValueError("order 'leximin' has no first gang that waits: it needs reservation 'never' or null")
        if self.moves.mode == "allowed" and self.reservation == "head":
            raise ValueError("moves.mode 'allowed' can't be combined with reservation 'head'; it needs 'never' or null")
        return self

    @model_validator(mode="after")
    def _no_victims_in_leximin(self) -> Self:
        within, across = self.preemption.within, self.preemption.across
        if self.order == "leximin" and self.moves.mode != "never":
            raise ValueError(f"order 'leximin' moves nobody: it needs moves.mode 'never', not {self.moves.mode!r}")
        if self.order == "leximin" and (within, across) != ("never", "never"):
            raise ValueError(
                "order 'leximin' takes no victims: it needs preemption.within and preemption.across 'never', "
                f"not {within!r} and {across!r}"
            )
        if self.order == "leximin" and self.moves.mode != "never":
            raise ValueError(f"order 'leximin' moves nobody: it needs moves.mode 'never', not {self.moves.mode!r}")
        return self
