"""Top-down descent shared by the strategies that fill the fewest, best fitting domains of a subtree."""

from __future__ import annotations

import numpy as np

from gangfit.solver.arrays import IntArray
from gangfit.solver.problem import Problem


def fill(
    problem: Problem, fits: IntArray, sums: tuple[IntArray, ...], level: int, domain: int, members: int
) -> dict[int, int]:
    """Node → members for `members` inside a domain that holds them, over as few children as possible, level by level.

    `fits` (N,) members per node; `sums` per level (domains,) its sums; level −1 is the whole cluster. While no
    child holds the rest, the largest is filled; the rest goes to the child where it takes fewest grandchildren, best
    fit among those.
    """
    if level == problem.tree.named:
        return {domain: members}
    low, high = problem.tree.children(level, domain)
    if level + 1 == problem.tree.named:
        return fill_nodes(problem, fits, low, high, members)
    room = sums[level + 1][low:high]
    placed: dict[int, int] = {}
    for child in np.argsort(-room, kind="stable"):
        if room[child] >= members:
            break
        placed.update(fill(problem, fits, sums, level + 1, low + int(child), int(room[child])))
        members -= int(room[child])
        room = room.copy()
        room[child] = 0
    best = min(
        (int(child) for child in np.flatnonzero(room >= members)),
        key=lambda child: (
            fewest(sums[level + 2][slice(*problem.tree.children(level + 1, low + child))], members),
            int(room[child]),
            child,
        ),
    )
    placed.update(fill(problem, fits, sums, level + 1, low + best, members))
    return placed


def fill_nodes(problem: Problem, fits: IntArray, low: int, high: int, members: int) -> dict[int, int]:
    """Node → members on nodes `low … high − 1`: fewest nodes, broken ones before intact ones, best fit for the rest."""
    room = fits[low:high]
    intact = problem.intact[low:high]
    order = np.lexsort((np.arange(high - low), intact, -room))
    total = np.cumsum(room[order])
    whole = int(np.searchsorted(total, members))
    full = order[:whole]
    rest = members - (int(total[whole - 1]) if whole else 0)
    left = order[whole:]
    left = left[room[left] >= rest]
    # Best fit: the smallest hole that takes the rest, broken nodes first.
    last = left[np.lexsort((left, room[left], intact[left]))[0]]
    placed = {low + int(n): int(room[n]) for n in full}
    placed[low + int(last)] = rest
    return placed


def fewest(room: IntArray, members: int) -> int:
    """Fewest domains with the given room that hold the members; their number if all together don't."""
    return int(np.searchsorted(np.cumsum(-np.sort(-room)), members)) + 1
