"""The greedy preemptor, as schedulers do it: gang by gang, lowest priority first, then newest, with a reprieve pass."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass

import numpy as np

from gangfit.solver.arrays import IntArray
from gangfit.solver.assignment import Assignment, Spread
from gangfit.solver.greedy.strategies import PLACES, place_one
from gangfit.solver.problem import UNLIMITED, Problem
from gangfit.solver.rights import Right, claims, given_back, rights
from gangfit.solver.space import Space


@dataclass(frozen=True)
class Preempted:
    """A plan with victims."""

    assignment: Assignment
    victims: frozenset[int]
    preemptors: frozenset[int]


def preempt_greedily(problem: Problem, place: str = "lexicographic", only: Container[int] | None = None) -> Preempted:
    """Every gang in considered order: into free space, else beside the first few victims of its right, else it waits.

    Victims are taken in the order of priority, then start (newest first), then name, until the gang fits; then each is
    left running after all if the gang still fits (reprieve, last taken first). Earlier placements and victims stay.
    `only`: gangs to start; the others wait without being asked.
    """
    order = problem.order()
    assignment: Assignment = {}
    victims: frozenset[int] = frozenset()
    preemptors: set[int] = set()
    admitted: list[int] = []
    space = Space(problem)
    while (gang := order.next()) is not None:
        if only is not None and gang not in only:
            order.settle(gang, False)
            continue
        within = order.within_limit(gang, given_back(problem, victims))
        spread = place_one(space.problem, space, PLACES[place], gang) if within else None
        if spread is None:
            held = rights(problem, [*admitted, gang], {gang})[-1]
            found = victims_for(problem, held, assignment, victims, place)
            if found is not None and order.within_limit(gang, given_back(problem, found[1])):
                spread, victims = found
                preemptors.add(gang)
                space = Space.after(problem.without(victims), assignment)
        if spread is not None:
            assignment[gang] = spread
            admitted.append(gang)
            space.take(gang, spread)
        order.settle(gang, spread is not None)
    return Preempted(assignment, victims, frozenset(preemptors))


def victims_for(
    problem: Problem,
    held: Right,
    assignment: Assignment,
    gone: frozenset[int],
    place: str = "lexicographic",
) -> tuple[Spread, frozenset[int]] | None:
    """A spread of the right's gang and all victims then, or None."""
    reached = held.any.tolist()
    reach = [v for v in problem.victims.turns if reached[v] and v not in gone]
    taken = _lawful(problem, held, gone, reach)
    if not _Room(problem, held.gang, assignment, gone | set(taken)).enough:
        return None
    room = _Room(problem, held.gang, assignment, gone, taken)
    chosen = [taken[at] for at in _needed(room, _first(room, len(taken)))]
    everyone = gone | set(chosen)
    space = Space.after(problem.without(everyone), assignment)
    spread = place_one(space.problem, space, PLACES[place], held.gang)
    if spread is None or not _all_lawful(problem, held, chosen, everyone):
        return None
    return spread, everyone


def _first(room: _Room, count: int) -> int:
    """How many leave, one after the other, until there is room; they are gone then. All together make enough."""
    low = high = 0
    step = 1
    while not room.enough:
        low, high = high, min(high + step, count)
        room.leave(low, high)
        step *= 2
    while high - low > 1:
        middle = (low + high) // 2
        room.leave(middle, high, -1)
        if room.enough:
            high = middle
        else:
            room.leave(middle, high)
            low = middle
    return high


