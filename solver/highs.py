"""Runs of HiGHS on a form, up to one deadline."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import dataclass, field, replace

import highspy
import numpy as np
from highspy import _core

from gangfit.solver.certificate import contradicts, dual_bound
from gangfit.solver.engine import Budget, Incumbent, Outcome
from gangfit.solver.linear_form import TOLERANCE, FloatArray, Form

CLOSE = 0.6
"""Objectives are integers: a solution this far above a bound is optimal."""
ITERATIONS_PER_SECOND = 10_000
LINES_PER_SECOND = 8_000
NODES_PER_SECOND = 50


@dataclass
class Found:
    """What one run or several of HiGHS established."""

    infeasible: bool = False
    values: FloatArray | None = None
    value: float = math.inf
    bound: float = -math.inf
    within: tuple[FloatArray, FloatArray, float] | None = None
    """Bounds of the columns that hold in every solution up to a cost."""

    def better(self, other: Found) -> Found:
        """The better of both solutions, with the better of both bounds."""
        first = other if other.value < self.value else self
        return Found(False, first.values, first.value, max(self.bound, other.bound), self.within or other.within)

    @property
    def closed(self) -> bool:
        """Whether the solution is optimal."""
        return self.values is not None and self.value - self.bound <= CLOSE


class Shared:
    """The best of what several threads find of one form."""

    def __init__(self) -> None:
        self._best = Found()
        self._lock = threading.Lock()

    @property
    def best(self) -> Found:
        """A copy of it."""
        return replace(self._best)

    def offer(self, found: Found) -> Found:
        """The best, this included."""
        with self._lock:
            self._best = self._best.better(found)
        return self.best


@dataclass(frozen=True)
class Relaxation:
    """The linear relaxation of a form, solved."""

    value: float
    columns: FloatArray
    reduced: FloatArray
    """Reduced costs of the columns."""
    floor: int | None
    """Lower bound proven in integers."""
    basis: highspy.HighsBasis


@dataclass
class Highs:
    """Runs of HiGHS up to one deadline, or in deterministic mode a number of nodes each."""

    budget: Budget
    limit: float
    deadline: float
    done: threading.Event
    """Set when another thread needs no answer any more."""
    elsewhere: Incumbent | None = None
    """What CP-SAT finds in the meantime."""
    cost: FloatArray = field(default_factory=lambda: np.zeros(0))
    """Of the model's columns."""
    known: float = math.inf
    """What a solution at hand costs."""
    shared: Shared = field(default_factory=Shared)
    """What HiGHS in another thread finds in the meantime, and what it is told."""

    @property
    def left(self) -> float:
        """Seconds to the deadline."""
        return 0.0 if self.done.is_set() else self.deadline - time.monotonic()

    def met(self, best: Found) -> Found:
        """The best solution and bound, another thread's if those are better; the other thread is told."""
        values = None if self.elsewhere is None else self.elsewhere.values
        if values is not None:
            columns = np.array(values, dtype=np.float64)
            best = best.better(Found(values=columns, value=float(self.cost @ columns)))
        return self.shared.offer(best)

    def settled(self, best: Found) -> bool:
        """Whether the solution is optimal, or nothing is better than the one at hand."""
        return best.closed or best.bound >= self.known - CLOSE

    def solver(
        self,
        lp: highspy.HighsLp,
        share: float,
        gap: float,
        start: FloatArray | None,
        presolve: bool = True,
        exchanged: Form | None = None,
    ) -> _core._Highs | None:
        """The instance after its run; None if it didn't take the model. `exchanged`: as in `interrupted_by`."""
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
            # Restarts at the root of a small model take longer than the search they save.
            ("mip_allow_restart", exchanged is not None),
        ]
        if exchanged is not None:
            # Small models of its own take half the time of a proof; another thread looks for solutions.
            heuristics = "rins", "rens", "root_reduced_cost"
            options += [(f"mip_heuristic_run_{heuristic}", False) for heuristic in heuristics]
            if math.isfinite(self.known):
                options.append(("objective_bound", self.known + CLOSE))
        for option, value in options:
            solver.setOptionValue(option, value)
        if solver.passModel(lp) == highspy.HighsStatus.kError:
            return None
        if start is not None:
            solution = highspy.HighsSolution()
            solution.col_value = start.tolist()
            solver.setSolution(solution)
        interrupted_by(solver, self, exchanged)
        solver.run()
        # HiGHS has no deterministic clock: lines of the model and iterations, at about this rate, stand for one.
        lines = solver.getNumCol() + solver.getNumRow()
        iterations = solver.getInfo().simplex_iteration_count
        self.budget.charge(lines / LINES_PER_SECOND + iterations / ITERATIONS_PER_SECOND)
        return solver

    def exchange(self, form: Form, start: FloatArray | None) -> bool:
        """Branch and bound until the deadline, for the bound more than for solutions; whether that settled the form.

        Other threads on the form are told what it finds, and it hears what they find.
        """
        solver = self.solver(form.lp(), 1.0, 0.0, start, exchanged=form)
        if solver is None:
            return False
        if solver.getModelStatus() != highspy.HighsModelStatus.kInfeasible:
            self.bounded(solver.getInfo().mip_dual_bound)
        elif self.shared.best.value >= self.known - CLOSE:
            # Nothing is better than what was known; what another thread had found would refute it.
            self.shared.offer(Found(bound=self.known))
        return self.settled(self.shared.best)

    def bounded(self, bound: float) -> Found:
        """Tell others of a lower bound; beyond what a solution costs it says nothing."""
        if not math.isfinite(bound):
            return self.shared.best
        return self.shared.offer(Found(bound=min(bound, self.known, self.shared.best.value)))

    def relaxation(self, form: Form) -> Relaxation | Outcome | None:
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
        return Relaxation(value, np.array(solution.col_value), np.array(solution.col_dual), floor, solver.getBasis())

    def _contradiction(self, form: Form) -> bool:
        """Whether integers confirm that nothing satisfies the relaxation."""
        solver = self.solver(replace(form, cost=np.zeros(len(form.cost))).lp(True), 1.0, 0.0, None, presolve=False)
        if solver is None:
            return False
        # HiGHS has it, its type stubs do not.
        _, known, ray = solver.getDualRay()  # type: ignore[attr-defined]  # absent from the stubs
        return bool(known) and contradicts(form, np.array(ray))

    def run(self, form: Form, share: float = 1.0, gap: float = 0.0, start: FloatArray | None = None) -> Found:
        """Branch and bound. A value is always that of the columns, for HiGHS has been seen to state another one."""
        if self.left <= 0 and not self.budget.policy.deterministic:
            return Found()
        solver = self.solver(form.lp(), share, gap, start)
        if solver is None:
            return Found()
        if solver.getModelStatus() == highspy.HighsModelStatus.kInfeasible:
            return Found(infeasible=True)
        info = solver.getInfo()
        found = Found(bound=info.mip_dual_bound if math.isfinite(info.mip_dual_bound) else -math.inf)
        if info.primal_solution_status == highspy.SolutionStatus.kSolutionStatusFeasible:
            found.values = form.whole(np.array(solver.getSolution().col_value))
            if found.values is None:
                return found
            found.value = float(form.cost @ found.values)
            if found.bound > found.value + max(0.5, TOLERANCE * abs(found.value)) or (
                start is not None and found.value > info.objective_function_value + max(0.5, TOLERANCE * found.value)
            ):
                found.bound = -math.inf
        return found


