"""Probing: what a solution costs at least if a choice falls on one option; options that cost too much go.

A *choice* is a row Σ y = n, n ≥ 1, over counts that cost nothing themselves: the domains in which gangs of one kind may
sit. In every solution some y is 1 or more, so the least of the relaxations with y ≥ 1 is a lower bound, and an option
whose relaxation costs more than a known solution is 0 in every solution that is as cheap. The relaxation alone puts
1/64 of a gang on each of 64 racks, where it needs next to nobody to leave; probing puts it on one.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace

import highspy
import numpy as np
from highspy import _core

from gangfit.solver.arrays import BoolArray
from gangfit.solver.highs import CLOSE, Highs, interrupted_by
from gangfit.solver.linear_form import TOLERANCE, FloatArray, Form


@dataclass(frozen=True)
class Choice:
    """Options of which a number has to be taken."""

    options: tuple[int, ...]
    """Columns."""
    count: int


def choices(form: Form) -> list[Choice]:
    """The choices of a form: those that name the finest domains first, then the largest gangs."""
    rows = form.rows
    found: list[Choice] = []
    depth, most = np.zeros(len(form.cost)), np.zeros(len(form.cost))
    index, value = np.array(rows.index, dtype=np.int64), np.array(rows.value)
    np.add.at(depth, index, value > 1)
    np.maximum.at(most, index, value)
    whole = (form.cost == 0) & (form.lower == 0) & ~form.implied
    sums = {}
    for row, upper in enumerate(rows.upper):
        part = slice(rows.start[row], rows.start[row + 1])
        columns = rows.index[part]
        if len(columns) < 2 or not whole[columns].all() or (np.abs(value[part]) != 1).any():
            continue
        if (value[part] == -1).all() and upper <= -1:
            sums[tuple(columns)] = round(-upper)
        elif (value[part] == 1).all():
            found.append(Choice(tuple(columns), round(upper)))
    exact = [choice for choice in found if sums.get(choice.options) == choice.count]
    return sorted(exact, key=lambda one: (-depth[list(one.options)].max(), -most[list(one.options)].max(), one.options))


def lifted(form: Form) -> Form:
    """The form with a second row for each that some column alone would pass.

    Of Σ a·y ≤ f + D with D ≥ 0, integers y ≥ 0 and every a > f > 0 follows Σ (a − f)·y ≤ D: the first that comes
    finds f, and no part of one does.
    """
    rows = form.rows.copy()
    for row, upper in enumerate(form.rows.upper):
        part = slice(form.rows.start[row], form.rows.start[row + 1])
        columns, weights = form.rows.index[part], form.rows.value[part]
        terms = list(zip(columns, weights, strict=True))
        # By how much the others may pass: D, from its least value on.
        free = upper - sum(a * form.lower[x] for x, a in terms if a < 0)
        large = [(x, a) for x, a in terms if a > free and form.lower[x] == 0 and not form.implied[x]]
        small = [(x, a) for x, a in terms if a > 0 and (x, a) not in large] if large else []
        free -= sum(a * form.lower[x] for x, a in small)
        large = [(x, a) for x, a in large if a > free]
        if not large or free <= 0 or not math.isfinite(free):
            continue
        start = sum(a * form.lower[x] for x, a in terms if a < 0)
        new = {x: round(a - free) for x, a in large}
        new.update({x: round(a) for x, a in terms if a < 0})
        rows.add(new, -math.inf, start)
    return replace(form, rows=rows)


class Probing:
    """The relaxation of a form, kept in HiGHS, and what it says of options; bounds of columns shrink as it goes on.

    `lower` and `upper` hold for every solution of cost `value` or less. `basis`: that of the form's relaxation.
    """

    def __init__(self, form: Form, highs: Highs, value: float, basis: highspy.HighsBasis | None = None) -> None:
        self.form, self.value = form, value
        self.lower, self.upper = form.lower.copy(), form.upper.copy()
        self.bound = -math.inf
        self.known: dict[int, float] = {}
        """Option → what a solution with it costs at least."""
        self.choices = choices(form)
        self.probes = 0
        self._highs = highs
        self._solver = _core._Highs()
        for option, setting in (
            ("output_flag", False),
            ("threads", 1),
            ("random_seed", highs.budget.policy.seed),
            ("presolve", "off"),
        ):
            self._solver.setOptionValue(option, setting)
        interrupted_by(self._solver, highs)
        strong = lifted(form)
        self.alive = self._solver.passModel(strong.lp(relaxed=True)) != highspy.HighsStatus.kError
        if basis is not None and basis.valid:
            start = highspy.HighsBasis()
            start.col_status = basis.col_status
            more = len(strong.rows.upper) - len(basis.row_status)
            start.row_status = [*basis.row_status, *[highspy.HighsBasisStatus.kBasic] * more]
            start.valid = True
            self._solver.setBasis(start)
        if self.alive:
            self.shrink(value)

    def shrink(self, value: float) -> None:
        """Shrink bounds by a solution of that cost and solve the relaxation again."""
        self.value = min(self.value, value)
        for option, cost in self.known.items():
            if self._beyond(cost) and self.upper[option] > 0:
                self._fix(option)
        status, cost = self._run(math.inf)
        if status == highspy.HighsModelStatus.kInfeasible:
            self.bound = self.value
        if status != highspy.HighsModelStatus.kOptimal:
            self.alive = False
            return
        self.bound = min(max(self.bound, cost), self.value)
        solution = self._solver.getSolution()
        x, price = np.array(solution.col_value), np.array(solution.col_dual)
        most = max(0.0, self.value - cost) + 1.0 + TOLERANCE * abs(cost)
        with np.errstate(divide="ignore"):
            steps = np.floor(most / np.abs(price))
        low: BoolArray = (x <= self.lower + TOLERANCE) & (price > TOLERANCE) & (self.lower + steps < self.upper)
        high: BoolArray = (x >= self.upper - TOLERANCE) & (price < -TOLERANCE) & (self.upper - steps > self.lower)
        self.upper = np.where(low, self.lower + steps, self.upper)
        self.lower = np.where(high, self.upper - steps, self.lower)
        for column in np.flatnonzero(low | high).tolist():
            self._solver.changeColBounds(column, float(self.lower[column]), float(self.upper[column]))

    def run(self, seconds: float) -> None:
        """Probe choice by choice, the hardest first."""
        until = min(time.monotonic() + seconds, self._highs.deadline)
        for choice in self.choices:
            least = math.inf
            for option in choice.options:
                if not self.alive or self._highs.left <= 0 or time.monotonic() > until:
                    return
                if self.upper[option] >= 1 > self.lower[option]:
                    least = min(least, self._probe(option))
                elif self.upper[option] >= 1:
                    least = -math.inf
            if least > self.value:
                # Nothing is cheaper than what is known.
                self.bound = self.value
                return
            self.bound = max(self.bound, least)
            self.shrink(self.value)
            if self.bound >= self.value - CLOSE:
                return

    def dive(self, options: int, complete: bool, seconds: float) -> Form | None:
        """The form with one option of each choice taken, one choice after the other; None if that leads nowhere.

        The cheapest beside what is taken so far, of so many that are likely: what probing found cheap or, where nothing
        was probed, what the relaxation takes most of. Choices that weren't probed stay open unless it is `complete`.
        """
        until = min(time.monotonic() + seconds, self._highs.deadline)
        lower, upper = self.lower.copy(), self.upper.copy()
        taken = [one for one in self.choices if complete or any(option in self.known for option in one.options)]
        feasible = all(self._take(choice, options, lower, until) for choice in taken)
        for choice in taken:
            for option in choice.options:
                self._solver.changeColBounds(option, float(self.lower[option]), float(self.upper[option]))
        return replace(self.form, lower=lower, upper=upper) if feasible else None

    def _take(self, choice: Choice, options: int, lower: FloatArray, until: float) -> bool:
        """Take as many options as have to be, in `lower` and in HiGHS; false if none is left."""
        known = any(option in self.known for option in choice.options)
        for _ in range(choice.count):
            ranks = self.known
            if not known:
                self._run(math.inf)
                x = self._solver.getSolution().col_value
                ranks = {option: lower[option] - x[option] for option in choice.options}
            likely = [option for option in choice.options if lower[option] < self.upper[option]]
            likely.sort(key=lambda option: (ranks.get(option, math.inf), option))
            costs: list[tuple[float, int]] = []
            for option in likely:
                if self._highs.left <= 0 or time.monotonic() > until:
                    return False
                self._solver.changeColBounds(option, lower[option] + 1.0, float(self.upper[option]))
                status, cost = self._run(math.inf)
                self.probes += 1
                self._solver.changeColBounds(option, float(lower[option]), float(self.upper[option]))
                if status == highspy.HighsModelStatus.kOptimal:
                    costs.append((cost, option))
                if len(costs) == options:
                    break
            if not costs:
                return False
            best = min(costs)[1]
            lower[best] += 1.0
            self._solver.changeColBounds(best, float(lower[best]), float(self.upper[best]))
        return True

    def within(self, values: FloatArray | None) -> Form:
        """The form within the bounds that are left; the best known solution stays inside."""
        lower, upper = self.lower, self.upper
        if values is not None:
            lower, upper = np.minimum(lower, np.floor(values + 0.5)), np.maximum(upper, np.ceil(values - 0.5))
        return replace(self.form, lower=lower, upper=upper)

    def _beyond(self, cost: float) -> bool:
        """Whether a lower bound of that size is surely above the solution at hand."""
        return cost - TOLERANCE * abs(cost) > self.value

    def _probe(self, option: int) -> float:
        """What a solution with this option costs at least."""
        upper = float(self.upper[option])
        self._solver.changeColBounds(option, 1.0, upper)
        # Past this nothing more has to be known.
        enough = self.value + 2 * TOLERANCE * abs(self.value) + 1.0
        status, cost = self._run(enough)
        self.probes += 1
        if status == highspy.HighsModelStatus.kInfeasible:
            cost = math.inf
        elif status == highspy.HighsModelStatus.kObjectiveBound:
            cost = enough
        elif status != highspy.HighsModelStatus.kOptimal:
            cost = -math.inf
        self._solver.changeColBounds(option, 0.0, upper)
        self.known[option] = cost = max(cost, self.known.get(option, -math.inf))
        if self._beyond(cost):
            self._fix(option)
        return cost

    def _fix(self, option: int) -> None:
        self.upper[option] = 0.0
        self._solver.changeColBounds(option, 0.0, 0.0)

    def _run(self, enough: float) -> tuple[highspy.HighsModelStatus, float]:
        self._solver.setOptionValue("objective_bound", enough)
        self._solver.setOptionValue("time_limit", self._solver.getRunTime() + max(0.001, self._highs.left))
        self._solver.run()
        return self._solver.getModelStatus(), float(self._solver.getInfo().objective_function_value)
