"""HiGHS on a CP-SAT model: the linear relaxation CP-SAT lacks bounds every victim question in milliseconds.

The model is translated row by row (enforced rows by big-M from the variables' bounds). A solution counts only after
its rounded values satisfy every constraint in integers; bounds and infeasibility are HiGHS' own, to 1e-6.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

import highspy
import numpy as np
from highspy import _core
from ortools.sat.python import cp_model

from gangfit.models import Policy
from gangfit.solver.engine import Budget, Outcome

INFINITE = 2**62
TOLERANCE = 1e-6
ITERATIONS_PER_SECOND = 20_000
NODES_PER_SECOND = 50


@dataclass
class _Rows:
    """Rows lower ≤ Σ coefficient · variable ≤ upper, in compressed form."""

    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    start: list[int] = field(default_factory=lambda: [0])
    index: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)

    def add(self, terms: dict[int, int], lower: float, upper: float) -> None:
        self.index.extend(terms)
        self.value.extend(terms.values())
        self.start.append(len(self.index))
        self.lower.append(lower)
        self.upper.append(upper)


def run_mip(model: cp_model.CpModel, budget: Budget, share: float = 1.0) -> Outcome:
    """Minimise a model within a share of the remaining budget. HiGHS failing in any way is `unknown`."""
    limit = budget.remaining * share
    if limit <= 0:
        return Outcome("unknown", None, None)
    proto = model.proto
    bounds = [_ends(v.domain) for v in proto.variables]
    rows = _translate(proto, bounds)
    cost = np.zeros(len(bounds))
    cost[list(proto.objective.vars)] = list(proto.objective.coeffs)
    # The plain core class: the Python wrapper prints a banner before it can be told not to.
    solver = _core._Highs()
    for option, value in (
        ("output_flag", False),
        ("threads", 1),
        ("random_seed", budget.policy.seed),
        *_limits(budget.policy, limit),
        ("mip_rel_gap", 0.0),
        ("mip_abs_gap", 0.5),
    ):
        solver.setOptionValue(option, value)
    if solver.passModel(_lp(bounds, rows, cost)) == highspy.HighsStatus.kError:
        return Outcome("unknown", None, None)
    solver.run()
    # HiGHS has no deterministic clock: its iterations, at about this rate, stand for one.
    budget.spent += solver.getInfo().simplex_iteration_count / ITERATIONS_PER_SECOND
    return _outcome(model, solver)


def _limits(policy: Policy, limit: float) -> list[tuple[str, float | int]]:
    """Stop on the clock, or in deterministic mode on nodes of the tree."""
    if not policy.deterministic:
        return [("time_limit", limit)]
    return [("mip_max_nodes", max(1, round(limit * NODES_PER_SECOND)))]


def _lp(bounds: list[tuple[int, int]], rows: _Rows, cost: np.ndarray[Any, Any]) -> highspy.HighsLp:
    lp = highspy.HighsLp()
    lp.num_col_, lp.num_row_ = len(bounds), len(rows.lower)
    lp.col_cost_ = cost
    lp.col_lower_ = np.array([low for low, _ in bounds], dtype=np.float64)
    lp.col_upper_ = np.array([high for _, high in bounds], dtype=np.float64)
    lp.row_lower_, lp.row_upper_ = np.array(rows.lower), np.array(rows.upper)
    lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
    lp.a_matrix_.start_ = np.array(rows.start, dtype=np.int32)
    lp.a_matrix_.index_ = np.array(rows.index, dtype=np.int32)
    lp.a_matrix_.value_ = np.array(rows.value, dtype=np.float64)
    lp.integrality_ = [highspy.HighsVarType.kInteger] * len(bounds)
    return lp


def _outcome(model: cp_model.CpModel, solver: _core._Highs) -> Outcome:
    status = solver.getModelStatus()
    if status == highspy.HighsModelStatus.kInfeasible:
        return Outcome("infeasible", None, None)
    offset = round(model.proto.objective.offset)
    info = solver.getInfo()
    bound = info.mip_dual_bound
    lower = math.ceil(bound - TOLERANCE * max(1.0, abs(bound))) if math.isfinite(bound) else None
    if info.primal_solution_status != highspy.SolutionStatus.kSolutionStatusFeasible:
        return Outcome("unknown", None, None if lower is None else lower + offset)
    values = tuple(round(x) for x in solver.getSolution().col_value)
    if not satisfied(model, values):
        return Outcome("unknown", None, None)
    cost = sum(c * values[v] for v, c in zip(model.proto.objective.vars, model.proto.objective.coeffs, strict=True))
    if lower is not None and lower > cost:
        lower = None
    # Objectives are integers and the gap allowed is half a unit: optimal means optimal, to HiGHS' 1e-6.
    done = status == highspy.HighsModelStatus.kOptimal
    bound_of = cost if done else lower
    return Outcome("optimal" if done else "feasible", values, None if bound_of is None else bound_of + offset)


def _ends(domain: Any) -> tuple[int, int]:
    """First and last value of a domain. The proto's own sequence takes no negative index."""
    values = list(domain)
    return values[0], values[-1]


