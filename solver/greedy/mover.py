"""The greedy mover: as the greedy preemptor, but whoever leaves has to find a place elsewhere."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

import numpy as np

from gangfit.solver.assignment import Assignment
from gangfit.solver.greedy.preemptor import victims_for
from gangfit.solver.greedy.strategies import PLACES, place_one
from gangfit.solver.movers import Mover
from gangfit.solver.problem import Problem
from gangfit.solver.rights import Right
from gangfit.solver.space import Space


@dataclass(frozen=True)
class Moved:
    """A plan in which further gangs move."""

    assignment: Assignment
    """All placements, those of the moved gangs included."""
    moved: frozenset[int]
    """Running gangs that move beside those that left before."""


def move_greedily(problem: Problem, mover: Mover, assignment: Assignment, gone: frozenset[int]) -> Moved | None:
    """Room for the mover's gang beside an assignment with `gone` gone; None if this way finds none.

    Gangs leave as for the greedy preemptor until it fits, then each is placed by best fit in the order of size, the
    largest first; whoever could stay after all does.
    """
    right = Right(mover.gang, mover.may, np.zeros_like(mover.may), np.zeros_like(problem.tenants.use))
    for place in PLACES:
        found = victims_for(problem, right, assignment, gone, place)
        if found is None:
            return None
        spread, everyone = found
        start = {**assignment, mover.gang: spread}
        moved = everyone - gone
        plan = _settle(problem, start, gone, moved)
        if plan is None:
            continue
        for v in sorted(moved, key=lambda v: -problem.victims.gangs[v].members):
            fewer = _settle(problem, start, gone, moved - {v})
            if fewer is not None:
                moved, plan = moved - {v}, fewer
        return Moved(plan, moved)
    return None


def _settle(problem: Problem, start: Assignment, gone: frozenset[int], moved: Collection[int]) -> Assignment | None:
    """The assignment with the moved gangs placed beside it, or None."""
    space = Space.after(problem.without(gone | set(moved)), start)
    if (space.free < 0).any():
        return None
    plan = dict(start)
    copies = [int(problem.copy_of[v]) for v in moved]
    for j in sorted(copies, key=lambda j: (-int(problem.total[j, 0]), j)):
        spread = place_one(space.problem, space, PLACES["best_fit"], j)
        if spread is None:
            return None
        plan[j] = spread
        space.take(j, spread)
    return plan
