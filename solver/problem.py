"""Snapshot → arrays. Nodes are sorted by path and name, so every domain is a contiguous range of node indices."""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import dataclass, replace
from functools import cached_property

import numpy as np

from gangfit.models import NODE_LEVEL, PendingGang, Snapshot, amounts
from gangfit.solver import eligibility
from gangfit.solver.arrays import BoolArray, IntArray
from gangfit.solver.tenants import Order, Tenants, encode_tenants
from gangfit.solver.victims import Victims, encode_victims

UNLIMITED = 2**40
"""Free amount of a resource that the node doesn't limit."""


@dataclass(frozen=True)
class Tree:
    """The topology. Level `l < L` is named, level `L` is the node."""

    levels: tuple[str, ...]
    """Level names, coarse → fine, `node` last; length L + 1."""
    weights: tuple[int, ...]
    """Cost of each further domain touched, per level; length L + 1."""
    domain: IntArray
    """(L + 1, N): dense index of each node's domain per level, ascending along the nodes."""
    starts: tuple[IntArray, ...]
    """Per level: first node of each domain, then N; length domains + 1."""
    known: BoolArray
    """(L + 1, N): whether the node's domain at the level is known (no null in the path prefix)."""

    @property
    def named(self) -> int:
        """Number of named levels, L."""
        return len(self.levels) - 1

    def domains(self, level: int) -> int:
        """Number of domains of a level."""
        return len(self.starts[level]) - 1

    def sums(self, level: int, per_node: IntArray) -> IntArray:
        """Sum of a per-node array over each domain of a level; (domains,)."""
        return np.add.reduceat(per_node, self.starts[level][:-1])

    def known_domains(self, level: int) -> BoolArray:
        """Whether each domain of a level is known; (domains,)."""
        known: BoolArray = self.known[level][self.starts[level][:-1]]
        return known

    def children(self, level: int, domain: int) -> tuple[int, int]:
        """Range of domains of level + 1 inside a domain; level −1 is the whole cluster."""
        if level < 0:
            return 0, self.domains(0)
        first, last = self.starts[level][domain], self.starts[level][domain + 1] - 1
        return int(self.domain[level + 1][first]), int(self.domain[level + 1][last]) + 1


@dataclass(frozen=True)
class Eligible:
    """Nodes that the rules leave to a gang, each (N,)."""

    selector: BoolArray
    taint: BoolArray
    gpu_model: BoolArray
    allowed: BoolArray
    """All rules together, node state included."""

    def without(self, rule: str) -> BoolArray:
        """(N,): nodes that the rules other than this one leave, node state not considered."""
        masks = {"node_selector": self.selector, "node_taints": self.taint, "gpu_model": self.gpu_model}
        result: BoolArray = np.all([mask for name, mask in masks.items() if name != rule], axis=0)
        return result


