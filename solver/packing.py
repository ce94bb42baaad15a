"""Handing a class's counts out to its nodes: which node takes how many members of which gang."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np
from ortools.sat.python import cp_model

from gangfit.solver.arrays import IntArray
from gangfit.solver.classes import NodeClass
from gangfit.solver.engine import Budget, run
from gangfit.solver.problem import Problem

SHARE = 0.005
"""Most of the remaining time that one class may take: kept apart, its nodes are settled by the model itself."""
Packed = list[dict[int, int]]
"""Per node of the class (by position): gang → members."""


def pack(
    problem: Problem,
    group: NodeClass,
    members: Mapping[int, int],
    most: Mapping[int, int],
    open_nodes: int,
    budget: Budget,
) -> Packed | None:
    """Members of each gang on the class's nodes, at most `most[j]` nodes per gang and `open_nodes` in all.

    Returns None if there is no way to hand them out (or none was found in time).
    """
    here = {j: count for j, count in members.items() if count}
    packed = first_fit(problem, group, here, most, open_nodes)
    return _search(problem, group, here, most, open_nodes, budget) if packed is None else packed


def first_fit(
    problem: Problem, group: NodeClass, members: Mapping[int, int], most: Mapping[int, int], open_nodes: int
) -> Packed | None:
    """Largest requests first, best fit; a gang that has to stay together fills the roomiest node first."""
    free: IntArray = np.repeat(group.free[None, :], open_nodes, axis=0)
    packed: Packed = [{} for _ in range(group.size)]
    order = sorted(members, key=lambda j: (tuple(-problem.request[j]), -members[j] / most[j], j))
    for j in order:
        asked = np.flatnonzero(problem.request[j])
        request = problem.request[j][asked]
        left, nodes = members[j], most[j]
        room = (free[:, asked] // request).min(axis=1)
        while left:
            # A node has to take its share of what is left, or the gang runs out of nodes.
            share = -(-left // nodes) if nodes else left + 1
            fits = np.flatnonzero(room >= share)
            if not len(fits):
                return None
            best = fits[np.lexsort((fits, free[fits, 0], room[fits]))]
            if share == 1 and len(fits) >= left:
                chosen, counts = best[:left], np.ones(left, dtype=np.int64)
            else:
                chosen, counts = best[:1], np.minimum(room[best[:1]], left)
            for n, count in zip(chosen.tolist(), counts.tolist(), strict=True):
                packed[n][j] = count
            free[chosen] -= counts[:, None] * problem.request[j]
            room[chosen] = 0
            left -= int(counts.sum())
            nodes -= len(chosen)
    return packed


def _search(
    problem: Problem,
    group: NodeClass,
    members: Mapping[int, int],
    most: Mapping[int, int],
    open_nodes: int,
    budget: Budget,
) -> Packed | None:
    model = cp_model.CpModel()
    x: dict[tuple[int, int], cp_model.IntVar] = {}
    for j, total in members.items():
        used = []
        for n in range(open_nodes):
            room = min(group.room[j], total)
            x[n, j] = model.new_int_var(0, room, "")
            if most[j] < min(total, open_nodes):
                u = model.new_bool_var("")
                model.add(x[n, j] <= room * u)
                used.append(u)
        model.add(cp_model.LinearExpr.sum([x[n, j] for n in range(open_nodes)]) == total)
        if used:
            model.add(cp_model.LinearExpr.sum(used) <= most[j])
    for r in np.flatnonzero(problem.request[list(members)].any(axis=0)):
        asks = [int(problem.request[j, r]) for j in members]
        for n in range(open_nodes):
            row = cp_model.LinearExpr.weighted_sum([x[n, j] for j in members], asks)
            model.add(row <= int(group.free[r]))
    outcome = run(model, budget, SHARE)
    if outcome.values is None:
        return None
    packed: Packed = [{} for _ in range(group.size)]
    for (n, j), variable in x.items():
        if outcome.values[variable.index]:
            packed[n][j] = outcome.values[variable.index]
    return packed
