"""Snapshot → arrays. Nodes are sorted by path and name, so every domain is a contiguous range of node indices."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from itertools import chain, pairwise
from operator import attrgetter
from typing import TYPE_CHECKING

import numpy as np

from gangfit.models import NODE_LEVEL, Gang, Node, PendingGang, Request, Snapshot, Used
from gangfit.solver import eligibility
from gangfit.solver.arrays import BoolArray, IntArray
from gangfit.solver.tenants import Order, Tenants, encode_tenants
from gangfit.solver.victims import Victims, encode_victims, move_eligible

if TYPE_CHECKING:
    from gangfit.solver.rights import Right

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

    def nodes(self, level: int, domain: int) -> tuple[int, int]:
        """Range of nodes inside a domain; level −1 is the whole cluster."""
        if level < 0:
            return 0, self.domain.shape[1]
        starts = self.starts[level]
        return int(starts[domain]), int(starts[domain + 1])

    def children(self, level: int, domain: int) -> tuple[int, int]:
        """Range of domains of level + 1 inside a domain; level −1 is the whole cluster."""
        if level < 0:
            return 0, self.domains(0)
        first = self.first_child[level]
        return int(first[domain]), int(first[domain + 1])

    @cached_property
    def offset(self) -> IntArray:
        """(L + 3,): where each level's domains start in one array of the cluster, all levels and the nodes; its end."""
        counts = [0, 1, *(self.domains(level) for level in range(len(self.levels)))]
        return np.cumsum(counts, dtype=np.int64)

    @cached_property
    def parts(self) -> list[tuple[int, int]]:
        """Per level: the range of its domains in that array."""
        offset = self.offset.tolist()
        return list(pairwise(offset[1:]))

    @cached_property
    def flat(self) -> tuple[IntArray, IntArray, IntArray]:
        """As kernels/place.py has them: `offset`, `starts` in one array, where each level's begin in it, (L + 1,)."""
        lengths = [len(starts) for starts in self.starts]
        return self.offset, np.concatenate(self.starts), np.cumsum([0, *lengths[:-1]], dtype=np.int64)

    @cached_property
    def all_nodes(self) -> BoolArray:
        """(N,): true."""
        return np.ones(self.domain.shape[1], dtype=np.bool_)

    @cached_property
    def first_child(self) -> tuple[IntArray, ...]:
        """Per named level: first domain of level + 1 in each domain, then their number; length domains + 1."""
        return tuple(
            np.append(self.domain[level + 1][self.starts[level][:-1]], self.domains(level + 1))
            for level in range(self.named)
        )


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
    """One round as arrays: N nodes, J gangs, R resources.

    The first `waiting` gangs are the pending ones, by priority, submission and name. Where moves are allowed, those
    that may be moved follow: a gang that moves leaves as a victim does and is placed like a pending one.
    """

    snapshot: Snapshot
    tree: Tree
    node_names: tuple[str, ...]
    """(N,)"""
    resources: tuple[str, ...]
    """(R,): gpus first."""
    free: IntArray
    """(N, R): free amounts; `UNLIMITED` where the node sets no limit."""
    debt: IntArray
    """(N, R): by how much a node taken as full is overcommitted; what leaves it pays this first."""
    ready: BoolArray
    """(N,): state is ready."""
    intact: BoolArray
    """(N,): ready, has GPUs, all of them free, hosts no member."""
    intact_domains: tuple[BoolArray, ...]
    """Per level (domains,): every ready GPU node in it is intact, and there is one."""
    crossing: tuple[IntArray, ...]
    """Per named level (domains,): running gangs that cross the domain's boundary."""
    gangs: tuple[Gang, ...]
    """(J,): pending by priority (descending), submission, name (`order` tells whose turn it is), then movable ones."""
    waiting: int
    """How many of them are pending."""
    copy_of: IntArray
    """(V,): the gang that stands for a victim where it goes when it moves, −1 where it may not."""
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
    """(J,): pending, and not preempted itself so recently that it has to settle first."""
    held: IntArray
    """(N, R): what running gangs hold, terminating ones not counted."""

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

    @cached_property
    def rights_known(self) -> dict[tuple[int, bytes], Right]:
        """(gang, what was admitted up to it) → its right over victims, kept by `rights`."""
        return {}

    def without(self, victims: Collection[int]) -> Problem:
        """The round with these victims gone. What was intact before the plan stays as it was."""
        if not victims:
            return self
        free = self.free - self.debt
        crossing = tuple(level.copy() for level in self.crossing)
        self.victims.leave(victims, free, crossing)
        free[self.free == UNLIMITED] = UNLIMITED
        return replace(self, free=np.maximum(free, 0), debt=np.maximum(-free, 0), crossing=crossing)

    def empty(self) -> Problem:
        """The round with every running gang gone, eligible or not."""
        free = np.maximum(self.free - self.debt + self.held, 0)
        return replace(self, free=np.where(self.free == UNLIMITED, UNLIMITED, free))

    def order(self) -> Order:
        """A fresh order of consideration."""
        by_priority = self.snapshot.policy.order == "priority"
        pending = self.gangs[: self.waiting]
        priorities = [gang.priority for gang in pending]
        return Order(self.tenants, self.tenant_of[: self.waiting], self.total, priorities, by_priority)

    @property
    def size(self) -> tuple[int, int, int]:
        """Nodes, pending gangs, resources."""
        return self.free.shape[0], self.waiting, self.free.shape[1]


