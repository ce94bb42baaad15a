"""The round seen from its leaves: what a finest named domain holds, whatever its nodes look like one by one.

A relaxation that is valid always (counts per leaf instead of per node), and exact where sizes divide each other and one
resource binds. The pattern bound, the reduced costs and the gap model stand on it. See docs/model.md, "The fast path".
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

import numpy as np

from gangfit.solver.arrays import BoolArray, IntArray
from gangfit.solver.problem import Problem
from gangfit.solver.space import members_per_node

ROWS = 32
"""Most row kinds among which dominated ones are looked for."""


@dataclass(frozen=True)
class Forest:
    """The named levels as one tree of vertices: leaves first, then level by level up, the whole cluster last."""

    level: IntArray
    """(V,): level of the vertex; −1 the whole cluster, max(L − 1, 0) the leaves (without named levels the one leaf)."""
    first: IntArray
    """(V,): first child, −1 for leaves. Children are contiguous."""
    last: IntArray
    """(V,): one past the last child."""
    parent: IntArray
    """(V,): −1 for the whole cluster."""
    leaf_of: IntArray
    """(N,): leaf of each node."""
    offset: IntArray
    """(L,): vertex of domain 0 of each named level."""

    @cached_property
    def leaves(self) -> int:
        """Number of leaves; they are the vertices 0 … leaves − 1."""
        return int(np.argmax(self.first >= 0))

    @cached_property
    def above(self) -> IntArray:
        """(L, leaves): the vertex of each named level that a leaf lies in, itself at the last."""
        vertex = np.arange(self.leaves)
        rows = []
        for _ in self.offset:
            rows.append(vertex)
            vertex = self.parent[vertex]
        return np.array(rows[::-1], dtype=np.int64).reshape(len(self.offset), self.leaves)

    @cached_property
    def spines(self) -> IntArray:
        """Vertices one level above the leaves; empty where that is the whole cluster."""
        above = np.unique(self.parent[: self.leaves])
        return above[self.level[above] >= 0]


def forest(problem: Problem) -> Forest:
    """The tree of a problem."""
    tree = problem.tree
    if not tree.named:
        ones = np.zeros(len(problem.node_names), dtype=np.int64)
        arrays = [np.array(a, dtype=np.int64) for a in ([0, -1], [-1, 0], [-1, 1], [1, -1], [])]
        return Forest(arrays[0], arrays[1], arrays[2], arrays[3], ones, arrays[4])
    counts = [tree.domains(level) for level in range(tree.named)]
    offset = np.zeros(tree.named, dtype=np.int64)
    for level in range(tree.named - 2, -1, -1):
        offset[level] = offset[level + 1] + counts[level + 1]
    size = sum(counts) + 1
    level_of, first, last = (np.full(size, -1, dtype=np.int64) for _ in range(3))
    parent = np.full(size, -1, dtype=np.int64)
    for level, count in enumerate(counts):
        level_of[offset[level] : offset[level] + count] = level
        if level + 1 < tree.named:
            heads = tree.domain[level + 1][tree.starts[level][:-1]] + offset[level + 1]
            first[offset[level] : offset[level] + count] = heads
            last[offset[level] : offset[level] + count] = np.append(heads[1:], offset[level + 1] + counts[level + 1])
    first[-1], last[-1] = offset[0], offset[0] + counts[0]
    for vertex in np.flatnonzero(first >= 0):
        parent[first[vertex] : last[vertex]] = vertex
    return Forest(level_of, first, last, parent, tree.domain[tree.named - 1], offset)


@dataclass(frozen=True)
class Cell:
    """Gangs that one price table serves: equal shape and required level (and preferred level, where it matters)."""

    gang: int
    """One of them."""
    required: int
    """Level index, −1 for none."""
    preferred: int
    """Level index, −1 for none or where the tier doesn't care."""
    weights: tuple[int, ...]
    """(L + 1,): what each further domain touched costs, per level."""
    most: int
    """Members of the largest gang."""
    capacity: IntArray
    """(leaves,): members that each leaf holds when it holds nothing else, at most `most`."""
    offset: IntArray
    """(leaves,): where the leaf's part of `needed` starts."""
    needed: IntArray
    """Ragged, per leaf for z = 1 … capacity: fewest of its nodes that hold z members."""
    roomiest: IntArray
    """(leaves,): members that its roomiest node holds."""


