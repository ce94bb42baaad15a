"""The pattern bound: Dantzig–Wolfe decomposition over whole-gang patterns, certified in integers.

Each gang picks one pattern (members per leaf); leaf capacities are the linking rows. At any prices λ ≥ 0 of the rows

    Σ_gangs min over patterns (cost + λ · space taken) − λ · capacity

is a lower bound (Lagrange); column generation looks for good prices (Dantzig and Wolfe, 1960; Lübbecke and Desrosiers,
"Selected Topics in Column Generation", 2005). Floats only steer: prices are rounded to integers and the minimum is an
exact integer min-plus recursion, so the bound stands whatever the linear program did.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

import numpy as np

from gangfit.solver.arrays import IntArray
from gangfit.solver.assignment import Assignment
from gangfit.solver.engine import Budget
from gangfit.solver.leaves import GangType, Leaves
from gangfit.solver.master import Column, FloatArray, Master
from gangfit.solver.pricing import FAR, SCALE, PriceTable

ROUNDS = 80
"""Most rounds of column generation."""
CHARGE = 0.005
"""Deterministic seconds per round."""
WIDE = 256
"""Leaves from which on the master goes on by the primal simplex."""
WIDTH = 4
"""Patterns added per type and round, besides the best."""


@dataclass(frozen=True)
class Certificate:
    """Prices and what they prove."""

    scaled: int
    """Lower bound × SCALE on Σ weight × domains touched."""
    bound: int
    """Lower bound of the tier's value."""
    price: IntArray
    """(rows, leaves): integer price of a slot."""
    discount: IntArray
    """(L,): what each domain of a named level is cheaper by, for the sake of the cuts."""
    rounds: int
    optimal: bool
    """Whether no pattern could improve the master any more."""


@dataclass
class Known:
    """Patterns by (shape, required level, members), to be offered to another bound."""

    patterns: dict[tuple[int, int, int], list[IntArray]] = field(default_factory=dict)

    def key(self, view: Leaves, kind: GangType) -> tuple[int, int, int]:
        """What a type is known by."""
        gang = kind.gangs[0]
        return int(view.problem.shape_of[gang]), int(view.problem.required[gang]), kind.members

    def of(self, view: Leaves) -> Iterator[tuple[int, IntArray]]:
        """(type, members per leaf) of the patterns that fit the leaves of a view."""
        for k, kind in enumerate(view.types):
            for amount in self.patterns.get(self.key(view, kind), []):
                if (amount <= view.cells[kind.cell].capacity).all():
                    yield k, amount


