"""The topology tree as arrays: which domain every node belongs to at every level."""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from gangfit.models import NODE_LEVEL, Snapshot

Ints = npt.NDArray[np.int64]
Bools = npt.NDArray[np.bool_]
T = TypeVar("T", bound=Hashable)


@dataclass(frozen=True, eq=False)
class Partition:
    """The domains of one level; ids are dense, 0 … domains − 1."""

    domain: Ints
    """Domain id by node, shape (nodes,)."""
    known: Bools
    """Whether a domain is known, by domain id, shape (domains,)."""
    order: Ints
    """Node indices sorted by domain, shape (nodes,)."""
    starts: Ints
    """Where each domain starts in `order`, shape (domains,)."""

    def sums(self, values: Ints) -> Ints:
        """Exact sum of `values` (by node) per domain, shape (domains,)."""
        return np.add.reduceat(values[self.order], self.starts)

    def count(self, nodes: Bools) -> Ints:
        """How many of the marked nodes each domain holds, shape (domains,)."""
        return np.bincount(self.domain[nodes], minlength=len(self.known))


@dataclass(frozen=True)
class Tree:
    """All levels, coarse → fine, the node last."""

    levels: tuple[str, ...]
    """Level names, `node` last; length L + 1."""
    weights: tuple[int, ...]
    """Weight per level, length L + 1."""
    partitions: tuple[Partition, ...]
    """Domains per level, length L + 1."""


def read_tree(snapshot: Snapshot, entry: Ints) -> Tree:
    """The tree of a snapshot; `entry` maps every single node to its entry in `snapshot.nodes`."""
    paths, distinct = coded([node.path for node in snapshot.nodes])
    path_of_node = paths[entry]
    named = [level.name for level in snapshot.topology.levels]
    partitions = [_partition(codes[path_of_node]) for codes in _prefix_codes(list(distinct), len(named))]
    partitions.append(_partition(np.arange(len(entry), dtype=np.int64)))
    return Tree((*named, NODE_LEVEL), tuple(snapshot.topology.weights()), tuple(partitions))


def coded(values: list[T]) -> tuple[Ints, dict[T, int]]:
    """A code per value, equal for equal values, in the order of first appearance; and value → code."""
    codes = {value: code for code, value in enumerate(dict.fromkeys(values))}
    return np.array([*map(codes.__getitem__, values)], dtype=np.int64), codes


def _prefix_codes(paths: Sequence[tuple[str | None, ...]], levels: int) -> Iterator[Ints]:
    """Per level a code per distinct prefix down to it, -1 for a prefix with a null entry; shape (paths,)."""
    prefix = np.zeros(len(paths), dtype=np.int64)
    known = np.ones(len(paths), dtype=np.bool_)
    for level in range(levels):
        part, parts = coded([path[level] for path in paths])
        known &= part != parts.get(None, -1)
        _, first, code = np.unique((prefix * len(parts) + part)[known], return_index=True, return_inverse=True)
        prefix = np.full(len(paths), -1, dtype=np.int64)
        prefix[known] = np.argsort(np.argsort(first))[code]
        yield prefix


def _partition(codes: Ints) -> Partition:
    """Domains from a code per node; every node with code -1 becomes an unknown domain of its own."""
    unknown = codes < 0
    domains = int(codes.max()) + 1
    singles = int(np.count_nonzero(unknown))
    domain = codes.copy()
    domain[unknown] = domains + np.arange(singles)
    known = np.arange(domains + singles) < domains
    order = np.argsort(domain, kind="stable")
    starts = np.searchsorted(domain[order], np.arange(domains + singles))
    return Partition(domain, known, order, starts.astype(np.int64))
