"""Tenants: quotas, limits, shares, and the order in which gangs are considered (progressive filling).

Source: Ghodsi et al., Dominant Resource Fairness, NSDI'11, §4 (Algorithm 1), extended by quotas, trees and weights as
in docs/model.md, "Who is next".
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
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
        result = [tenant]
        while self.parent[result[-1]] >= 0:
            result.append(self.parent[result[-1]])
        return tuple(result)

    def below_ancestor(self, tenant: int, other: int) -> tuple[int, ...]:
        """From the tenant up to just below the lowest common ancestor with another tenant."""
        above = set(self.chain(other))
        return tuple(t for t in self.chain(tenant) if t not in above)

    def dominant(self, tenant: int, use: IntArray) -> tuple[int, Fraction]:
        """(resource index, share of capacity) of the dominant resource, without the weight; (−1, 0): holds nothing."""
        best, most, of = -1, 0, 1
        for r, (held, capacity) in enumerate(zip(use[tenant].tolist(), self._capacity, strict=True)):
            if capacity and held * of > most * capacity:
                best, most, of = r, held, capacity
        return best, Fraction(most, of)


def encode_tenants(snapshot: Snapshot, resources: Sequence[str], capacity: IntArray) -> Tenants:
    """Arrays of the snapshot's tenants; `capacity` (R,) in the order of `resources`, 0 = not counted."""
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
    chains = [tenants.chain(t) for t in range(len(names))]
    for gang in snapshot.running:
        if gang.phase == "terminating":
            continue
        for resource, amount in amounts(gang.request).items():
            for t in chains[index[gang.tenant]]:
                use[t, column[resource]] += gang.members * (amount or 0)
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


Key = tuple[int, int, int, Fraction, int]


class Order:
    """Hands out gangs one at a time: `next` tells whose turn it is, `settle` what became of it."""

    def __init__(
        self, tenants: Tenants, tenant_of: IntArray, total: IntArray, priority: Iterable[int], by_priority: bool
    ) -> None:
        """`tenant_of` (J,), `total` (J, R) members × request, gangs sorted by priority, submission, name."""
        self.tenants = tenants
        self.use = tenants.use.copy()
        """(T, R): running gangs and those admitted so far."""
        self._total = total
        self._tenant_of = tenant_of
        self._priority = [-p if by_priority else 0 for p in priority]
        self._queue: list[list[int]] = [[] for _ in tenants.names]
        for gang in reversed(range(len(tenant_of))):
            self._queue[int(tenant_of[gang])].append(gang)
        self._children: list[list[int]] = [[] for _ in tenants.names]
        self._roots: list[int] = []
        for t, parent in enumerate(tenants.parent):
            (self._roots if parent < 0 else self._children[parent]).append(t)
        self._offer: list[tuple[Key, int] | None] = [None] * len(tenants.names)
        for t in sorted(range(len(tenants.names)), key=lambda t: -len(tenants.chain(t))):
            self._refresh(t)

    def next(self) -> int | None:
        """The gang whose turn it is, or None when all have been considered."""
        best = self._best(self._roots)
        return None if best is None else best[1]

    def step(self, gang: int) -> Step:
        """What decided a gang's turn."""
        chain = self.tenants.chain(int(self._tenant_of[gang]))
        turns = tuple(Turn(t, CLASSES[self._class(t, gang)], self._share(t)) for t in reversed(chain))
        return Step(gang, turns)

    def _share(self, tenant: int) -> Fraction:
        """Weighted dominant share; without the weight where that is 0."""
        return self.tenants.dominant(tenant, self.use)[1] / (self.tenants.weight[tenant] or 1)

    def within_limit(self, gang: int, gone: IntArray | None = None) -> bool:
        """Whether the tenant, and all above it, stay within their limits if the gang starts.

        `gone` (T, R) is what victims give back.
        """
        chain = list(self.tenants.chain(int(self._tenant_of[gang])))
        asks = self._total[gang]
        after = self.use[chain] + asks - (0 if gone is None else gone[chain])
        return not ((after > self.tenants.limit[chain]) & (asks > 0)).any()

    def settle(self, gang: int, admitted: bool) -> None:
        """The gang, whose turn it was, has been considered."""
        tenant = int(self._tenant_of[gang])
        assert self._queue[tenant][-1] == gang
        self._queue[tenant].pop()
        if admitted:
            self.add(gang)
        for t in self.tenants.chain(tenant):
            self._refresh(t)

    def add(self, gang: int) -> None:
        """The gang starts."""
        self.use[list(self.tenants.chain(int(self._tenant_of[gang])))] += self._total[gang]

    def move(self, tenants: Tenants, total: IntArray, started: Iterable[int]) -> None:
        """Go on with other resources after those in common; `started` are all that count so far."""
        self.tenants, self._total, self.use = tenants, total, tenants.use.copy()
        for gang in started:
            self.add(gang)

    def _best(self, children: list[int]) -> tuple[Key, int] | None:
        return min((offer for t in children if (offer := self._offer[t]) is not None), default=None)

    def _refresh(self, tenant: int) -> None:
        if self._children[tenant]:
            best = self._best(self._children[tenant])
            gang = None if best is None else best[1]
        else:
            gang = self._queue[tenant][-1] if self._queue[tenant] else None
        if gang is None:
            self._offer[tenant] = None
            return
        weightless = int(self.tenants.weight[tenant] == 0)
        key = (self._priority[gang], self._class(tenant, gang), weightless, self._share(tenant), gang)
        self._offer[tenant] = key, gang

    def _class(self, tenant: int, gang: int) -> int:
        quota, use, asks = self.tenants.quota[tenant], self.use[tenant], self._total[gang]
        if (use + asks <= quota).all():
            return 0
        return 1 if (use < quota)[asks > 0].all() else 2
