"""Tenants as the checker sees them: trees, shares of capacity, quotas, limits, and what each tenant holds."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from gangfit.models import DEFAULT_TENANT, Asked, Gang, Share, Snapshot, Tenant, amounts, asked
from gangfit.solver.checker.cluster import BUILT_IN, Cluster, limits, uses

ROOT = -1
"""Stands for the cluster, the parent of all root tenants."""
Amounts = dict[int, int]
"""Index of a resource → amount."""


@dataclass(frozen=True)
class Tenancy:
    """All tenants, the declared ones first. Resources are those that any gang asks, and the built-in three."""

    snapshot: Snapshot
    """Where all this comes from."""
    names: tuple[str, ...]
    """The position is the tenant's index."""
    index: dict[str, int]
    """Name → index."""
    weights: tuple[int, ...]
    """By tenant."""
    above: tuple[tuple[int, ...], ...]
    """The tenant itself and all above it, up to its root; by tenant."""
    resources: tuple[str, ...]
    """Resource names, as in `Cluster`."""
    capacity: tuple[int, ...]
    """Capacity for shares by resource, 0: the resource doesn't count."""
    quota: tuple[Amounts, ...]
    """Guarded amounts by tenant."""
    limit: tuple[Amounts, ...]
    """Limited amounts by tenant."""
    _asks: dict[Asked, Amounts] = field(default_factory=dict)
    """Request, read once → what it asks."""
    _totals: dict[tuple[Asked, int], Amounts] = field(default_factory=dict)
    """(request, members), read once → what all of them take."""
    _total_of: dict[str, Amounts] = field(default_factory=dict)
    """Gang name, read once → what its members take."""

    def total(self, gang: Gang) -> Amounts:
        """What all members of a gang take; resources that it asks only. Read only: alike gangs share it."""
        total = self._total_of.get(gang.name)
        if total is None:
            total = self._total_of[gang.name] = self._alike(asked(gang.request), gang.members)
        return total

    def _alike(self, key: Asked, members: int) -> Amounts:
        """What so many members with one request take."""
        total = self._totals.get((key, members))
        if total is None:
            asks = self._asks.get(key)
            if asks is None:
                *built_in, named = key
                by_name = {**dict(zip(BUILT_IN, built_in, strict=True)), **{f"resources.{n}": a for n, a in named}}
                asks = {r: amount for r, name in enumerate(self.resources) if (amount := by_name.get(name))}
                self._asks[key] = asks
            total = self._totals[key, members] = {r: members * amount for r, amount in asks.items()}
        return total

    def chain(self, gang: Gang) -> tuple[int, ...]:
        """The gang's tenant and all above it."""
        return self.above[self.index[gang.tenant]]

    def apart(self, tenant: str, other: str) -> tuple[int, ...]:
        """From a tenant up to below its lowest common ancestor with another one."""
        shared = set(self.above[self.index[other]])
        return tuple(t for t in self.above[self.index[tenant]] if t not in shared)

    def largest(self, held: list[int]) -> tuple[int, int]:
        """(amount, capacity) of a resource with the largest share; (0, 1): nothing that counts is held."""
        most, of = 0, 1
        for amount, capacity in zip(held, self.capacity, strict=True):
            if capacity and amount * of > most * capacity:
                most, of = amount, capacity
        return most, of

    def dominant(self, held: list[int]) -> Fraction:
        """The largest share, without the weight."""
        return Fraction(*self.largest(held))

    def group(self, tenant: int, held: list[int], asked: Amounts) -> int:
        """Class of a tenant that offers a gang: 0 within, 1 below, 2 surplus."""
        quota = self.quota[tenant]
        beyond = [r for r, amount in quota.items() if held[r] + asked.get(r, 0) > amount]
        if not beyond:
            return 0
        return 2 if any(held[r] >= quota[r] for r in beyond if r in asked) else 1

    def holdings(self) -> Holdings:
        """What running gangs hold; terminating ones hold nothing."""
        members: defaultdict[str, defaultdict[Asked, int]] = defaultdict(lambda: defaultdict(int))
        for gang in self.snapshot.running:
            if gang.phase == "running":
                members[gang.tenant][asked(gang.request)] += gang.members
        result = Holdings(self, [[0] * len(self.resources) for _ in self.names])
        for tenant, counts in members.items():
            for key, count in counts.items():
                result.count(self.above[self.index[tenant]], self._alike(key, count), 1)
        return result