@dataclass
class PatternBound:
    """Column generation over one leaf view."""

    view: Leaves
    cuts: list[int] = field(init=False)
    """(L,): valid lower bounds on Σ over gangs of domains touched, per named level; 0 for none."""
    tables: list[PriceTable] = field(init=False)
    best: Certificate | None = None
    rounds: int = 0

    def __post_init__(self) -> None:
        self.cuts = [0] * self.view.problem.tree.named
        self.tables = [PriceTable(self.view, cell) for cell in self.view.cells]
        groups = int(self.view.group.max()) + 1 if len(self.view.group) else 0
        rows, count = self.view.capacity.shape[0], len(self.view.types)
        binds = np.zeros((rows, groups), dtype=np.int64)
        upper = np.zeros((rows, groups), dtype=np.int64)
        for row in range(rows):
            np.maximum.at(binds[row], self.view.group, (self.view.capacity[row] >= 0).astype(np.int64))
            np.add.at(upper[row], self.view.group, np.maximum(self.view.capacity[row], 0))
        # A leaf whose own row can't bind may share a group with one whose row can, if a hash clashed: then keep both.
        self._row = np.where(binds > 0, np.cumsum(binds.ravel()).reshape(binds.shape) - 1 + count, -1)
        self._upper = upper
        self._size = count + int(binds.sum())
        lower = np.full(self._size + len(self.cuts), -np.inf)
        limit = np.full(self._size + len(self.cuts), np.inf)
        lower[:count] = [len(kind.gangs) for kind in self.view.types]
        limit[self._row[self._row >= 0]] = upper[self._row >= 0]
        weights = max((sum(cell.weights) for cell in self.view.cells), default=1)
        longest = max((kind.members for kind in self.view.types), default=1)
        # New columns leave the basis primal feasible: on many rows the primal simplex takes a third of the time.
        wide = self.view.forest.leaves >= WIDE
        self._master = Master(lower, limit, float(4 * max(weights, 1) * longest), wide)
        self._known: set[tuple[int, bytes]] = set()
        self.generated: list[tuple[int, IntArray]] = []
        """Type and members per leaf of each column after the artificial ones."""

    def require(self, level: int, domains: int) -> bool:
        """A lower bound on the domains touched of a named level, as a row of the master. Returns whether it is news."""
        if domains <= max(self.cuts[level], sum(len(kind.gangs) for kind in self.view.types)):
            return False
        self.cuts[level] = domains
        self._master.raise_lower(self._size + level, float(domains))
        return True

    def start(self, assignment: Assignment) -> None:
        """Offer a plan's spreads as patterns."""
        columns = []
        count = self.view.forest.leaves
        for k, kind in enumerate(self.view.types):
            for j in kind.gangs:
                spread = assignment[j]
                leaf = self.view.forest.leaf_of[spread.nodes]
                amount = np.bincount(leaf, weights=spread.counts, minlength=count).astype(np.int64)
                columns += self._column(k, amount)
        self._master.add(columns)

    def offer(self, known: Known) -> None:
        """Offer patterns that another bound has generated, as far as they fit the leaves."""
        columns = []
        for k, amount in known.of(self.view):
            columns += self._column(k, amount)
        self._master.add(columns)

    def known(self) -> Known:
        """The patterns generated so far."""
        result = Known()
        for k, amount in self.generated:
            result.patterns.setdefault(result.key(self.view, self.view.types[k]), []).append(amount)
        return result

    def _column(self, kind: int, amount: IntArray) -> list[Column]:
        key = (kind, amount.tobytes())
        if key in self._known:
            return []
        self._known.add(key)
        self.generated.append((kind, amount))
        cell = self.view.types[kind].cell
        at = np.flatnonzero(amount)
        space = np.zeros(self._upper.shape, dtype=np.int64)
        np.add.at(space.T, self.view.group[at], np.outer(amount[at], self.view.coefficient[:, cell]))
        uses = (space > 0) & (self._row >= 0)
        rows, values = self._row[uses].tolist(), space[uses].tolist()
        touched = [len(np.unique(vertex[at])) for vertex in self.view.forest.above]
        cuts = range(self._size, self._size + len(touched))
        cost = self.tables[cell].cost(amount)
        return [(float(cost), (kind, *rows, *cuts), (1.0, *map(float, values), *map(float, touched)))]

    def run(self, stop: int, budget: Budget, until: float = math.inf, rounds: int = ROUNDS) -> Certificate | None:
        """Generate columns until the bound reaches `stop`, prices are optimal, or time or rounds run out."""
        for _ in range(rounds):
            if budget.past(until):
                break
            left = None if budget.policy.deterministic else min(until - time.monotonic(), budget.remaining)
            budget.charge(CHARGE)
            duals = self._master.solve(left)
            if duals is None:
                break
            self.rounds += 1
            price, discount = self.integer(duals)
            fresh = self.certify(price, discount, duals)
            assert self.best is not None
            if self.best.bound >= stop or not fresh:
                break
            self._master.add(fresh)
        return self.best

    def patterns(self) -> list[tuple[float, int, IntArray]]:
        """(value, type, members per leaf) of the patterns that the last master used, most used first."""
        count = len(self.generated)
        if not count:
            return []
        # Columns added after the last solve have no value yet.
        values = self._master.values()[-count:]
        used = [(float(v), k, amount) for v, (k, amount) in zip(values, self.generated, strict=True) if v > 1e-6]
        return sorted(used, key=lambda item: -item[0])

    def integer(self, duals: FloatArray) -> tuple[IntArray, IntArray]:
        """Integer prices of the (row, leaf) pairs and of the cuts from the master's duals."""
        scaled = np.zeros(self._upper.shape, dtype=np.int64)
        uses = self._row >= 0
        scaled[uses] = np.clip(np.rint(-duals[self._row[uses]] * SCALE), 0, 2**40).astype(np.int64)
        price = np.where(self.view.capacity >= 0, scaled[:, self.view.group], 0)
        discount = np.clip(np.rint(duals[self._size :] * SCALE), 0, 2**40).astype(np.int64)
        discount[np.array(self.cuts, dtype=np.int64) == 0] = 0
        return price, discount

    def certify(self, price: IntArray, discount: IntArray, duals: FloatArray | None = None) -> list[Column]:
        """Evaluate integer prices; keeps the certificate if it is the best so far. Returns improving columns."""
        total, columns = self._lagrange(price, discount, duals)
        if self.best is None or total > self.best.scaled:
            self.best = self._certificate(total, price, discount, not columns)
        elif not columns:
            self.best = replace(self.best, rounds=self.rounds, optimal=True)
        return columns

    def evaluate(self, price: IntArray, discount: IntArray) -> Certificate:
        """The certificate of given integer prices; the tables are left filled at them."""
        total, _ = self._lagrange(price, discount, None)
        return self._certificate(total, price, discount, False)

    def _certificate(self, total: int, price: IntArray, discount: IntArray, optimal: bool) -> Certificate:
        bound = max(-(-total // SCALE) - self.view.constant, 0)
        return Certificate(total, bound, price, discount, self.rounds, optimal)

    def _lagrange(self, price: IntArray, discount: IntArray, duals: FloatArray | None) -> tuple[int, list[Column]]:
        """The Lagrangian bound (scaled), and with duals the patterns cheaper than the master pays."""
        total = sum(n * int(d) for n, d in zip(self.cuts, discount, strict=True)) - sum(
            int(p) * int(c) for p, c in zip(price.ravel(), self.view.capacity.ravel(), strict=True) if p
        )
        per_cell = self.view.coefficient.T @ price
        columns: list[Column] = []
        for c, table in enumerate(self.tables):
            table.fill(np.ascontiguousarray(per_cell[c]), discount)
            for k, kind in enumerate(self.view.types):
                if kind.cell != c:
                    continue
                homes, cost = table.homes(kind.members)
                total += len(kind.gangs) * int(cost.min())
                if duals is not None:
                    columns += self._improving(k, table, homes, cost, float(duals[k]) * SCALE)
        return total, columns

    def _improving(self, kind: int, table: PriceTable, homes: IntArray, cost: IntArray, dual: float) -> list[Column]:
        """Patterns cheaper than the master pays: the best, and the best inside each of the cheapest spines."""
        tree = self.view.forest
        members, required = self.view.types[kind].members, table.cell.required
        columns: list[Column] = []
        limit = dual - 1e-7 * SCALE - 2 * members
        if required == self.view.problem.tree.named:
            for at in np.argsort(cost, kind="stable")[:WIDTH].tolist():
                if cost[at] < min(limit, FAR):
                    amount = np.zeros(tree.leaves, dtype=np.int64)
                    amount[homes[at]] = members
                    columns += self._column(kind, amount)
            return columns
        for at in np.argsort(cost, kind="stable")[: WIDTH if required >= 0 else 1].tolist():
            if cost[at] < min(limit, FAR):
                columns += self._column(kind, table.spread(int(homes[at]), members))
        spines = tree.spines
        level = int(tree.level[spines[0]]) if len(spines) else -1
        if level >= 0 and required <= level:
            inside = table.inside(spines, members) + table.before(level)
            for at in np.argsort(inside, kind="stable")[:WIDTH].tolist():
                if inside[at] < min(limit, FAR):
                    columns += self._column(kind, table.spread(int(spines[at]), members))
        return columns
