"""Rule 11 after the fact: victims found in a hurry who could stay with every placement as it is."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from gangfit.solver.arrays import IntArray
from gangfit.solver.assignment import Assignment
from gangfit.solver.oracle import Preemption, losses
from gangfit.solver.problem import Problem
from gangfit.solver.rights import given_back, started


def trim(problem: Problem, assignment: Assignment, preemption: Preemption) -> Preemption:
    """The same without needless victims, the dearest first; the same object if all are needed."""
    if not preemption.victims:
        return preemption
    taken = np.zeros_like(problem.free)
    for gang, spread in assignment.items():
        taken[spread.nodes] += spread.counts[:, None] * problem.request[gang]
    starts = started(problem, sorted(assignment))
    victims = preemption.victims
    for v in sorted(victims, key=lambda v: (-int(problem.victims.priority[v]), -int(problem.victims.lost[v]), v)):
        rest = victims - {v}
        if _room(problem, taken, v, rest) and _within_limits(problem, starts, rest):
            victims = rest
    if victims == preemption.victims:
        return preemption
    lost = losses(problem, victims, preemption.lost)
    bounds = {priority: min(bound, lost[priority]) for priority, bound in preemption.bounds.items()}
    broken_bound = min(preemption.broken_bound, len(victims))
    return replace(preemption, victims=victims, lost=lost, bounds=bounds, broken_bound=broken_bound)


def _room(problem: Problem, taken: IntArray, v: int, others: Collection[int]) -> bool:
    """Whether everyone fits on the victim's nodes when only the others leave."""
    nodes = problem.victims.nodes[v]
    here, free = taken[nodes], problem.without(others).free[nodes]
    return bool(((here <= free) | (here == 0)).all())


def _within_limits(problem: Problem, starts: IntArray, victims: Collection[int]) -> bool:
    tenants = problem.tenants
    after = tenants.use + starts - given_back(problem, victims)
    return bool(((after <= tenants.limit) | (starts == 0)).all())
