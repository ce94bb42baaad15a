"""The merged model: counts per node class instead of booleans per node. See docs/model.md, "The two formulations"."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Sequence

import numpy as np
from ortools.sat.python import cp_model

from gangfit.solver.assignment import Assignment, Spread
from gangfit.solver.classes import NodeClass, node_classes
from gangfit.solver.engine import Budget
from gangfit.solver.packing import pack
from gangfit.solver.problem import Problem

Sum = cp_model.LinearExpr.sum


class Merged:
    """Variables and rows of rules 1–7 for gangs that all have to start, over node classes.

    With `spread=False` nodes touched and intact nodes are left out: the model of the admission question.
    """

    def __init__(self, problem: Problem, gangs: Sequence[int], classes: list[NodeClass], spread: bool) -> None:
        self.problem = problem
        self.gangs = tuple(gangs)
        self.classes = classes
        self.spread = spread
        self.model = cp_model.CpModel()
        self.feasible = True
        """False when a gang has no room at all, which no row would say."""
        self.members: dict[tuple[int, int], cp_model.IntVar] = {}
        """z[k, j]: members of gang j on class k."""
        self.nodes: dict[tuple[int, int], cp_model.IntVar] = {}
        """v[k, j]: nodes of class k that gang j touches (the members themselves where a node holds one)."""
        self.opened: dict[int, cp_model.IntVar] = {}
        """b[k]: nodes of an intact class k that host any member."""
        self.touched: dict[tuple[int, int, int], cp_model.IntVar] = {}
        """t[l, d, j]: gang j touches domain d of named level l."""
        self.domain_of = [[int(row[group.nodes[0]]) for row in problem.tree.domain] for group in classes]
        self.split: dict[tuple[int, int], cp_model.IntVar] = {}
        """s[l, j]: gang j touches more than one domain of named level l."""
        self.cross: dict[tuple[int, int, int], cp_model.IntVar] = {}
        self.excess: dict[tuple[int, int], cp_model.IntVar] = {}
        self.lost: dict[tuple[int, int], cp_model.IntVar] = {}
        self._members()
        self.whole_gang()
        self.node_capacity()
        self._touches()
        self.required_level()

    def _members(self) -> None:
        for k, group in enumerate(self.classes):
            if self.spread and group.intact:
                self.opened[k] = self.model.new_int_var(0, group.size, "")
            for j, room in group.room.items():
                size = int(self.problem.members[j])
                self.members[k, j] = z = self.model.new_int_var(0, min(size, group.size * room), "")
                if not self.spread:
                    continue
                if room == 1:
                    self.nodes[k, j] = v = z
                else:
                    self.nodes[k, j] = v = self.model.new_int_var(0, min(size, group.size), "")
                    self.model.add(z <= room * v)
                    self.model.add(v <= z)
                if k in self.opened:
                    self.model.add(v <= self.opened[k])

    def _of(self, j: int) -> list[tuple[int, cp_model.IntVar]]:
        return [(k, self.members[k, j]) for k, group in enumerate(self.classes) if j in group.room]

    def whole_gang(self) -> None:
        """Rule 1: every gang of the model starts with all its members."""
        for j in self.gangs:
            total = [z for _, z in self._of(j)]
            if not total:
                self.feasible = False
                return
            self.model.add(Sum(total) == int(self.problem.members[j]))

    def node_capacity(self) -> None:
        """Rule 2 over a class: slots of every request size s, Σ ⌊q/s⌋·z ≤ ⌊free/s⌋ · nodes opened, per resource."""
        for k, group in enumerate(self.classes):
            gangs = list(group.room)
            for r in np.flatnonzero(self.problem.request[gangs].any(axis=0)):
                asks = self.problem.request[gangs, r]
                free = int(group.free[r])
                for size in {int(a) for a in asks if a} | {1}:
                    rows = [(int(a) // size, j) for a, j in zip(asks, gangs, strict=True) if a >= size]
                    most = sum(c * min(int(self.problem.members[j]), group.size * group.room[j]) for c, j in rows)
                    limit = free // size
                    opened = self.opened.get(k)
                    if most <= limit * (group.size if opened is None else 1):
                        continue
                    taken = cp_model.LinearExpr.weighted_sum(
                        [self.members[k, j] for _, j in rows], [c for c, _ in rows]
                    )
                    self.model.add(taken <= (limit * group.size if opened is None else limit * opened))

    def _touches(self) -> None:
        """Touched booleans of the levels that something asks for."""
        tree = self.problem.tree
        for j in self.gangs:
            required = int(self.problem.required[j])
            levels = range(tree.named) if self.spread else range(required, required + 1)
            size = int(self.problem.members[j])
            for level in levels:
                if level < 0 or level >= tree.named:
                    continue
                inside: dict[int, list[int]] = defaultdict(list)
                for k, _ in self._of(j):
                    inside[self.domain_of[k][level]].append(k)
                for d, cells in inside.items():
                    self.touched[level, d, j] = t = self.model.new_bool_var("")
                    members = Sum([self.members[k, j] for k in cells])
                    most = sum(self.classes[k].size * self.classes[k].room[j] for k in cells)
                    self.model.add(members <= min(most, size) * t)
                    self.model.add(t <= members)
                    parent = self.touched.get((level - 1, self.domain_of[cells[0]][level - 1], j))
                    if parent is not None:
                        self.model.add_implication(t, parent)

    def required_level(self) -> None:
        """Rule 7: one domain of the required level (nodes of unknown domains are in no class of the gang)."""
        for j in self.gangs:
            level = int(self.problem.required[j])
            if level < 0:
                continue
            if level < self.problem.tree.named:
                self._exactly_one(j, self._touched(level, j))
            else:
                self._one_node(j)

    def _one_node(self, j: int) -> None:
        size = int(self.problem.members[j])
        homes = []
        for k, z in self._of(j):
            home = self.model.new_bool_var("")
            self.model.add(z == size * home)
            homes.append(home)
            if self.classes[k].room[j] < size:
                self.model.add(home == 0)
            elif self.spread and self.classes[k].room[j] > 1:
                self.model.add(self.nodes[k, j] == home)
        self._exactly_one(j, homes)

    def _exactly_one(self, j: int, homes: Iterable[cp_model.IntVar]) -> None:
        """A gang with a required level sits in one of its domains."""
        self.model.add_exactly_one(homes)

    def _touched(self, level: int, j: int) -> list[cp_model.IntVar]:
        domains = {self.domain_of[k][level] for k, _ in self._of(j)}
        return [self.touched[level, d, j] for d in sorted(domains)]

    def _extra(self, level: int, j: int) -> cp_model.LinearExpr:
        """Domains touched − 1."""
        if level < self.problem.tree.named:
            return Sum(self._touched(level, j)) - 1
        return Sum([self.nodes[k, j] for k, _ in self._of(j)]) - 1

    def preferred_level(self) -> cp_model.LinearExpr:
        """Tier 3."""
        level = self.problem.preferred
        return Sum([self._extra(int(level[j]), j) for j in self.gangs if level[j] >= 0])

    def tree_distance(self) -> cp_model.LinearExpr:
        """Tier 4."""
        weights = self.problem.tree.weights
        return Sum([weight * self._extra(level, j) for level, weight in enumerate(weights) for j in self.gangs])

    def shared_uplinks(self) -> cp_model.LinearExpr:
        """Tier 5. A gang crosses the boundary of each domain it touches if it touches more than one of the level."""
        for level in range(self.problem.tree.named):
            crossing: dict[int, list[cp_model.IntVar]] = defaultdict(list)
            for j in self.gangs:
                domains = sorted({self.domain_of[k][level] for k, _ in self._of(j)})
                if len(domains) < 2:
                    continue
                self.split[level, j] = split = self.model.new_bool_var("")
                touched = self._touched(level, j)
                self.model.add(Sum(touched) - 1 <= (min(len(domains), int(self.problem.members[j])) - 1) * split)
                for d, t in zip(domains, touched, strict=True):
                    self.cross[level, d, j] = cross = self.model.new_bool_var("")
                    self.model.add_bool_or([t.negated(), split.negated(), cross])
                    crossing[d].append(cross)
            for d, base in enumerate(self.problem.crossing[level].tolist()):
                most = max(base + len(crossing[d]) - 1, 0)
                if not most:
                    continue
                self.excess[level, d] = excess = self.model.new_int_var(0, most, "")
                self.model.add(excess >= Sum(crossing[d]) + self._base_crossing(level, d) - 1)
        return Sum(list(self.excess.values()))

    def intact_domains(self, level: int) -> cp_model.LinearExpr:
        """Tier 6 of one level."""
        if level == self.problem.tree.named:
            return Sum(list(self.opened.values()))
        for k, opened in self.opened.items():
            d = self.domain_of[k][level]
            if self.problem.intact_domains[level][d]:
                if (level, d) not in self.lost:
                    self.lost[level, d] = self.model.new_bool_var("")
                self.model.add(opened <= self.classes[k].size * self.lost[level, d])
        return Sum([lost for (at, _), lost in self.lost.items() if at == level])

    def objective(self, tier: int) -> cp_model.LinearExpr:
        """Objective of a tier by its place among the tiers after admission."""
        if tier < 3:
            return (self.preferred_level, self.tree_distance, self.shared_uplinks)[tier]()
        return self.intact_domains(tier - 3)

    def hint(self, assignment: Assignment) -> None:
        """Give a known assignment of all gangs as the start of search, every variable included."""
        self.model.clear_hints()  # type: ignore[no-untyped-call]  # untyped in ortools 9.15
        tree = self.problem.tree
        counts = np.zeros(len(self.problem.node_names), dtype=np.int64)
        hosts: dict[int, set[int]] = {k: set() for k in self.opened}
        touched: set[tuple[int, int, int]] = set()
        extra: dict[tuple[int, int], int] = {}
        for j in self.gangs:
            spread = assignment[j]
            counts[spread.nodes] = spread.counts
            for k, z in self._of(j):
                here = counts[self.classes[k].nodes]
                self.model.add_hint(z, int(here.sum()))
                if self.spread and self.classes[k].room[j] > 1:
                    self.model.add_hint(self.nodes[k, j], int((here > 0).sum()))
                if k in hosts:
                    hosts[k].update(np.flatnonzero(here).tolist())
            counts[spread.nodes] = 0
            for level in range(tree.named):
                domains = np.unique(tree.domain[level][spread.nodes]).tolist()
                touched.update((level, d, j) for d in domains)
                extra[level, j] = len(domains)
        for key, t in self.touched.items():
            self.model.add_hint(t, key in touched)
        for k, opened in self.opened.items():
            self.model.add_hint(opened, len(hosts[k]))
        for split_key, split in self.split.items():
            self.model.add_hint(split, extra[split_key] > 1)
        crossing: dict[tuple[int, int], int] = defaultdict(int)
        for (level, d, j), cross in self.cross.items():
            value = (level, d, j) in touched and extra[level, j] > 1
            crossing[level, d] += value
            self.model.add_hint(cross, value)
        for (level, d), excess in self.excess.items():
            base = int(self.problem.crossing[level][d])
            self.model.add_hint(excess, max(base + crossing[level, d] - 1, 0))
        for (level, d), lost in self.lost.items():
            gone = any(hosts[k] and self.domain_of[k][level] == d for k in self.opened)
            self.model.add_hint(lost, gone)

    def gone(self, values: Sequence[int]) -> frozenset[int]:
        """Running gangs that leave their places in a solution."""
        return frozenset()

    def _group(self, k: int, gone: frozenset[int]) -> NodeClass:
        """The class as its counts are handed out."""
        return self.classes[k]

    def _base_crossing(self, level: int, d: int) -> cp_model.LinearExpr:
        """Running gangs that cross a domain's boundary."""
        return Sum([int(self.problem.crossing[level][d])])

    def _most_nodes(self, j: int, members: int) -> int:
        """Nodes that so many members of a gang may take where nodes touched are no variables."""
        return min(members, 1) if self.problem.required[j] == self.problem.tree.named else members

    def decode(self, values: Sequence[int], budget: Budget) -> tuple[Assignment | None, list[NodeClass]]:
        """Counts → nodes. Returns the assignment, or None and the classes whose counts can't be handed out."""
        placed: dict[int, dict[int, int]] = {j: {} for j in self.gangs}
        failed: list[NodeClass] = []
        gone = self.gone(values)
        for k, group in enumerate(self.classes):
            members = {j: values[self.members[k, j].index] for j in group.room}
            if not any(members.values()):
                continue
            most = {
                j: values[self.nodes[k, j].index] if self.spread else self._most_nodes(j, members[j])
                for j in group.room
            }
            opened = values[self.opened[k].index] if k in self.opened else group.size
            packed = pack(self.problem, self._group(k, gone), members, most, opened, budget)
            if packed is None:
                failed.append(group)
                continue
            for node, gangs in zip(group.nodes.tolist(), packed, strict=True):
                for j, count in gangs.items():
                    placed[j][node] = count
        if failed:
            return None, failed
        return {j: Spread.of(counts) for j, counts in placed.items()}, []


def merged(problem: Problem, gangs: Sequence[int], single: set[int], spread: bool) -> Merged:
    """The merged model with the nodes in `single` kept apart."""
    return Merged(problem, gangs, node_classes(problem, gangs, single), spread)
