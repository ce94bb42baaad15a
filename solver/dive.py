"""Diving: the pattern bound's linear program rounded to a plan, most used patterns first, priced anew for the rest."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from gangfit.solver.assignment import Assignment
from gangfit.solver.engine import Budget
from gangfit.solver.greedy.site import place_one
from gangfit.solver.greedy.strategies import PLACES
from gangfit.solver.hand_out import hand_out
from gangfit.solver.leaves import Leaves, leaves
from gangfit.solver.pattern_bound import PatternBound
from gangfit.solver.problem import Problem
from gangfit.solver.space import Space

DEPTH = 12
"""Most times that the rest is priced anew."""
ROUNDS = 8
"""Rounds of column generation for the rest."""
SURE = 0.7
"""Patterns used at least so much are taken as they are; at least a quarter of the gangs each time."""


def dive(pattern: PatternBound, tier: str, budget: Budget, until: float) -> Assignment | None:
    """A plan near the bound, or None where the rest finds no room or time is up."""
    problem = pattern.view.problem
    plan: Assignment = {}
    waiting = {j for kind in pattern.view.types for j in kind.gangs}
    rest = problem
    for _ in range(DEPTH):
        placed = hand_out(rest, _take(pattern))
        if placed is None:
            return None
        plan |= placed
        waiting -= set(placed)
        if not waiting or not placed or budget.past(until):
            break
        rest = replace(problem, free=Space.after(problem, plan).free)
        deeper = PatternBound(leaves(rest, sorted(waiting), tier))
        deeper.offer(pattern.known())
        deeper.run(1 << 60, budget, until, ROUNDS)
        pattern = deeper
    return _finish(problem, plan, waiting)


def _take(pattern: PatternBound) -> dict[int, dict[int, int]]:
    """Gang → leaf → members of the patterns to be fixed."""
    view: Leaves = pattern.view
    left = view.slots.copy()
    waiting = [list(kind.gangs) for kind in view.types]
    least = max(1, sum(map(len, waiting)) // 4)
    counts: dict[int, dict[int, int]] = {}
    for value, k, amount in pattern.patterns():
        if value < SURE and len(counts) >= least:
            break
        at = np.flatnonzero(amount)
        takes = np.outer(view.coefficient[:, view.types[k].cell], amount[at])
        for _ in range(max(1, int(value + 1 - SURE))):
            if not waiting[k] or (takes > left[:, at]).any():
                break
            left[:, at] -= takes
            counts[waiting[k].pop()] = {int(leaf): int(amount[leaf]) for leaf in at}
    return counts


def _finish(problem: Problem, plan: Assignment, waiting: set[int]) -> Assignment | None:
    """The gangs left over by greedy insertion, largest first."""
    space = Space.after(problem, plan)
    for gang in sorted(waiting, key=lambda j: (-int(problem.members[j]), j)):
        spread = place_one(problem, space, PLACES["lexicographic"], gang)
        if spread is None:
            return None
        plan[gang] = spread
        space.take(gang, spread)
    return plan
