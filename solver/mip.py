"""HiGHS on a CP-SAT model: the linear relaxation CP-SAT lacks bounds every victim question in milliseconds.

The model is translated row by row (enforced rows by big-M from the variables' bounds). A solution counts only after
its rounded values satisfy every constraint in integers; bounds and infeasibility are HiGHS' own, to 1e-6.
"""

from __future__ import annotations

import math
import time
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import highspy
import numpy as np
from highspy import _core
from ortools.sat.python import cp_model

from gangfit.solver.arrays import BoolArray
from gangfit.solver.engine import Budget, Outcome

INFINITE = 2**62
TOLERANCE = 1e-6
ITERATIONS_PER_SECOND = 10_000
LINES_PER_SECOND = 8_000
NODES_PER_SECOND = 50
IMPLIED = "implied"
"""Name of variables that are integer once the others are, and may be rounded up: continuous for HiGHS."""
STAGED = 200
"""Columns from which on a model is worth a relaxation and a small model of its own."""
BUDGETED = 40
"""Columns from which on a budget is worth a relaxation of its own."""
KERNELS = (0.1, 0.25, 0.5, 0.75, 0.9, 0.97)
"""Shares of the priced columns that the small models let in, until one holds the best or isn't solved in its time."""
KERNEL_SHARE = 0.25
"""Most of the remaining time that one small model may take."""
KERNEL_GAP = 1e-3
START_SHARE = 0.1
"""Most of the remaining time for making a hint whole."""

FloatArray = np.ndarray[Any, np.dtype[np.float64]]


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


@dataclass(frozen=True)
class _Form:
    """A model in HiGHS' terms."""

    lower: FloatArray
    upper: FloatArray
    cost: FloatArray
    implied: BoolArray
    """Columns that are integer once the others are."""
    rows: _Rows
    hint: FloatArray | None
    """Values to start from, complete in the columns that cost."""

    def without(self, columns: BoolArray) -> _Form:
        """The form with these columns at their lower bounds."""
        return replace(self, upper=np.where(columns, self.lower, self.upper))

    def budgets(self) -> list[int]:
        """Rows that bound a sum over at least half of the columns that cost, by weights other than the costs."""
        rows: _Rows = self.rows
        result: list[int] = []
        if len(self.cost) < BUDGETED or not self.cost.any():
            return result
        for row, upper in enumerate(rows.upper):
            low, high = rows.start[row], rows.start[row + 1]
            if math.isfinite(upper) and 2 * (high - low) >= np.count_nonzero(self.cost):
                weights = np.array(rows.value[low:high])
                if (weights > 0).all() and (weights != self.cost[rows.index[low:high]]).any():
                    result.append(row)
        return result

    def lp(self, relaxed: bool = False) -> highspy.HighsLp:
        lp = highspy.HighsLp()
        lp.num_col_, lp.num_row_ = len(self.cost), len(self.rows.lower)
        lp.col_cost_, lp.col_lower_, lp.col_upper_ = self.cost, self.lower, self.upper
        lp.row_lower_, lp.row_upper_ = np.array(self.rows.lower), np.array(self.rows.upper)
        lp.a_matrix_.format_ = highspy.MatrixFormat.kRowwise
        lp.a_matrix_.start_ = np.array(self.rows.start, dtype=np.int32)
        lp.a_matrix_.index_ = np.array(self.rows.index, dtype=np.int32)
        lp.a_matrix_.value_ = np.array(self.rows.value, dtype=np.float64)
        free, whole = highspy.HighsVarType.kContinuous, highspy.HighsVarType.kInteger
        lp.integrality_ = [free if relaxed or implied else whole for implied in self.implied.tolist()]
        return lp


@dataclass
class _Found:
    """What one run or several of HiGHS established."""

    infeasible: bool = False
    values: FloatArray | None = None
    value: float = math.inf
    bound: float = -math.inf

    @property
    def closed(self) -> bool:
        """Objectives are integers: less than one unit apart is optimal."""
        return self.values is not None and self.value - self.bound <= 0.6


def run_mip(model: cp_model.CpModel, budget: Budget, share: float = 1.0) -> Outcome:
    """Minimise a model within a share of the remaining budget. HiGHS failing in any way is `unknown`.

    A hint of the model that is complete in the variables that cost is where it starts.
    """
    limit = budget.remaining * share
    if limit <= 0:
        return Outcome("unknown", None, None)
    deadline = time.monotonic() + limit
    form = _form(model)
    highs = _Highs(budget, limit, deadline)
    for row in form.budgets():
        form = _within_budget(form, highs, row)
    if form.cost.any() and len(form.cost) >= STAGED and not budget.policy.deterministic:
        found = _staged(form, highs)
    else:
        found = highs.run(form)
    return _outcome(model, form, found)