@dataclass(frozen=True)
class Problem:
    """One round as arrays: N nodes, J pending gangs by priority, submission and name, R resources."""

    snapshot: Snapshot
    tree: Tree
    node_names: tuple[str, ...]
    """(N,)"""
    resources: tuple[str, ...]
    """(R,): gpus first."""
    free: IntArray
    """(N, R): free amounts; `UNLIMITED` where the node sets no limit."""
    ready: BoolArray
    """(N,): state is ready."""
    intact: BoolArray
    """(N,): ready, has GPUs, all of them free, hosts no member."""
    intact_domains: tuple[BoolArray, ...]
    """Per level (domains,): every ready GPU node in it is intact, and there is one."""
    crossing: tuple[IntArray, ...]
    """Per named level (domains,): running gangs that cross the domain's boundary."""
    gangs: tuple[PendingGang, ...]
    """(J,): by priority (descending), submission, name; `order` tells whose turn it is."""
    members: IntArray
    """(J,)"""
    request: IntArray
    """(J, R): per member."""
    required: IntArray
    """(J,): level index, −1 for none."""
    preferred: IntArray
    """(J,): level index, −1 for none."""
    eligible_of: IntArray
    """(J,): index into `eligible`."""
    eligible: tuple[Eligible, ...]
    """Distinct eligibilities."""
    shape_of: IntArray
    """(J,): gangs of equal request and eligibility share a number: the same members fit the same nodes."""
    warnings: tuple[str, ...]
    """Clamped nodes."""
    tenants: Tenants
    """Quotas, limits, capacity for shares, what running gangs hold."""
    tenant_of: IntArray
    """(J,): tenant of each pending gang."""
    victims: Victims
    """Running gangs that may give way."""
    may_preempt: BoolArray
    """(J,): not preempted itself so recently that it has to settle first."""

    @cached_property
    def total(self) -> IntArray:
        """(J, R): members × request."""
        result: IntArray = self.request * self.members[:, None]
        return result

    @cached_property
    def evictable(self) -> IntArray:
        """(T, R): what eligible victims hold, per tenant and all above."""
        result = np.zeros_like(self.tenants.use)
        for v, tenant in enumerate(self.victims.tenant.tolist()):
            result[list(self.tenants.chain(tenant))] += self.victims.total[v]
        return result

    def without(self, victims: Collection[int]) -> Problem:
        """The round with these victims gone. What was intact before the plan stays as it was."""
        if not victims:
            return self
        free = self.free.copy()
        crossing = tuple(level.copy() for level in self.crossing)
        for v in victims:
            nodes, counts = self.victims.nodes[v], self.victims.counts[v]
            free[nodes] += counts[:, None] * self.victims.request[v]
            for level, domains in enumerate(self.victims.crossing[v]):
                crossing[level][list(domains)] -= 1
        free[self.free == UNLIMITED] = UNLIMITED
        return replace(self, free=free, crossing=crossing)

    def empty(self) -> Problem:
        """The round with every running gang gone, eligible or not."""
        free = self.free.copy()
        column = {resource: r for r, resource in enumerate(self.resources)}
        index = {name: n for n, name in enumerate(self.node_names)}
        for gang in self.snapshot.running:
            if gang.phase == "terminating":
                continue
            asks = np.zeros(len(column), dtype=np.int64)
            for resource, amount in amounts(gang.request).items():
                asks[column[resource]] = amount or 0
            for name, count in gang.placement.items():
                free[index[name]] += count * asks
        free[self.free == UNLIMITED] = UNLIMITED
        return replace(self, free=free)

    def order(self) -> Order:
        """A fresh order of consideration."""
        by_priority = self.snapshot.policy.order == "priority"
        priorities = [gang.priority for gang in self.gangs]
        return Order(self.tenants, self.tenant_of, self.total, priorities, by_priority)

    @property
    def size(self) -> tuple[int, int, int]:
        """(N, J, R)."""
        return self.free.shape[0], len(self.gangs), self.free.shape[1]


