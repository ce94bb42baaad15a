"""What a plan is worth, as one vector: smaller is better, compared from the left."""

from __future__ import annotations

from gangfit.models import Plan


def admissions(plan: Plan) -> tuple[int, ...]:
    """−1 for each pending gang that starts, in considered order; one that is listed again counts at its first turn."""
    starts = {placement.gang for placement in plan.placements}
    order = dict.fromkeys(step.gang for step in plan.considered)
    return tuple(-(name in starts) for name in order)


def tiers(plan: Plan) -> tuple[int, ...]:
    """Values of the tiers from `preferred` on, of a plan that preempts nobody."""
    admission, broken, *later = plan.tiers
    assert (admission.name, broken.name, broken.value, broken.bound, broken.proof) == (
        "admission",
        "broken",
        0,
        0,
        "bound",
    )
    assert not plan.preemptions
    return tuple(tier.value for tier in later)


def vector(plan: Plan) -> tuple[int, ...]:
    """Admissions, then the tiers from `preferred` on, of a plan that preempts nobody: as `assignment.rank`."""
    return (*admissions(plan), *tiers(plan))
