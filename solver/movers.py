"""Rules 14 and 15: whom an admitted gang may have moved, and how much."""

from __future__ import annotations

from collections.abc import Container, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from gangfit.solver.arrays import BoolArray, IntArray
from gangfit.solver.problem import Problem
from gangfit.solver.victims import gpu_equivalent


@dataclass(frozen=True)
class Mover:
    """What one admitted gang may have moved."""

    gang: int
    may: BoolArray
    """(V,): running gangs that may be moved for it."""
    most: int
    """GPUs of all gangs moved for it."""


def movers(problem: Problem, admitted: Sequence[int], wanted: Container[int]) -> list[Mover]:
    """The movers among the admitted gangs, which come in considered order."""
    ratio = Fraction(repr(problem.snapshot.policy.moves.max_ratio))
    so_far = np.zeros_like(problem.tenants.use)
    result = []
    for gang in admitted:
        so_far[list(problem.tenants.chain(int(problem.tenant_of[gang])))] += problem.total[gang]
        if gang in wanted:
            asks = gpu_equivalent(problem.gangs[gang], problem.tenants)
            result.append(Mover(gang, move_right(problem, gang, so_far), int(ratio * asks)))
    return result


def move_right(problem: Problem, gang: int, so_far: IntArray) -> BoolArray:
    """(V,): rule 15. `so_far` (T, R) is what pending gangs admitted up to this one take."""
    victims, tenants = problem.victims, problem.tenants
    if not len(victims.gangs) or not problem.may_preempt[gang]:
        return np.zeros(len(victims.gangs), dtype=np.bool_)
    tenant = int(problem.tenant_of[gang])
    after = tenants.use + so_far
    over: BoolArray = np.any(after > tenants.quota, axis=1)
    entitled = np.zeros(len(tenants.names), dtype=np.bool_)
    for other in np.unique(victims.tenant).tolist():
        entitled[other] = other != tenant and not over[list(tenants.below_ancestor(tenant, other))].any()
    same = (victims.tenant == tenant) & (victims.priority <= problem.gangs[gang].priority)
    result: BoolArray = (problem.copy_of >= 0) & (same | entitled[victims.tenant])
    return result


def weights(problem: Problem) -> IntArray:
    """(V,): GPUs that each running gang counts when it is moved."""
    return np.array([gpu_equivalent(gang, problem.tenants) for gang in problem.victims.gangs], dtype=np.int64)


def moved_members(problem: Problem, moved: Iterable[int]) -> int:
    """Members of the gangs moved."""
    return sum(problem.victims.gangs[v].members for v in moved)


def within_bounds(problem: Problem, held: Sequence[Mover], moved: Mapping[int, int]) -> bool:
    """Whether the gangs moved (→ for whom) are as few and as small as the policy asks."""
    weight = weights(problem)
    most = {mover.gang: mover.most for mover in held}
    for v, gang in moved.items():
        most[gang] -= int(weight[v])
    return len(moved) <= problem.snapshot.policy.moves.max_gangs and min(most.values(), default=0) >= 0
