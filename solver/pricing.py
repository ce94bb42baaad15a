"""Price tables: what a gang of any size costs at given prices of space, exactly, in integers."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gangfit.solver.arrays import IntArray
from gangfit.solver.kernels import kernel
from gangfit.solver.leaves import Cell, Leaves

SCALE = 5_040_000
"""Integer price units per unit of the tier: a multiple of small fractions, fine enough that rounding costs nothing."""
FAR = 1 << 60
"""No such spread."""


RATE = 5e8
"""Additions of the min-plus recursion per second, at least."""
SHARE = 0.1
"""Most of the remaining time that one filling of the tables may take."""


def quick(tables: Sequence[PriceTable], seconds: float) -> bool:
    """Whether one filling of the tables takes little of so many seconds."""
    return sum(int((table.capacity * table.width).sum()) for table in tables) <= RATE * SHARE * seconds


class PriceTable:
    """Cheapest spreads of one cell's gangs over the tree, for every size at once."""

    def __init__(self, view: Leaves, cell: Cell) -> None:
        tree = view.forest
        self.view = view
        self.cell = cell
        self.capacity: IntArray = np.zeros(len(tree.level), dtype=np.int64)
        """(V,): members a vertex holds, at most `most`."""
        self.capacity[: tree.leaves] = cell.capacity
        self.width: IntArray = np.zeros(len(tree.level), dtype=np.int64)
        """(V,): members that the children of a vertex's parent up to and with it hold, at most `most`."""
        for vertex in range(tree.leaves, len(tree.level)):
            inside = slice(int(tree.first[vertex]), int(tree.last[vertex]))
            self.width[inside] = np.minimum(np.cumsum(self.capacity[inside]), cell.most)
            self.capacity[vertex] = min(int(self.capacity[inside].sum()), cell.most)
        self.offset: IntArray = np.concatenate([[0], np.cumsum(self.width + 1)[:-1]]).astype(np.int64)
        self.table: IntArray = np.zeros(int((self.width + 1).sum()), dtype=np.int64)
        self.entry: IntArray = np.zeros(len(tree.level), dtype=np.int64)
        """(V,): scaled cost of touching a vertex."""
        named = view.problem.tree.named
        for level in range(named):
            self.entry[tree.level == level] = SCALE * cell.weights[level]
        self.node = SCALE * cell.weights[named]
        self.price: IntArray = np.zeros(tree.leaves, dtype=np.int64)
        self.discount: IntArray = np.zeros(named, dtype=np.int64)
        """(L,): scaled amount that each domain of a named level is cheaper by."""

    def fill(self, price: IntArray, discount: IntArray) -> None:
        """Price every spread at `price` (leaves,) per member, domains of each level cheaper by `discount` (L,)."""
        self.price, tree = price, self.view.forest
        for level in np.flatnonzero(self.discount != discount):
            self.entry[tree.level == level] += self.discount[level] - discount[level]
        self.discount = discount
        kernel("min_plus")(*self._tree(), self.entry, *self._ragged(), self.table)

    def fill_at(self, price: IntArray, weights: Sequence[int], extra: IntArray) -> None:
        """Price every spread at scaled `weights` per level (node last) and `extra` (V,) per vertex touched."""
        tree, self.price, self.node = self.view.forest, price, weights[-1]
        named = self.view.problem.tree.named
        per_level = np.array([*weights[:named], 0], dtype=np.int64)
        # Level −1, the whole cluster, is the last place; without named levels the one leaf isn't a domain either.
        self.entry = np.ascontiguousarray(per_level[np.where(tree.level < named, tree.level, -1)] + extra)
        kernel("min_plus")(*self._tree(), self.entry, *self._ragged(), self.table)

    def below(self, members: int, weights: Sequence[int]) -> IntArray:
        """(V,): scaled cost of a whole gang inside each vertex; what lies on or above it pays `weights` alone."""
        tree, cell, named = self.view.forest, self.cell, self.view.problem.tree.named
        vertices = np.arange(len(tree.level))
        cost = self.inside(vertices, members)
        if cell.required == named:
            cost = np.where(vertices < tree.leaves, FAR, cost)
            home = cell.roomiest >= members
            cost[: tree.leaves] = np.where(home, self.price * members + weights[-1] + self.entry[: tree.leaves], FAR)
        allowed = tree.level >= min(cell.required, named - 1)
        above = np.append(np.cumsum(weights[:named]), 0)
        total = cost - self.entry + above[np.where(tree.level < named, tree.level, -1)]
        result: IntArray = np.where(allowed & (cost < FAR), total, FAR)
        return result

    def _tree(self) -> tuple[IntArray, IntArray, IntArray]:
        return self.view.forest.first, self.view.forest.last, self.capacity

    def _ragged(self) -> tuple[IntArray, IntArray, IntArray, IntArray, int, IntArray]:
        return self.offset, self.width, self.cell.needed, self.cell.offset, self.node, self.price

    def homes(self, members: int) -> tuple[IntArray, IntArray]:
        """Vertices that a gang may fill as a whole, and its cost there (FAR where it doesn't fit)."""
        tree, cell, named = self.view.forest, self.cell, self.view.problem.tree.named
        if cell.required < 0:
            root = len(tree.level) - 1
            return np.array([root]), self.inside(np.array([root]), members)
        if cell.required == named:
            home = np.arange(tree.leaves)
            cost = self.before(named + 1) + self.price * members
            return home, np.where(cell.roomiest >= members, cost, FAR)
        home = np.flatnonzero(tree.level == cell.required)
        return home, np.minimum(self.inside(home, members) + self.before(cell.required), FAR)

    def before(self, level: int) -> int:
        """Scaled cost of one domain of each level before `level`."""
        return SCALE * sum(self.cell.weights[:level]) - int(self.discount[:level].sum())

    def inside(self, vertices: IntArray, members: int) -> IntArray:
        """Cost of a whole gang inside each vertex, the vertex's entry paid, those above not."""
        tree = self.view.forest
        cost = np.full(len(vertices), FAR, dtype=np.int64)
        holds = self.capacity[vertices] >= members
        leaf = holds & (tree.first[vertices] < 0)
        at = vertices[leaf]
        needed = self.cell.needed[self.cell.offset[at] + members - 1]
        cost[leaf] = self.entry[at] + self.node * needed + self.price[at] * members
        at = vertices[holds & ~leaf]
        cost[holds & ~leaf] = self.entry[at] + self.table[self.offset[tree.last[at] - 1] + members]
        return cost

    def spread(self, vertex: int, members: int) -> IntArray:
        """(leaves,): members per leaf of one cheapest spread inside a vertex."""
        amount = np.zeros(len(self.capacity), dtype=np.int64)
        kernel("min_plus", "trace")(vertex, members, *self._tree(), self.entry, *self._ragged(), self.table, amount)
        return amount[: self.view.forest.leaves]

    def cost(self, amount: IntArray) -> int:
        """Unscaled cost of a spread given per leaf, Σ weight × domains touched, nodes by the cell's own rooms."""
        if self.cell.required == self.view.problem.tree.named:
            return sum(self.cell.weights)
        tree = self.view.forest
        at = np.flatnonzero(amount)
        needed = self.cell.needed[self.cell.offset[at] + amount[at] - 1]
        total = self.cell.weights[-1] * int(needed.sum())
        if self.view.problem.tree.named:
            for level in range(self.view.problem.tree.named - 1, -1, -1):
                total += self.cell.weights[level] * len(at)
                at = np.unique(tree.parent[at])
        return total

    def reduced(self, sizes: IntArray, best: IntArray) -> IntArray:
        """(sizes, Σ capacity): reduced cost of z members on a leaf, laid out as `cell.needed`, for each gang size."""
        tree, cell, named = self.view.forest, self.cell, self.view.problem.tree.named
        result = np.full((len(sizes), len(cell.needed)), FAR, dtype=np.int64)
        if cell.required == named:
            for leaf in range(tree.leaves):
                for s, size in enumerate(sizes.tolist()):
                    if cell.roomiest[leaf] >= size:
                        cost = self.before(named + 1) + int(self.price[leaf]) * size
                        result[s, cell.offset[leaf] + size - 1] = cost - best[s]
            return result
        above = np.zeros(len(tree.level), dtype=np.int64)
        for vertex in range(len(above) - 2, -1, -1):
            parent = tree.parent[vertex]
            above[vertex] = above[parent] + self.entry[parent]
        closed = ((tree.level == cell.required) & (cell.required >= 0)).astype(np.int64)
        inner = np.zeros((len(above) - tree.leaves, cell.most + 1), dtype=np.int64)
        rest = np.zeros((2, cell.most + 1), dtype=np.int64)
        kernel("outside")(
            *self._tree(), self.entry, *self._ragged(), self.table, above, closed, inner, rest, sizes, best, result
        )
        return result