@dataclass
class _Highs:
    """Runs of HiGHS up to one deadline, or in deterministic mode a number of nodes each."""

    budget: Budget
    limit: float
    deadline: float

    @property
    def left(self) -> float:
        """Seconds to the deadline."""
        return self.deadline - time.monotonic()

    def solver(self, lp: highspy.HighsLp, share: float, gap: float, start: FloatArray | None) -> _core._Highs | None:
        """The instance after its run; None if it didn't take the model."""
        # The plain core class: the Python wrapper prints a banner before it can be told not to.
        solver = _core._Highs()
        policy = self.budget.policy
        stop: tuple[str, float | int] = ("time_limit", max(0.001, share * self.left))
        if policy.deterministic:
            stop = ("mip_max_nodes", max(1, round(self.limit * NODES_PER_SECOND)))
        options: list[tuple[str, float | int | bool]] = [
            ("output_flag", False),
            ("threads", 1),
            ("random_seed", policy.seed),
            stop,
            ("mip_rel_gap", gap),
            ("mip_abs_gap", 0.5),
        ]
        for option, value in options:
            solver.setOptionValue(option, value)
        if solver.passModel(lp) == highspy.HighsStatus.kError:
            return None
        if start is not None:
            solution = highspy.HighsSolution()
            solution.col_value = start.tolist()
            solver.setSolution(solution)
        solver.run()
        # HiGHS has no deterministic clock: lines of the model and iterations, at about this rate, stand for one.
        lines = solver.getNumCol() + solver.getNumRow()
        iterations = solver.getInfo().simplex_iteration_count
        self.budget.charge(lines / LINES_PER_SECOND + iterations / ITERATIONS_PER_SECOND)
        return solver

    def run(self, form: _Form, share: float = 1.0, gap: float = 0.0, start: FloatArray | None = None) -> _Found:
        """Branch and bound. A value is always that of the columns, for HiGHS has been seen to state another one."""
        solver = self.solver(form.lp(), share, gap, start)
        if solver is None:
            return _Found()
        if solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
            return _Found(infeasible=True)
        info = solver.getInfo()
        found = _Found(bound=info.mip_dual_bound if math.isfinite(info.mip_dual_bound) else -math.inf)
        if info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
            found.values = np.array(solver.getSolution().col_value)
            found.value = float(form.cost @ found.values)
            if found.bound > found.value + max(0.5, TOLERANCE * abs(found.value)) or (
                start is not None and found.value > info.objective_function_value + max(0.5, TOLERANCE * found.value)
            ):
                found.bound = -math.inf
        return found


def _staged(form: _Form, highs: _Highs) -> _Found:
    """The hint made whole, the relaxation, the columns worth little more than it, then all that may matter.

    With reduced costs from the relaxation (value L), a solution of cost ≤ L + τ uses no column whose reduced cost is
    beyond τ. So the small model without those finds good solutions, and what it rules out is ruled out below L + τ.
    """
    best = _Found()
    priced = form.cost > 0
    if form.hint is not None:
        best = highs.run(form.without(priced & (form.hint <= form.lower)), START_SHARE, KERNEL_GAP)
        best = _Found(values=best.values, value=best.value)
        form = form.without(priced & (form.cost > best.value))
    relaxation = highs.solver(form.lp(relaxed=True), 1.0, 0.0, None)
    if relaxation is None or relaxation.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return highs.run(form, start=best.values)
    solution = relaxation.getSolution()
    reduced = _Reduced(form, np.array(solution.col_value), np.array(solution.col_dual))
    floor = relaxation.getInfo().objective_function_value
    best.bound = floor
    prices = np.sort(reduced.prices[priced & (reduced.prices > TOLERANCE)])
    for share in KERNELS:
        if not len(prices) or best.closed or highs.left <= 0:
            break
        beyond = min(float(prices[int(share * (len(prices) - 1))]), best.value - floor)
        # The best so far stays inside: a start that isn't feasible is none.
        chosen = priced if best.values is None else priced & (np.abs(best.values - reduced.values) < 0.5)
        found = highs.run(reduced.within(beyond, chosen), KERNEL_SHARE, KERNEL_GAP, best.values)
        if found.infeasible:
            best.bound = max(best.bound, floor + beyond)
            continue
        best.bound = max(best.bound, min(found.bound, floor + beyond))
        if found.value < best.value:
            best.values, best.value = found.values, found.value
        if best.value <= floor + beyond or found.value - found.bound > 2 * KERNEL_GAP * abs(found.value):
            break
    if best.closed or highs.left <= 0:
        return best
    everything = np.ones(len(form.cost), dtype=np.bool_)
    last = highs.run(reduced.within(best.value - floor, everything), 1.0, 0.0, best.values)
    if last.infeasible:
        # Only what is worse than the best was left out.
        return best if best.values is not None else last
    best.bound = max(best.bound, min(last.bound, best.value))
    if last.value < best.value:
        best.values, best.value = last.values, last.value
    return best


