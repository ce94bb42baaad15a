"""The snapshot as the checker sees it: free space as dense arrays by node index, pending gangs by rank."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from itertools import chain

import numpy as np

from gangfit.models import Gang, Node, PendingGang, RunningGang, Snapshot
from gangfit.solver.checker.tree import Bools, Ints, Partition, Tree, coded, read_tree

CEILING = 2**40
"""Amounts saturate here. It is more than any capacity (at most 10¹⁰), and 2¹⁷ of it still fit an int64."""
BUILT_IN = ("gpus", "cpu_milli", "memory_mib")


@dataclass(frozen=True)
class Occupancy:
    """Members on nodes as flat triples; the three arrays have one length."""

    gang: Ints
    """Gang index of each triple."""
    node: Ints
    """Node index of each triple."""
    members: Ints
    """Members of the gang on the node."""
    _pairs: dict[Partition, tuple[Ints, Ints]] = field(default_factory=dict, init=False)
    """Level, asked once → `pairs`."""

    def only(self, gangs: Bools) -> Occupancy:
        """The triples of the marked gangs; `gangs` has shape (gangs,)."""
        mask = gangs[self.gang]
        return Occupancy(self.gang[mask], self.node[mask], self.members[mask])

    @staticmethod
    def both(first: Occupancy, second: Occupancy) -> Occupancy:
        """The triples of two."""
        pairs = zip((first.gang, first.node, first.members), (second.gang, second.node, second.members), strict=True)
        return Occupancy(*(np.concatenate(pair) for pair in pairs))

    def taken(self, asks: Ints, nodes: int) -> Ints:
        """What the members take: shape (resources, nodes). `asks` has shape (gangs, resources).

        Exact up to `CEILING`; what is more than that stays more than that.
        """
        result = np.zeros((asks.shape[1], nodes), dtype=np.int64)
        for resource, row in enumerate(result):
            ask = asks[self.gang, resource]
            asking = ask > 0
            ask = ask[asking]
            np.add.at(row, self.node[asking], np.minimum(self.members[asking], CEILING // ask + 1) * ask)
        return result

    def pairs(self, partition: Partition) -> tuple[Ints, Ints]:
        """Distinct (gang index, domain id) pairs with a member in the domain, ascending."""
        if partition not in self._pairs:
            domains = len(partition.known)
            pairs = np.sort(self.gang * domains + partition.domain[self.node])
            pairs = pairs[np.diff(pairs, prepend=-1) > 0]
            self._pairs[partition] = pairs // domains, pairs % domains
        return self._pairs[partition]


@dataclass(frozen=True)
class Cluster:
    """Nodes, running gangs and pending gangs.

    Resources are the built-in three and those asked by pending gangs or, where moves are allowed, by any gang.
    """

    snapshot: Snapshot
    """Where all this comes from."""
    entries: tuple[Node, ...]
    """The snapshot's node entries."""
    entry: Ints
    """Entry of every single node, shape (nodes,)."""
    names: tuple[str, ...]
    """Single node names; the position is the node index."""
    index: dict[str, int]
    """Node name → node index."""
    tree: Tree
    """Domains per level."""
    resources: tuple[str, ...]
    """Resource names: gpus, cpu_milli, memory_mib, resources.<name> …"""
    ready: Bools
    """Nodes that take new members, shape (nodes,)."""
    down: Bools
    """Nodes that are no capacity, shape (nodes,)."""
    unclaimed: Ints
    """Amounts beside `used`, shape (resources, nodes); meaningless where `unlimited`."""
    free: Ints
    """Free amounts, the space of terminating gangs included, shape (resources, nodes); as `unclaimed`."""
    unlimited: Bools
    """Where a node sets no limit, shape (resources, nodes)."""
    gpus: Ints
    """GPUs that a node has, shape (nodes,)."""
    gpus_used: Ints
    """GPUs in `used`, shape (nodes,)."""
    running: Occupancy
    """Members of running gangs; gang index as in the snapshot."""
    running_gangs: tuple[RunningGang, ...]
    """Running gangs as in the snapshot."""
    running_index: dict[str, int]
    """Running gang's name → index."""
    running_asks: Ints
    """Amount per member, shape (running gangs, resources)."""
    counted: Bools
    """Running gangs that aren't terminating, shape (running gangs,)."""
    pending: tuple[PendingGang, ...]
    """Pending gangs by priority (descending), submission and name; the position is the gang's rank."""
    rank: dict[str, int]
    """Pending gang's name → rank."""
    asks: Ints
    """Amount per member, shape (pending gangs, resources), by rank."""

    def free_beside(self, staying: Bools) -> Ints:
        """Free amounts when these running gangs stay and the others are gone, shape (resources, nodes)."""
        held = self.running.only(staying).taken(self.running_asks, len(self.names))
        return clamped(self.snapshot, self.unclaimed - held)


