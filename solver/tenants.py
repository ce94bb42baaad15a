"""Tenants: quotas, limits, shares, and the order in which gangs are considered (progressive filling).

Source: Ghodsi et al., Dominant Resource Fairness, NSDI'11, §4 (Algorithm 1), extended by quotas, trees and weights as
in docs/model.md, "Who is next".
"""

from __future__ import annotations

import heapq
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from math import lcm
from typing import Literal

import numpy as np

from gangfit.models import DEFAULT_TENANT, Gang, Snapshot, Tenant, amounts
from gangfit.solver.arrays import IntArray

UNBOUNDED = 2**60
"""Quota or limit of a resource that isn't guarded or limited."""

Class = Literal["within", "below", "surplus"]
CLASSES: tuple[Class, ...] = ("within", "below", "surplus")


@dataclass(frozen=True)
class Tenants:
    """Tenants as arrays: T tenants, R resources."""

    names: tuple[str, ...]
    parent: tuple[int, ...]
    """(T,): −1 for roots."""
    weight: tuple[int, ...]
    """(T,)"""
    quota: IntArray
    """(T, R): `UNBOUNDED` where not guarded."""
    limit: IntArray
    """(T, R): `UNBOUNDED` where not limited."""
    capacity: IntArray
    """(R,): cluster capacity for shares; 0 where the resource doesn't count."""
    use: IntArray
    """(T, R): what running gangs of the tenant and below hold."""

    @cached_property
    def _capacity(self) -> list[int]:
        return [int(capacity) for capacity in self.capacity]

    def chain(self, tenant: int) -> tuple[int, ...]:
        """The tenant and all above it, leaf first."""
        return self._chains[tenant]

    @cached_property
    def _chains(self) -> list[tuple[int, ...]]:
        result = []
        for tenant in range(len(self.names)):
            chain = [tenant]
            while self.parent[chain[-1]] >= 0:
                chain.append(self.parent[chain[-1]])
            result.append(tuple(chain))
        return result

    def below_ancestor(self, tenant: int, other: int) -> tuple[int, ...]:
        """From the tenant up to just below the lowest common ancestor with another tenant."""
        above = set(self.chain(other))
        return tuple(t for t in self.chain(tenant) if t not in above)

    def dominant(self, tenant: int, use: IntArray) -> tuple[int, Fraction]:
        """(resource index, share of capacity) of the dominant resource, without the weight; (−1, 0): holds nothing."""
        return self.dominant_of(use[tenant].tolist())

    def dominant_of(self, held: list[int]) -> tuple[int, Fraction]:
        """As `dominant`, from the amounts held, (R,)."""
        best, most, of = -1, 0, 1
        for r, (amount, capacity) in enumerate(zip(held, self._capacity, strict=True)):
            if capacity and amount * of > most * capacity:
                best, most, of = r, amount, capacity
        return best, Fraction(most, of)


def encode_tenants(snapshot: Snapshot, resources: Sequence[str], capacity: IntArray, asks: IntArray) -> Tenants:
    """Arrays of the snapshot's tenants; `capacity` (R,) in the order of `resources`, 0 = not counted.

    `asks` (running gangs, R): what a member of each asks, 0 for those that leave.
    """
    column = {resource: r for r, resource in enumerate(resources)}
    declared = {tenant.name: tenant for tenant in snapshot.tenants}
    gangs: tuple[Gang, ...] = (*snapshot.running, *snapshot.pending)
    if DEFAULT_TENANT not in declared and any(gang.tenant == DEFAULT_TENANT for gang in gangs):
        declared[DEFAULT_TENANT] = Tenant(name=DEFAULT_TENANT)
    names = tuple(declared)
    index = {name: t for t, name in enumerate(names)}
    parent = tuple(-1 if t.parent is None else index[t.parent] for t in declared.values())
    weight = tuple(tenant.weight for tenant in declared.values())
    quota = np.full((len(names), len(column)), UNBOUNDED, dtype=np.int64)
    limit = quota.copy()
    counted = np.flatnonzero(capacity > 0)
    roots = [t for t in range(len(names)) if parent[t] < 0]
    total = sum(weight[t] for t in roots)
    stated = any(declared[names[t]].quota is not None for t in roots)
    for t, tenant in enumerate(declared.values()):
        for source, target in ((tenant.quota, quota), (tenant.limit, limit)):
            for resource, amount in amounts(source).items() if source is not None else ():
                if amount is not None and resource in column:
                    target[t, column[resource]] = amount
        if tenant.quota is not None:
            continue
        if not stated and parent[t] < 0:
            for r in counted.tolist():
                quota[t, r] = weight[t] * int(capacity[r]) // total if total else 0
        elif t not in parent:
            quota[t] = 0
    use = np.zeros((len(names), len(column)), dtype=np.int64)
    tenants = Tenants(names, parent, weight, quota, limit, capacity, use)
    own = np.zeros_like(use)
    members = np.array([gang.members for gang in snapshot.running], dtype=np.int64)
    np.add.at(own, [index[gang.tenant] for gang in snapshot.running], members[:, None] * asks)
    for t in np.flatnonzero(own.any(axis=1)).tolist():
        use[list(tenants.chain(t))] += own[t]
    return tenants