@dataclass(frozen=True)
class GangType:
    """Gangs that no rule tells apart: equal cell and size."""

    cell: int
    members: int
    gangs: tuple[int, ...]


@dataclass(frozen=True)
class Leaves:
    """Cells, types and capacity rows of one tier's objective over chosen gangs."""

    problem: Problem
    forest: Forest
    cells: tuple[Cell, ...]
    types: tuple[GangType, ...]
    coefficient: IntArray
    """(rows, cells): slots of size s that one member takes."""
    capacity: IntArray
    """(rows, leaves): slots of size s in each leaf; −1 where the row can't bind or another one implies it."""
    slots: IntArray
    """(rows, leaves): slots of size s in each leaf, marks left out."""
    row_slots: IntArray
    """(rows, N): slots of size s on each node."""
    group: IntArray
    """(leaves,): leaves of one parent that look alike share a number; their rows may be summed."""

    @property
    def constant(self) -> int:
        """What the objective leaves out of Σ weight × domains touched: the first domain of each level."""
        return sum(len(t.gangs) * sum(self.cells[t.cell].weights) for t in self.types)


def leaves(problem: Problem, gangs: Sequence[int], tier: str) -> Leaves:
    """The leaf view for tier `preferred`, `distance` or `uplinks`. Gangs without a part in it still take space."""
    tree = forest(problem)
    keys: dict[tuple[int, int, int, tuple[int, ...]], list[int]] = {}
    for j in gangs:
        weights = problem.tree.weights
        if tier == "preferred":
            weights = tuple(int(level == problem.preferred[j]) for level in range(len(weights)))
        preferred = -1 if tier == "distance" else int(problem.preferred[j])
        keys.setdefault((int(problem.shape_of[j]), int(problem.required[j]), preferred, weights), []).append(j)
    rooms = {}
    cells = []
    types: dict[tuple[int, int], list[int]] = {}
    for c, ((shape, required, preferred, weights), group) in enumerate(keys.items()):
        if shape not in rooms:
            rooms[shape] = members_per_node(problem, problem.free, group[0])
        cells.append(_cell(problem, tree, rooms[shape], group, (required, preferred), weights))
        for j in group:
            types.setdefault((c, int(problem.members[j])), []).append(j)
    kinds = tuple(GangType(c, members, tuple(group)) for (c, members), group in types.items())
    rows = _rows(problem, tree, cells, kinds)
    return Leaves(problem, tree, tuple(cells), kinds, *rows, _alike(problem, tree, cells))


def _cell(
    problem: Problem, tree: Forest, room: IntArray, gangs: list[int], levels: tuple[int, int], weights: tuple[int, ...]
) -> Cell:
    required, preferred = levels
    most = int(problem.members[gangs].max())
    room = np.minimum(room, most)
    if required >= 0:
        room = np.where(problem.tree.known[required], room, 0)
    count = tree.leaves
    held = np.bincount(tree.leaf_of, weights=room, minlength=count).astype(np.int64)
    capacity = np.minimum(held, most)
    offset = np.concatenate([[0], np.cumsum(capacity)[:-1]]).astype(np.int64)
    useful = np.flatnonzero(room)
    order = useful[np.lexsort((-room[useful], tree.leaf_of[useful]))]
    leaf = tree.leaf_of[order]
    rank = np.arange(len(order)) - np.searchsorted(leaf, leaf)
    which = np.repeat(leaf, room[order])
    place = np.arange(len(which)) - np.searchsorted(which, which)
    needed = np.repeat(rank + 1, room[order])[place < capacity[which]]
    roomiest = np.zeros(count, dtype=np.int64)
    np.maximum.at(roomiest, tree.leaf_of, room)
    return Cell(gangs[0], required, preferred, weights, most, capacity, offset, needed.astype(np.int64), roomiest)