def clamped(snapshot: Snapshot, free: Ints) -> Ints:
    """Free amounts as the policy takes them: with `overcommit: clamp` never below 0."""
    return np.maximum(free, 0) if snapshot.policy.overcommit == "clamp" else free


def read_cluster(snapshot: Snapshot) -> Cluster:
    """The arrays of a validated snapshot."""
    entries = snapshot.nodes
    entry = np.repeat(np.arange(len(entries)), [len(names) for names in snapshot.node_names])
    names = tuple(chain.from_iterable(snapshot.node_names))
    index = dict(zip(names, range(len(names)), strict=True))
    pending = tuple(sorted(snapshot.pending, key=lambda gang: (-gang.priority, gang.submitted_s, gang.name)))
    placeable: tuple[Gang, ...] = (*pending, *(snapshot.running if snapshot.policy.moves.mode == "allowed" else ()))
    named = sorted({name for gang in placeable for name in gang.request.resources})
    resources = (*BUILT_IN, *(f"resources.{name}" for name in named))
    running = _occupancy([gang.placement for gang in snapshot.running], index)
    asks = ask_rows(snapshot.running, resources)
    counted = np.array([gang.phase == "running" for gang in snapshot.running], dtype=np.bool_)
    limit, used = limits(entries, named)[:, entry], uses(entries, named)[:, entry]
    held = running.only(counted).taken(asks, len(names))
    state, states = coded([node.state for node in entries])
    return Cluster(
        snapshot=snapshot,
        entries=entries,
        entry=entry,
        names=names,
        index=index,
        tree=read_tree(snapshot, entry),
        resources=resources,
        ready=(state == states.get("ready", -1))[entry],
        down=(state == states.get("down", -1))[entry],
        unclaimed=limit - used,
        free=clamped(snapshot, limit - used - held),
        unlimited=limit < 0,
        gpus=limit[0],
        gpus_used=used[0],
        running=running,
        running_gangs=snapshot.running,
        running_index={gang.name: position for position, gang in enumerate(snapshot.running)},
        running_asks=asks,
        counted=counted,
        pending=pending,
        rank={gang.name: rank for rank, gang in enumerate(pending)},
        asks=ask_rows(pending, resources),
    )


def ask_rows(gangs: Sequence[Gang], resources: Sequence[str]) -> Ints:
    """Amount per member of every gang, shape (gangs, resources)."""
    requests = [gang.request for gang in gangs]
    columns = [
        [one.gpus for one in requests],
        [one.cpu_milli for one in requests],
        [one.memory_mib for one in requests],
    ]
    for resource in resources[len(BUILT_IN) :]:
        name = resource.removeprefix("resources.")
        columns.append([one.resources.get(name, 0) for one in requests])
    return np.array(columns, dtype=np.int64).T


def limits(entries: Sequence[Node], named: Sequence[str]) -> Ints:
    """Capacity per resource and entry, -1: not limited."""
    columns = [
        [node.gpus for node in entries],
        [-1 if node.cpu_milli is None else node.cpu_milli for node in entries],
        [-1 if node.memory_mib is None else node.memory_mib for node in entries],
    ]
    columns += [[node.resources.get(name, 0) for node in entries] for name in named]
    return np.array(columns, dtype=np.int64)


def uses(entries: Sequence[Node], named: Sequence[str]) -> Ints:
    """What `used` takes per resource and entry."""
    used = [node.used for node in entries]
    columns = [[one.gpus for one in used], [one.cpu_milli for one in used], [one.memory_mib for one in used]]
    columns += [[one.resources.get(name, 0) for one in used] for name in named]
    return np.array(columns, dtype=np.int64)


def _occupancy(placements: Sequence[dict[str, int]], index: dict[str, int]) -> Occupancy:
    """Triples of gangs whose nodes are all known; the gang index is the position."""
    gang = np.repeat(np.arange(len(placements)), np.array([*map(len, placements)], dtype=np.int64))
    nodes = [*map(index.__getitem__, chain.from_iterable(placements))]
    members = [*chain.from_iterable(placement.values() for placement in placements)]
    return Occupancy(gang, np.array(nodes, dtype=np.int64), np.array(members, dtype=np.int64))
