"""The configuration bound of tier `distance`: what whole spines may hold, exact sums included.

A spine is a vertex one level above the leaves. What lies in it, gangs whole and pieces of split ones, joined to the
leaves where it has members, falls into connected blocks: n items on A leaves that touch n + A − 1 times at least and
fit the leaves' slots together. A *configuration* is such a filling of one spine; a *split* says which pieces of a gang
lie in which spines. The linear program over configurations and splits (Gilmore and Gomory, "A Linear Programming
Approach to the Cutting-Stock Problem", 1961) sees in each spine that sums have to meet, which gang by gang patterns
don't. At prices u ≥ 0 of a gang, α, β ≥ 0 of a slot and of a piece in spine p

    Σ_gangs (u + min(0, cheapest split − u)) − Σ_spines dearest configuration

is a lower bound, evaluated in integers: both are exact recursions. Slots are those of one row of the leaf view; what
else there is it relaxes. See docs/model.md, "The fast path".
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from gangfit.solver.arrays import IntArray
from gangfit.solver.assignment import Assignment
from gangfit.solver.bounds import fewest_domains
from gangfit.solver.engine import Budget
from gangfit.solver.kernels import kernel
from gangfit.solver.leaves import Leaves
from gangfit.solver.master import Column, FloatArray, Master
from gangfit.solver.pricing import FAR, SCALE

ROUNDS = 200
"""Most rounds of column generation."""
CHARGE = 0.005
"""Deterministic seconds per round."""
DEEPER = 4
"""Rounds of column generation after each fixing of a dive."""
SURE = 0.95
"""Configurations used at least so much are fixed together."""
LEAVES = 10
"""Most leaves with room in a spine: 3 to that power are the parts of its leaves."""
CELLS = 8_000_000
"""Most cells of a recursion."""


@dataclass(frozen=True)
class Fill:
    """What lies in one spine."""

    spine: int
    block: IntArray
    """(leaves with room of the spine,): block of each, −1 untouched."""
    items: IntArray
    """(n, 3): block, type (−1 a piece), slots."""


@dataclass(frozen=True)
class Split:
    """One gang over several spines."""

    kind: int
    amount: IntArray
    """(P,): slots per spine."""


class ConfigurationBound:
    """Column generation over one leaf view and one of its rows."""

    def __init__(self, view: Leaves, row: int, counted: tuple[int, int] | None = None) -> None:
        """`counted`: weights of a leaf and of a spine, if domains are to be counted instead of the tier's distance."""
        self.view, self.row = view, row
        tree, named = view.forest, view.problem.tree.named
        weights = view.problem.tree.weights if counted is None else (0,) * (named - 2) + counted[::-1] + (0,)
        self.edge, self.entry = weights[named - 1], weights[named - 2]
        """Weights of a leaf and of a spine."""
        slots = view.slots[row]
        spines = [tree.first[v] + np.flatnonzero(slots[tree.first[v] : tree.last[v]]) for v in tree.spines.tolist()]
        self.leaves: list[IntArray] = [inside for inside in spines if len(inside)]
        """Per spine with room, its leaves with room."""
        self.start: IntArray = np.cumsum([0, *map(len, self.leaves)]).astype(np.int64)
        self.room: IntArray = slots[np.concatenate([np.zeros(0, dtype=np.int64), *self.leaves])]
        self.total: IntArray = np.array([int(slots[inside].sum()) for inside in self.leaves], dtype=np.int64)
        """(P,): slots of each spine."""
        self._gangs(weights)
        if counted is not None:
            self.constant = sum(counted) * (sum(len(kind.gangs) for kind in view.types) - int(self.copies.sum()))
        self._work()
        self._build()
        self.bound = -1
        self.rounds = 0
        self._provable = 0
        """The most that prices of the last master could prove."""

    def _gangs(self, weights: Sequence[int]) -> None:
        """Types by slots taken and whether they may be split; what the spines don't say about a gang is a constant."""
        view, problem = self.view, self.view.problem
        named = problem.tree.named
        kinds: dict[tuple[int, bool], list[int]] = {}
        self.constant = -view.constant
        for kind in view.types:
            cell = view.cells[kind.cell]
            each = int(view.coefficient[self.row, kind.cell])
            split = kind.members > 1 and not 0 <= named - 2 <= cell.required
            levels = list(range(len(weights)))
            if each:
                kinds.setdefault((each * kind.members, split), []).extend(kind.gangs)
                levels = [level for level in levels if level not in (named - 1, named - 2)]
            fewest = fewest_domains(problem, kind.gangs[0])
            self.constant += len(kind.gangs) * sum(weights[level] * fewest[level] for level in levels)
        self.gangs = list(kinds.values())
        """Per type, its gangs."""
        coefficient = view.coefficient[self.row]
        self.each = {j: int(coefficient[kind.cell]) for kind in view.types for j in kind.gangs}
        """Gang → slots that one member takes."""
        self.size: IntArray = np.array([size for size, _ in kinds], dtype=np.int64)
        self.copies: IntArray = np.array([len(gangs) for gangs in self.gangs], dtype=np.int64)
        self.splits = np.array([split for _, split in kinds], dtype=np.bool_)
        self.longest = int(self.size[self.splits].max(initial=1)) - 1

    def _work(self) -> None:
        spines, count = len(self.leaves), int(self.copies.sum())
        wide = int(self.total.max(initial=0)) + 1
        self._best: IntArray = np.zeros((count + 1, wide), dtype=np.int64)
        self._line: IntArray = np.zeros((3, max(wide, count + 1)), dtype=np.int64)
        self._bits: IntArray = np.zeros((3, 1 << max(map(len, self.leaves), default=0)), dtype=np.int64)
        self._worths: IntArray = np.zeros(spines, dtype=np.int64)
        self._block: IntArray = np.zeros(len(self.room), dtype=np.int64)
        self._item: IntArray = np.zeros((spines, wide, 3), dtype=np.int64)
        self._count: IntArray = np.zeros(spines, dtype=np.int64)
        self._table: IntArray = np.zeros((2, spines + 1, 3, self.longest + 2), dtype=np.int64)
        self._cost: IntArray = np.zeros(len(self.size), dtype=np.int64)
        self._amount: IntArray = np.zeros((len(self.size), spines), dtype=np.int64)

    def _build(self) -> None:
        """Rows: gangs of each type, slots and pieces of each spine, one configuration per spine, spines touched."""
        kinds, spines = len(self.size), len(self.leaves)
        self._slots, self._pieces, self._one = kinds, kinds + spines, kinds + 2 * spines
        self._cut = kinds + 3 * spines
        """Row: spines touched."""
        lower = np.concatenate([self.copies, np.zeros(2 * spines), np.full(spines, -1), np.zeros(1)])
        lower = lower.astype(np.float64)
        worst = float(4 * (self.edge + self.entry + 1) * (int(self.size.max(initial=1)) + len(self.leaves)))
        self._master = Master(lower, np.full(len(lower), np.inf), worst)
        self.rows: FloatArray = lower
        """Least value of each row."""
        self._known: set[tuple[int, int, bytes, bytes]] = set()
        self.columns: list[Fill | Split] = []
        self.priced: list[Column] = []
        """As the master has them."""

    def start_from(self, assignment: Assignment) -> None:
        """Offer a plan's configurations and splits."""
        tree = self.view.forest
        spine_of = np.full(tree.leaves, -1, dtype=np.int64)
        place = np.zeros(tree.leaves, dtype=np.int64)
        for p, inside in enumerate(self.leaves):
            spine_of[inside], place[inside] = p, np.arange(len(inside))
        parts: list[list[tuple[int, int, IntArray]]] = [[] for _ in self.leaves]
        columns = []
        for k, gangs in enumerate(self.gangs):
            for j in gangs:
                spread = assignment[j]
                leaf = tree.leaf_of[spread.nodes]
                amount = np.bincount(spine_of[leaf], weights=spread.counts, minlength=len(self.leaves))
                slots = amount.astype(np.int64) * self.each[j]
                for p in np.flatnonzero(slots).tolist():
                    inside = np.unique(place[leaf[spine_of[leaf] == p]])
                    whole = slots[p] == self.size[k]
                    parts[p].append((k if whole else -1, int(slots[p]), inside))
                if np.count_nonzero(slots) > 1:
                    columns += self._split(k, slots)
        for p, items in enumerate(parts):
            block = np.full(len(self.leaves[p]), -1, dtype=np.int64)
            listed = []
            for kind, slots_here, inside in items:
                joined = set(block[inside].tolist()) - {-1}
                new = min(joined, default=int(inside[0]))
                block[inside] = new
                for old in joined:
                    block[block == old] = new
                listed.append((kind, slots_here, int(inside[0])))
            rows = [[int(block[at]), kind, slots_here] for kind, slots_here, at in listed]
            columns += self._fill(p, block, np.array(rows, dtype=np.int64).reshape(-1, 3))
        self._add(columns)

    def _add(self, columns: Sequence[Column]) -> None:
        self.priced += columns
        self._master.add(columns)

    def _fill(self, p: int, block: IntArray, items: IntArray) -> list[Column]:
        items = items[np.lexsort(items.T)]
        key = (p, -1, block.tobytes(), items.tobytes())
        if key in self._known or not len(items):
            return []
        self._known.add(key)
        self.columns.append(Fill(p, block.copy(), items))
        blocks = len(np.unique(items[:, 0]))
        edges = len(items) + int((block >= 0).sum()) - blocks
        pieces = items[items[:, 1] < 0, 2]
        kinds, counts = np.unique(items[items[:, 1] >= 0, 1], return_counts=True)
        rows, values = [*kinds.tolist()], [*counts.tolist()]
        if len(pieces):
            rows += [self._slots + p, self._pieces + p]
            values += [int(pieces.sum()), len(pieces)]
        cost = self.edge * edges + self.entry * len(items)
        rows += [self._one + p, self._cut]
        values += [-1, len(items)]
        return [(float(cost), tuple(rows), tuple(map(float, values)))]

    def _split(self, kind: int, amount: IntArray) -> list[Column]:
        key = (-1, kind, amount.tobytes(), b"")
        if key in self._known:
            return []
        self._known.add(key)
        self.columns.append(Split(kind, amount.copy()))
        at = np.flatnonzero(amount)
        rows = (kind, *(self._slots + at).tolist(), *(self._pieces + at).tolist())
        return [(0.0, rows, (1.0, *(-amount[at]).astype(float).tolist(), *(-1.0 for _ in at)))]

    def require(self, spines: int) -> bool:
        """A lower bound of the spines touched by all gangs, as a row. Returns whether it is news."""
        gangs = sum(len(kind.gangs) for kind in self.view.types)
        if int(self.copies.sum()) < gangs or spines <= max(gangs, self.rows[self._cut]):
            return False
        self.rows[self._cut] = spines
        self._master.raise_lower(self._cut, float(spines))
        return True

    def run(self, stop: int, budget: Budget, until: float = math.inf) -> int:
        """Generate columns until the bound reaches `stop`, prices are optimal, or time or rounds run out."""
        for _ in range(ROUNDS):
            fresh = self._round(budget, until)
            if not fresh or self.bound >= min(stop, self._provable):
                break
        return self.bound

    def _round(self, budget: Budget, until: float) -> bool:
        """Solve the master and price it. Returns whether that gave new columns; they are taken in."""
        if budget.past(until) or budget.remaining <= 0:
            return False
        budget.charge(CHARGE)
        duals = self._master.solve(
            None if budget.policy.deterministic else min(until - time.monotonic(), budget.remaining)
        )
        if duals is None:
            return False
        self.rounds += 1
        total, fresh = self._price(np.clip(np.rint(duals * SCALE), 0, 2**40).astype(np.int64), duals)
        self.bound = max(self.bound, -(-total // SCALE) + self.constant)
        self._provable = math.ceil(self._master.objective - 1e-6) + self.constant
        self._add(fresh)
        return bool(fresh)

    def dive(self, budget: Budget, until: float, idle: threading.Event) -> list[Fill | Split] | None:
        """Columns for a plan: configurations fixed spine by spine, the most used first, and priced anew in between.

        Returns the last choice if it is whole.
        """
        fixed: dict[int, int] = {}
        while len(fixed) < len(self.leaves) and not (idle.is_set() or budget.past(until) or budget.remaining <= 0):
            for _ in range(DEEPER):
                if not self._round(budget, until):
                    break
            used = self._master.values()[len(self.rows) :]
            fills = [
                (-value, i, column.spine)
                for i, (value, column) in enumerate(zip(used.tolist(), self.columns, strict=False))
                if isinstance(column, Fill) and column.spine not in fixed and value > 1e-6
            ]
            if not fills:
                break
            for rank, (value, i, spine) in enumerate(sorted(fills)):
                if spine not in fixed and (rank == 0 or -value > SURE):
                    fixed[spine] = len(self.rows) + i
                    self._master.between(fixed[spine], 1, math.inf)
        used = self._master.values()
        for column in fixed.values():
            self._master.between(column, 0, math.inf)
        times = np.rint(used)
        if (np.abs(used - times) > 1e-6).any() or times[: len(self.rows)].any():
            return None
        chosen = zip(times[len(self.rows) :].astype(np.int64).tolist(), self.columns, strict=False)
        return [column for n, column in chosen for _ in range(n)]

    def evaluate(self, prices: IntArray) -> int:
        """Lower bound (scaled, without the constant) at integer prices of the rows, all ≥ 0."""
        return self._price(prices, None)[0]

    def _price(self, prices: IntArray, duals: FloatArray | None) -> tuple[int, list[Column]]:
        """The Lagrangian bound at integer prices (scaled), and with duals the columns cheaper than the master pays."""
        kinds, spines = len(self.size), len(self.leaves)
        gang = np.ascontiguousarray(prices[:kinds])
        # Configurations touch as often as counted, or more: a discount beyond the weight would reward that.
        discount = min(int(prices[self._cut]), SCALE * self.entry)
        edge, both = SCALE * self.edge, SCALE * (self.edge + self.entry) - discount
        price = np.ascontiguousarray(prices[kinds : self._one].reshape(2, spines).T)
        # A wide knapsack's longest piece may exceed what any spine holds.
        kernel("spine_fill", "spine_split")(
            self.size, self.total, price, self._table[0], self._table[1], self._cost, self._amount
        )
        cost = np.where(self.splits, self._cost, FAR)
        total = sum(int(n) * min(int(u), int(c)) for n, u, c in zip(self.copies, gang, cost, strict=True))
        total += discount * int(self.rows[self._cut])
        price[:, 1] -= both
        kernel("spine_fill")(
            self.size, self.copies, gang - both, price, self.start, self.room, edge, self.longest,
            self._best, self._line, self._bits, self._worths, self._block, self._item, self._count,
        )  # fmt: skip
        total -= int(self._worths.sum())
        columns: list[Column] = []
        if duals is None:
            return total, columns
        slack = SCALE // 1_000_000
        for k in np.flatnonzero((cost < FAR) & (cost < gang - slack)).tolist():
            columns += self._split(k, self._amount[k])
        for p in np.flatnonzero(self._worths > prices[self._one : self._cut] + slack).tolist():
            low, high = self.start[p], self.start[p + 1]
            columns += self._fill(p, self._block[low:high], self._item[p, : self._count[p]])
        return total, columns


def affordable(view: Leaves, row: int) -> bool:
    """Whether there are spines, and the recursions on this row of the leaf view are small enough."""
    tree, slots = view.forest, view.slots[row]
    if not len(tree.spines):
        return False
    sizes = [int(view.coefficient[row, kind.cell]) * kind.members for kind in view.types]
    gangs = sum(len(kind.gangs) for size, kind in zip(sizes, view.types, strict=True) if size)
    roomy = np.add.reduceat(slots > 0, tree.first[tree.spines])
    total = int(np.add.reduceat(slots, tree.first[tree.spines]).max())
    most = min(max(sizes), total)
    if roomy.max() > LEAVES:
        return False
    return max(gangs * total, int((3**roomy).sum()), len(roomy) * max(sizes) * most) < CELLS


def tightest_row(view: Leaves) -> int | None:
    """The affordable row of the leaf view with the least spare room, by share; None if there is none."""
    taken = np.zeros(len(view.slots), dtype=np.int64)
    for kind in view.types:
        taken += view.coefficient[:, kind.cell] * kind.members * len(kind.gangs)
    slots = view.slots.sum(axis=1)
    spare = (slots - taken) / np.maximum(slots, 1)
    rows = [row for row in np.lexsort((slots, spare)).tolist() if affordable(view, row)]
    return rows[0] if rows else None