def encode(snapshot: Snapshot) -> Problem:
    """The arrays of a snapshot."""
    entries = snapshot.nodes
    path_of, paths = _paths(entries)
    names, entry = _sorted_nodes(snapshot, path_of, paths)
    index = dict(zip(names, range(len(names)), strict=True))
    tree = _tree(snapshot, paths, path_of[entry])
    running = _running(snapshot, index)
    pending = sorted(snapshot.pending, key=lambda gang: (-gang.priority, gang.submitted_s, gang.name))
    resources = _resources(snapshot)
    limits, used = _amounts(entries, resources), _amounts([node.used for node in entries], resources)
    asks = _amounts([gang.request for gang in snapshot.running], resources)
    stays = np.array([gang.phase != "terminating" for gang in snapshot.running], dtype=np.bool_)
    asks[~stays] = 0
    free, held, warnings = _free(limits, used, asks, names, running, entry, resources)
    tenants = encode_tenants(snapshot, resources, _capacity(entries, np.bincount(entry), limits, used), asks)
    victims = encode_victims(snapshot, tenants, asks, (running.gang, running.node, running.count), tree.domain)
    movable = np.array([move_eligible(snapshot, gang) for gang in victims.gangs], dtype=np.bool_)
    gangs: list[Gang] = [*pending, *(gang for gang, may in zip(victims.gangs, movable.tolist(), strict=True) if may)]
    tenant = {name: t for t, name in enumerate(tenants.names)}
    settled = snapshot.time_s - snapshot.policy.preemption.settle_s
    hosting = np.zeros(len(names), dtype=np.bool_)
    hosting[running.node] = True
    request = _amounts([gang.request for gang in gangs], resources)
    gpus = limits[entry, 0]
    ready = eligibility.node_state(entries)[entry]
    gpu_node = ready & (gpus > 0)
    intact = gpu_node & (free[:, 0] == gpus) & ~hosting
    levels = {name: level for level, name in enumerate(tree.levels)}
    eligible, eligible_of = _eligible(snapshot, gangs, entry, ready)
    shapes: dict[tuple[tuple[int, ...], int], int] = {}
    alike = zip(map(tuple, request.tolist()), eligible_of.tolist(), strict=True)
    shape_of = [shapes.setdefault(shape, len(shapes)) for shape in alike]
    return Problem(
        snapshot=snapshot,
        tree=tree,
        node_names=tuple(names),
        resources=resources,
        free=np.maximum(free, 0),
        debt=np.maximum(-free, 0),
        ready=ready,
        intact=intact,
        intact_domains=tuple(_intact_domains(tree, level, gpu_node, intact) for level in range(len(tree.levels))),
        crossing=_crossing(tree, running, stays),
        gangs=tuple(gangs),
        waiting=len(pending),
        copy_of=np.where(movable, len(pending) + np.cumsum(movable) - 1, -1),
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
        victims=victims,
        may_preempt=np.array(
            [isinstance(g, PendingGang) and (g.preempted_s is None or g.preempted_s <= settled) for g in gangs],
            dtype=np.bool_,
        ),
        held=held,
    )


def _levels(levels: dict[str, int], wanted: Iterable[str | None]) -> IntArray:
    return np.array([-1 if name is None else levels[name] for name in wanted], dtype=np.int64)


Path = tuple[str | None, ...]


@dataclass(frozen=True)
class _Running:
    """Members of the running gangs, one entry per gang and node."""

    gang: IntArray
    """Index in `snapshot.running`, ascending."""
    node: IntArray
    count: IntArray