@dataclass(frozen=True)
class Turn:
    """What decided between a tenant and its siblings."""

    tenant: int
    group: Class
    share: Fraction
    """Weighted dominant share; without the weight where that is 0."""


@dataclass(frozen=True)
class Step:
    """One gang's turn, with what decided it."""

    gang: int
    turns: tuple[Turn, ...]
    """What decided at every level of the tree: the tenant and all above it, root first."""


Key = tuple[int, int, int, Fraction | int, int]
"""What decides between siblings; the last is the gang offered, which stands for priority, submission and name."""


class Order:
    """Hands out gangs one at a time: `next` tells whose turn it is, `settle` what became of it.

    Every parent keeps its children in a heap by key. A child's key changes only when a gang below it is settled; then
    a new entry is pushed and the old one is stale. So a step costs O(depth · log children).
    """

    def __init__(
        self, tenants: Tenants, tenant_of: IntArray, total: IntArray, priority: Iterable[int], by_priority: bool
    ) -> None:
        """`tenant_of` (J,), `total` (J, R) members × request, gangs sorted by priority, submission, name."""
        self._read(tenants, total)
        self._tenant_of: list[int] = tenant_of.tolist()
        self._priority = [-p if by_priority else 0 for p in priority]
        self._queue: list[list[int]] = [[] for _ in tenants.names]
        for gang in reversed(range(len(tenant_of))):
            self._queue[self._tenant_of[gang]].append(gang)
        self._heaps: list[list[tuple[Key, int, int]]] = [[] for _ in range(len(tenants.names) + 1)]
        """Per tenant, and last for the roots: (key, version, child)."""
        self._version = [0] * len(tenants.names)
        """How often each tenant's key has changed."""
        self._offered = [(-1, 0)] * len(tenants.names)
        """The gang that each tenant offered last, and its class."""
        waiting = {t for tenant in set(self._tenant_of) for t in tenants.chain(tenant)}
        self._upwards = sorted(waiting, key=lambda t: -len(tenants.chain(t)))
        """Tenants with gangs, those below before those above."""
        for t in self._upwards:
            self._refresh(t)

    def _read(self, tenants: Tenants, total: IntArray) -> None:
        self.tenants = tenants
        self._use: list[list[int]] = tenants.use.tolist()
        self._quota: list[list[int]] = tenants.quota.tolist()
        self._limit: dict[int, list[int]] = {
            int(t): tenants.limit[t].tolist() for t in np.flatnonzero((tenants.limit < UNBOUNDED).any(axis=1))
        }
        """Tenants that have one."""
        capacity = [int(amount) for amount in tenants.capacity]
        scale = lcm(*(amount for amount in capacity if amount))
        self._part = [scale // amount if amount else 0 for amount in capacity]
        """Per resource: shares of all resources in one unit, 1/lcm of the capacities."""
        self._total: list[list[int]] = total.tolist()

    @property
    def use(self) -> IntArray:
        """(T, R): running gangs and those admitted so far."""
        return np.array(self._use, dtype=np.int64).reshape(self.tenants.use.shape)

    def next(self) -> int | None:
        """The gang whose turn it is, or None when all have been considered."""
        return self._best(len(self.tenants.names))

    def step(self, gang: int) -> Step:
        """What decided a gang's turn."""
        chain = self.tenants.chain(self._tenant_of[gang])
        turns = tuple(Turn(t, CLASSES[self._class_of(t, gang)], self._share(t)) for t in reversed(chain))
        return Step(gang, turns)

    def _share(self, tenant: int) -> Fraction:
        """Weighted dominant share; without the weight where that is 0."""
        share, weight = self.tenants.dominant_of(self._use[tenant])[1], self.tenants.weight[tenant]
        return share / weight if weight > 1 else share

    def within_limit(self, gang: int, gone: IntArray | None = None) -> bool:
        """Whether the tenant, and all above it, stay within their limits if the gang starts.

        `gone` (T, R) is what victims give back.
        """
        asks = self._total[gang]
        for t in self.tenants.chain(self._tenant_of[gang]) if self._limit else ():
            if t in self._limit:
                back = [0] * len(asks) if gone is None else gone[t].tolist()
                rows = zip(self._use[t], asks, back, self._limit[t], strict=True)
                if any(use + ask - less > limit and ask > 0 for use, ask, less, limit in rows):
                    return False
        return True

    def settle(self, gang: int, admitted: bool) -> None:
        """The gang, whose turn it was, has been considered."""
        tenant = self._tenant_of[gang]
        assert self._queue[tenant][-1] == gang
        self._queue[tenant].pop()
        if admitted:
            self.add(gang)
        for t in self.tenants.chain(tenant):
            self._refresh(t)

    def add(self, gang: int) -> None:
        """The gang starts."""
        asks = self._total[gang]
        for t in self.tenants.chain(self._tenant_of[gang]):
            self._use[t] = [use + ask for use, ask in zip(self._use[t], asks, strict=True)]
            self._offered[t] = -1, 0

    def move(self, tenants: Tenants, total: IntArray, started: Iterable[int]) -> None:
        """Go on with other resources after those in common; `started` are all that count so far."""
        self._read(tenants, total)
        for gang in started:
            self.add(gang)
        self._heaps = [[] for _ in self._heaps]
        for t in self._upwards:
            self._refresh(t)

    def _best(self, parent: int) -> int | None:
        """The gang that the first of a parent's children offers; stale entries are dropped."""
        heap = self._heaps[parent]
        while heap and heap[0][1] != self._version[heap[0][2]]:
            heapq.heappop(heap)
        return heap[0][0][-1] if heap else None

    def _refresh(self, tenant: int) -> None:
        """A tenant's offer and key, once those below it are right."""
        self._version[tenant] += 1
        gang = self._queue[tenant][-1] if self._queue[tenant] else self._best(tenant)
        if gang is None:
            return
        entry = self._key(tenant, gang), self._version[tenant], tenant
        heapq.heappush(self._heaps[self.tenants.parent[tenant]], entry)

    def _key(self, tenant: int, gang: int) -> Key:
        weight = self.tenants.weight[tenant]
        share = max((use * part for use, part in zip(self._use[tenant], self._part, strict=True)), default=0)
        weighted = share if weight <= 1 else Fraction(share, weight)
        self._offered[tenant] = gang, self._class(tenant, gang)
        return self._priority[gang], self._offered[tenant][1], int(weight == 0), weighted, gang

    def _class_of(self, tenant: int, gang: int) -> int:
        """As `_class`, which was asked when the tenant offered the gang."""
        offered, group = self._offered[tenant]
        return group if offered == gang else self._class(tenant, gang)

    def _class(self, tenant: int, gang: int) -> int:
        group = 0
        for use, ask, quota in zip(self._use[tenant], self._total[gang], self._quota[tenant], strict=True):
            if use + ask > quota:
                if use >= quota and ask > 0:
                    return 2
                group = 1
        return group