def _needed(room: _Room, count: int) -> list[int]:
    """Of the first so many those without whom there is no room, each tried in turn, the last first; others are back.

    As many as can come back together are found by doubling and halving: whoever else comes back, room only shrinks.
    """
    kept: list[int] = []
    step, growing = 1, True
    while count:
        step = min(step, count)
        room.leave(count - step, count, -1)
        if room.enough:
            count -= step
            step = 2 * step if growing else max(1, step // 2)
            continue
        room.leave(count - step, count)
        if step == 1:
            kept.append(count - 1)
            count, growing = count - 1, True
        else:
            step, growing = step // 2, False
    return kept[::-1]


class _Room:
    """Whether a gang fits, kept up to date as victims leave and come back, in the order of their turns."""

    def __init__(
        self, problem: Problem, gang: int, assignment: Assignment, gone: frozenset[int], turns: Sequence[int] = ()
    ) -> None:
        self._problem = problem
        reduced = problem.without(gone)
        asks = np.flatnonzero(problem.request[gang])
        self._asks = asks
        self._request: IntArray = problem.request[gang, asks]
        self._members = int(problem.members[gang])
        self._free: IntArray = reduced.free[:, asks] - reduced.debt[:, asks]
        """(N, asked): without the pending gangs placed; negative where overcommitted."""
        self._unlimited = problem.free[:, asks] == UNLIMITED
        self._placed = np.zeros_like(self._free)
        for j, spread in assignment.items():
            self._placed[spread.nodes] += spread.counts[:, None] * problem.request[j, asks]
        self._allowed = problem.eligible[problem.eligible_of[gang]].allowed
        level = int(problem.required[gang])
        if level >= 0:
            self._allowed = self._allowed & problem.tree.known[level]
        self._domain = problem.tree.domain[level] if level >= 0 else np.zeros(len(self._free), dtype=np.int64)
        self._nodes, amounts, self._ends = problem.victims.held_by(turns)
        self._amounts = amounts[:, asks]
        self._fits = self._fit(np.arange(len(self._free)))
        self._sums = np.bincount(self._domain, self._fits).astype(np.int64)

    def _fit(self, nodes: IntArray) -> IntArray:
        """Members that each of these nodes holds."""
        free = np.maximum(self._free[nodes], 0)
        free[self._unlimited[nodes]] = UNLIMITED
        fits: IntArray = ((free - self._placed[nodes]) // self._request).min(axis=1)
        held: IntArray = np.minimum(fits, self._members) * self._allowed[nodes]
        return held

    def leave(self, low: int, high: int, sign: int = 1) -> None:
        """Victims go (sign −1: come back), from one turn up to another."""
        part = slice(self._ends[low], self._ends[high])
        nodes = self._nodes[part]
        np.add.at(self._free, nodes, sign * self._amounts[part])
        if high - low > 1:
            nodes = np.unique(nodes)
        fits = self._fit(nodes)
        np.add.at(self._sums, self._domain[nodes], fits - self._fits[nodes])
        self._fits[nodes] = fits

    @property
    def enough(self) -> bool:
        """Whether one domain of the required level, or the cluster, holds all members."""
        return int(self._sums.max()) >= self._members


def _lawful(problem: Problem, held: Right, gone: frozenset[int], reach: Sequence[int]) -> list[int]:
    """As many victims as may be taken, one after the other."""
    if not held.reclaim.any():
        return list(reach)
    tenants, victims = problem.tenants, problem.victims
    tenant, asks = int(problem.tenant_of[held.gang]), np.flatnonzero(problem.request[held.gang]).tolist()
    holds: list[list[int]] = (tenants.use + held.started - given_back(problem, gone)).tolist()
    quota: list[list[int]] = tenants.quota.tolist()
    owners, totals = victims.tenant.tolist(), victims.total.tolist()

    def lends(owner: int) -> bool:
        """Whether a gang of the owner may be next: what it holds itself is still there, so its size doesn't matter."""
        within = all(
            amount <= most
            for t in tenants.below_ancestor(tenant, owner)
            for amount, most in zip(holds[t], quota[t], strict=True)
        )
        return within and all(
            any(holds[t][r] > quota[t][r] for r in asks) for t in tenants.below_ancestor(owner, tenant)
        )

    known: dict[int, bool] = {}
    taken: list[int] = []
    for v in reach:
        owner = owners[v]
        if not held.own[v]:
            if not held.reclaim[v]:
                continue
            if owner not in known:
                known[owner] = lends(owner)
            if not known[owner]:
                continue
        taken.append(v)
        known.clear()
        for t in tenants.chain(owner):
            holds[t] = [amount - total for amount, total in zip(holds[t], totals[v], strict=True)]
    return taken


def _all_lawful(problem: Problem, held: Right, chosen: Sequence[int], everyone: frozenset[int]) -> bool:
    """Whether the right covers each of its victims, with all of them gone."""
    claimed = claims(problem, [held], everyone)
    return all(held.own[v] or claimed[v] for v in chosen)