def _paths(entries: Sequence[Node]) -> tuple[IntArray, list[Path]]:
    """Per entry the index of its path, and the distinct paths in the order of their domains: names, then null."""
    found: dict[Path, int] = {}
    first = np.array([found.setdefault(node.path, len(found)) for node in entries], dtype=np.int64)
    if any(None in path for path in found):
        paths = sorted(found, key=lambda path: [(part is None, part or "") for part in path])
    else:
        paths = sorted(found)
    number = np.empty(len(paths), dtype=np.int64)
    number[[found[path] for path in paths]] = np.arange(len(paths))
    return number[first], paths


def _sorted_nodes(snapshot: Snapshot, path_of: IntArray, paths: list[Path]) -> tuple[list[str], IntArray]:
    """Single node names by path, then name; and the entry of each node, (N,)."""
    groups = snapshot.node_names
    names = list(chain.from_iterable(groups))
    entry = np.repeat(np.arange(len(groups)), np.fromiter(map(len, groups), dtype=np.int64, count=len(groups)))
    by_name = np.array(sorted(range(len(names)), key=names.__getitem__), dtype=np.int64)
    order = by_name[np.argsort(path_of[entry[by_name]], kind="stable")]
    return [names[n] for n in order.tolist()], entry[order]


def _tree(snapshot: Snapshot, paths: list[Path], path: IntArray) -> Tree:
    """The tree; `path` (N,): index into `paths` of each node."""
    named = len(snapshot.topology.levels)
    count = len(path)
    domain = np.zeros((named + 1, count), dtype=np.int64)
    known = np.ones((named + 1, count), dtype=np.bool_)
    fresh = np.zeros(count, dtype=np.bool_)
    fresh[0] = True
    for level in range(named):
        codes: dict[str | None, int] = {}
        code = np.array([codes.setdefault(parts[level], len(codes)) for parts in paths], dtype=np.int64)[path]
        missing = np.array([parts[level] is None for parts in paths], dtype=np.bool_)[path]
        known[level] = ~missing & (known[level - 1] if level else True)
        changed = np.ones(count, dtype=np.bool_)
        changed[1:] = code[1:] != code[:-1]
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


_BASE = ("gpus", "cpu_milli", "memory_mib")
_BASE_OF = attrgetter(*_BASE)


def _resources(snapshot: Snapshot) -> tuple[str, ...]:
    asked = (gang.request.resources for gang in (*snapshot.running, *snapshot.pending))
    named = {name for resources in asked if resources for name in resources}
    return _BASE + tuple(sorted(f"resources.{name}" for name in named))


def _amounts(sources: Sequence[Request | Used | Node], resources: tuple[str, ...]) -> IntArray:
    """(sources, R): amount of each resource; `UNLIMITED` for a node that sets no limit."""
    result = np.empty((len(sources), len(resources)), dtype=np.int64)
    # Most sources are alike: only the distinct amounts become arrays.
    kinds: dict[tuple[int | None, ...], int] = {}
    kind = [kinds.setdefault(amounts, len(kinds)) for amounts in map(_BASE_OF, sources)]
    rows = [[UNLIMITED if amount is None else amount for amount in amounts] for amounts in kinds]
    result[:, : len(_BASE)] = np.array(rows, dtype=np.int64).reshape(-1, len(_BASE))[kind]
    for r, resource in enumerate(resources[len(_BASE) :], start=len(_BASE)):
        name = resource.removeprefix("resources.")
        result[:, r] = [source.resources.get(name, 0) for source in sources]
    return result


def _running(snapshot: Snapshot, index: dict[str, int]) -> _Running:
    placements = [gang.placement for gang in snapshot.running]
    gang = np.repeat(np.arange(len(placements)), np.array([len(p) for p in placements], dtype=np.int64))
    node = [*map(index.__getitem__, chain.from_iterable(placements))]
    count = [*chain.from_iterable(placement.values() for placement in placements)]
    return _Running(gang, np.array(node, dtype=np.int64), np.array(count, dtype=np.int64))


