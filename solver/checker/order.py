"""Who is next: the considered order, recomputed by progressive filling from the gangs that the plan admits."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from fractions import Fraction
from typing import Literal, NamedTuple

from gangfit.models import Considered, Violation
from gangfit.solver.checker.case import Case
from gangfit.solver.checker.tenancy import ROOT

TOLERANCE = 1e-9
"""How far a stated share may be off."""
GROUPS: tuple[Literal["within", "below", "surplus"], ...] = ("within", "below", "surplus")


class Turn(NamedTuple):
    """One step of admission as it has to be."""

    rank: int
    decided: list[tuple[str, int, Fraction]]
    """(tenant, class, weighted share) of the gang's tenant and all above it, root first."""


def considered_order(case: Case) -> Iterator[Violation]:
    """`considered`, if stated, lists every pending gang in considered order, with what was true at its turn."""
    if not case.plan.considered:
        return
    pending = case.cluster.pending
    stated = [entry for entry in case.plan.considered if entry.gang in case.cluster.rank]
    turns = list(considered(case))
    for position in range(max(len(stated), len(turns))):
        found = repr(stated[position].gang) if position < len(stated) else "missing"
        wanted = repr(pending[turns[position].rank].name) if position < len(turns) else "no further gang"
        if found != wanted:
            message = f"considered: entry {position} is {found}, in considered order it is {wanted}"
            yield Violation(rule="considered_order", message=message)
            break
        late = position >= len(pending)
        for message in _untrue(case, stated[position], turns[position], late):
            gang = stated[position].gang
            yield Violation(rule="considered_order", gang=gang, message=f"considered: gang {gang!r} {message}")


def _untrue(case: Case, entry: Considered, turn: Turn, late: bool) -> Iterator[str]:
    """What is wrong with one step, as the end of a sentence."""
    placed = bool(case.admitted[turn.rank]) and (late or turn.rank not in case.late)
    if entry.admitted != placed:
        yield f"has admitted {entry.admitted}, it is {'placed' if placed else 'not placed'}"
    *above, (_, group, share) = turn.decided
    yield from _wrong(entry.group, entry.share, group, share)
    known = [tenant for tenant, _, _ in above]
    if not entry.above:
        return
    if [stated.tenant for stated in entry.above] != known:
        yield f"has tenants {[stated.tenant for stated in entry.above]} above its own, they are {known}"
        return
    for stated, (tenant, group, share) in zip(entry.above, above, strict=True):
        for message in _wrong(stated.group, stated.share, group, share):
            yield f"{message}, of tenant {tenant!r} above its own"


def _wrong(stated: str, stated_share: float, group: int, share: Fraction) -> Iterator[str]:
    if stated != GROUPS[group]:
        yield f"has group {stated!r}, recomputed {GROUPS[group]!r}"
    if abs(stated_share - float(share)) > TOLERANCE:
        yield f"has share {stated_share}, recomputed {float(share)}"


def considered(case: Case) -> Iterator[Turn]:
    """Every pending gang in considered order, given which of them the plan admits, then those asked again."""
    filling = _Filling(case)
    order = []
    while (turn := filling.turn()) is not None:
        order.append(turn.rank)
        yield turn
    for rank in sorted(case.late, key=order.index):
        yield filling.again(rank)


Key = tuple[int, int, bool, Fraction, int]
"""What decides between siblings; the rank stands for priority, submission and name of the gang offered."""


class _Filling:
    """Progressive filling. Every parent keeps its children by key; an entry is stale once the child has a newer one."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._tenancy = case.tenancy
        self._use = case.held_before.copy()
        self._asked = [case.tenancy.total(gang) for gang in case.cluster.pending]
        tenants = range(len(case.tenancy.names))
        self._queue: list[deque[int]] = [deque() for _ in tenants]
        for rank, gang in enumerate(case.cluster.pending):
            self._queue[case.tenancy.index[gang.tenant]].append(rank)
        self._version = [0 for _ in tenants]
        self._children: dict[int, list[tuple[Key, int, int]]] = {tenant: [] for tenant in (ROOT, *tenants)}
        for tenant in tenants:
            if self._queue[tenant]:
                self._offer(tenant)

    def turn(self) -> Turn | None:
        """The next gang; it leaves its tenant's list."""
        best = self._best(ROOT)
        if best is None:
            return None
        rank = best[0][-1]
        gang = self._case.cluster.pending[rank]
        tenant = self._tenancy.index[gang.tenant]
        turn = self._turn(rank)
        self._queue[tenant].popleft()
        if self._case.admitted[rank] and rank not in self._case.late:
            self._use.add(gang)
        self._offer(tenant)
        return turn

    def again(self, rank: int) -> Turn:
        """The second turn of a gang that starts then."""
        gang = self._case.cluster.pending[rank]
        turn = self._turn(rank)
        self._use.add(gang)
        return turn

    def _turn(self, rank: int) -> Turn:
        tenancy = self._tenancy
        decided = []
        for tenant in reversed(tenancy.chain(self._case.cluster.pending[rank])):
            held, weight = self._use.held[tenant], tenancy.weights[tenant] or 1
            group = tenancy.group(tenant, held, self._asked[rank])
            decided.append((tenancy.names[tenant], group, tenancy.dominant(held) / weight))
        return Turn(rank, decided)

    def _offer(self, leaf: int) -> None:
        """Renew the offers of a tenant and of all above it."""
        chain = self._tenancy.above[leaf]
        for tenant, parent in zip(chain, (*chain[1:], ROOT), strict=True):
            self._version[tenant] += 1
            rank = self._first(tenant)
            if rank is not None:
                entry = (self._key(tenant, rank), self._version[tenant], tenant)
                heapq.heappush(self._children[parent], entry)

    def _first(self, tenant: int) -> int | None:
        """The gang that a tenant offers."""
        if self._queue[tenant]:
            return self._queue[tenant][0]
        best = self._best(tenant)
        return None if best is None else best[0][-1]

    def _best(self, parent: int) -> tuple[Key, int, int] | None:
        """The first of a parent's children, stale entries dropped."""
        heap = self._children[parent]
        while heap and heap[0][1] != self._version[heap[0][2]]:
            heapq.heappop(heap)
        return heap[0] if heap else None

    def _key(self, tenant: int, rank: int) -> Key:
        held, weight = self._use.held[tenant], self._tenancy.weights[tenant]
        by_priority = self._case.cluster.snapshot.policy.order == "priority"
        return (
            -self._case.cluster.pending[rank].priority if by_priority else 0,
            self._tenancy.group(tenant, held, self._asked[rank]),
            weight == 0,
            self._tenancy.dominant(held) / (weight or 1),
            rank,
        )
