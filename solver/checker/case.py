"""One snapshot with one plan, read once for all rules."""

from __future__ import annotations

from collections import Counter
from functools import cached_property
from itertools import repeat
from typing import NamedTuple

import numpy as np

from gangfit.models import Gang, Move, PendingGang, Placement, Plan, Preemption, Reason, RunningGang, Snapshot
from gangfit.solver.checker.cluster import Cluster, Occupancy, read_cluster
from gangfit.solver.checker.room import Masks, Room, Wish, read_wishes
from gangfit.solver.checker.tenancy import Holdings, Tenancy, read_tenancy
from gangfit.solver.checker.tree import Bools, Ints, coded


class Promise(NamedTuple):
    """What is promised to a gang that waits."""

    rank: int
    start_s: int
    occupancy: Occupancy
    """Its known nodes."""
    members: int
    """Stated members, on unknown nodes too."""
    unknown: tuple[str, ...]
    """Unknown nodes."""


class Case:
    """The plan laid over the cluster. Unknown gangs and nodes of the plan are left out of every array."""

    def __init__(self, snapshot: Snapshot, plan: Plan) -> None:
        self.plan = plan
        self.cluster: Cluster = read_cluster(snapshot)
        self.masks = Masks(self.cluster)
        cluster = self.cluster
        self.times_placed: Counter[str] = Counter(placement.gang for placement in plan.placements)
        self.members_placed: Counter[str] = Counter()
        """Stated members per gang, on unknown nodes too."""
        self.placed: Occupancy = self._read_placements()
        self.admitted: Bools = np.array([gang.name in self.times_placed for gang in cluster.pending], dtype=np.bool_)
        """By rank."""
        self.victims: Bools = np.zeros(len(cluster.running_gangs), dtype=np.bool_)
        """Running gangs that the plan preempts, by index; terminating ones leave anyway."""
        self.victims[[cluster.running_index[entry.gang] for entry, _ in self.preempted]] = True
        self.victims &= cluster.counted
        self.moved: Bools = np.zeros(len(cluster.running_gangs), dtype=np.bool_)
        """Running gangs that the plan moves, by index; victims and terminating ones only leave."""
        self.moved[[cluster.running_index[entry.gang] for entry, _ in self.moves]] = True
        self.moved &= cluster.counted & ~self.victims
        self.arrivals: Occupancy = self._read_moves()
        self.taken: Ints = self.placed.taken(cluster.asks, len(cluster.names))
        """What the plan takes, shape (resources, nodes)."""
        self.taken += self.arrivals.taken(cluster.running_asks, len(cluster.names))
        self.counted: dict[tuple[Wish, int], dict[str, int]] = {}
        """(wish, members where they matter) → counters of a blocked gang."""
        self.reasons: dict[tuple[Wish, int, str], Reason] = {}
        """(wish, members, tenant) → why such gangs wait."""
        self.tiers: dict[str, int] = {}
        """Tier name → value, once they are computed."""

    def _read_placements(self) -> Occupancy:
        """Triples of the known gangs on known nodes, gang index: rank."""
        ranks: list[int] = []
        nodes: list[int] = []
        members: list[int] = []
        rank_of, node_of = self.cluster.rank, self.cluster.index
        for placement in self.plan.placements:
            on_nodes = _members_by_node(placement)
            counts = on_nodes.values()
            self.members_placed[placement.gang] += sum(counts)
            rank = rank_of.get(placement.gang)
            if rank is not None:
                ranks += repeat(rank, len(on_nodes))
                nodes += map(node_of.get, on_nodes, repeat(-1))
                members += counts
        node = np.array(nodes, dtype=np.int64)
        known = node >= 0
        return Occupancy(np.array(ranks, dtype=np.int64)[known], node[known], np.array(members, dtype=np.int64)[known])

    @cached_property
    def promise(self) -> Promise | None:
        """The first stated reservation of a known gang that isn't placed."""
        cluster = self.cluster
        for entry in self.plan.blocked:
            rank = cluster.rank.get(entry.gang)
            if entry.reservation is None or rank is None or self.admitted[rank]:
                continue
            nodes = entry.reservation.nodes
            known = {cluster.index[name]: members for name, members in nodes.items() if name in cluster.index}
            columns = [
                np.array(column, dtype=np.int64) for column in ([rank] * len(known), [*known], [*known.values()])
            ]
            unknown = tuple(name for name in nodes if name not in cluster.index)
            return Promise(rank, entry.reservation.start_s, Occupancy(*columns), sum(nodes.values()), unknown)
        return None

    @cached_property
    def hosted(self) -> Occupancy:
        """Members of the gangs that start and of the one with a promise: what the tiers of placement count."""
        return self.placed if self.promise is None else Occupancy.both(self.placed, self.promise.occupancy)

    def _read_moves(self) -> Occupancy:
        """Triples of the moved gangs where they go, on known nodes; gang index as of running gangs."""
        triples = [
            (self.cluster.running_index[entry.gang], self.cluster.index[name], count)
            for entry, _ in self.moves
            if self.moved[self.cluster.running_index[entry.gang]]
            for name, count in entry.nodes().items()
            if name in self.cluster.index
        ]
        flat = np.array(triples, dtype=np.int64).reshape(-1, 3)
        return Occupancy(flat[:, 0], flat[:, 1], flat[:, 2])

    @property
    def full(self) -> bool:
        """Whether the plan claims more than placements, as an answer of the solver does."""
        return bool(self.plan.tiers or self.plan.considered)

    @cached_property
    def blocked(self) -> frozenset[str]:
        """Gangs listed as blocked."""
        return frozenset(entry.gang for entry in self.plan.blocked)

    @cached_property
    def out_of_time(self) -> frozenset[str]:
        """Gangs whose question ran out of time; without `considered`, those called undecided."""
        if self.plan.considered:
            return frozenset(entry.gang for entry in self.plan.considered if entry.decided_by == "limit")
        return frozenset(entry.gang for entry in self.plan.blocked if entry.reason == "undecided")

    @cached_property
    def late(self) -> tuple[int, ...]:
        """Ranks of placed gangs that started only when they were asked again: listed twice in `considered`."""
        names = [entry.gang for entry in self.plan.considered]
        first = {name: i for i, name in reversed(list(enumerate(names)))}
        again = [name for i, name in enumerate(names) if first[name] < i]
        ranks = [self.cluster.rank[name] for name in dict.fromkeys(again) if name in self.cluster.rank]
        return tuple(rank for rank in ranks if self.admitted[rank])

    @cached_property
    def preempted(self) -> list[tuple[Preemption, RunningGang]]:
        """Preemptions of known running gangs, each gang once."""
        cluster = self.cluster
        first = {entry.gang: entry for entry in reversed(self.plan.preemptions)}
        known = [entry for entry in self.plan.preemptions if entry.gang in cluster.running_index]
        return [
            (entry, cluster.running_gangs[cluster.running_index[entry.gang]])
            for entry in known
            if entry is first[entry.gang]
        ]

    @cached_property
    def moves(self) -> list[tuple[Move, RunningGang]]:
        """Moves of known running gangs, each gang once."""
        cluster = self.cluster
        first = {entry.gang: entry for entry in reversed(self.plan.moves)}
        known = [entry for entry in self.plan.moves if entry.gang in cluster.running_index]
        return [
            (entry, cluster.running_gangs[cluster.running_index[entry.gang]])
            for entry in known
            if entry is first[entry.gang]
        ]

    @cached_property
    def laid(self) -> Case:
        """The same plan with every moved gang as one that is placed: it has left, and starts where it goes."""
        if not self.moved.any():
            return self
        snapshot, moves = self.cluster.snapshot, [entry for entry, gang in self.moves if self._moves(gang)]
        gone = {entry.gang for entry in moves}
        again = [
            PendingGang(**{name: getattr(gang, name) for name in Gang.model_fields})
            for gang in snapshot.running
            if gang.name in gone
        ]
        stays = tuple(gang for gang in snapshot.running if gang.name not in gone)
        placements = (*self.plan.placements, *(Placement(gang=entry.gang, roles=entry.roles) for entry in moves))
        return Case(
            snapshot.model_copy(update={"running": stays, "pending": (*snapshot.pending, *again)}),
            Plan(placements=placements, preemptions=self.plan.preemptions),
        )

    def _moves(self, gang: RunningGang) -> bool:
        return bool(self.moved[self.cluster.running_index[gang.name]])

    @cached_property
    def tenancy(self) -> Tenancy:
        """The tenants of the snapshot."""
        return read_tenancy(self.cluster)

    @cached_property
    def held_before(self) -> Holdings:
        """What tenants hold in the snapshot."""
        return self.tenancy.holdings()

    @cached_property
    def held_after(self) -> Holdings:
        """What tenants hold under the plan: running gangs, those admitted, victims gone."""
        holdings = self.held_before.copy()
        for rank in np.flatnonzero(self.admitted).tolist():
            holdings.add(self.cluster.pending[rank])
        for index in np.flatnonzero(self.victims).tolist():
            holdings.add(self.cluster.running_gangs[index], -1)
        return holdings

    @cached_property
    def space(self) -> Ints:
        """Free amounts with the victims and the moved gangs gone, shape (resources, nodes)."""
        if not (self.victims | self.moved).any():
            return self.cluster.free
        return self.cluster.free_beside(self.cluster.counted & ~self.victims & ~self.moved)

    @cached_property
    def wishes(self) -> list[Wish]:
        """Wish of every pending gang, by rank."""
        return read_wishes(self.cluster)

    @cached_property
    def alone(self) -> Room:
        """The free space of the snapshot."""
        return Room(self.cluster, self.masks, self.cluster.free)

    @cached_property
    def emptied(self) -> Room:
        """The free space if all running gangs were gone."""
        return Room(self.cluster, self.masks, self.cluster.free_beside(np.zeros_like(self.cluster.counted)))

    @cached_property
    def left(self) -> Room:
        """The free space that the plan leaves."""
        return Room(self.cluster, self.masks, np.maximum(self.space - self.taken, 0))

    @cached_property
    def pairs(self) -> tuple[Ints, Ints]:
        """Distinct (rank, node index) pairs with a member, by rank, then node."""
        return self.placed.pairs(self.cluster.tree.partitions[-1])

    @cached_property
    def touched(self) -> Ints:
        """Domains that each pending gang touches: shape (pending gangs, levels + 1), 0 for a gang that waits.

        A gang with a promise touches those of its promised nodes.
        """
        gangs = len(self.cluster.pending)
        columns = [
            np.bincount(self.hosted.pairs(partition)[0], minlength=gangs) for partition in self.cluster.tree.partitions
        ]
        return np.stack(columns, axis=1)

    @cached_property
    def alike(self) -> list[tuple[Wish, Ints]]:
        """Every wish of a placed gang, with the positions in `pairs` that gangs of this wish have."""
        if not self.wishes:
            return []
        wishes, numbers = coded(self.wishes)
        of_pair = wishes[self.pairs[0]]
        order = np.argsort(of_pair, kind="stable")
        parts = np.split(order, np.searchsorted(of_pair[order], np.arange(1, len(numbers))))
        return [(wish, part) for wish, part in zip(numbers, parts, strict=True) if len(part)]


def _members_by_node(placement: Placement) -> dict[str, int]:
    """Node name → members over all roles."""
    if len(placement.roles) == 1:
        return next(iter(placement.roles.values()))
    return placement.nodes()
