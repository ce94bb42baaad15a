"""The pattern bound of tiers `uplinks` and `intact.*`, preferred and distance held at their values.

As `pattern_bound`, with three more kinds of linking rows: Σ distance ≤ its value, Σ preferred ≤ its value, and per
domain d of a named level: gangs that cross d, running ones included, − 1 ≤ e_d, where Σ e_d is the tier. A pattern
crosses each domain it touches of a level where it touches several: of every level below its lowest common vertex. So
with prices μ_d on crossings its cheapest cost is the least over vertices v of: the spread below v with μ, the entries
of v and above without. With prices λ, θ, φ ≥ 0 and 0 ≤ μ ≤ 1 of the rows, and c_d running gangs crossing d,

    Σ_gangs min(…) − λ·capacity − θ·distance − φ·preferred + Σ_d [(1 − μ_d)·max(c_d − 1, 0) + μ_d·(c_d − 1)]

is a lower bound of the uplinks, evaluated in integers. For `intact.*` a domain's intact nodes give space only as far as
it is lost: capacity B + I·o with 0 ≤ o ≤ 1 (the node tier: I the most an intact node of the leaf holds, o up to their
number), which adds Σ_d min(0, 1 − λ·I) where the uplinks have their sum over domains.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, field

import numpy as np

from gangfit.solver.arrays import IntArray
from gangfit.solver.assignment import Assignment
from gangfit.solver.engine import Budget
from gangfit.solver.leaves import Leaves, leaves
from gangfit.solver.master import Column, FloatArray, Master
from gangfit.solver.pattern_bound import Known
from gangfit.solver.pricing import FAR, SCALE, PriceTable
from gangfit.solver.problem import Problem

UPLINKS = 2
"""Place of the tier among those after admission; the intact tiers follow."""
ROUNDS = 60
"""Most rounds of column generation."""
CHARGE = 0.005
"""Deterministic seconds per round."""
WIDTH = 6
"""Patterns added per type and round."""


@dataclass
class HeldBound:
    """Column generation for one plan's admitted set and earlier values."""

    problem: Problem
    assignment: Assignment
    values: tuple[int, ...]
    """Values of the held tiers: preferred, distance."""
    tier: int = UPLINKS
    """Place among the tiers after admission."""
    known: Known = field(default_factory=Known)
    """Patterns to start from."""
    bound: int = 0
    rounds: int = 0
    view: Leaves = field(init=False)

    def __post_init__(self) -> None:
        self.view = view = leaves(self.problem, sorted(self.assignment), "uplinks")
        self.tables = [PriceTable(view, cell) for cell in view.cells]
        tree, named = view.forest, self.problem.tree.named
        self.running: IntArray = np.zeros(len(tree.level), dtype=np.int64)
        """(V,): running gangs that cross each vertex."""
        for level in range(named):
            domains = self.problem.tree.domains(level)
            self.running[tree.offset[level] : tree.offset[level] + domains] = self.problem.crossing[level]
        self.floor: IntArray = np.maximum(self.running - 1, 0)
        self._open()
        types, self._vertices = len(view.types), len(tree.level) - 1
        pairs = np.argwhere(self.capacity >= 0)
        self._row: IntArray = np.full(self.capacity.shape, -1, dtype=np.int64)
        self._row[pairs[:, 0], pairs[:, 1]] = types + np.arange(len(pairs))
        self._held = types + len(pairs)
        """Rows of the held tiers: preferred, distance; then one row per vertex."""
        crossings = self._vertices if self.tier == UPLINKS else 0
        lower = np.full(self._held + 2 + crossings, -np.inf)
        upper = np.full(self._held + 2 + crossings, np.inf)
        lower[:types] = [len(kind.gangs) for kind in view.types]
        upper[types : self._held] = self.capacity[pairs[:, 0], pairs[:, 1]]
        self.limits = self._limits()
        upper[self._held : self._held + 2] = self.limits
        upper[self._held + 2 :] = 1 - self.running[:crossings]
        self._master = Master(lower, upper, float(10 * (named + 1) * max(c.most for c in view.cells)))
        excess: list[Column] = [(1.0, (self._held + 2 + v,), (-1.0,)) for v in range(crossings)]
        self._master.add(excess, self.floor[:crossings])
        self._master.add(self._losses(), most=self.losses)
        self._known: set[tuple[int, bytes]] = set()

    def _open(self) -> None:
        """Space that needs no loss, space behind each possible loss, and how often each may be lost."""
        view, named, level = self.view, self.problem.tree.named, self.tier - UPLINKS - 1
        leaf = np.arange(view.forest.leaves)
        self.capacity: IntArray = view.capacity.copy()
        """(rows, leaves): slots that cost nothing; −1 for no row."""
        self.behind: IntArray = np.zeros_like(self.capacity)
        """(rows, leaves): slots that one loss of the leaf's loss opens."""
        self.loss_of: IntArray = np.zeros(view.forest.leaves, dtype=np.int64)
        """(leaves,): which loss opens the leaf."""
        self.losses: IntArray = np.zeros(0, dtype=np.int64)
        """(losses,): most that each can be lost."""
        if level < 0:
            return
        tree = self.problem.tree
        kept = self.problem.intact & self.problem.intact_domains[level][tree.domain[level]]
        for row, slots in enumerate(view.row_slots):
            hidden = np.where(kept, slots, 0)
            inside = np.bincount(view.forest.leaf_of, weights=hidden, minlength=len(leaf)).astype(np.int64)
            if level == named:
                np.maximum.at(self.behind[row], view.forest.leaf_of, hidden)
            else:
                self.behind[row] = inside
            self.capacity[row] = np.where(inside > 0, view.slots[row] - inside, self.capacity[row])
        held = np.bincount(view.forest.leaf_of, weights=kept, minlength=len(leaf)).astype(np.int64)
        if level == named:
            self.loss_of, self.losses = leaf, held
            return
        first = tree.starts[named - 1][:-1]
        self.loss_of = tree.domain[level][first]
        self.losses = (np.bincount(self.loss_of, weights=held) > 0).astype(np.int64)

    def _losses(self) -> list[Column]:
        columns: list[Column] = []
        rows: list[list[int]] = [[] for _ in self.losses]
        values: list[list[float]] = [[] for _ in self.losses]
        for row, leaf in np.argwhere(self.behind > 0).tolist():
            rows[self.loss_of[leaf]].append(int(self._row[row, leaf]))
            values[self.loss_of[leaf]].append(-float(self.behind[row, leaf]))
        for at, value in zip(rows, values, strict=True):
            columns.append((1.0, tuple(at), tuple(value)))
        return columns

    def _limits(self) -> tuple[int, int]:
        """Held values plus the first domain of each level that they leave out."""
        gangs = sorted(self.assignment)
        weighted = int((self.problem.preferred[gangs] >= 0).sum())
        return self.values[0] + weighted, self.values[1] + len(gangs) * sum(self.problem.tree.weights)

    def run(self, stop: int, budget: Budget, until: float = math.inf) -> int:
        """Generate columns until the bound reaches `stop`, prices are optimal, or time or rounds run out."""
        self._start()
        for _ in range(ROUNDS):
            if budget.past(until) or budget.remaining <= 0:
                break
            budget.charge(CHARGE)
            left = None if budget.policy.deterministic else min(until - time.monotonic(), budget.remaining)
            duals = self._master.solve(left)
            if duals is None:
                break
            self.rounds += 1
            total, fresh = self._lagrange(duals)
            self.bound = max(self.bound, -(-total // SCALE))
            # The master's own value is the best that its prices can prove.
            if self.bound >= min(stop, math.ceil(self._master.objective - 1e-6)) or not fresh:
                break
            self._master.add(fresh)
        return self.bound

    def _start(self) -> None:
        columns = []
        for k, amount in self.known.of(self.view):
            columns += self._column(k, amount)
        count = self.view.forest.leaves
        for k, kind in enumerate(self.view.types):
            for j in kind.gangs:
                spread = self.assignment[j]
                leaf = self.view.forest.leaf_of[spread.nodes]
                columns += self._column(k, np.bincount(leaf, weights=spread.counts, minlength=count).astype(np.int64))
        self._master.add(columns)

    def _column(self, kind: int, amount: IntArray) -> list[Column]:
        key = (kind, amount.tobytes())
        if key in self._known:
            return []
        self._known.add(key)
        cell, tree, named = self.view.cells[self.view.types[kind].cell], self.view.forest, self.problem.tree.named
        at = np.flatnonzero(amount)
        rows, values = [kind], [1]
        space = np.outer(self.view.coefficient[:, self.view.types[kind].cell], amount[at])
        uses = (space > 0) & (self._row[:, at] >= 0)
        rows += self._row[:, at][uses].tolist()
        values += space[uses].tolist()
        nodes = 1 if cell.required == named else int(cell.needed[cell.offset[at] + amount[at] - 1].sum())
        held = np.array([cell.preferred == named, self.problem.tree.weights[named]], dtype=np.int64) * nodes
        for level in range(named - 1, -1, -1):
            held += np.array([cell.preferred == level, self.problem.tree.weights[level]], dtype=np.int64) * len(at)
            if len(at) > 1 and self.tier == UPLINKS:
                rows += (self._held + 2 + at).tolist()
                values += [1] * len(at)
            at = np.unique(tree.parent[at])
        rows += [self._held, self._held + 1]
        values += held.tolist()
        return [(0.0, tuple(rows), tuple(map(float, values)))]

    def _lagrange(self, duals: FloatArray) -> tuple[int, list[Column]]:
        """The Lagrangian bound at rounded duals (scaled), and the patterns cheaper than the master pays."""
        view = self.view
        rounded = np.clip(np.rint(-duals * SCALE), 0, 2**40).astype(np.int64)
        price = np.where(self._row >= 0, rounded[self._row], 0)
        preferred, distance = rounded[self._held : self._held + 2].tolist()
        crossing = np.zeros(len(self.running), dtype=np.int64)
        if self.tier == UPLINKS:
            crossing[:-1] = np.minimum(rounded[self._held + 2 :], SCALE)
        total = -preferred * self.limits[0] - distance * self.limits[1]
        total -= sum(int(p) * int(c) for p, c in zip(price.ravel(), self.capacity.ravel(), strict=True) if p)
        if self.tier == UPLINKS:
            total += int(((SCALE - crossing) * self.floor + crossing * (self.running - 1))[:-1].sum())
        else:
            opened = [0] * len(self.losses)
            for row, leaf in np.argwhere((price > 0) & (self.behind > 0)).tolist():
                opened[self.loss_of[leaf]] += int(price[row, leaf]) * int(self.behind[row, leaf])
            total += sum(int(n) * min(0, SCALE - worth) for n, worth in zip(self.losses, opened, strict=True))
        per_cell = view.coefficient.T @ price
        columns: list[Column] = []
        for c, table in enumerate(self.tables):
            weights = [
                distance * w + preferred * (level == table.cell.preferred)
                for level, w in enumerate(self.problem.tree.weights)
            ]
            table.fill_at(np.ascontiguousarray(per_cell[c]), weights, crossing)
            for k, kind in enumerate(view.types):
                if kind.cell != c:
                    continue
                cost = table.below(kind.members, weights)
                total += len(kind.gangs) * int(cost.min())
                limit = float(duals[k]) * SCALE - 1e-7 * SCALE - 2 * kind.members
                for vertex in np.argsort(cost, kind="stable")[:WIDTH].tolist():
                    if cost[vertex] < min(limit, FAR):
                        amount = table.spread(vertex, kind.members)
                        columns += self._column(k, amount)
        return total, columns
