"""Running CP-SAT: one budget for the whole solve, one wrapper around every call."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal, TypeVar

from ortools.sat.python import cp_model

from gangfit.models import Policy


@dataclass
class Budget:
    """What is left of the policy's limit: wall seconds, or deterministic seconds of CP-SAT in deterministic mode."""

    policy: Policy
    started: float = field(default_factory=time.monotonic)
    spent: float = 0.0
    """Deterministic seconds used."""
    kept: float = 0.0
    """Wall seconds kept for what follows the search: answer and check."""

    @property
    def remaining(self) -> float:
        """Seconds left, wall or deterministic; at least 0."""
        used = self.spent if self.policy.deterministic else time.monotonic() - self.started + self.kept
        return max(0.0, self.policy.time_limit_s - used)

    @property
    def exhausted(self) -> bool:
        """Whether so little is left that no model is worth building: 2 % of the limit."""
        return self.remaining < 0.02 * self.policy.time_limit_s

    @property
    def parallel(self) -> bool:
        """Whether two threads may work; deterministic mode keeps to one."""
        return not self.policy.deterministic and self.policy.workers >= 2

    def until(self, share: float, latest: float = math.inf) -> float:
        """The moment when a share of the remaining time (up to `latest`) is over; never in deterministic mode."""
        if self.policy.deterministic:
            return math.inf
        now = time.monotonic()
        return min(latest, now + share * (min(latest, now + self.remaining) - now))

    def part(self, until: float, share: float) -> float:
        """A share of the time up to a moment, as a share of all that remains."""
        left = self.remaining
        if self.policy.deterministic or not left:
            return share
        return max(0.0, min(1.0, share * min(until - time.monotonic(), left) / left))

    def charge(self, seconds: float) -> None:
        """Book work that isn't CP-SAT's, by a fixed tariff, so that deterministic mode ends."""
        self.spent += seconds

    def past(self, until: float) -> bool:
        """Whether a moment of the monotonic clock is over; in deterministic mode no clock is looked at."""
        return not self.policy.deterministic and time.monotonic() >= until


@dataclass(frozen=True)
class Outcome:
    """Result of one CP-SAT call."""

    status: Literal["optimal", "feasible", "infeasible", "unknown"]
    values: tuple[int, ...] | None
    """Value of every variable by index, if a solution was found."""
    bound: int | None
    """Proven lower bound of the objective, if there is one."""
    certified: bool = True
    """Whether bound and infeasibility rest on integers; else on floats, to 1e-6."""
    within: Within | None = None
    """Bounds of variables that hold, to 1e-6, in every solution of the model up to a cost."""


@dataclass(frozen=True)
class Within:
    """Bounds of variables in every solution that costs no more."""

    cost: int
    bounds: Mapping[int, tuple[int, int]]
    """Index → lowest and highest value, of the variables whose own domains are wider."""


class Incumbent(cp_model.CpSolverSolutionCallback):
    """The last solution of a solve that goes on, to be read from another thread."""

    def __init__(self) -> None:
        super().__init__()
        self.values: tuple[int, ...] | None = None

    def on_solution_callback(self) -> None:
        """Keep it; called by CP-SAT."""
        self.values = tuple(self.response_proto.solution)


T = TypeVar("T")
Beside = Callable[[threading.Event], bool]
"""Work beside a solve, until the event is set; true if the solve's question has become idle."""


def run(
    model: cp_model.CpModel,
    budget: Budget,
    share: float = 1.0,
    *,
    tight: bool = False,
    beside: Beside | None = None,
    gap: float = 0.0,
    incumbent: Incumbent | None = None,
) -> Outcome:
    """Solve a model within a share of the remaining budget.

    `tight`: its linear relaxation is what closes it. `beside` takes one of the workers, where there are several.
    `gap`: share of the value above the bound at which to stop. `incumbent` is told of every solution.
    """
    limit = budget.remaining * share
    if limit <= 0:
        return Outcome("unknown", None, None)
    solver = cp_model.CpSolver()
    parameters = solver.parameters
    parameters.random_seed = budget.policy.seed
    # Presolve's probing in 9.15 calls a few feasible models infeasible (or-tools issue 5274; `TestPresolve` in
    # tests/solver/test_fast_path.py keeps some): an infeasible model is a proof here, so it has to be right.
    parameters.cp_model_probing_level = 0
    if budget.policy.deterministic:
        parameters.num_workers = 1
        parameters.max_deterministic_time = limit
    else:
        parameters.num_workers = budget.policy.workers
        parameters.max_time_in_seconds = limit
    if tight:
        parameters.linearization_level = 2
        parameters.num_workers = 1
        # More rounds of it take twice as long as the search they save.
        parameters.max_presolve_iterations = 1
    parameters.relative_gap_limit = gap
    if beside is None or budget.policy.deterministic or budget.policy.workers < 2:
        status = solver.solve(model, incumbent)
    else:
        status = _solve_beside(solver, model, beside, incumbent)
    budget.spent += solver.response_proto.deterministic_time
    bound = math.ceil(solver.best_objective_bound - 1e-6) if model.has_objective() else None
    if status == cp_model.OPTIMAL or status == cp_model.FEASIBLE:
        values = tuple(solver.response_proto.solution)
        # Within the gap is called optimal, too.
        best = status == cp_model.OPTIMAL and (bound is None or bound >= round(solver.objective_value))
        return Outcome("optimal" if best else "feasible", values, bound)
    if status == cp_model.INFEASIBLE:
        return Outcome("infeasible", None, None)
    if status == cp_model.MODEL_INVALID:
        raise RuntimeError(f"the model is invalid: {model.validate()}")
    return Outcome("unknown", None, bound)


def _solve_beside(
    solver: cp_model.CpSolver, model: cp_model.CpModel, beside: Beside, incumbent: Incumbent | None
) -> cp_model.CpSolverStatus:
    """Solve with other work in a second thread, which may end the solve."""

    def other(done: threading.Event) -> None:
        # A stop that comes before the search has started is lost, so it is repeated.
        idle = beside(done)
        while idle and not done.wait(0.005):
            solver.stop_search()

    return _two_threads(lambda: solver.solve(model, incumbent), other)


def both(work: Callable[[threading.Event], None], beside: Beside, budget: Budget) -> None:
    """Work with other work in a second thread, where the policy allows two, until the first is through.

    The first is told by an event when the other has made it idle.
    """
    idle = threading.Event()
    if not budget.parallel:
        work(idle)
        return

    def other(done: threading.Event) -> None:
        if beside(done):
            idle.set()

    _two_threads(lambda: work(idle), other)


def _two_threads(work: Callable[[], T], other: Callable[[threading.Event], None]) -> T:
    """Work beside other work, which is told by an event when the first is through; what fails in either is raised."""
    done, failed = threading.Event(), []

    def guarded() -> None:
        try:
            other(done)
        except Exception as error:
            failed.append(error)

    thread = threading.Thread(target=guarded, daemon=True)
    thread.start()
    try:
        result = work()
    finally:
        done.set()
        thread.join()
    if failed:
        raise failed[0]
    return result
