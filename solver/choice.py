"""The merged model with the choice of gangs left open: which of them start is part of the answer. Rules 1–8."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from fractions import Fraction
from itertools import pairwise

import numpy as np
from ortools.sat.python import cp_model

from gangfit.solver.assignment import Assignment, Spread
from gangfit.solver.classes import NodeClass
from gangfit.solver.engine import Budget
from gangfit.solver.merged import Merged, Sum
from gangfit.solver.problem import Problem
from gangfit.solver.tenants import UNBOUNDED

NOWHERE = Spread.of(())
"""Spread of a gang that waits."""


class Choice(Merged):
    """Every gang starts whole or not at all; running gangs stay. For gangs that could start alone."""

    def __init__(self, problem: Problem, gangs: Sequence[int], classes: list[NodeClass]) -> None:
        self.starts: dict[int, cp_model.IntVar] = {}
        """y[j]: gang j starts."""
        self._reached: dict[tuple[int, int, int], cp_model.IntVar] = {}
        super().__init__(problem, gangs, classes, spread=False)
        self.tenant_limit()
        self.closed_upward()

    def whole_gang(self) -> None:
        """Rule 1: all members of a gang, or none."""
        for j in self.gangs:
            self.starts[j] = starts = self.model.new_bool_var("")
            self.model.add(Sum([z for _, z in self._of(j)]) == int(self.problem.members[j]) * starts)

    def _exactly_one(self, j: int, homes: Iterable[cp_model.IntVar]) -> None:
        self.model.add_exactly_one([*homes, self.starts[j].negated()])

    def tenant_limit(self) -> None:
        """Rule 8; a tenant found above its limit starts nothing that asks the resource."""
        tenants = self.problem.tenants
        for t, r in np.argwhere(tenants.limit < UNBOUNDED).tolist():
            total = self._below(t, r)
            left = int(tenants.limit[t, r] - tenants.use[t, r])
            if sum(amount for amount, _ in total) > left:
                self.model.add(Sum([amount * y for amount, y in total]) <= max(left, 0))

    def closed_upward(self) -> None:
        """Rule 12: a gang starts only if all of its tenant of strictly higher priority do."""
        queues: dict[int, dict[int, list[int]]] = defaultdict(lambda: defaultdict(list))
        for j in self.gangs:
            queues[int(self.problem.tenant_of[j])][self.problem.gangs[j].priority].append(j)
        for queue in queues.values():
            ranked = [queue[priority] for priority in sorted(queue, reverse=True)]
            for higher, lower in pairwise(ranked):
                for j in lower:
                    self.model.add(Sum([self.starts[h] for h in higher]) >= len(higher) * self.starts[j])

    def _below(self, tenant: int, r: int) -> list[tuple[int, cp_model.IntVar]]:
        """(amount, y) of the gangs of a tenant and all below it that ask a resource."""
        chain, of, total = self.problem.tenants.chain, self.problem.tenant_of, self.problem.total
        return [(int(total[j, r]), y) for j, y in self.starts.items() if total[j, r] and tenant in chain(int(of[j]))]

    def reaching(self, tenants: Iterable[int], share: Fraction, *, above: bool) -> cp_model.LinearExpr:
        """Number of these leaf tenants whose weighted dominant share reaches a share (`above`: is more than it).

        Every one counted does reach it; one that does may be left out. As integers: a share of at least z of resource
        r is use ≥ ⌈z · cap[r] · weight⌉, one above it use ≥ ⌊z · cap[r] · weight⌋ + 1.
        """
        return Sum([self._reaches(t, share, above) for t in tenants])

    def _reaches(self, tenant: int, share: Fraction, above: bool) -> cp_model.IntVar | int:
        tenants = self.problem.tenants
        ways = []
        for r in np.flatnonzero(tenants.capacity).tolist():
            exact = share * int(tenants.capacity[r]) * (tenants.weight[tenant] or 1)
            needs = (math.floor(exact) + 1 if above else math.ceil(exact)) - int(tenants.use[tenant, r])
            if needs <= 0:
                return 1
            asked = self._below(tenant, r)
            if sum(amount for amount, _ in asked) >= needs:
                ways.append(self._at_least(tenant, r, needs, asked))
        if not ways:
            return 0
        reached = self.model.new_bool_var("")
        self.model.add_bool_or([reached.negated(), *ways])
        return reached

    def _at_least(self, tenant: int, r: int, needs: int, asked: list[tuple[int, cp_model.IntVar]]) -> cp_model.IntVar:
        """A literal that implies that so much of a resource is started for the tenant."""
        key = tenant, r, needs
        if key not in self._reached:
            self._reached[key] = literal = self.model.new_bool_var("")
            self.model.add(Sum([amount * y for amount, y in asked]) >= needs).only_enforce_if(literal)
        return self._reached[key]

    def fix(self, starting: Iterable[int], waiting: Iterable[int]) -> None:
        """Some gangs start, some wait; the rest is free."""
        for j in starting:
            self.model.add(self.starts[j] == 1)
        for j in waiting:
            self.model.add(self.starts[j] == 0)

    def hint(self, assignment: Assignment) -> None:
        """As in `Merged`; gangs that are absent wait."""
        super().hint({j: assignment.get(j, NOWHERE) for j in self.gangs})
        for j, starts in self.starts.items():
            self.model.add_hint(starts, j in assignment)

    def decode(self, values: Sequence[int], budget: Budget) -> tuple[Assignment | None, list[NodeClass]]:
        """As in `Merged`; gangs that wait are absent."""
        found, failed = super().decode(values, budget)
        return None if found is None else {j: s for j, s in found.items() if values[self.starts[j].index]}, failed
