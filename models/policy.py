"""Policy: how a round is to be solved. Every field has a default; an empty policy gives a good plan."""

from __future__ import annotations

from typing import Annotated, Literal

from pydantic import Field

from gangfit.models.scalars import Frozen


class Policy(Frozen):
    """Limits and switches of one round."""

    time_limit_s: Annotated[float, Field(gt=0, le=3_600)] = 10.0
    """Time for the whole solve in seconds. The best greedy plan exists before search starts, so a short limit
    lowers the proof, never the plan below greedy. In deterministic mode: deterministic seconds of CP-SAT."""
    seed: Annotated[int, Field(strict=True, ge=0, le=2**31 - 1)] = 0
    """Seed of the search."""
    workers: Annotated[int, Field(strict=True, ge=1, le=64)] = 2
    """Search threads. Deterministic mode always uses one."""
    deterministic: bool = False
    """The same snapshot, seed and versions give the same plan, byte for byte: limits count deterministic time and
    the plan carries no wall times."""
    overcommit: Literal["reject", "clamp"] = "reject"
    """A node on which `used` and running gangs take more than it has: `reject` refuses the snapshot, `clamp` takes
    the node as full and says so in the plan's warnings."""
