"""HiGHS on a CP-SAT model: the linear relaxation CP-SAT lacks bounds every victim question in milliseconds.

A solution counts only after its rounded values satisfy every constraint in integers. What the relaxation's duals prove
in integers is certified; the rest of HiGHS' bounds and infeasibility is its own, to 1e-6.
"""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, replace

import highspy
import numpy as np
from highspy import _core
from ortools.sat.python import cp_model

from gangfit.solver.arrays import BoolArray
from gangfit.solver.certificate import contradicts, dual_bound
from gangfit.solver.engine import Budget, Outcome, run
from gangfit.solver.linear_form import FloatArray, Form, linear_form, satisfied

TOLERANCE = 1e-6
ITERATIONS_PER_SECOND = 10_000
LINES_PER_SECOND = 8_000
NODES_PER_SECOND = 50
TINY = 60
"""Columns up to which CP-SAT is as quick, and its answers are integer proofs."""
STAGED = 200
"""Columns from which on a model is worth a small model of its own."""
LARGE = 1_000
"""Columns from which on branch and bound on all of it isn't tried first."""
KERNELS = (0.1, 0.25, 0.5, 0.75, 0.9, 0.97)
"""Shares of the priced columns that the small models let in, until one holds the best or isn't solved in its time."""
KERNEL_SHARE = 0.25
"""Most of the remaining time that one small model may take."""
KERNEL_GAP = 1e-3
START_SHARE = 0.1
"""Most of the remaining time for making a hint whole."""
PLAIN_SHARE = 0.3
"""Most of the remaining time for branch and bound on all of a model before the stages."""


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


@dataclass(frozen=True)
class _Relaxation:
    """The linear relaxation of a form, solved."""

    value: float
    columns: FloatArray
    reduced: FloatArray
    """Reduced costs of the columns."""
    floor: int | None
    """Lower bound proven in integers."""


def run_mip(
    model: cp_model.CpModel,
    budget: Budget,
    share: float = 1.0,
    known: int | None = None,
    gap: float = 0.0,
    done: threading.Event | None = None,
) -> Outcome:
    """Minimise a model within a share of the remaining budget. HiGHS failing in any way is `unknown`.

    `gap`: share of the value above the bound at which to stop. `done` ends the work from another thread.

    A hint of the model that is complete in the variables that cost is where it starts. `known`: value of a solution at
    hand; where nothing is better, the outcome is optimal without values.
    """
    limit = budget.remaining * share
    if limit <= 0:
        return Outcome("unknown", None, None)
    if len(model.proto.variables) <= TINY:
        return run(model, budget, share, tight=True)
    deadline = time.monotonic() + limit
    form = linear_form(model)
    offset = round(model.proto.objective.offset)
    highs = _Highs(budget, limit, deadline, done or threading.Event())
    for row in form.budgets():
        form = _within_budget(form, highs, row)
    relaxation = highs.relaxation(form)
    if isinstance(relaxation, Outcome):
        return relaxation
    floor = None if relaxation is None or relaxation.floor is None else relaxation.floor + offset
    if known is not None and floor is not None and floor >= known:
        return Outcome("optimal", None, known)
    if relaxation is None or gap or not form.cost.any() or len(form.cost) < STAGED or budget.policy.deterministic:
        found = highs.run(form, gap=gap)
    else:
        found = _staged(form, highs, relaxation)
    return _outcome(model, form, found, floor)


@dataclass
class _Highs:
    """Runs of HiGHS up to one deadline, or in deterministic mode a number of nodes each."""

    budget: Budget
    limit: float
    deadline: float
    done: threading.Event
    """Set when another thread needs no answer any more."""

    @property
    def left(self) -> float:
        """Seconds to the deadline."""
        return 0.0 if self.done.is_set() else self.deadline - time.monotonic()

    def solver(
        self, lp: highspy.HighsLp, share: float, gap: float, start: FloatArray | None, presolve: bool = True
    ) -> _core._Highs | None:
        """The instance after its run; None if it didn't take the model."""
        # The plain core class: the Python wrapper prints a banner before it can be told not to.
        solver = _core._Highs()
        policy = self.budget.policy
        stop: tuple[str, float | int] = ("time_limit", max(0.001, share * self.left))
        if policy.deterministic:
            stop = ("mip_max_nodes", max(1, round(self.limit * NODES_PER_SECOND)))
        options: list[tuple[str, float | int | bool | str]] = [
            ("output_flag", False),
            ("threads", 1),
            ("random_seed", policy.seed),
            stop,
            ("mip_rel_gap", gap),
            ("mip_abs_gap", 0.5),
            ("presolve", "choose" if presolve else "off"),
        ]
        for option, value in options:
            solver.setOptionValue(option, value)
        if solver.passModel(lp) == highspy.HighsStatus.kError:
            return None
        if start is not None:
            solution = highspy.HighsSolution()
            solution.col_value = start.tolist()
            solver.setSolution(solution)
        solver.setCallback(lambda kind, text, out, into, of: setattr(into, "user_interrupt", self.done.is_set()), None)
        solver.startCallback(_core.cb.HighsCallbackType.kCallbackMipInterrupt)
        solver.startCallback(_core.cb.HighsCallbackType.kCallbackSimplexInterrupt)
        solver.run()
        # HiGHS has no deterministic clock: lines of the model and iterations, at about this rate, stand for one.
        lines = solver.getNumCol() + solver.getNumRow()
        iterations = solver.getInfo().simplex_iteration_count
        self.budget.charge(lines / LINES_PER_SECOND + iterations / ITERATIONS_PER_SECOND)
        return solver

    def relaxation(self, form: Form) -> _Relaxation | Outcome | None:
        """The relaxation, or the outcome if nothing satisfies it; None if HiGHS failed."""
        solver = self.solver(form.lp(relaxed=True), 1.0, 0.0, None)
        if solver is None:
            return None
        status = solver.getModelStatus()
        if status == highspy.HighsModelStatus.kInfeasible:
            return Outcome("infeasible", None, None, certified=self._contradiction(form))
        if status != highspy.HighsModelStatus.kOptimal:
            return None
        solution = solver.getSolution()
        floor = dual_bound(form, np.array(solution.row_dual)) if form.cost.any() else None
        value = solver.getInfo().objective_function_value
        return _Relaxation(value, np.array(solution.col_value), np.array(solution.col_dual), floor)

    def _contradiction(self, form: Form) -> bool:
        """Whether integers confirm that nothing satisfies the relaxation."""
        solver = self.solver(replace(form, cost=np.zeros(len(form.cost))).lp(True), 1.0, 0.0, None, presolve=False)
        if solver is None:
            return False
        # HiGHS has it, its type stubs do not.
        _, known, ray = solver.getDualRay()  # type: ignore[attr-defined]  # absent from the stubs
        return bool(known) and contradicts(form, np.array(ray))

    def run(self, form: Form, share: float = 1.0, gap: float = 0.0, start: FloatArray | None = None) -> _Found:
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


