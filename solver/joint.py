"""The merged model with victims: one joint choice of placements and of who gives way. Rules 8–11."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import replace

import numpy as np
from ortools.sat.python import cp_model

from gangfit.solver.arrays import IntArray
from gangfit.solver.assignment import Assignment
from gangfit.solver.classes import NodeClass, grouping, node_classes
from gangfit.solver.lending import Ground, Lending, Surplus, ground
from gangfit.solver.merged import Merged, Sum
from gangfit.solver.problem import UNLIMITED, Problem
from gangfit.solver.rights import Right, started
from gangfit.solver.tenants import UNBOUNDED

Above = tuple[tuple[int, Surplus], ...]
"""Tenants of a victim up to below the common ancestor, and what they hold beyond their quotas."""
Option = tuple[Above, list[int], list[cp_model.IntVar]]
"""What has to hold above, the rights (by position), and literals that say one of them is within quota."""


def candidates(rights: Sequence[Right], count: int) -> list[int]:
    """Victims that any of the rights reaches."""
    reach = np.zeros(count, dtype=np.bool_)
    for each in rights:
        reach |= each.any
    return np.flatnonzero(reach).tolist()


class Joint(Merged):
    """Merged model whose capacity rows grow with the victims that leave.

    `rights` are those of the preemptors among `gangs`, which come in considered order. `lawful=False` leaves rule 10
    out: the question whether everything fits when some of the victims in `only` stay (rule 11).
    """

    def __init__(
        self,
        problem: Problem,
        gangs: Sequence[int],
        rights: Sequence[Right],
        single: Collection[int],
        spread: bool,
        only: Collection[int] | None = None,
        lawful: bool = True,
    ) -> None:
        self.rights = list(rights)
        self.victims = candidates(rights, len(problem.victims.gangs)) if only is None else sorted(only)
        self._holders = _holders(problem, self.victims)
        self.most = problem.without(self.victims).free
        """(N, R): free if every victim left."""
        marks, levels = _marks(problem, self._holders), self._levels(problem, gangs)
        classes = node_classes(problem, gangs, single, free=self.most, marks=marks, levels=levels)
        self.evicted: dict[int, cp_model.IntVar] = {}
        """e[v]: the running gang gives way."""
        self.reclaimed: dict[tuple[int, int], cp_model.IntVar] = {}
        """c[v, i]: it is reclaimed under the i-th right, or under one on the same grounds."""
        self.starts = started(problem, gangs)
        """(T, R): what the gangs of the model take, per tenant and all above."""
        self.chains = {v: problem.tenants.chain(int(problem.victims.tenant[v])) for v in self.victims}
        self._back: dict[tuple[int, int], cp_model.IntVar] = {}
        self._holds: dict[tuple[int, int], cp_model.IntVar] = {}
        self._grounds_of: dict[int, dict[Ground, list[int]]] = {}
        self._options_of: dict[int, list[Option]] = {}
        super().__init__(problem, gangs, classes, spread)
        self.tenant_limit()
        if lawful:
            self.victim_right()

    def _levels(self, problem: Problem, gangs: Sequence[int]) -> int | None:
        """As in `node_classes`."""
        return None

    def _members(self) -> None:
        for v in self.victims:
            self.evicted[v] = self.model.new_bool_var("")
        super()._members()

    def members_on(self, node: int) -> tuple[tuple[int, int], ...]:
        """(victim, its members) on a node."""
        return self._holders.get(node, ())

    def held(self, k: int, r: int) -> list[tuple[int, int]]:
        """(victim, amount of a resource that it holds on each node of a class)."""
        request = self.problem.victims.request
        held = [(v, count * int(request[v, r])) for v, count in self._holders.get(int(self.classes[k].nodes[0]), ())]
        return [(v, amount) for v, amount in held if amount]

    def node_capacity(self) -> None:
        """Rule 2 over a class: slots of every request size, those that victims free counted when they leave."""
        for k, group in enumerate(self.classes):
            gangs = list(group.room)
            for r in np.flatnonzero(self.problem.request[gangs].any(axis=0)):
                asks = self.problem.request[gangs, r]
                free = int(self.problem.free[group.nodes[0], r])
                held = self.held(k, int(r))
                for size in {int(a) for a in asks if a} | {1}:
                    rows = [(int(a) // size, j) for a, j in zip(asks, gangs, strict=True) if a >= size]
                    most = sum(c * min(int(self.problem.members[j]), group.size * group.room[j]) for c, j in rows)
                    limit = free // size
                    opened = self.opened.get(k)
                    if most <= limit * (group.size if opened is None else 1):
                        continue
                    slots = [c for c, _ in rows]
                    taken = cp_model.LinearExpr.weighted_sum([self.members[k, j] for _, j in rows], slots)
                    if opened is not None:
                        self.model.add(taken <= limit * opened)
                        continue
                    # ⌊(free + freed − debt) / size⌋ ≤ ⌊free / size⌋ + Σ ⌈freed / size⌉ − ⌊debt / size⌋
                    more = Sum([-(-amount // size) * group.size * self.leaves(v) for v, amount in held])
                    debt = int(self.problem.debt[group.nodes[0], r]) // size * group.size
                    if debt:
                        hosts = self.model.new_bool_var("")
                        self.model.add(taken <= most * hosts)
                        more -= debt * hosts
                    self.model.add(taken <= limit * group.size + more)

    def tenant_limit(self) -> None:
        """Rule 8: a tenant with a limit of which something starts stays within it."""
        tenants = self.problem.tenants
        for t, r in zip(*np.nonzero((tenants.limit < UNBOUNDED) & (self.starts > 0)), strict=True):
            row = self.back(int(t), int(r)) >= int(tenants.use[t, r] + self.starts[t, r] - tenants.limit[t, r])
            self.model.add(row)

    def back(self, tenant: int, r: int) -> cp_model.LinearExprT:
        """What victims of a tenant and all below it give back of a resource: one variable per tenant and resource."""
        if (tenant, r) not in self._back:
            total = self.problem.victims.total[:, r]
            held = [(int(total[v]), e) for v, e in self.evicted.items() if total[v] and tenant in self.chains[v]]
            most = sum(amount for amount, _ in held)
            self._back[tenant, r] = back = self.model.new_int_var(0, most, "")
            self.model.add(cp_model.LinearExpr.weighted_sum([e for _, e in held], [a for a, _ in held]) == back)
        return self._back[tenant, r]

    def victim_right(self) -> None:
        """Rule 10: every victim is an own one of some preemptor, or reclaimed under one right."""
        own = np.zeros(len(self.problem.victims.gangs), dtype=np.bool_)
        for right in self.rights:
            own |= right.own
        lending = Lending(self)
        for v, e in self.evicted.items():
            claims: list[cp_model.IntVar] = []
            options = self._options(v)
            same = len(options) == 1 and not own[v]
            for above, numbers, within in options:
                claim = e if same else self.model.new_bool_var("")
                claims.append(claim)
                for i in numbers:
                    self.reclaimed[v, i] = claim
                if not same:
                    self.model.add_implication(claim, e)
                for literal in within:
                    self.model.add_implication(claim, literal)
                for t, surplus in above:
                    lending.require(v, claim, t, surplus)
            if not own[v] and not same:
                self.model.add_bool_or([e.negated(), *claims])
        lending.close()

    def _options(self, v: int) -> list[Option]:
        """How a victim may be reclaimed; its tenant decides. Rights over as much, but the last, are one option."""
        owner = int(self.problem.victims.tenant[v])
        if owner not in self._options_of:
            last = len(self.rights) - 1
            alike: dict[tuple[Above, bool], list[tuple[Ground, list[int]]]] = {}
            for each, numbers in self._grounds(v).items():
                alike.setdefault((each.above, last in numbers), []).append((each, numbers))
            result = []
            for (above, _), group in alike.items():
                within: list[cp_model.IntVar] = []
                if len(group) == 1 and not group[0][0].entitled:
                    within = self._within(owner, group[0][1][0])
                elif len(group) > 1:
                    # None of them is entitled whoever leaves, or it would be the only one.
                    ways = [self._all(self._within(owner, numbers[0])) for _, numbers in group]
                    within = [self.model.new_bool_var("")]
                    self.model.add_bool_or([within[0].negated(), *ways])
                result.append((above, [i for _, numbers in group for i in numbers], within))
            self._options_of[owner] = result
        return self._options_of[owner]

    def _all(self, literals: list[cp_model.IntVar]) -> cp_model.IntVar:
        """A literal that implies all of these."""
        if len(literals) == 1:
            return literals[0]
        both = self.model.new_bool_var("")
        for literal in literals:
            self.model.add_implication(both, literal)
        return both

    def _grounds(self, v: int) -> dict[Ground, list[int]]:
        """On what grounds a victim may be reclaimed, and by which rights (positions); its tenant decides."""
        owner = int(self.problem.victims.tenant[v])
        if owner not in self._grounds_of:
            found: dict[Ground, list[int]] = {}
            for i, right in enumerate(self.rights):
                if right.reclaim[v]:
                    found.setdefault(ground(self.problem, right, i, owner), []).append(i)
            last = len(self.rights) - 1
            surely = {g.above for g in found if g.entitled}
            kept = {g: n for g, n in found.items() if g.entitled or g.above not in surely or last in n}
            self._grounds_of[owner] = kept
        return self._grounds_of[owner]

    @property
    def conditional(self) -> bool:
        """Whether a right depends on who else leaves, so that part of a lawful set may not be lawful."""
        return any(not ground.entitled for grounds in self._grounds_of.values() for ground in grounds)

    def _within(self, owner: int, i: int) -> list[cp_model.IntVar]:
        """Literals that say the preemptor's tenants are within quota, up to below the common ancestor with another."""
        right, tenants = self.rights[i], self.problem.tenants
        chain = tenants.below_ancestor(int(self.problem.tenant_of[right.gang]), owner)
        for t in chain:
            if (t, i) not in self._holds:
                self._holds[t, i] = holds = self.model.new_bool_var("")
                for r in np.flatnonzero(tenants.quota[t] < UNBOUNDED).tolist():
                    over = int(tenants.use[t, r] + right.started[t, r] - tenants.quota[t, r])
                    if over > 0:
                        self.model.add(self.back(t, r) >= over).only_enforce_if(holds)
        return [self._holds[t, i] for t in chain]

    def budget(self, lost: dict[int, int], broken: int, mine: Right | None) -> None:
        """Victims that `mine` has no right to: at most `broken`, losing at most `lost` (priority → GPU-seconds)."""
        victims = self.problem.victims
        number = next((i for i, right in enumerate(self.rights) if right is mine), -1)
        others: dict[int, cp_model.LinearExprT] = {}
        for v, e in self.evicted.items():
            if mine is not None and mine.own[v]:
                continue
            claim = self.reclaimed.get((v, number))
            others[v] = e if claim is None else e - claim
        for priority in {int(victims.priority[v]) for v in others}:
            rows = [int(victims.lost[v]) * x for v, x in others.items() if victims.priority[v] == priority]
            self.model.add(Sum(rows) <= lost.get(priority, 0))
        self.model.add(Sum(list(others.values())) <= broken)

    def lost_progress(self, priority: int) -> cp_model.LinearExpr:
        """GPU-seconds lost by victims of one priority."""
        victims = self.problem.victims
        return Sum([int(victims.lost[v]) * e for v, e in self.evicted.items() if victims.priority[v] == priority])

    def broken(self) -> cp_model.LinearExpr:
        """Gangs that give way."""
        return Sum(list(self.evicted.values()))

    def minimize(self, priority: int | None) -> None:
        """Set the objective: the loss of a priority, or (None) the gangs broken."""
        self.model.minimize(self.broken() if priority is None else self.lost_progress(priority))

    def cut(self, enough: Collection[int]) -> None:
        """Rule 11: the given victims are enough, so no larger set that holds them all is lawful."""
        inside = [self.evicted[v] for v in enough if v in self.evicted]
        outside = [e for v, e in self.evicted.items() if v not in enough]
        if len(inside) == len(enough):
            self.model.add(Sum(outside) <= len(outside) * (len(inside) - Sum(inside)))

    def hint(self, assignment: Assignment, victims: Collection[int] = ()) -> None:
        """As in `Merged`, with the victims that leave."""
        super().hint(assignment)
        for v, e in self.evicted.items():
            self.model.add_hint(e, v in victims)

    def leaving(self, values: Sequence[int]) -> frozenset[int]:
        """Victims of a solution."""
        return frozenset(v for v, e in self.evicted.items() if values[e.index])

    def leaves(self, v: int) -> cp_model.LinearExprT:
        """Whether a running gang leaves its place."""
        return self.evicted[v]

    def gone(self, values: Sequence[int]) -> frozenset[int]:
        """Running gangs that leave their places in a solution."""
        return self.leaving(values)

    def _group(self, k: int, gone: frozenset[int]) -> NodeClass:
        """The class with the space of its victims that leave."""
        node = int(self.classes[k].nodes[0])
        free = self.problem.free[node] - self.problem.debt[node]
        for v, count in self._holders.get(node, ()):
            if v in gone:
                free += count * self.problem.victims.request[v]
        free[self.problem.free[node] == UNLIMITED] = UNLIMITED
        return replace(self.classes[k], free=np.maximum(free, 0))

    def _base_crossing(self, level: int, d: int) -> cp_model.LinearExpr:
        """Running gangs that cross a domain's boundary, victims that leave not counted."""
        crossing = self.problem.victims.crossing
        return super()._base_crossing(level, d) - Sum([self.leaves(v) for v in self.evicted if d in crossing[v][level]])


def _holders(problem: Problem, victims: Collection[int]) -> dict[int, tuple[tuple[int, int], ...]]:
    """Node → (victim, members there)."""
    holders: dict[int, list[tuple[int, int]]] = defaultdict(list)
    for v in victims:
        for n, count in zip(problem.victims.nodes[v].tolist(), problem.victims.counts[v].tolist(), strict=True):
            holders[n].append((v, count))
    return {n: tuple(held) for n, held in holders.items()}


def pairs(problem: Problem, gangs: Sequence[int], victims: Collection[int]) -> int:
    """(class, gang) pairs of a joint model: what it takes to build it."""
    most = problem.without(victims).free
    return grouping(problem, gangs, (), most, _marks(problem, _holders(problem, victims))).pairs


def _marks(problem: Problem, holders: dict[int, tuple[tuple[int, int], ...]]) -> IntArray:
    """(N,): nodes with the same victims bear the same number."""
    numbers: dict[tuple[tuple[int, int], ...], int] = {}
    marks = np.zeros(len(problem.node_names), dtype=np.int64)
    for n, held in holders.items():
        marks[n] = numbers.setdefault(held, len(numbers) + 1)
    return marks
