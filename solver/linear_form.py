"""A CP-SAT model as rows for HiGHS, and the same model as the judge of what HiGHS found.

Constraints become rows Σ coefficient · variable ≤ upper, enforced ones by big-M from the variables' bounds.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import Any

import highspy
import numpy as np
from ortools.sat.python import cp_model

from gangfit.solver.arrays import BoolArray

INFINITE = 2**62
TOLERANCE = 1e-6
"""By how much HiGHS may be off."""
IMPLIED = "implied"
"""Name of variables that are integer once the others are, and may be rounded up: continuous for HiGHS."""
BUDGETED = 40
"""Columns from which on a budget is worth a relaxation of its own."""

FloatArray = np.ndarray[Any, np.dtype[np.float64]]


@dataclass
class Rows:
    """Rows lower ≤ Σ coefficient · variable ≤ upper, in compressed form."""

    lower: list[float] = field(default_factory=list)
    upper: list[float] = field(default_factory=list)
    start: list[int] = field(default_factory=lambda: [0])
    index: list[int] = field(default_factory=list)
    value: list[float] = field(default_factory=list)

    def copy(self) -> Rows:
        """The same rows, to be added to."""
        return Rows(self.lower.copy(), self.upper.copy(), self.start.copy(), self.index.copy(), self.value.copy())

    def without(self, row: int) -> Rows:
        """All rows but one."""
        low, high = self.start[row], self.start[row + 1]
        start = self.start[: row + 1] + [x - (high - low) for x in self.start[row + 2 :]]
        lower, upper = self.lower[:row] + self.lower[row + 1 :], self.upper[:row] + self.upper[row + 1 :]
        return Rows(lower, upper, start, self.index[:low] + self.index[high:], self.value[:low] + self.value[high:])

    def add(self, terms: dict[int, int], lower: float, upper: float) -> None:
        """Add a row; `terms`: variable → coefficient."""
        self.index.extend(terms)
        self.value.extend(terms.values())
        self.start.append(len(self.index))
        self.lower.append(lower)
        self.upper.append(upper)


@dataclass(frozen=True)
class Form:
    """A model in HiGHS' terms."""

    lower: FloatArray
    upper: FloatArray
    cost: FloatArray
    implied: BoolArray
    """Columns that are integer once the others are."""
    rows: Rows
    hint: FloatArray | None
    """Values to start from, complete in the columns that cost."""
    constraints: int = 0
    """Of the model, that the rows stand for."""

    def without(self, columns: BoolArray) -> Form:
        """The form with these columns at their lower bounds."""
        return replace(self, upper=np.where(columns, self.lower, self.upper))

    def whole(self, values: FloatArray) -> FloatArray | None:
        """Values rounded to integers, if those satisfy every row and bound."""
        rounded: FloatArray = np.where(self.implied, np.ceil(values - TOLERANCE), np.rint(values))
        if not ((self.lower <= rounded) & (rounded <= self.upper)).all():
            return None
        rows = self.rows
        row = np.repeat(np.arange(len(rows.upper)), np.diff(rows.start))
        sums = np.bincount(row, np.array(rows.value) * rounded[rows.index], len(rows.upper)) if len(row) else 0.0
        return rounded if (sums <= np.array(rows.upper)).all() else None

    def budgets(self) -> list[int]:
        """Rows that bound a sum over at least half of the columns that cost, by weights other than the costs."""
        rows: Rows = self.rows
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
        """The form as HiGHS takes it; `relaxed` drops the integrality."""
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


def linear_form(model: cp_model.CpModel, before: Form | None = None) -> Form:
    """The form of a model, with its hint. `before`: the form it had when it had fewer constraints."""
    proto = model.proto
    bounds = [_ends(v.domain) for v in proto.variables]
    rows, done = Rows(), 0
    if before is not None:
        known = zip(before.lower.tolist(), before.upper.tolist(), strict=True)
        bounds[: len(before.cost)] = [(int(lower), int(upper)) for lower, upper in known]
        rows, done = before.rows.copy(), before.constraints
    cost = np.zeros(len(bounds))
    cost[list(proto.objective.vars)] = list(proto.objective.coeffs)
    _translate(list(proto.constraints)[done:], bounds, rows)
    ends = np.array(bounds, dtype=np.float64).reshape(-1, 2)
    implied = np.array([v.name == IMPLIED for v in proto.variables], dtype=np.bool_)
    hint = None
    if len(proto.solution_hint.vars):
        hint = ends[:, 0].copy()
        hint[list(proto.solution_hint.vars)] = list(proto.solution_hint.values)
    return Form(ends[:, 0].copy(), ends[:, 1].copy(), cost, implied, rows, hint, len(proto.constraints))


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


def _translate(constraints: Iterable[Any], bounds: list[tuple[int, int]], rows: Rows) -> None:
    """Add the constraints to the rows; one on a single variable narrows its bounds."""
    for constraint in constraints:
        enforced = list(constraint.enforcement_literal)
        if constraint.has_linear():
            linear = constraint.linear
            variables, coefficients = list(linear.vars), list(linear.coeffs)
            lower, upper = _ends(linear.domain)
            if len(variables) == 1 and coefficients[0] == 1 and not enforced:
                low, high = bounds[variables[0]]
                if max(low, lower) <= min(high, upper):
                    bounds[variables[0]] = max(low, lower), min(high, upper)
                    continue
            terms: dict[int, int] = {}
            for v, c in zip(variables, coefficients, strict=True):
                terms[v] = terms.get(v, 0) + c
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


def _add_linear(
    rows: Rows, terms: dict[int, int], lower: int, upper: int, enforced: list[int], bounds: list[tuple[int, int]]
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