def _free(
    limits: IntArray,
    used: IntArray,
    asks: IntArray,
    names: list[str],
    running: _Running,
    entry: IntArray,
    resources: tuple[str, ...],
) -> tuple[IntArray, IntArray, list[str]]:
    """Free amounts (N, R), negative where overcommitted; what running gangs hold that stay (N, R); warnings.

    `limits`, `used`: (entries, R); `asks`: (running gangs, R), 0 for those that leave.
    """
    held = np.zeros((len(names), len(resources)), dtype=np.int64)
    for r in range(len(resources)):
        np.add.at(held[:, r], running.node, running.count * asks[running.gang, r])
    free = np.where((limits == UNLIMITED)[entry], UNLIMITED, (limits - used)[entry] - held)
    warnings = [
        f"node {names[n]!r}: {resource} overcommitted by {-free[n, r]}, taken as full"
        for r, resource in enumerate(resources)
        for n in np.flatnonzero(free[:, r] < 0)
    ]
    return free, held, warnings


def _capacity(entries: Sequence[Node], copies: IntArray, limits: IntArray, used: IntArray) -> IntArray:
    """(R,): capacity for shares: nodes not down, minus `used`; 0 where a node sets no limit.

    `copies`: nodes per entry; `limits`, `used`: (entries, R).
    """
    counted = np.where([node.state != "down" for node in entries], copies, 0)[:, None]
    unlimited = ((limits == UNLIMITED) & (counted > 0)).any(axis=0)
    total: IntArray = (counted * np.maximum(limits - used, 0)).sum(axis=0)
    return np.where(unlimited, 0, total)


def _intact_domains(tree: Tree, level: int, gpu_node: BoolArray, intact: BoolArray) -> BoolArray:
    gpu_nodes = tree.sums(level, gpu_node.astype(np.int64))
    result: BoolArray = (gpu_nodes > 0) & (tree.sums(level, intact.astype(np.int64)) == gpu_nodes)
    return result


def _crossing(tree: Tree, running: _Running, stays: BoolArray) -> tuple[IntArray, ...]:
    """Per named level (domains,): running gangs that cross each domain's boundary, of those that stay."""
    crossing = []
    gang, node = running.gang[stays[running.gang]], running.node[stays[running.gang]]
    for level in range(tree.named):
        domains = tree.domains(level)
        pairs = np.unique(gang * domains + tree.domain[level][node])
        touched = np.bincount(pairs // domains, minlength=1)
        crossing.append(np.bincount(pairs[touched[pairs // domains] > 1] % domains, minlength=domains))
    return tuple(crossing)


_ANY: frozenset[tuple[str, str]] = frozenset()


def _eligible(
    snapshot: Snapshot, gangs: Sequence[Gang], entry: IntArray, ready: BoolArray
) -> tuple[tuple[Eligible, ...], IntArray]:
    """Distinct eligibilities and each gang's. Each rule judges once what gangs have in common."""
    labels = eligibility.Labels(snapshot.nodes, gangs)
    taints, tainted = _examples([node.taints for node in snapshot.nodes], snapshot.nodes)
    models, modelled = _examples([node.gpu_model for node in snapshot.nodes], snapshot.nodes)
    by_selector: dict[object, BoolArray] = {}
    by_taints: dict[object, BoolArray] = {}
    by_model: dict[object, BoolArray] = {}
    numbers: dict[tuple[object, ...], int] = {}
    distinct: list[Eligible] = []
    of: list[int] = []
    for gang in gangs:
        wish = (frozenset(gang.selector.items()) if gang.selector else _ANY, gang.tolerations, gang.gpu_model)
        number = numbers.setdefault(wish, len(distinct))
        of.append(number)
        if number == len(distinct):
            wanted, tolerated, model = wish
            if wanted not in by_selector:
                by_selector[wanted] = eligibility.node_selector(labels, gang)[entry]
            if tolerated not in by_taints:
                by_taints[tolerated] = eligibility.node_taints(tainted, gang)[taints][entry]
            if model not in by_model:
                by_model[model] = eligibility.gpu_model(modelled, gang)[models][entry]
            rules = by_selector[wanted], by_taints[tolerated], by_model[model]
            distinct.append(Eligible(*rules, ready & rules[0] & rules[1] & rules[2]))
    return tuple(distinct), np.array(of, dtype=np.int64)


def _examples(facts: Sequence[object], entries: Sequence[Node]) -> tuple[IntArray, list[Node]]:
    """The number of each entry's fact, (entries,), and an entry with each of the distinct facts."""
    numbers: dict[object, int] = {}
    of = [numbers.setdefault(fact, len(numbers)) for fact in facts]
    number = np.array(of, dtype=np.int64)
    return number, [entries[i] for i in np.unique(number, return_index=True)[1].tolist()]