def _literals(literals: Iterable[int]) -> tuple[dict[int, int], int]:
    """Σ of literals as terms and a constant."""
    terms: dict[int, int] = {}
    constant = 0
    for literal in literals:
        variable, sign = (literal, 1) if literal >= 0 else (-literal - 1, -1)
        terms[variable] = terms.get(variable, 0) + sign
        constant += literal < 0
    return terms, constant


def _translate(proto: Any, bounds: list[tuple[int, int]]) -> _Rows:
    rows = _Rows()
    for constraint in proto.constraints:
        enforced = list(constraint.enforcement_literal)
        if constraint.has_linear():
            terms: dict[int, int] = {}
            for v, c in zip(constraint.linear.vars, constraint.linear.coeffs, strict=True):
                terms[v] = terms.get(v, 0) + c
            lower, upper = _ends(constraint.linear.domain)
            _add_linear(rows, terms, lower, upper, enforced, bounds)
        elif constraint.has_bool_or():
            sum_of, constant = _literals(constraint.bool_or.literals)
            _add_linear(rows, sum_of, 1 - constant, INFINITE, enforced, bounds)
        elif constraint.has_bool_and():
            for literal in constraint.bool_and.literals:
                sum_of, constant = _literals([literal])
                _add_linear(rows, sum_of, 1 - constant, INFINITE, enforced, bounds)
        elif constraint.has_exactly_one():
            sum_of, constant = _literals(constraint.exactly_one.literals)
            _add_linear(rows, sum_of, 1 - constant, 1 - constant, enforced, bounds)
        else:
            raise TypeError(f"no linear form of {constraint}")
    return rows


def _add_linear(
    rows: _Rows, terms: dict[int, int], lower: int, upper: int, enforced: list[int], bounds: list[tuple[int, int]]
) -> None:
    least = sum(c * bounds[v][0 if c > 0 else 1] for v, c in terms.items())
    most = sum(c * bounds[v][1 if c > 0 else 0] for v, c in terms.items())
    for limit, reach, sign in ((lower, least, -1), (upper, most, 1)):
        if abs(limit) >= INFINITE or sign * (reach - limit) <= 0:
            continue
        # sign · expression ≤ sign · limit + gap · (enforcing literals that are false)
        gap = sign * (reach - limit)
        row = {v: sign * c for v, c in terms.items()}
        free, constant = _literals(enforced)
        for v, c in free.items():
            row[v] = row.get(v, 0) + gap * c
        rows.add(row, -math.inf, sign * limit + gap * (len(enforced) - constant))


def satisfied(model: cp_model.CpModel, values: tuple[int, ...]) -> bool:
    """Whether values satisfy every constraint and bound of the model, in integers."""
    proto = model.proto

    def true(literal: int) -> bool:
        return values[literal] == 1 if literal >= 0 else values[-literal - 1] == 0

    for variable, x in zip(proto.variables, values, strict=True):
        lower, upper = _ends(variable.domain)
        if not lower <= x <= upper:
            return False
    for constraint in proto.constraints:
        if not all(true(literal) for literal in constraint.enforcement_literal):
            continue
        if constraint.has_linear():
            linear = constraint.linear
            total = sum(c * values[v] for v, c in zip(linear.vars, linear.coeffs, strict=True))
            lower, upper = _ends(linear.domain)
            if not lower <= total <= upper:
                return False
        elif constraint.has_bool_or():
            if not any(true(literal) for literal in constraint.bool_or.literals):
                return False
        elif constraint.has_bool_and():
            if not all(true(literal) for literal in constraint.bool_and.literals):
                return False
        elif sum(true(literal) for literal in constraint.exactly_one.literals) != 1:
            return False
    return True
