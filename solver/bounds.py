"""Certificates that need no search: counts that rule a gang out, and lower bounds of the tiers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gangfit.solver.arrays import BoolArray, IntArray
from gangfit.solver.problem import UNLIMITED, Problem, Tree
from gangfit.solver.scales import Patterns
from gangfit.solver.space import members_per_node

MANY_SETS = 64
"""Distinct eligibilities beyond which it isn't asked which lies inside which."""


class Headroom:
    """Counting rows that every set of gangs in one plan has to keep; a gang that breaks one can't start.

    For each set of nodes E that some gang is limited to, resource r and request size s: the gangs whose nodes all lie
    in E take Σ ⌊q/s⌋·m slots of size s, and E has Σ ⌊free/s⌋ of them.
    """

    def __init__(self, problem: Problem) -> None:
        sizes = [np.unique(column[column > 0]) for column in problem.request.T]
        rows = [(r, int(s)) for r, column in enumerate(sizes) for s in column]
        sets = np.stack([e.allowed for e in problem.eligible]) if problem.eligible else np.zeros((0, 0), dtype=bool)
        if len(sets) <= MANY_SETS:
            inside = np.array([[not (a & ~b).any() for a in sets] for b in sets], dtype=np.int64)
        else:
            # Fewer sums: every set counts its own gangs only. Still a bound.
            inside = np.eye(len(sets), dtype=np.int64)
        held = [problem.free[:, r] // s for r, s in rows]
        per_node = np.stack(held, axis=1) if rows else problem.free[:, :0]
        self.left: IntArray = np.zeros((len(sets), len(rows)), dtype=np.int64)
        """(E, rows): slots left."""
        for number, allowed in enumerate(sets):
            self.left[number] = per_node[allowed].sum(axis=0)
        slots = np.stack([problem.request[:, r] // s for r, s in rows], axis=1) if rows else problem.request[:, :0]
        self._slots: IntArray = slots * problem.members[:, None]
        """(J, rows)"""
        self._inside = inside
        """(E, E'): 1 where set E' lies in set E."""
        self._of = problem.eligible_of
        self._type = list(zip(problem.shape_of.tolist(), problem.members.tolist(), strict=True))
        """Gangs that take the same."""
        self._last: tuple[int, int] = (-1, -1)
        """The type asked about last, …"""
        self._taken: IntArray = self.left
        """… what one gang of it takes, (E, rows), …"""
        self._copies = 0
        """… and how many more gangs of it no count rules out."""

    def rules_out(self, gang: int) -> bool:
        """Whether a count proves that the gang can't start beside those taken."""
        self._ask(gang)
        return self._copies <= 0

    def take(self, gang: int) -> None:
        """The gang starts."""
        self._ask(gang)
        self.left -= self._taken
        self._copies -= 1

    def _ask(self, gang: int) -> None:
        if self._type[gang] == self._last:
            return
        self._last = self._type[gang]
        self._taken = np.outer(self._inside[:, self._of[gang]], self._slots[gang])
        asked = self._taken > 0
        short = (self.left[~asked] < 0).any()
        copies = (self.left[asked] // self._taken[asked]).min(initial=UNLIMITED)
        self._copies = 0 if short else int(copies)


def fewest_domains(problem: Problem, gang: int) -> list[int]:
    """Per level, the fewest domains that hold the gang when it has the cluster's free space for itself."""
    fits = np.minimum(members_per_node(problem, problem.free, gang), problem.members[gang])
    required = int(problem.required[gang])
    if required >= 0:
        fits = np.where(problem.tree.known[required], fits, 0)
    result = []
    for level in range(len(problem.tree.levels)):
        if level <= required:
            result.append(1)
            continue
        room = -np.sort(-problem.tree.sums(level, fits))
        result.append(int(np.searchsorted(np.cumsum(room), problem.members[gang])) + 1)
    return result


def tier_bounds(problem: Problem, gangs: Sequence[int]) -> tuple[int, ...]:
    """Lower bound of every tier after admission, for plans that start exactly these gangs."""
    preferred = distance = 0
    alone: dict[tuple[int, int, int], list[int]] = {}
    for j in gangs:
        key = (int(problem.shape_of[j]), int(problem.members[j]), int(problem.required[j]))
        if key not in alone:
            alone[key] = fewest_domains(problem, j)
        fewest = alone[key]
        distance += sum(w * (count - 1) for w, count in zip(problem.tree.weights, fewest, strict=True))
        if problem.preferred[j] >= 0:
            preferred += fewest[int(problem.preferred[j])] - 1
    uplinks = sum(int(np.maximum(base - 1, 0).sum()) for base in problem.crossing)
    wanted = _wanted(problem, gangs)
    intact = [_intact_lost(problem, wanted, level) for level in range(len(problem.tree.levels))]
    return (preferred, distance, uplinks, *intact)


def _wanted(problem: Problem, gangs: Sequence[int]) -> list[tuple[int, IntArray]]:
    """For every resource and size asked: the slots wanted, and those of every node, (N,)."""
    asks, members = problem.request[list(gangs)], problem.members[list(gangs)]
    return [
        (int((asks[:, r] // size * members).sum()), np.where(problem.ready, problem.free[:, r] // size, 0))
        for r in np.flatnonzero(asks.any(axis=0)).tolist()
        for size in np.unique(asks[:, r][asks[:, r] > 0]).tolist()
    ]


def _intact_lost(problem: Problem, wanted: Sequence[tuple[int, IntArray]], level: int) -> int:
    """Fewest intact domains whose space covers what the broken ones can't take, over every resource and size."""
    tree = problem.tree
    keeps = problem.intact & problem.intact_domains[level][tree.domain[level]]
    return max((_domains_needed(tree, level, keeps, slots, demand) for demand, slots in wanted), default=0)


def intact_by_weight(problem: Problem, gangs: Sequence[int], level: int) -> int:
    """As `tier_bounds` for one level of intact domains, with the weights of a scale instead of slots."""
    scale = Patterns(problem, gangs).opened()
    if scale is None:
        return 0
    keeps = problem.intact & problem.intact_domains[level][problem.tree.domain[level]]
    demand = int(scale.weight[list(gangs)] @ problem.members[list(gangs)])
    return _domains_needed(problem.tree, level, keeps, scale.room, demand)


def _domains_needed(tree: Tree, level: int, keeps: BoolArray, room: IntArray, demand: int) -> int:
    """Fewest domains of kept nodes that cover what all other nodes don't; `room` (N,)."""
    missing = demand - int(room[~keeps].sum())
    if missing <= 0:
        return 0
    most = -np.sort(-tree.sums(level, np.where(keeps, room, 0)))
    return int(np.searchsorted(np.cumsum(most), missing)) + 1
