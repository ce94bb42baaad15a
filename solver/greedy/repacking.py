"""All gangs placed anew, the difficult ones first: where the considered order leaves the last gang no room."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gangfit.solver.arrays import IntArray
from gangfit.solver.assignment import Assignment
from gangfit.solver.greedy.site import place_in_order
from gangfit.solver.greedy.strategies import PLACES
from gangfit.solver.problem import Problem


def orders(problem: Problem, gangs: Sequence[int]) -> list[list[int]]:
    """The gangs, those with a required level first; among equals by size of the members, or by who has fewer nodes.

    Decreasing sizes are the classic order of bin packing: small members go where large ones left something
    (Johnson et al., Worst-Case Performance Bounds for Simple One-Dimensional Packing Algorithms, 1974).
    """
    required, size, demand = -problem.required, -problem.request[:, 0], -problem.total[:, 0]
    count: IntArray = np.array([eligible.allowed.sum() for eligible in problem.eligible], dtype=np.int64)
    nodes = count[problem.eligible_of]
    index = np.array(gangs, dtype=np.int64)
    result = []
    for first, second in ((size, nodes), (nodes, size)):
        keys = index, demand[index], second[index], first[index], required[index]
        order = index[np.lexsort(keys)].tolist()
        if order not in result:
            result.append(order)
    return result


def repacked(problem: Problem, gangs: Sequence[int]) -> dict[str, Assignment]:
    """Rule → its plan of all gangs in the first of these orders in which some rule has room for all; empty if none."""
    for order in orders(problem, gangs):
        plans = {rule: place_in_order(problem, place, order) for rule, place in PLACES.items()}
        found = {rule: plan for rule, plan in plans.items() if plan is not None}
        if found:
            return found
    return {}
