"""Who is next: the considered order, recomputed by progressive filling from the gangs that the plan admits."""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterator
from fractions import Fraction
from math import lcm
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
    decided: list[tuple[str, int, float]]
    """(tenant, class, weighted share) of the gang's tenant and all above it, root first."""


def considered_order(case: Case) -> Iterator[Violation]:
    """`considered`, if stated, lists every pending gang in considered order, with what was true at its turn."""
    if not case.plan.considered:
        return
    pending = case.cluster.pending
    stated = [entry for entry in case.plan.considered if entry.gang in case.cluster.rank]
    turns = list(considered(case))
    for position in range(max(len(stated), len(turns))):
        found = stated[position].gang if position < len(stated) else None
        wanted = pending[turns[position].rank].name if position < len(turns) else None
        if found != wanted:
            there = "missing" if found is None else repr(found)
            right = "no further gang" if wanted is None else repr(wanted)
            message = f"considered: entry {position} is {there}, in considered order it is {right}"
            yield Violation(rule="considered_order", message=message)
            break
        late = position >= len(pending)
        for message in _untrue(case, stated[position], turns[position], late):
            gang = stated[position].gang
            yield Violation(rule="considered_order", gang=gang, message=f"considered: gang {gang!r} {message}")


def _untrue(case: Case, entry: Considered, turn: Turn, late: bool) -> list[str]:
    """What is wrong with one step, as the ends of sentences."""
    faults = []
    placed = bool(case.admitted[turn.rank]) and (late or turn.rank not in case.late)
    if entry.admitted != placed:
        faults.append(f"has admitted {entry.admitted}, it is {'placed' if placed else 'not placed'}")
    *above, (_, group, share) = turn.decided
    faults += _wrong(entry.group, entry.share, group, share)
    if not entry.above:
        return faults
    known = [tenant for tenant, _, _ in above]
    if [stated.tenant for stated in entry.above] != known:
        faults.append(f"has tenants {[stated.tenant for stated in entry.above]} above its own, they are {known}")
        return faults
    for stated, (tenant, group, share) in zip(entry.above, above, strict=True):
        wrong = _wrong(stated.group, stated.share, group, share)
        faults += [f"{message}, of tenant {tenant!r} above its own" for message in wrong]
    return faults


def _wrong(stated: str, stated_share: float, group: int, share: float) -> list[str]:
    faults = []
    if stated != GROUPS[group]:
        faults.append(f"has group {stated!r}, recomputed {GROUPS[group]!r}")
    if abs(stated_share - share) > TOLERANCE:
        faults.append(f"has share {stated_share}, recomputed {share}")
    return faults


def considered(case: Case) -> Iterator[Turn]:
    """Every pending gang in considered order, given which of them the plan admits, then those asked again."""
    filling = _Filling(case)
    order = []
    while (turn := filling.turn()) is not None:
        order.append(turn.rank)
        yield turn
    for rank in sorted(case.late, key=order.index):
        yield filling.again(rank)


Key = tuple[int, int, bool, int | Fraction, int]
"""What decides between siblings; the rank stands for priority, submission and name of the gang offered."""
MOST_BITS = 512
"""Weights whose least common multiple is longer are not brought to one denominator."""


class _Filling:
    """Progressive filling. Every parent keeps its children by key; an entry is stale once the child has a newer one."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._tenancy = tenancy = case.tenancy
        self._use = case.held_before.copy()
        self._asked = [tenancy.total(gang) for gang in case.cluster.pending]
        self._leaf = [tenancy.index[gang.tenant] for gang in case.cluster.pending]
        by_priority = case.cluster.snapshot.policy.order == "priority"
        self._priority = [-gang.priority if by_priority else 0 for gang in case.cluster.pending]
        self._starts = case.admitted.copy()
        self._starts[list(case.late)] = False
        self._read_denominators()
        tenants = range(len(tenancy.names))
        self._queue: list[deque[int]] = [deque() for _ in tenants]
        for rank, tenant in enumerate(self._leaf):
            self._queue[tenant].append(rank)
        self._edges = [list(zip(chain, (*chain[1:], ROOT), strict=True)) for chain in tenancy.above]
        """By tenant: itself and all above it, each with its parent."""
        self._version = [0 for _ in tenants]
        self._offered: dict[int, tuple[int, int]] = {}
        """Tenant → standing with the gang that it offers."""
        self._children: dict[int, list[tuple[Key, int, int]]] = {tenant: [] for tenant in (ROOT, *tenants)}
        for tenant in tenants:
            if self._queue[tenant]:
                self._offer(tenant)

    def _read_denominators(self) -> None:
        """Shares are compared as whole numbers: all have one denominator."""
        tenancy = self._tenancy
        self._whole = lcm(*(amount for amount in tenancy.capacity if amount))
        """Denominator of shares without the weights."""
        self._unit = [(r, self._whole // amount) for r, amount in enumerate(tenancy.capacity) if amount]
        """Resources that count → share of one unit of it."""
        weights = [weight or 1 for weight in tenancy.weights]
        common = lcm(*set(weights))
        self._part: list[int | Fraction] = [
            common // weight if common.bit_length() <= MOST_BITS else Fraction(1, weight) for weight in weights
        ]
        """By tenant: what the weight makes of a share, in units of the least common multiple of the weights."""
        self._denominator = [self._whole * weight for weight in weights]
        """By tenant: denominator of its weighted share."""

    def turn(self) -> Turn | None:
        """The next gang; it leaves its tenant's list."""
        best = self._best(ROOT)
        if best is None:
            return None
        rank = best[0][-1]
        leaf = self._leaf[rank]
        # Each of them offers this gang, and nothing has changed since it did.
        turn = self._turn(rank, [self._offered[tenant] for tenant in self._tenancy.above[leaf]])
        self._queue[leaf].popleft()
        if self._starts[rank]:
            self._use.count(self._tenancy.above[leaf], self._asked[rank], 1)
        self._offer(leaf)
        return turn

    def again(self, rank: int) -> Turn:
        """The second turn of a gang that starts then."""
        above = self._tenancy.above[self._leaf[rank]]
        turn = self._turn(rank, [self._standing(tenant, rank) for tenant in above])
        self._use.count(above, self._asked[rank], 1)
        return turn

    def _turn(self, rank: int, standings: list[tuple[int, int]]) -> Turn:
        """A gang's turn, from the standings of its tenant and of all above it."""
        names, denominators = self._tenancy.names, self._denominator
        above = zip(self._tenancy.above[self._leaf[rank]], standings, strict=True)
        decided = [(names[tenant], group, share / denominators[tenant]) for tenant, (group, share) in above]
        return Turn(rank, decided[::-1])

    def _standing(self, tenant: int, rank: int) -> tuple[int, int]:
        """Class of a tenant that offers a gang, and its largest share without the weight, over `_whole`."""
        held = self._use.held[tenant]
        share = max([held[r] * unit for r, unit in self._unit], default=0)
        return self._tenancy.group(tenant, held, self._asked[rank]), share

    def _offer(self, leaf: int) -> None:
        """Renew the offers of a tenant and of all above it."""
        for tenant, parent in self._edges[leaf]:
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
        group, share = self._offered[tenant] = self._standing(tenant, rank)
        return self._priority[rank], group, self._tenancy.weights[tenant] == 0, share * self._part[tenant], rank