def encode(snapshot: Snapshot) -> Problem:
    """The arrays of a snapshot."""
    entries = snapshot.nodes
    names = [name for group in snapshot.node_names for name in group]
    entry_of = [i for i, group in enumerate(snapshot.node_names) for _ in group]
    keys = [tuple((part is None, part or "") for part in entry.path) for entry in entries]
    order = sorted(range(len(names)), key=lambda n: (keys[entry_of[n]], names[n]))
    names = [names[n] for n in order]
    entry = np.array([entry_of[n] for n in order], dtype=np.int64)
    index = {name: n for n, name in enumerate(names)}

    tree = _tree(snapshot, entry)
    gangs = sorted(snapshot.pending, key=lambda gang: (-gang.priority, gang.submitted_s, gang.name))
    resources = _resources(snapshot)
    column = {resource: r for r, resource in enumerate(resources)}
    free, warnings, hosting = _free(snapshot, names, index, entry, column)
    request = np.zeros((len(gangs), len(resources)), dtype=np.int64)
    for j, gang in enumerate(gangs):
        for resource, amount in amounts(gang.request).items():
            request[j, column[resource]] = amount or 0
    gpus = np.array([node.gpus for node in entries], dtype=np.int64)[entry]
    ready = eligibility.node_state(entries)[entry]
    gpu_node = ready & (gpus > 0)
    intact = gpu_node & (free[:, 0] == gpus) & ~hosting
    levels = {name: level for level, name in enumerate(tree.levels)}
    eligible, eligible_of = _eligible(snapshot, gangs, entry, ready)
    tenants = encode_tenants(snapshot, column, _capacity(snapshot, entry, column))
    tenant = {name: t for t, name in enumerate(tenants.names)}
    settled = snapshot.time_s - snapshot.policy.preemption.settle_s
    shapes: dict[tuple[bytes, int], int] = {}
    shape_of = [shapes.setdefault((request[j].tobytes(), int(eligible_of[j])), len(shapes)) for j in range(len(gangs))]
    return Problem(
        snapshot=snapshot,
        tree=tree,
        node_names=tuple(names),
        resources=resources,
        free=free,
        ready=ready,
        intact=intact,
        intact_domains=tuple(_intact_domains(tree, level, gpu_node, intact) for level in range(len(tree.levels))),
        crossing=_crossing(snapshot, tree, index),
        gangs=tuple(gangs),
        members=np.array([gang.members for gang in gangs], dtype=np.int64),
        request=request,
        required=_levels(levels, (gang.topology.required for gang in gangs)),
        preferred=_levels(levels, (gang.topology.preferred for gang in gangs)),
        eligible_of=eligible_of,
        eligible=eligible,
        shape_of=np.array(shape_of, dtype=np.int64),
        warnings=tuple(warnings),
        tenants=tenants,
        tenant_of=np.array([tenant[gang.tenant] for gang in gangs], dtype=np.int64),
        victims=encode_victims(snapshot, tenants, column, index, tree.domain),
        may_preempt=np.array([g.preempted_s is None or g.preempted_s <= settled for g in gangs], dtype=np.bool_),
    )


def _levels(levels: dict[str, int], wanted: Iterable[str | None]) -> IntArray:
    return np.array([-1 if name is None else levels[name] for name in wanted], dtype=np.int64)


def _tree(snapshot: Snapshot, entry: IntArray) -> Tree:
    named = len(snapshot.topology.levels)
    count = len(entry)
    domain = np.zeros((named + 1, count), dtype=np.int64)
    known = np.ones((named + 1, count), dtype=np.bool_)
    fresh = np.zeros(count, dtype=np.bool_)
    fresh[0] = True
    for level in range(named):
        codes: dict[str | None, int] = {}
        code = np.array([codes.setdefault(node.path[level], len(codes)) for node in snapshot.nodes], dtype=np.int64)
        missing = np.array([node.path[level] is None for node in snapshot.nodes], dtype=np.bool_)[entry]
        known[level] = ~missing & (known[level - 1] if level else True)
        changed = np.ones(count, dtype=np.bool_)
        changed[1:] = code[entry][1:] != code[entry][:-1]
        fresh = fresh | changed | ~known[level]
        # The node after an unknown one starts a domain of its own, too.
        fresh[1:] |= ~known[level][:-1]
        domain[level] = np.cumsum(fresh) - 1
    domain[named] = np.arange(count)
    starts = tuple(
        np.append(np.flatnonzero(np.diff(domain[level], prepend=-1)), count).astype(np.int64)
        for level in range(named + 1)
    )
    names = (*(level.name for level in snapshot.topology.levels), NODE_LEVEL)
    return Tree(names, tuple(snapshot.topology.weights()), domain, starts, known)


def _resources(snapshot: Snapshot) -> tuple[str, ...]:
    gangs = (*snapshot.running, *snapshot.pending)
    named = {resource for gang in gangs for resource in amounts(gang.request)}
    base = ("gpus", "cpu_milli", "memory_mib")
    return base + tuple(sorted(named - set(base)))


