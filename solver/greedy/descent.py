"""Top-down descent shared by the strategies that fill the fewest, best fitting domains of a subtree."""

from __future__ import annotations

import numpy as np

from gangfit.solver.arrays import BoolArray, IntArray
from gangfit.solver.greedy.site import Piece, Site, one_node, whole_domains

STEP = 2**40
"""More members than any domain holds (at most 131,072 nodes × 1,000,000), to put two numbers into one sort key."""
NEVER = 2**62
"""Sort key of what is out of question."""


def fill(site: Site, level: int, domain: int, members: int) -> list[Piece]:
    """Where `members` go inside a domain that holds them, over as few children as possible, level by level.

    Level −1 is the whole cluster. While no child holds the rest, the largest is filled; the rest goes to the child
    where it takes fewest grandchildren, best fit among those.
    """
    tree = site.tree
    pieces: list[Piece] = []
    while level < tree.named - 1:
        low, high = tree.children(level, domain)
        level += 1
        room = site.sums[level][low:high]
        if high - low > 1 and np.maximum.reduce(room) < members:
            order = (-room).argsort(kind="stable")
            total = room[order].cumsum()
            whole = int(total.searchsorted(members))
            pieces += whole_domains(site, level, low + order[:whole])
            members -= int(total[whole - 1])
            room = room.copy()
            room[order[:whole]] = 0
        domain = tightest(site, level, low, room, members)
    if level == tree.named:
        return [one_node(domain, members)]
    low, high = tree.nodes(level, domain)
    return [*pieces, fill_nodes(site, low, high, members)]


def tightest(site: Site, level: int, low: int, room: IntArray, members: int) -> int:
    """Of the named level's domains `low …` with this room, where the members take fewest children; of these best fit.

    The members divided by the largest child is a lower bound of the children taken, so most are never counted.
    """
    holds = room >= members
    if np.count_nonzero(holds) == 1:
        return low + int(holds.argmax())
    child = site.tree.first_child[level][low : low + len(room) + 1]
    below = site.sums[level + 1]
    largest = np.maximum.reduceat(below[child[0] : child[-1]], child[:-1] - child[0])
    atleast = -(-members // np.maximum(largest, 1))
    key = np.where(holds, atleast * STEP + room, NEVER)
    counted: set[int] = set()
    while True:
        best = int(key.argmin())
        if best in counted or atleast[best] == 1:
            return low + best
        few = fewest(below[child[best] : child[best + 1]], members)
        if few == atleast[best]:
            return low + best
        key[best] = few * STEP + int(room[best])
        counted.add(best)


def fill_nodes(site: Site, low: int, high: int, members: int) -> Piece:
    """Where members go on nodes `low … high − 1`: fewest nodes, broken before intact ones, best fit for the rest."""
    room = site.fits[low:high]
    intact = site.problem.intact[low:high]
    if np.maximum.reduce(room) >= members:
        return one_node(low + _smallest(room, intact, members), members)
    order = (intact - 2 * room).argsort(kind="stable")
    total = room[order].cumsum()
    whole = int(total.searchsorted(members))
    nodes = order[: whole + 1]
    counts = room[nodes]
    rest = members - int(total[whole - 1])
    if rest < counts[whole]:
        left = room.copy()
        left[nodes[:whole]] = 0
        nodes[whole] = _smallest(left, intact, rest)
        counts[whole] = rest
    return low + nodes, counts


def _smallest(room: IntArray, intact: BoolArray, members: int) -> int:
    """The smallest hole that takes the members, broken nodes first."""
    exact = room == members
    broken = exact > intact
    best = int(broken.argmax())
    if broken[best]:
        return best
    return int(np.where(room >= members, room + intact * STEP, NEVER).argmin())


def fewest(room: IntArray, members: int) -> int:
    """Fewest domains with the given room that hold the members; their number if all together don't."""
    room = np.sort(room)[::-1]
    return int(room.cumsum().searchsorted(members)) + 1
