"""The plain model: node-to-gang booleans, one function per rule. The definition, and the oracle of the tests.

Size is nodes × gangs; meant for small rounds only. See docs/model.md, "The two formulations".
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from ortools.sat.python import cp_model

from gangfit.solver.assignment import Assignment, Spread, tier_names
from gangfit.solver.problem import Problem
from gangfit.solver.space import members_per_node


@dataclass
class Plain:
    """Variables of the plain model over chosen gangs."""

    problem: Problem
    gangs: tuple[int, ...]
    model: cp_model.CpModel = field(default_factory=cp_model.CpModel)
    admitted: dict[int, cp_model.IntVar] = field(default_factory=dict)
    """y[j]"""
    members: dict[tuple[int, int], cp_model.IntVar] = field(default_factory=dict)
    """x[n, j]: members of gang j on node n."""
    touched: dict[tuple[int, int, int], cp_model.IntVar] = field(default_factory=dict)
    """t[l, d, j]: gang j has a member in domain d of level l; level L is u[n, j]."""

    @classmethod
    def build(cls, problem: Problem, gangs: tuple[int, ...]) -> Plain:
        """The model of rules 1–7 over the given gangs, without an objective."""
        plain = cls(problem, gangs)
        for j in gangs:
            plain.admitted[j] = plain.model.new_bool_var(f"y[{j}]")
            plain._eligible_members(j)
            plain._touches(j)
            plain.whole_gang(j)
            plain.required_level(j)
        plain.node_capacity()
        return plain

    def _eligible_members(self, j: int) -> None:
        """Rules 3–6 leave out variables: x exists only on nodes the gang may use."""
        room = np.minimum(members_per_node(self.problem, self.problem.free, j), self.problem.members[j])
        node = self.problem.tree.named
        for n in np.flatnonzero(room):
            x = self.model.new_int_var(0, int(room[n]), f"x[{n},{j}]")
            u = self.model.new_bool_var(f"u[{n},{j}]")
            self.model.add(x >= u)
            self.model.add(x <= int(room[n]) * u)
            self.members[int(n), j] = x
            self.touched[node, int(n), j] = u

    def _touches(self, j: int) -> None:
        tree = self.problem.tree
        for level in range(tree.named):
            inside: dict[int, list[cp_model.IntVar]] = {}
            for n, gang in self.members:
                if gang == j:
                    domain = int(tree.domain[level][n])
                    inside.setdefault(domain, []).append(self.touched[tree.named, n, j])
            for domain, nodes in inside.items():
                self.touched[level, domain, j] = t = self.model.new_bool_var(f"t[{level},{domain},{j}]")
                self.model.add_max_equality(t, nodes)

    def whole_gang(self, j: int) -> None:
        """Rule 1: all members or none."""
        total = sum(x for (_, gang), x in self.members.items() if gang == j)
        self.model.add(total == int(self.problem.members[j]) * self.admitted[j])

    def node_capacity(self) -> None:
        """Rule 2: per node and resource, what the gangs take is free."""
        by_node: dict[int, list[int]] = {}
        for n, j in self.members:
            by_node.setdefault(n, []).append(j)
        for n, gangs in by_node.items():
            for r in range(len(self.problem.resources)):
                asks = [(int(self.problem.request[j, r]), self.members[n, j]) for j in gangs]
                if any(amount for amount, _ in asks):
                    self.model.add(sum(amount * x for amount, x in asks) <= int(self.problem.free[n, r]))

    def required_level(self, j: int) -> None:
        """Rule 7: one known domain of the required level."""
        level = int(self.problem.required[j])
        if level < 0:
            return
        known = self.problem.tree.known_domains(level)
        domains = [(d, t) for (at, d, gang), t in self.touched.items() if at == level and gang == j]
        self.model.add(sum(t for _, t in domains) <= 1)
        for d, t in domains:
            if not known[d]:
                self.model.add(t == 0)

    def _extra(self, level: int, j: int) -> cp_model.LinearExprT:
        """Domains touched − 1 of an admitted gang."""
        return sum(t for (at, _, gang), t in self.touched.items() if at == level and gang == j) - self.admitted[j]

    def preferred_level(self) -> cp_model.LinearExprT:
        """Tier 3."""
        level = self.problem.preferred
        return sum(self._extra(int(level[j]), j) for j in self.gangs if level[j] >= 0)

    def tree_distance(self) -> cp_model.LinearExprT:
        """Tier 4."""
        return sum(
            weight * self._extra(level, j) for level, weight in enumerate(self.problem.tree.weights) for j in self.gangs
        )

    def shared_uplinks(self) -> cp_model.LinearExprT:
        """Tier 5."""
        total: list[cp_model.IntVar] = []
        for level in range(self.problem.tree.named):
            crossing: dict[int, list[cp_model.IntVar]] = {}
            for (at, d, j), t in self.touched.items():
                if at == level:
                    here = [
                        x for (n, gang), x in self.members.items()
                        if gang == j and self.problem.tree.domain[level][n] == d
                    ]  # fmt: skip
                    inside = self.model.new_bool_var(f"inside[{level},{d},{j}]")
                    self.model.add(sum(here) >= int(self.problem.members[j]) * inside)
                    cross = self.model.new_bool_var(f"cross[{level},{d},{j}]")
                    self.model.add(cross >= t - inside)
                    crossing.setdefault(d, []).append(cross)
            for d, base in enumerate(self.problem.crossing[level]):
                most = int(base) + len(crossing.get(d, []))
                excess = self.model.new_int_var(0, max(most - 1, 0), f"excess[{level},{d}]")
                self.model.add(excess >= int(base) + sum(crossing.get(d, [])) - 1)
                total.append(excess)
        return cp_model.LinearExpr.sum(total)

    def intact_domains(self, level: int) -> cp_model.LinearExprT:
        """Tier 6 of one level."""
        tree = self.problem.tree
        lost: list[cp_model.IntVar] = []
        for d in np.flatnonzero(self.problem.intact_domains[level]):
            hosts = [
                self.touched[tree.named, n, j]
                for n, j in self.members
                if tree.domain[level][n] == d and self.problem.intact[n]
            ]
            if hosts:
                gone = self.model.new_bool_var(f"lost[{level},{d}]")
                self.model.add_max_equality(gone, hosts)
                lost.append(gone)
        return cp_model.LinearExpr.sum(lost)

    def tiers(self) -> list[tuple[str, cp_model.LinearExprT]]:
        """(name, objective) of the tiers after admission, in order."""
        objectives = [self.preferred_level(), self.tree_distance(), self.shared_uplinks()]
        objectives += [self.intact_domains(level) for level in range(len(self.problem.tree.levels))]
        return list(zip(tier_names(self.problem), objectives, strict=True))


def optimum(problem: Problem) -> tuple[Assignment, tuple[int, ...]]:
    """Lexicographic optimum of every tier: the assignment and the values of the tiers after admission.

    Solves to the end, without limits. Raises RuntimeError if CP-SAT doesn't close a step.
    """
    plain = Plain.build(problem, tuple(range(len(problem.gangs))))
    order = problem.order()
    while (j := order.next()) is not None:
        plain.model.maximize(plain.admitted[j])
        starts = bool(_close(plain.model)[0]) and order.within_limit(j)
        plain.model.add(plain.admitted[j] == int(starts))
        order.settle(j, starts)
    values: list[int] = []
    solver: cp_model.CpSolver | None = None
    for _, objective in plain.tiers():
        plain.model.minimize(objective)
        value, solver = _close(plain.model)
        plain.model.add(objective == value)
        values.append(value)
    assert solver is not None
    placed: Assignment = {}
    for j in plain.gangs:
        counts = {n: solver.value(x) for (n, gang), x in plain.members.items() if gang == j}
        if any(counts.values()):
            placed[j] = Spread.of(counts)
    return placed, tuple(values)


def _close(model: cp_model.CpModel) -> tuple[int, cp_model.CpSolver]:
    solver = cp_model.CpSolver()
    # As in `engine.run`: probing in 9.15 may call a feasible model infeasible.
    solver.parameters.cp_model_probing_level = 0
    solver.parameters.num_workers = 1
    status = solver.solve(model)
    if status != cp_model.OPTIMAL:
        raise RuntimeError(f"the plain model ended with status {status}")
    return round(solver.objective_value), solver
