"""The greedy baselines. Each takes gangs in considered order, places what fits, and skips what doesn't."""

from __future__ import annotations

import numpy as np

from gangfit.solver.arrays import IntArray
from gangfit.solver.assignment import Assignment
from gangfit.solver.greedy.descent import NEVER, fill, fill_nodes, tightest
from gangfit.solver.greedy.site import (
    Piece,
    Place,
    Site,
    in_order,
    one_node,
    place_all,
    place_at,
    place_in_order,
    place_one,
    site_of,
    whole_domains,
)
from gangfit.solver.greedy.switches import by_switches
from gangfit.solver.problem import Problem

__all__ = [
    "PLACES",
    "Place",
    "Site",
    "best_fit",
    "bottom_up",
    "lexicographic",
    "lowest_switch",
    "place_at",
    "place_in_order",
    "place_one",
    "rack_first",
    "site_of",
]


def rack_first(problem: Problem) -> Assignment:
    """First rack (domain of the finest named level) that holds the whole gang, else racks by room, descending."""
    return place_all(problem, PLACES["rack_first"])


def bottom_up(problem: Problem) -> Assignment:
    """Lowest level with a domain that holds the whole gang, best fit there, fewest children inside."""
    return place_all(problem, PLACES["bottom_up"])


def lexicographic(problem: Problem) -> Assignment:
    """Fewest domains of the coarsest level, then of the next, down to nodes; best fit among equals."""
    return place_all(problem, PLACES["lexicographic"])


def best_fit(problem: Problem) -> Assignment:
    """Smallest domain that holds the whole gang, whatever its level, else fewest domains.

    Smallest is the one with room for the fewest members: a spine with room for exactly the gang before a rack with
    room for more. Of equal ones the finest; of nodes the one with least room for further members.
    """
    return place_all(problem, PLACES["best_fit"])


def lowest_switch(problem: Problem) -> Assignment:
    """As Slurm's topology/tree: the lowest switch whose free nodes hold the gang, in it leaf by leaf.

    Leaves are the domains of the finest named level, and among switches of the lowest level the one with fewest free
    nodes is taken. Inside, the leaf with fewest free nodes that holds the rest comes next; while there is none, the one
    with most free nodes. Within a leaf nodes are filled in order.
    """
    return place_all(problem, PLACES["lowest_switch"])


def _rack_first(site: Site) -> list[Piece]:
    tree = site.tree
    rack = max(tree.named - 1, 0, site.required)
    low, high = 0, tree.domains(rack)
    if 0 <= site.required < rack:
        home = int(np.argmax(site.sums[site.required] >= site.members))
        start, end = tree.nodes(site.required, home)
        low, high = int(tree.domain[rack][start]), int(tree.domain[rack][end - 1]) + 1
    room = site.sums[rack][low:high]
    first = int((room >= site.members).argmax())
    if room[first] >= site.members:
        return [in_order(site, *tree.nodes(rack, low + first), site.members)]
    order = (-room).argsort(kind="stable")
    total = room[order].cumsum()
    whole = int(total.searchsorted(site.members))
    rest = site.members - int(total[whole - 1])
    last = low + int(order[whole])
    return [*whole_domains(site, rack, low + order[:whole]), in_order(site, *tree.nodes(rack, last), rest)]


def _bottom_up(site: Site) -> list[Piece]:
    tree, members = site.tree, site.members
    for level in range(tree.named, max(site.required, 0) - 1, -1):
        room = site.sums[level]
        if level == tree.named:
            if np.maximum.reduce(room) >= members:
                return [fill_nodes(site, 0, len(room), members)]
            continue
        domain = _smallest(room, members)
        if domain >= 0:
            return fill(site, level, domain, members)
    return fill(site, -1, 0, members)


def _lexicographic(site: Site) -> list[Piece]:
    if site.required < 0:
        return fill(site, -1, 0, site.members)
    if site.required == site.tree.named:
        return [fill_nodes(site, 0, len(site.fits), site.members)]
    best = tightest(site, site.required, 0, site.sums[site.required], site.members)
    return fill(site, site.required, best, site.members)


def _best_fit(site: Site) -> list[Piece]:
    tree, members = site.tree, site.members
    if np.maximum.reduce(site.fits) >= members:
        room = np.where(site.fits >= members, site.view.whole, NEVER)
        return [one_node(int(room.argmin()), members)]
    found = (-1, 0)
    least = NEVER
    for level in range(tree.named - 1, max(site.required, 0) - 1, -1):
        domain = _smallest(site.sums[level], members)
        if domain >= 0 and site.sums[level][domain] < least:
            found, least = (level, domain), int(site.sums[level][domain])
    return fill(site, *found, members)


def _smallest(room: IntArray, members: int) -> int:
    """The domain with least room that holds the members, −1 if there is none."""
    holding = np.where(room >= members, room, NEVER)
    best = int(holding.argmin())
    return best if room[best] >= members else -1


PLACES: dict[str, Place] = {
    "best_fit": Place(_best_fit, 0),
    "lexicographic": Place(_lexicographic, 1),
    "bottom_up": Place(_bottom_up, 2),
    "lowest_switch": Place(by_switches, 3),
    "rack_first": Place(_rack_first, 4),
}
"""Name → placement rule of one gang; where plans tie, the first named wins: those that fit tightest."""