def interrupted_by(solver: _core._Highs, highs: Highs, exchanged: Form | None = None) -> None:
    """HiGHS stops once time is over, which it doesn't always look at itself, or nobody needs its answer any more.

    `exchanged`: the form it works on, if what it finds is to be told to other threads, and theirs to it.
    """
    kinds, shared = _core.cb.HighsCallbackType, highs.shared
    timeless, heard = highs.budget.policy.deterministic, math.inf

    def called(
        kind: _core.cb.HighsCallbackType,
        text: str,
        out: _core.cb.HighsCallbackOutput,
        into: _core.cb.HighsCallbackInput,
        of: object,
    ) -> None:
        nonlocal heard
        if exchanged is not None and kind == kinds.kCallbackMipUserSolution:
            best = shared.best
            if best.values is not None and best.value < min(heard, out.mip_primal_bound) - CLOSE:
                heard = best.value
                into.setSolution(best.values)
        elif exchanged is not None and kind == kinds.kCallbackMipImprovingSolution:
            values = exchanged.whole(np.array(out.mip_solution))
            if values is not None:
                shared.offer(Found(values=values, value=float(exchanged.cost @ values)))
        else:
            into.user_interrupt = highs.done.is_set() or (not timeless and time.monotonic() > highs.deadline)
            if exchanged is not None and kind == kinds.kCallbackMipInterrupt:
                found = highs.bounded(out.mip_dual_bound)
                into.user_interrupt = into.user_interrupt or highs.settled(found)

    solver.setCallback(called, None)
    wanted = [kinds.kCallbackMipInterrupt, kinds.kCallbackSimplexInterrupt]
    if exchanged is not None:
        wanted += [kinds.kCallbackMipImprovingSolution, kinds.kCallbackMipUserSolution]
    for kind in wanted:
        solver.startCallback(kind)
