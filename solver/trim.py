"""Rules 11 and 16 after the fact: who was found in a hurry and could stay with every placement as it is."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import replace

import numpy as np

from gangfit.solver.arrays import IntArray
from gangfit.solver.assignment import Assignment
from gangfit.solver.movers import moved_members
from gangfit.solver.oracle import Preemption, losses
from gangfit.solver.problem import Problem
from gangfit.solver.rights import given_back, started


def trim(problem: Problem, assignment: Assignment, preemption: Preemption) -> tuple[Assignment, Preemption]:
    """The same without needless victims, the dearest first, and moves; the same objects if all are needed."""
    fewer = _victims(problem, assignment, preemption)
    return _moves(problem, assignment, fewer)


def _moves(problem: Problem, assignment: Assignment, preemption: Preemption) -> tuple[Assignment, Preemption]:
    moved = dict(preemption.moved)
    for v in sorted(moved, key=lambda v: (-problem.victims.gangs[v].members, v)):
        others = {j: spread for j, spread in assignment.items() if j != problem.copy_of[v]}
        taken = np.zeros_like(problem.free)
        for gang, spread in others.items():
            taken[spread.nodes] += spread.counts[:, None] * problem.request[gang]
        if _room(problem, taken, v, preemption.victims | (moved.keys() - {v})):
            assignment = others
            del moved[v]
    if len(moved) == len(preemption.moved):
        return assignment, preemption
    bounds = min(preemption.moved_bound, len(moved)), min(preemption.members_bound, moved_members(problem, moved))
    return assignment, replace(preemption, moved=moved, moved_bound=bounds[0], members_bound=bounds[1])


def _victims(problem: Problem, assignment: Assignment, preemption: Preemption) -> Preemption:
    if not preemption.victims:
        return preemption
    taken = np.zeros_like(problem.free)
    for gang, spread in assignment.items():
        taken[spread.nodes] += spread.counts[:, None] * problem.request[gang]
    starts = started(problem, sorted(assignment))
    victims = preemption.victims
    for v in sorted(victims, key=lambda v: (-int(problem.victims.priority[v]), -int(problem.victims.lost[v]), v)):
        rest = victims - {v}
        if _room(problem, taken, v, rest | preemption.moved.keys()) and _within_limits(problem, starts, rest):
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