def _rows(
    problem: Problem, tree: Forest, cells: list[Cell], types: tuple[GangType, ...]
) -> tuple[IntArray, IntArray, IntArray, IntArray]:
    """Per set of nodes E that some gang is limited to, resource and request size s: Σ ⌊q/s⌋·z ≤ Σ ⌊free/s⌋ over E."""
    asks = problem.request[[cell.gang for cell in cells]]
    allowed: BoolArray = np.stack([problem.eligible[problem.eligible_of[cell.gang]].allowed for cell in cells])
    sets: BoolArray = np.unique(np.vstack([allowed, np.logical_or.reduce(allowed)]), axis=0)
    coefficient, capacity, nodal = [], [], []
    for nodes in sets:
        inside: BoolArray = (allowed <= nodes).all(axis=1)
        for r in np.flatnonzero((asks * inside[:, None]).any(axis=0)):
            sizes = asks[inside, r][asks[inside, r] > 0]
            for size in np.unique(np.append(sizes, np.gcd.reduce(sizes))):
                coefficient.append(np.where(inside, asks[:, r] // size, 0))
                slots = np.where(nodes, problem.free[:, r] // size, 0)
                nodal.append(slots)
                capacity.append(np.bincount(tree.leaf_of, weights=slots, minlength=tree.leaves).astype(np.int64))
    rows, slots = np.array(coefficient, dtype=np.int64), np.array(capacity, dtype=np.int64)
    room = slots.copy()
    demand = np.zeros((len(cells), tree.leaves), dtype=np.int64)
    for kind in types:
        demand[kind.cell] += len(kind.gangs) * np.minimum(cells[kind.cell].capacity, kind.members)
    room[rows @ demand <= room] = -1
    _drop_implied(rows, room)
    useful = (room >= 0).any(axis=1)
    per_node = np.array(nodal, dtype=np.int64)[useful]
    return np.ascontiguousarray(rows[useful]), np.ascontiguousarray(room[useful]), slots[useful], per_node


def _drop_implied(rows: IntArray, room: IntArray) -> None:
    """Mark with −1 each row of a leaf that another row of the same leaf implies: a/cap(a) ≤ b/cap(b) for all cells."""
    if len(rows) > ROWS:
        return
    for a in range(len(rows)):
        for b in range(len(rows)):
            if a == b or not (room[a] >= 0).any():
                continue
            left, right = np.outer(rows[a], room[b]), np.outer(rows[b], room[a])
            implied = (left <= right).all(axis=0) & (room[b] >= 0)
            if b > a:
                # Of two equal rows the later one goes.
                implied &= (left < right).any(axis=0)
            room[a][implied] = -1


def _alike(problem: Problem, tree: Forest, cells: list[Cell]) -> IntArray:
    """(leaves,): group of each leaf. A clash of hashes would merge unlike rows: weaker, still valid."""
    rng = np.random.default_rng(7)
    asked = np.flatnonzero(problem.request[[cell.gang for cell in cells]].any(axis=0))
    facts = [problem.free[:, asked], *(problem.eligible[problem.eligible_of[c.gang]].allowed[:, None] for c in cells)]
    facts.append(problem.tree.known.T)
    table = np.concatenate([np.asarray(f, dtype=np.uint64) for f in facts], axis=1)
    odd = rng.integers(1, 2**62, size=table.shape[1], dtype=np.uint64) * np.uint64(2) + np.uint64(1)
    mixed = (table * odd).sum(axis=1, dtype=np.uint64)
    mixed ^= mixed >> np.uint64(29)
    mixed *= np.uint64(0xBF58476D1CE4E5B9)
    mixed ^= mixed >> np.uint64(32)
    total = np.zeros(tree.leaves, dtype=np.uint64)
    np.add.at(total, tree.leaf_of, mixed)
    keys = np.column_stack([tree.parent[: tree.leaves].astype(np.uint64), total])
    _, inverse = np.unique(keys, axis=0, return_inverse=True)
    return inverse.ravel().astype(np.int64)
