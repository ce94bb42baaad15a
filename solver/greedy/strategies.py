"""The greedy baselines. Each takes gangs in considered order, places what fits, and skips what doesn't."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import numpy as np

from gangfit.solver.arrays import IntArray
from gangfit.solver.assignment import Assignment, Spread
from gangfit.solver.greedy.descent import fewest, fill, fill_nodes
from gangfit.solver.problem import Problem
from gangfit.solver.space import Space

Place = Callable[[Problem, IntArray, tuple[IntArray, ...], int, int], "dict[int, int] | None"]
"""(problem, fits (N,), sums per level, required level or −1, members) → node → members, or None."""


def place_all(problem: Problem, place: Place) -> Assignment:
    """Run a placement rule over all gangs in considered order."""
    space = Space(problem)
    assignment: Assignment = {}
    order = problem.order()
    while (gang := order.next()) is not None:
        spread = place_one(problem, space, place, gang) if order.within_limit(gang) else None
        if spread is not None:
            assignment[gang] = spread
            space.take(gang, spread)
        order.settle(gang, spread is not None)
    return assignment


def place_in_order(problem: Problem, place: Place, gangs: Sequence[int]) -> Assignment | None:
    """Run a placement rule over gangs in a given order; None unless all of them find room."""
    space = Space(problem)
    assignment: Assignment = {}
    for gang in gangs:
        spread = place_one(problem, space, place, gang)
        if spread is None:
            return None
        assignment[gang] = spread
        space.take(gang, spread)
    return assignment


def place_one(problem: Problem, space: Space, place: Place, gang: int) -> Spread | None:
    """Place one gang into the space left, or None if the rule finds no room."""
    fits = space.fits(gang)
    members = int(problem.members[gang])
    if int(fits.sum()) < members:
        return None
    required = int(problem.required[gang])
    if required >= 0:
        fits = np.where(problem.tree.known[required], fits, 0)
    sums = tuple(problem.tree.sums(level, fits) for level in range(len(problem.tree.levels)))
    if required >= 0 and int(sums[required].max()) < members:
        return None
    placed = place(problem, fits, sums, required, members)
    return None if placed is None else Spread.of(placed)


def rack_first(problem: Problem) -> Assignment:
    """First rack (domain of the finest named level) that holds the whole gang, else racks by room, descending."""
    return place_all(problem, _rack_first)


def bottom_up(problem: Problem) -> Assignment:
    """Lowest level with a domain that holds the whole gang, best fit there, fewest children inside."""
    return place_all(problem, _bottom_up)


def lexicographic(problem: Problem) -> Assignment:
    """Fewest domains of the coarsest level, then of the next, down to nodes; best fit among equals."""
    return place_all(problem, _lexicographic)


def _rack_first(
    problem: Problem, fits: IntArray, sums: tuple[IntArray, ...], required: int, members: int
) -> dict[int, int] | None:
    tree = problem.tree
    rack = max(tree.named - 1, 0)
    if required > rack:
        rack = required
    low, high = 0, tree.domains(rack)
    if 0 <= required < rack:
        home = int(np.flatnonzero(sums[required] >= members)[0])
        start, end = tree.starts[required][home], tree.starts[required][home + 1]
        low, high = int(tree.domain[rack][start]), int(tree.domain[rack][end - 1]) + 1
    room = sums[rack][low:high]
    whole = np.flatnonzero(room >= members)
    racks = whole[:1] if len(whole) else np.argsort(-room, kind="stable")
    placed: dict[int, int] = {}
    for chosen in racks:
        first, last = tree.starts[rack][low + chosen], tree.starts[rack][low + chosen + 1]
        for n in first + np.flatnonzero(fits[first:last]):
            placed[int(n)] = min(int(fits[n]), members)
            members -= placed[int(n)]
            if not members:
                return placed
    return None


def _bottom_up(
    problem: Problem, fits: IntArray, sums: tuple[IntArray, ...], required: int, members: int
) -> dict[int, int] | None:
    for level in range(problem.tree.named, -1, -1):
        holds = np.flatnonzero(sums[level] >= members)
        if len(holds):
            if level == problem.tree.named:
                return fill_nodes(problem, fits, 0, len(fits), members)
            best = int(holds[np.argmin(sums[level][holds])])
            return fill(problem, fits, sums, level, best, members)
    return fill(problem, fits, sums, -1, 0, members)


def _lexicographic(
    problem: Problem, fits: IntArray, sums: tuple[IntArray, ...], required: int, members: int
) -> dict[int, int] | None:
    if required < 0:
        return fill(problem, fits, sums, -1, 0, members)
    if required == problem.tree.named:
        return fill_nodes(problem, fits, 0, len(fits), members)
    tree = problem.tree
    best = min(
        (int(d) for d in np.flatnonzero(sums[required] >= members)),
        key=lambda d: (fewest(sums[required + 1][slice(*tree.children(required, d))], members), int(sums[required][d])),
    )
    return fill(problem, fits, sums, required, best, members)


PLACES: dict[str, Place] = {"rack_first": _rack_first, "bottom_up": _bottom_up, "lexicographic": _lexicographic}
"""Name → placement rule of one gang."""
