"""Tenants as the checker sees them: trees, shares of capacity, quotas, limits, and what each tenant holds."""

from __future__ import annotations

from dataclasses import dataclass, field
from fractions import Fraction

import numpy as np

from gangfit.models import DEFAULT_TENANT, Gang, Share, Snapshot, Tenant, amounts
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
    _asks: dict[object, list[tuple[int, int]]] = field(default_factory=dict)
    """Request, read once → (resource, amount) of what it asks."""

    def total(self, gang: Gang) -> Amounts:
        """What all members of a gang take; resources that it asks only."""
        request = gang.request
        key = request.gpus, request.cpu_milli, request.memory_mib, *request.resources.items()
        asks = self._asks.get(key)
        if asks is None:
            named = amounts(request)
            asks = [(r, amount) for r, name in enumerate(self.resources) if (amount := named.get(name))]
            self._asks[key] = asks
        return {r: gang.members * amount for r, amount in asks}

    def chain(self, gang: Gang) -> tuple[int, ...]:
        """The gang's tenant and all above it."""
        return self.above[self.index[gang.tenant]]

    def apart(self, tenant: str, other: str) -> tuple[int, ...]:
        """From a tenant up to below its lowest common ancestor with another one."""
        shared = set(self.above[self.index[other]])
        return tuple(t for t in self.above[self.index[tenant]] if t not in shared)

    def shares(self, held: list[int]) -> dict[int, Fraction]:
        """Share of capacity by resource of which anything is held and that counts."""
        return {r: Fraction(held[r], cap) for r, cap in enumerate(self.capacity) if cap and held[r] > 0}

    def dominant(self, held: list[int]) -> Fraction:
        """The largest share, without the weight."""
        most, of = 0, 1
        for amount, capacity in zip(held, self.capacity, strict=True):
            if capacity and amount * of > most * capacity:
                most, of = amount, capacity
        return Fraction(most, of)

    def group(self, tenant: int, held: list[int], asked: Amounts) -> int:
        """Class of a tenant that offers a gang: 0 within, 1 below, 2 surplus."""
        quota = self.quota[tenant]
        if all(held[r] + asked.get(r, 0) <= amount for r, amount in quota.items()):
            return 0
        return 1 if all(held[r] < amount for r, amount in quota.items() if r in asked) else 2

    def holdings(self) -> Holdings:
        """What running gangs hold; terminating ones hold nothing."""
        result = Holdings(self, [[0] * len(self.resources) for _ in self.names])
        for gang in self.snapshot.running:
            if gang.phase == "running":
                result.add(gang)
        return result


@dataclass(frozen=True)
class Holdings:
    """What every tenant and all below it hold: tenant → resource → amount."""

    tenancy: Tenancy
    held: list[list[int]]

    def add(self, gang: Gang, sign: int = 1) -> None:
        """Count a gang in, or with sign −1 out."""
        total = self.tenancy.total(gang)
        for tenant in self.tenancy.chain(gang):
            for r, amount in total.items():
                self.held[tenant][r] += sign * amount

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
    capacity = _capacity(cluster, named)
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


def _capacity(cluster: Cluster, named: list[str]) -> tuple[int, ...]:
    """Nodes not down, each minus its `used` and at least 0; 0 where a node sets no limit."""
    up = np.array([node.state != "down" for node in cluster.entries], dtype=np.bool_)[cluster.entry]
    limit = limits(cluster.entries, named)[:, cluster.entry[up]]
    used = uses(cluster.entries, named)[:, cluster.entry[up]]
    unlimited = (limit < 0).any(axis=1)
    return tuple(np.where(unlimited, 0, np.maximum(limit - used, 0).sum(axis=1)).tolist())


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