def _staged(form: Form, highs: _Highs, relaxation: _Relaxation) -> _Found:
    """The hint made whole, branch and bound if that is quick, columns worth little more than it, all that may matter.

    With reduced costs from the relaxation (value L), a solution of cost ≤ L + τ uses no column whose reduced cost is
    beyond τ. So the small model without those finds good solutions, and what it rules out is ruled out below L + τ.
    """
    best = _Found()
    priced = form.cost > 0
    if form.hint is not None:
        best = highs.run(form.without(priced & (form.hint <= form.lower)), START_SHARE, KERNEL_GAP)
        best = _Found(values=best.values, value=best.value)
        form = form.without(priced & (form.cost > best.value))
    floor = best.bound = relaxation.value
    if len(form.cost) < LARGE and not best.closed:
        found = highs.run(form, PLAIN_SHARE, start=best.values)
        best.bound = max(best.bound, found.bound)
        if found.infeasible:
            return found
        if found.value < best.value:
            best.values, best.value = found.values, found.value
    reduced = _Reduced(form, relaxation.columns, relaxation.reduced)
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


def _within_budget(form: Form, highs: _Highs, row: int) -> Form:
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

    def __init__(self, form: Form, values: FloatArray, duals: FloatArray) -> None:
        self.form, self.values = form, values
        self.at_lower = (values <= form.lower + TOLERANCE) & (duals > TOLERANCE)
        self.at_upper = (values >= form.upper - TOLERANCE) & (duals < -TOLERANCE)
        self.prices: FloatArray = np.where(self.at_lower | self.at_upper, np.abs(duals), 0.0)

    def within(self, beyond: float, columns: BoolArray) -> Form:
        """The form without what costs more than `beyond` above the relaxation."""
        if not math.isfinite(beyond):
            return self.form
        form, most = self.form, max(0.0, beyond) + 1.0
        with np.errstate(divide="ignore"):
            steps = np.floor(most / self.prices)
        lower = np.where(self.at_upper & columns, np.maximum(form.lower, form.upper - steps), form.lower)
        upper = np.where(self.at_lower & columns, np.minimum(form.upper, form.lower + steps), form.upper)
        return replace(form, lower=lower, upper=upper)


def _outcome(model: cp_model.CpModel, form: Form, found: _Found, floor: int | None) -> Outcome:
    """`floor`: lower bound proven in integers."""
    if found.infeasible:
        return Outcome("infeasible", None, None, certified=False)
    offset = round(model.proto.objective.offset)
    lower = floor
    if math.isfinite(found.bound):
        tree = math.ceil(found.bound - TOLERANCE * max(1.0, abs(found.bound))) + offset
        lower = tree if floor is None else max(floor, tree)
    certified = lower is None or (floor is not None and floor >= lower)
    if found.values is None:
        return Outcome("unknown", None, lower, certified)
    rounded = np.where(form.implied, np.ceil(found.values - TOLERANCE), np.rint(found.values)).astype(np.int64)
    values = tuple(rounded.tolist())
    if not satisfied(model, values):
        return Outcome("unknown", None, lower, certified)
    value = sum(c * values[v] for v, c in zip(model.proto.objective.vars, model.proto.objective.coeffs, strict=True))
    value += offset
    if found.closed or not form.cost.any():
        return Outcome("optimal", values, value, not form.cost.any() or (floor is not None and floor >= value))
    return Outcome("feasible", values, None if lower is None else min(lower, value), certified)
