"""When gangs can start: what is free or given back goes to them in considered order, within their tenants' limits."""

from __future__ import annotations

from collections.abc import Collection, Sequence

import numpy as np

from gangfit.models import RunningGang, amounts
from gangfit.solver.arrays import IntArray
from gangfit.solver.assignment import Assignment
from gangfit.solver.drain import gone_s
from gangfit.solver.problem import UNLIMITED, Problem
from gangfit.solver.rights import given_back
from gangfit.solver.tenants import UNBOUNDED


def starts_in_turn(
    problem: Problem, gangs: Sequence[int], assignment: Assignment, victims: Collection[int]
) -> dict[int, int]:
    """Gang → instant at which what it waits for is given back; gangs that start at once are absent.

    `gangs` are the admitted ones in considered order: what is free or given back goes to them in this order.
    """
    snapshot = problem.snapshot
    leaving = [(g, gone_s(snapshot, g)) for g in snapshot.running if g.phase == "terminating"]
    leaving += [(g, snapshot.time_s + g.grace_s) for g in (problem.victims.gangs[v] for v in victims)]
    if not leaving:
        return {}
    ends = _Returns(problem, leaving)
    limits = _Limits(problem, victims)
    waits: dict[int, int] = {}
    for j in gangs:
        spread = assignment[j]
        end = limits.start(j)
        for n, count in zip(spread.nodes.tolist(), spread.counts.tolist(), strict=True):
            if n in ends.by_node:
                end = max(end, ends.start(n, j, count))
        if end > snapshot.time_s:
            waits[j] = end
    return waits


class _Returns:
    """What leaving gangs give back on each node, and what starting gangs take there, one after the other."""

    def __init__(self, problem: Problem, leaving: Sequence[tuple[RunningGang, int]]) -> None:
        self._request = problem.request
        self._unlimited = problem.free == UNLIMITED
        index = {name: n for n, name in enumerate(problem.node_names)}
        self.by_node: dict[int, list[tuple[int, IntArray]]] = {}
        """Node → (instant, what is given back then), by instant."""
        terminating = problem.free - problem.debt
        for gang, end in leaving:
            named = amounts(gang.request)
            asks = np.array([named.get(r) or 0 for r in problem.resources], dtype=np.int64)
            for name, count in gang.placement.items():
                self.by_node.setdefault(index[name], []).append((end, count * asks))
                if gang.phase == "terminating":
                    terminating[index[name]] -= count * asks
        for n, given in self.by_node.items():
            given.sort(key=lambda one: one[0])
            self.by_node[n] = given
        self._free = terminating
        """(N, R): with every leaving gang still there; negative where overcommitted."""
        self._taken: dict[int, IntArray] = {}

    def start(self, n: int, gang: int, count: int) -> int:
        """First instant at which the gang's members fit on a node beside those placed before them; 0: now."""
        request = self._request[gang]
        self._taken[n] = taken = self._taken.get(n, np.zeros_like(request)) + count * request
        asks = (request > 0) & ~self._unlimited[n]
        free, instant = self._free[n].copy(), 0
        for end, given in self.by_node[n]:
            if (taken[asks] <= np.maximum(free[asks], 0)).all():
                break
            free, instant = free + given, end
        return instant


class _Limits:
    """What tenants hold while victims leave."""

    def __init__(self, problem: Problem, victims: Collection[int]) -> None:
        self._problem = problem
        self._limited: set[int] = set(np.flatnonzero((problem.tenants.limit < UNBOUNDED).any(axis=1)).tolist())
        """Tenants that have a limit."""
        self._starts = np.zeros_like(problem.tenants.use)
        snapshot = problem.snapshot
        ends = sorted((snapshot.time_s + problem.victims.gangs[v].grace_s, v) for v in victims)
        self._given = [(end, given_back(problem, [v])) for end, v in ends] if self._limited else []

    def start(self, gang: int) -> int:
        """First instant at which the gang and those before it keep to all limits above it; 0: now."""
        problem, tenants = self._problem, self._problem.tenants
        chain = list(tenants.chain(int(problem.tenant_of[gang])))
        if self._limited.isdisjoint(chain):
            return 0
        self._starts[chain] += problem.total[gang]
        asks = problem.request[gang] > 0
        held, instant = tenants.use[chain] + self._starts[chain], 0
        for end, given in self._given:
            if (held <= tenants.limit[chain])[:, asks].all():
                break
            held, instant = held - given[chain], end
        return instant
