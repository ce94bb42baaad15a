"""Gangs placed in domains that were chosen for them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gangfit.solver.assignment import Assignment
from gangfit.solver.greedy.descent import fill
from gangfit.solver.greedy.site import place_at, site_of, spread_of
from gangfit.solver.greedy.strategies import PLACES
from gangfit.solver.problem import Problem
from gangfit.solver.space import Space


def place_in_homes(problem: Problem, gangs: Sequence[int], homes: Mapping[int, int]) -> Assignment | None:
    """All gangs, each with a required level inside its domain; None unless all of them find room.

    Finest levels first, then the largest members: where members take whole nodes, room enough in every domain for what
    is to be inside is enough for all.
    """
    order = sorted(gangs, key=lambda j: (-int(problem.required[j]), -int(problem.request[j, 0]), j))
    space = Space(problem)
    assignment: Assignment = {}
    for gang in order:
        site = site_of(problem, space, gang)
        if site is None:
            return None
        home = homes.get(gang)
        if home is None:
            spread = place_at(site, PLACES["best_fit"])
        elif site.sums[site.required][home] < site.members:
            return None
        else:
            spread = spread_of(fill(site, site.required, home, site.members))
        assignment[gang] = spread
        space.take(gang, spread)
    return assignment