@dataclass(frozen=True)
class Holdings:
    """What every tenant and all below it hold: tenant → resource → amount."""

    tenancy: Tenancy
    held: list[list[int]]

    def add(self, gang: Gang, sign: int = 1) -> None:
        """Count a gang in, or with sign −1 out."""
        self.count(self.tenancy.chain(gang), self.tenancy.total(gang), sign)

    def count(self, tenants: tuple[int, ...], total: Amounts, sign: int) -> None:
        """Add amounts to what each of these tenants holds, or with sign −1 take them off."""
        for tenant in tenants:
            held = self.held[tenant]
            for r, amount in total.items():
                held[r] += sign * amount

    def copy(self) -> Holdings:
        """An independent copy."""
        return Holdings(self.tenancy, [list(row) for row in self.held])

    def over_limit(self, gang: Gang) -> tuple[int, int] | None:
        """(tenant, resource) of a limit that would be passed with this gang started too; None: no limit would."""
        total = self.tenancy.total(gang)
        for tenant in self.tenancy.chain(gang):
            for r, most in self.tenancy.limit[tenant].items():
                if r in total and self.held[tenant][r] + total[r] > most:
                    return tenant, r
        return None


def read_tenancy(cluster: Cluster) -> Tenancy:
    """The tenants of a validated snapshot; `default` is one if a gang names it."""
    snapshot = cluster.snapshot
    gangs: tuple[Gang, ...] = (*snapshot.running, *snapshot.pending)
    declared = {tenant.name: tenant for tenant in snapshot.tenants}
    if any(gang.tenant == DEFAULT_TENANT for gang in gangs):
        declared.setdefault(DEFAULT_TENANT, Tenant(name=DEFAULT_TENANT))
    names, tenants = tuple(declared), tuple(declared.values())
    index = {name: position for position, name in enumerate(names)}
    named = sorted({name for gang in gangs for name in gang.request.resources})
    resources = (*BUILT_IN, *(f"resources.{name}" for name in named))
    capacity = _capacity(cluster, resources)
    return Tenancy(
        snapshot=snapshot,
        names=names,
        index=index,
        weights=tuple(tenant.weight for tenant in tenants),
        above=tuple(_above(tenant, declared, index) for tenant in tenants),
        resources=resources,
        capacity=capacity,
        quota=_quotas(tenants, resources, capacity),
        limit=tuple(_stated(tenant.limit, resources) for tenant in tenants),
    )


def _above(tenant: Tenant, declared: dict[str, Tenant], index: dict[str, int]) -> tuple[int, ...]:
    chain = [tenant]
    while chain[-1].parent is not None:
        chain.append(declared[chain[-1].parent])
    return tuple(index[one.name] for one in chain)


def _capacity(cluster: Cluster, resources: tuple[str, ...]) -> tuple[int, ...]:
    """Nodes not down, each minus its `used` and at least 0; 0 where a node sets no limit."""
    up = ~cluster.down
    row = {resource: r for r, resource in enumerate(cluster.resources)}
    result = []
    for resource in resources:
        if resource in row:
            unclaimed, unlimited = cluster.unclaimed[row[resource]], cluster.unlimited[row[resource]]
        else:
            named = [resource.removeprefix("resources.")]
            limit, used = limits(cluster.entries, named)[-1], uses(cluster.entries, named)[-1]
            unclaimed, unlimited = (limit - used)[cluster.entry], (limit < 0)[cluster.entry]
        counts = not unlimited[up].any()
        result.append(int(np.maximum(unclaimed[up], 0).sum()) if counts else 0)
    return tuple(result)


def _stated(share: Share | None, resources: tuple[str, ...]) -> Amounts:
    """The amounts that a quota or a limit names."""
    named = {} if share is None else amounts(share)
    return {r: amount for r, name in enumerate(resources) if (amount := named.get(name)) is not None}


def _quotas(tenants: tuple[Tenant, ...], resources: tuple[str, ...], capacity: tuple[int, ...]) -> tuple[Amounts, ...]:
    """Quotas, the missing ones filled in: a root's share where no root states one, else 0 of everything for a leaf."""
    roots = [tenant for tenant in tenants if tenant.parent is None]
    by_weight = all(tenant.quota is None for tenant in roots)
    weights = sum(tenant.weight for tenant in roots)
    parents = {tenant.parent for tenant in tenants}
    quotas = []
    for tenant in tenants:
        if tenant.quota is not None:
            quotas.append(_stated(tenant.quota, resources))
        elif by_weight and tenant.parent is None:
            part = {r: tenant.weight * cap // weights if weights else 0 for r, cap in enumerate(capacity) if cap}
            quotas.append(part)
        else:
            quotas.append({} if tenant.name in parents else dict.fromkeys(range(len(resources)), 0))
    return tuple(quotas)