def _free(
    snapshot: Snapshot, names: list[str], index: dict[str, int], entry: IntArray, column: dict[str, int]
) -> tuple[IntArray, list[str], BoolArray]:
    """Free amounts (N, R), a warning per clamped amount, and which nodes host a running member (N,)."""
    capacity = np.zeros((len(snapshot.nodes), len(column)), dtype=np.int64)
    used = np.zeros_like(capacity)
    for i, node in enumerate(snapshot.nodes):
        for resource, limit in amounts(node).items():
            if resource in column:
                capacity[i, column[resource]] = UNLIMITED if limit is None else limit
        for resource, amount in amounts(node.used).items():
            if resource in column:
                used[i, column[resource]] = amount or 0
    limits = capacity[entry]
    free = limits - used[entry]
    hosting = np.zeros(len(names), dtype=np.bool_)
    for gang in snapshot.running:
        asks = np.zeros(len(column), dtype=np.int64)
        for resource, amount in amounts(gang.request).items():
            if resource in column:
                asks[column[resource]] = amount or 0
        nodes = np.array([index[name] for name in gang.placement], dtype=np.int64)
        hosting[nodes] = True
        if gang.phase == "terminating":
            continue
        counts = np.array(list(gang.placement.values()), dtype=np.int64)
        free[nodes] -= counts[:, None] * asks
    free[limits == UNLIMITED] = UNLIMITED
    warnings = [
        f"node {names[n]!r}: {resource} overcommitted by {-free[n, r]}, taken as full"
        for resource, r in column.items()
        for n in np.flatnonzero(free[:, r] < 0)
    ]
    return np.maximum(free, 0), warnings, hosting


def _capacity(snapshot: Snapshot, entry: IntArray, column: dict[str, int]) -> IntArray:
    """(R,): capacity for shares: nodes not down, minus `used`; 0 where a node sets no limit."""
    copies = np.bincount(entry, minlength=len(snapshot.nodes)).tolist()
    total = [0] * len(column)
    unlimited: set[str] = set()
    for node, count in zip(snapshot.nodes, copies, strict=True):
        if node.state == "down":
            continue
        used = amounts(node.used)
        for resource, limit in amounts(node).items():
            if limit is None:
                unlimited.add(resource)
            elif resource in column:
                total[column[resource]] += count * max(0, limit - (used.get(resource) or 0))
    return np.array([0 if name in unlimited else total[r] for name, r in column.items()], dtype=np.int64)


def _intact_domains(tree: Tree, level: int, gpu_node: BoolArray, intact: BoolArray) -> BoolArray:
    gpu_nodes = tree.sums(level, gpu_node.astype(np.int64))
    result: BoolArray = (gpu_nodes > 0) & (tree.sums(level, intact.astype(np.int64)) == gpu_nodes)
    return result


def _crossing(snapshot: Snapshot, tree: Tree, index: dict[str, int]) -> tuple[IntArray, ...]:
    crossing = tuple(np.zeros(tree.domains(level), dtype=np.int64) for level in range(tree.named))
    for gang in snapshot.running:
        nodes = [index[name] for name in gang.placement]
        if len(nodes) < 2 or gang.phase == "terminating":
            continue
        for level in range(tree.named):
            touched = np.unique(tree.domain[level][nodes])
            if len(touched) > 1:
                crossing[level][touched] += 1
    return crossing


def _eligible(
    snapshot: Snapshot, gangs: list[PendingGang], entry: IntArray, ready: BoolArray
) -> tuple[tuple[Eligible, ...], IntArray]:
    numbers: dict[tuple[object, ...], int] = {}
    distinct: list[Eligible] = []
    of = np.zeros(len(gangs), dtype=np.int64)
    for j, gang in enumerate(gangs):
        key = (frozenset(gang.selector.items()), gang.tolerations, gang.gpu_model)
        if key not in numbers:
            numbers[key] = len(distinct)
            selector = eligibility.node_selector(snapshot.nodes, gang)[entry]
            taint = eligibility.node_taints(snapshot.nodes, gang)[entry]
            model = eligibility.gpu_model(snapshot.nodes, gang)[entry]
            distinct.append(Eligible(selector, taint, model, ready & selector & taint & model))
        of[j] = numbers[key]
    return tuple(distinct), of
