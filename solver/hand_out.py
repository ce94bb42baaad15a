"""Members per leaf → nodes: what a solution of the leaf view is worth on the nodes themselves."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from gangfit.solver.arrays import BoolArray, IntArray
from gangfit.solver.assignment import Assignment, Spread
from gangfit.solver.problem import Problem
from gangfit.solver.space import Space


def hand_out(problem: Problem, counts: Mapping[int, Mapping[int, int]]) -> Assignment | None:
    """Largest requests first, fewest nodes each; None where that finds no room. `counts`: gang → leaf → members."""
    tree = problem.tree
    starts = tree.starts[tree.named - 1] if tree.named else np.array([0, len(problem.node_names)])
    space = Space(problem)
    result: Assignment = {}
    for j in sorted(counts, key=lambda j: (*(-problem.request[j]), -max(counts[j].values()), j)):
        fits = space.fits(j)
        placed: dict[int, int] = {}
        for leaf, members in counts[j].items():
            low, high = int(starts[leaf]), int(starts[leaf + 1])
            part = fewest_nodes(fits[low:high], problem.intact[low:high], members)
            if part is None:
                return None
            placed.update({low + n: count for n, count in part.items()})
        if problem.required[j] == tree.named and len(placed) > 1:
            return None
        result[j] = Spread.of(placed)
        space.take(j, result[j])
    return result


def fewest_nodes(room: IntArray, intact: BoolArray, members: int) -> dict[int, int] | None:
    """Position → members on as few nodes as hold them: the roomiest filled, the rest best fit, broken nodes first."""
    order = np.lexsort((np.arange(len(room)), intact, -room))
    total = np.cumsum(room[order])
    if not len(total) or total[-1] < members:
        return None
    whole = int(np.searchsorted(total, members))
    rest = members - (int(total[whole - 1]) if whole else 0)
    placed = {int(n): int(room[n]) for n in order[:whole]}
    left = order[whole:]
    left = left[room[left] >= rest]
    placed[int(left[np.lexsort((left, room[left], intact[left]))[0]])] = rest
    return placed
