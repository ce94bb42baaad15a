"""Where a gang may sit and how many of its members a given free space holds there."""

from __future__ import annotations

from functools import lru_cache
from typing import NamedTuple

import numpy as np

from gangfit.models import Taint, Toleration
from gangfit.solver.checker.cluster import CEILING, Cluster
from gangfit.solver.checker.tree import Bools, Ints, coded

KEPT = 128
"""Arrays kept per kind; each has one value per node."""
_ANY: frozenset[tuple[str, str]] = frozenset()
"""The empty selector."""


class Wish(NamedTuple):
    """What decides where a gang fits, apart from its number of members; equal for alike gangs."""

    selector: frozenset[tuple[str, str]]
    """Label key and value pairs asked; empty: any node."""
    tolerations: tuple[Toleration, ...] | None
    """Taints tolerated; None: taints are ignored."""
    gpu_model: str | None
    """GPU model asked; None: any."""
    ask: tuple[int, ...]
    """Amount per member, by resource of the cluster."""
    level: int | None
    """Index of the required level; None: no level required."""


def read_wishes(cluster: Cluster) -> list[Wish]:
    """The wish of every pending gang, by rank."""
    level = {name: position for position, name in enumerate(cluster.tree.levels)}
    wishes = []
    for gang, ask in zip(cluster.pending, map(tuple, cluster.asks.tolist()), strict=True):
        selector = frozenset(gang.selector.items()) if gang.selector else _ANY
        required = gang.topology.required
        wishes.append(
            Wish(selector, gang.tolerations, gang.gpu_model, ask, None if required is None else level[required])
        )
    return wishes


def tolerates(tolerations: tuple[Toleration, ...], taint: Taint) -> bool:
    """Whether one of the tolerations matches the taint (rule node_taints)."""
    return any(
        toleration.effect in (None, taint.effect)
        and (toleration.key == taint.key or (not toleration.key and toleration.operator == "Exists"))
        and (toleration.operator == "Exists" or toleration.value == taint.value)
        for toleration in tolerations
    )


class Masks:
    """Which nodes each rule leaves; boolean arrays of shape (nodes,), shared between alike gangs."""

    def __init__(self, cluster: Cluster) -> None:
        self._cluster = cluster
        self._carriers: dict[tuple[str, str], list[int]] | None = None
        """Label → entries that carry it, for labels that a pending gang asks; read when one does."""
        self._models = self._coded([node.gpu_model for node in cluster.entries])
        taints, distinct = coded([node.taints for node in cluster.entries])
        self._taints = tuple(distinct)
        self._taint_id = taints[cluster.entry]
        self.selector = lru_cache(KEPT)(self._selector)
        self.tolerated = lru_cache(KEPT)(self._tolerated)
        self.gpu_model = lru_cache(KEPT)(self._gpu_model)
        self.allowed = lru_cache(KEPT)(self._allowed)

    def _coded(self, values: list[str | None]) -> tuple[Ints, dict[str | None, int]]:
        """A code per node, shape (nodes,), from one value per entry; and value → code."""
        by_entry, codes = coded(values)
        return by_entry[self._cluster.entry], codes

    def _selector(self, selector: frozenset[tuple[str, str]]) -> Bools:
        if not selector:
            return np.ones(len(self._cluster.names), dtype=np.bool_)
        if self._carriers is None:
            self._carriers = self._read_labels()
        entries = set.intersection(*(set(self._carriers[label]) for label in selector))
        mask = np.zeros(len(self._cluster.entries), dtype=np.bool_)
        mask[list(entries)] = True
        return mask[self._cluster.entry]

    def _read_labels(self) -> dict[tuple[str, str], list[int]]:
        asked = {label for gang in self._cluster.pending for label in gang.selector.items()}
        carriers: dict[tuple[str, str], list[int]] = {label: [] for label in asked}
        for position, node in enumerate(self._cluster.entries):
            for label in asked.intersection(node.labels.items()) if node.labels else ():
                carriers[label].append(position)
        return carriers

    def _tolerated(self, tolerations: tuple[Toleration, ...] | None) -> Bools:
        passed = [
            tolerations is None or all(tolerates(tolerations, taint) for taint in taints) for taints in self._taints
        ]
        return np.array(passed, dtype=np.bool_)[self._taint_id]

    def _gpu_model(self, model: str | None) -> Bools:
        by_node, codes = self._models
        if model is None:
            return np.ones(len(by_node), dtype=np.bool_)
        mask: Bools = by_node == codes.get(model, -1)
        return mask

    def _allowed(
        self, selector: frozenset[tuple[str, str]], tolerations: tuple[Toleration, ...] | None, model: str | None
    ) -> Bools:
        mask: Bools = self._cluster.ready & self.selector(selector) & self.tolerated(tolerations)
        mask &= self.gpu_model(model)
        return mask


class Room:
    """A free space, of the snapshot or of what a plan leaves."""

    def __init__(self, cluster: Cluster, masks: Masks, free: Ints) -> None:
        """`free` has shape (resources, nodes)."""
        self._cluster = cluster
        self._masks = masks
        self._kind, nodes = _kinds(np.where(cluster.unlimited, -1, free))
        self._free, self._unlimited = free[:, nodes], cluster.unlimited[:, nodes]
        self._most: dict[Wish, int] = {}
        self.holds = lru_cache(KEPT)(self._holds)

    def _holds(self, ask: tuple[int, ...]) -> Ints:
        """Members that each node holds by its free space, shape (nodes,); `CEILING`: any number."""
        result = np.full(self._free.shape[1], CEILING, dtype=np.int64)
        for resource, amount in enumerate(ask):
            if amount:
                holds = self._free[resource] // amount
                holds[self._unlimited[resource]] = CEILING
                np.minimum(result, holds, out=result)
        return np.maximum(result, 0)[self._kind]

    def held(self, wish: Wish) -> Ints:
        """Members that each node holds under every rule but the required level, shape (nodes,)."""
        allowed = self._masks.allowed(wish.selector, wish.tolerations, wish.gpu_model)
        return self.holds(wish.ask) * allowed

    def most(self, wish: Wish) -> int:
        """Most members that fit: over all nodes, or with a required level in the best known domain."""
        if wish not in self._most:
            self._most[wish] = self.largest(self.held(wish), wish.level)
        return self._most[wish]

    def largest(self, held: Ints, level: int | None) -> int:
        """Sum of `held` (by node), or its largest sum over a known domain of the level."""
        if level is None:
            return int(held.sum())
        partition = self._cluster.tree.partitions[level]
        sums = partition.sums(held)[partition.known]
        return int(sums.max()) if len(sums) else 0


def _kinds(free: Ints) -> tuple[Ints, Ints]:
    """The kind of every node, shape (nodes,), and one node of each kind, shape (kinds,); alike columns are one kind."""
    kind = np.zeros(free.shape[1], dtype=np.int64)
    nodes = np.zeros(1, dtype=np.int64)
    for row in free[(free != free[:, :1]).any(axis=1)]:
        values, code = np.unique(row, return_inverse=True)
        _, nodes, kind = np.unique(kind * len(values) + code, return_index=True, return_inverse=True)
    return kind, nodes
