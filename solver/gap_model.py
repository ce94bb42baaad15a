"""The gap model: is there a plan of distance at most v? Counts per leaf, cut down to what reduced costs allow.

A gang's pattern whose reduced cost exceeds the gap between v and the pattern bound is in no plan of value v, so its
variables are never made (reduced-cost fixing). What is left goes to CP-SAT with both sides of every gang's Lagrangian
row. Infeasible proves v + 1; a solution is counts per leaf, still to be handed out to nodes. A relaxation like all of
the leaf view: its "no" always holds. See docs/model.md, "The fast path".
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping
from itertools import pairwise

import numpy as np
from ortools.sat.python import cp_model

from gangfit.solver.arrays import IntArray
from gangfit.solver.leaves import GangType, Leaves
from gangfit.solver.pattern_bound import Certificate, PatternBound
from gangfit.solver.pricing import SCALE

Sum = cp_model.LinearExpr.sum
Weighted = cp_model.LinearExpr.weighted_sum

COARSE = 1000
"""Certificate prices are rounded to multiples of this for the model's rows, then certified again."""
LIMIT = 60_000
"""Most (gang, leaf) pairs: beyond, CP-SAT would not get anywhere in time."""


class Reduced:
    """What reduced costs leave of each type at a certificate, for any gap."""

    def __init__(self, bound: PatternBound, certificate: Certificate) -> None:
        price = (certificate.price + COARSE // 2) // COARSE * COARSE
        discount = certificate.discount // COARSE * COARSE
        self.view = bound.view
        self.cuts = tuple(bound.cuts)
        self.certificate = bound.evaluate(price, discount)
        """The certificate at rounded prices."""
        self.best: list[int] = [0] * len(self.view.types)
        """Per type: scaled cost of its cheapest pattern."""
        self.cost: list[IntArray] = [np.zeros(0, dtype=np.int64)] * len(self.view.types)
        """Per type, laid out as its cell's `needed`: scaled reduced cost of z members on a leaf."""
        for c, table in enumerate(bound.tables):
            mine = [k for k, kind in enumerate(self.view.types) if kind.cell == c]
            sizes = np.array([self.view.types[k].members for k in mine], dtype=np.int64)
            best = np.array([int(table.homes(int(size))[1].min()) for size in sizes], dtype=np.int64)
            reduced = table.reduced(sizes, best)
            for i, k in enumerate(mine):
                self.best[k], self.cost[k] = int(best[i]), reduced[i]

    def gap(self, value: int) -> int:
        """Scaled slack of a plan of the given value above the certificate."""
        return (value + self.view.constant) * SCALE - self.certificate.scaled

    def pairs(self, value: int) -> int:
        """(gang, leaf) pairs left at a value."""
        gap, total = self.gap(value), 0
        for k, kind in enumerate(self.view.types):
            cell = self.view.cells[kind.cell]
            leaf = np.repeat(np.arange(len(cell.capacity)), cell.capacity)
            total += len(kind.gangs) * len(np.unique(leaf[self.cost[k] <= gap]))
        return total

    def amounts(self, kind: int, value: int) -> dict[int, IntArray]:
        """Leaf → members that one gang of the type may have there in a plan of the value."""
        cell, gap = self.view.cells[self.view.types[kind].cell], self.gap(value)
        leaf = np.repeat(np.arange(len(cell.capacity)), cell.capacity)
        left = np.flatnonzero(self.cost[kind] <= gap)
        members = left - cell.offset[leaf[left]] + 1
        at, first = np.unique(leaf[left], return_index=True)
        return dict(zip(at.tolist(), np.split(members, first[1:]), strict=True)) if len(at) else {}


class GapModel:
    """Feasibility of one value of the tier."""

    def __init__(self, reduced: Reduced, value: int) -> None:
        self.view = reduced.view
        self.reduced = reduced
        self.value = value
        self.model = cp_model.CpModel()
        self.feasible = True
        """False when a gang has no leaf left, which no row would say."""
        self.counts: dict[tuple[int, int], list[tuple[cp_model.IntVar, int]]] = defaultdict(list)
        """(gang, leaf) → terms of the members there."""
        self.touch: dict[tuple[int, int], list[cp_model.IntVar]] = defaultdict(list)
        """(gang, leaf) → booleans of which one is set where the gang touches the leaf."""
        self.whole: dict[int, list[cp_model.IntVar]] = defaultdict(list)
        """Leaf → booleans "takes all of it"."""
        self._costs: list[cp_model.LinearExpr] = []
        self._touched: list[list[cp_model.LinearExpr]] = [[] for _ in reduced.cuts]
        """Per named level, domains touched by each gang."""
        for k, kind in enumerate(self.view.types):
            self._type(k, kind)
        if self.feasible:
            self._capacity()
            self.model.add(Sum(self._costs) <= value + self.view.constant)
            for touched, least in zip(self._touched, reduced.cuts, strict=True):
                if least:
                    self.model.add(Sum(touched) >= least)

    def _type(self, k: int, kind: GangType) -> None:
        amounts = self.reduced.amounts(k, self.value)
        order = []
        for j in kind.gangs:
            if not amounts:
                self.feasible = False
                return
            for leaf, sizes in amounts.items():
                self._leaf(j, kind, leaf, sizes)
            self._tree(j, k, kind, list(amounts))
            order.append(Sum([(leaf + 1) * c * x for leaf in amounts for x, c in self.counts[j, leaf]]))
        for one, other in pairwise(order):
            self.model.add(one <= other)

    def _leaf(self, j: int, kind: GangType, leaf: int, sizes: IntArray) -> None:
        """Members on one leaf: all that it holds (or the whole gang) as a boolean, part of it as a count."""
        cell = self.view.cells[kind.cell]
        full = min(int(cell.capacity[leaf]), kind.members)
        if full in sizes:
            f = self.model.new_bool_var("")
            self.counts[j, leaf].append((f, full))
            self.touch[j, leaf].append(f)
            takes = self.view.coefficient[:, kind.cell] * full
            if ((takes == self.view.capacity[:, leaf]) & (takes > 0)).any():
                self.whole[leaf].append(f)
        part = sizes[sizes < full].tolist()
        if part:
            z = self.model.new_int_var_from_domain(cp_model.Domain.from_values([0, *part]), "")
            h = self.model.new_bool_var("")
            self.model.add(z <= max(part) * h)
            self.model.add(z >= min(part) * h)
            self.counts[j, leaf].append((z, 1))
            self.touch[j, leaf].append(h)
        if len(self.touch[j, leaf]) > 1:
            self.model.add_at_most_one(self.touch[j, leaf])

    def _tree(self, j: int, k: int, kind: GangType, leaves: list[int]) -> None:
        """Rule 1, touched vertices, rule 7, the gang's cost and its Lagrangian row."""
        tree, cell, named = self.view.forest, self.view.cells[kind.cell], self.view.problem.tree.named
        cost = [cell.weights[named - 1] * t for leaf in leaves for t in self.touch[j, leaf]] if named else []
        fixed = 0
        if cell.required == named:
            fixed = cell.weights[named]
        elif cell.weights[named]:
            more = self._nodes(j, kind, leaves)
            cost += [cell.weights[named] * v for v in more]
            fixed = 0 if more else cell.weights[named] * kind.members
        self.model.add(Sum([c * x for leaf in leaves for x, c in self.counts[j, leaf]]) == kind.members)
        below: dict[int, list[cp_model.LinearExprT]] = {leaf: list(self.touch[j, leaf]) for leaf in leaves}
        if cell.required >= named - 1 >= 0 or (cell.required == named):
            self.model.add_exactly_one([t for leaf in leaves for t in self.touch[j, leaf]])
        touched = [Sum([t for leaf in leaves for t in self.touch[j, leaf]])] if named else []
        for level in range(named - 2, -1, -1):
            inside: dict[int, list[int]] = defaultdict(list)
            for vertex in below:
                inside[int(tree.parent[vertex])].append(vertex)
            if level == named - 2:
                above = self._spine(j, kind, inside)
            else:
                above = {}
                for vertex, children in inside.items():
                    t = self.model.new_bool_var("")
                    for child in children:
                        self.model.add(Sum(below[child]) <= t)
                    above[vertex] = [t]
            if level <= cell.required:
                self.model.add(Sum([t for parts in above.values() for t in parts]) == 1)
            cost += [cell.weights[level] * Sum(parts) for parts in above.values()]
            touched.insert(0, Sum([t for parts in above.values() for t in parts]))
            below = above
        self._costs.append(Sum(cost) + fixed)
        for level, domains in enumerate(touched):
            self._touched[level].append(domains)
        self._lagrangian(j, k, kind, leaves, Sum(cost) + fixed)

    def _nodes(self, j: int, kind: GangType, leaves: list[int]) -> list[cp_model.IntVar]:
        """Nodes touched per leaf, at least: the concave envelope of what 1, 2, … of its nodes hold. Empty: one each."""
        cell = self.view.cells[kind.cell]
        if all(int(cell.roomiest[leaf]) <= 1 for leaf in leaves):
            return []
        result = []
        for leaf in leaves:
            start = int(cell.offset[leaf])
            most = min(int(cell.capacity[leaf]), kind.members)
            needed = cell.needed[start : start + most]
            v = self.model.new_int_var(0, int(needed[-1]), "")
            held = np.concatenate([[0], np.searchsorted(needed, np.arange(1, int(needed[-1]) + 1), side="right")])
            members = Sum([c * x for x, c in self.counts[j, leaf]])
            steps = np.diff(held)
            for i in range(len(steps)):
                # The line through (i, held[i]) and (i + 1, held[i + 1]) lies above, as rooms descend.
                if i == 0 or steps[i] != steps[i - 1]:
                    self.model.add(members <= int(held[i]) + int(steps[i]) * (v - i))
            result.append(v)
        return result

    def _spine(self, j: int, kind: GangType, inside: Mapping[int, list[int]]) -> dict[int, list[cp_model.LinearExprT]]:
        """Per spine: the whole gang is there, or some of it; the gang is whole in exactly one or split."""
        cell = self.view.cells[kind.cell]
        split = self.model.new_bool_var("")
        homes: list[cp_model.IntVar] = []
        touched: dict[int, list[cp_model.LinearExprT]] = {}
        parts = []
        for spine, leaves in inside.items():
            w, b = self.model.new_bool_var(""), self.model.new_bool_var("")
            here = [(x, c) for leaf in leaves for x, c in self.counts[j, leaf]]
            part = self.model.new_int_var(0, max(kind.members - 1, 0), "")
            self.model.add(Sum([c * x for x, c in here]) == kind.members * w + part)
            self.model.add(part <= (kind.members - 1) * b)
            self.model.add(part >= b)
            self.model.add_implication(b, split)
            for leaf in leaves:
                for t in self.touch[j, leaf]:
                    self.model.add_bool_or([t.negated(), w, b])
            homes.append(w)
            parts.append(b)
            touched[spine] = [w, b]
        self.model.add_exactly_one([*homes, split])
        self.model.add(Sum(parts) >= 2 * split)
        if kind.members == 1 or 0 <= self.view.problem.tree.named - 2 <= cell.required:
            self.model.add(split == 0)
        return touched

    def _lagrangian(self, j: int, k: int, kind: GangType, leaves: list[int], cost: cp_model.LinearExpr) -> None:
        """The gang's priced cost lies between its cheapest pattern's and that plus the gap."""
        certificate = self.reduced.certificate
        per_member = self.view.coefficient[:, kind.cell] @ certificate.price
        priced = [int(per_member[leaf]) // COARSE * c * x for leaf in leaves for x, c in self.counts[j, leaf]]
        total = SCALE // COARSE * cost + Sum(priced)
        for touched, discount in zip(self._touched, certificate.discount.tolist(), strict=True):
            total = total - discount // COARSE * touched[-1]
        least = self.reduced.best[k] // COARSE
        self.model.add_linear_constraint(total, least, least + self.reduced.gap(self.value) // COARSE)

    def _capacity(self) -> None:
        view, gap = self.view, self.reduced.gap(self.value)
        cells = {j: kind.cell for kind in view.types for j in kind.gangs}
        on: dict[int, list[int]] = defaultdict(list)
        for j, leaf in self.counts:
            on[leaf].append(j)
        for leaf in range(view.forest.leaves):
            for row in np.flatnonzero(view.capacity[:, leaf] >= 0).tolist():
                room, price = int(view.capacity[row, leaf]), int(self.reduced.certificate.price[row, leaf])
                least = room - gap // price if price else 0
                takers = [j for j in on[leaf] if view.coefficient[row, cells[j]]]
                terms = [int(view.coefficient[row, cells[j]]) * c * x for j in takers for x, c in self.counts[j, leaf]]
                if not terms:
                    if least > 0:
                        self.feasible = False
                    continue
                self.model.add_linear_constraint(Sum(terms), max(least, 0), room)
                if len(takers) > 1 and self.whole[leaf] and len(view.coefficient) == 1:
                    self._exclusive(takers, leaf)

    def _exclusive(self, takers: list[int], leaf: int) -> None:
        """A gang that takes all of a leaf keeps the others out."""
        full = {x.index for x in self.whole[leaf]}
        self.model.add_at_most_one(self.whole[leaf])
        for j in takers:
            mine = {x.index for x in self.touch[j, leaf]}
            others = [f for f in self.whole[leaf] if f.index not in mine]
            for t in self.touch[j, leaf]:
                if t.index not in full:
                    self.model.add_at_most_one([t, *others])

    def solution(self, values: tuple[int, ...]) -> dict[int, dict[int, int]]:
        """Gang → leaf → members."""
        result: dict[int, dict[int, int]] = defaultdict(dict)
        for (j, leaf), terms in self.counts.items():
            members = sum(c * values[x.index] for x, c in terms)
            if members:
                result[j][leaf] = members
        return dict(result)


def reachable(view: Leaves) -> bool:
    """Whether no cell is so large that tables of reduced costs take too long."""
    return all(view.forest.leaves * cell.most**2 < 200_000_000 for cell in view.cells)