def _within_budget(form: _Form, highs: _Highs, row: int) -> _Form:
    """The form without columns that would break a budget, by the least that the relaxation spends of it."""
    low, high = form.rows.start[row], form.rows.start[row + 1]
    spent = np.zeros(len(form.cost))
    spent[form.rows.index[low:high]] = form.rows.value[low:high]
    relaxation = highs.solver(replace(form, cost=spent).lp(relaxed=True), 1.0, 0.0, None)
    if relaxation is None or relaxation.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return form
    solution = relaxation.getSolution()
    reduced = _Reduced(form, np.array(solution.col_value), np.array(solution.col_dual))
    least = relaxation.getInfo().objective_function_value
    left = form.rows.upper[row] - least + TOLERANCE * abs(least)
    return reduced.within(left, np.ones(len(form.cost), dtype=np.bool_))


class _Reduced:
    """A form whose columns are fixed by their reduced costs."""

    def __init__(self, form: _Form, values: FloatArray, duals: FloatArray) -> None:
        self.form, self.values = form, values
        self.at_lower = (values <= form.lower + TOLERANCE) & (duals > TOLERANCE)
        self.at_upper = (values >= form.upper - TOLERANCE) & (duals < -TOLERANCE)
        self.prices: FloatArray = np.where(self.at_lower | self.at_upper, np.abs(duals), 0.0)

    def within(self, beyond: float, columns: BoolArray) -> _Form:
        """The form without what costs more than `beyond` above the relaxation."""
        if not math.isfinite(beyond):
            return self.form
        form, most = self.form, max(0.0, beyond) + 1.0
        with np.errstate(divide="ignore"):
            steps = np.floor(most / self.prices)
        lower = np.where(self.at_upper & columns, np.maximum(form.lower, form.upper - steps), form.lower)
        upper = np.where(self.at_lower & columns, np.minimum(form.upper, form.lower + steps), form.upper)
        return replace(form, lower=lower, upper=upper)


def _form(model: cp_model.CpModel) -> _Form:
    proto = model.proto
    bounds = [_ends(v.domain) for v in proto.variables]
    cost = np.zeros(len(bounds))
    cost[list(proto.objective.vars)] = list(proto.objective.coeffs)
    ends = np.array(bounds, dtype=np.float64).reshape(-1, 2)
    implied = np.array([v.name == IMPLIED for v in proto.variables], dtype=np.bool_)
    hint = None
    if len(proto.solution_hint.vars):
        hint = ends[:, 0].copy()
        hint[list(proto.solution_hint.vars)] = list(proto.solution_hint.values)
    return _Form(ends[:, 0].copy(), ends[:, 1].copy(), cost, implied, _translate(proto, bounds), hint)


def _outcome(model: cp_model.CpModel, form: _Form, found: _Found) -> Outcome:
    if found.infeasible:
        return Outcome("infeasible", None, None)
    offset = round(model.proto.objective.offset)
    lower = None
    if math.isfinite(found.bound):
        lower = math.ceil(found.bound - TOLERANCE * max(1.0, abs(found.bound))) + offset
    if found.values is None:
        return Outcome("unknown", None, lower)
    rounded = np.where(form.implied, np.ceil(found.values - TOLERANCE), np.rint(found.values)).astype(np.int64)
    values = tuple(rounded.tolist())
    if not satisfied(model, values):
        return Outcome("unknown", None, lower)
    value = sum(c * values[v] for v, c in zip(model.proto.objective.vars, model.proto.objective.coeffs, strict=True))
    value += offset
    if found.closed or not form.cost.any():
        return Outcome("optimal", values, value)
    return Outcome("feasible", values, None if lower is None else min(lower, value))


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
            linear = constraint.linear
            for v, c in zip(list(linear.vars), list(linear.coeffs), strict=True):
                terms[v] = terms.get(v, 0) + c
            lower, upper = _ends(linear.domain)
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
    for limit, sign in ((lower, -1), (upper, 1)):
        if abs(limit) >= INFINITE:
            continue
        reach = sum(c * bounds[v][1 if sign * c > 0 else 0] for v, c in terms.items())
        if sign * (reach - limit) <= 0:
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
