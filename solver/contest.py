"""Who searches for the answer to a question about victims: CP-SAT beside HiGHS, HiGHS in two ways, or one of them."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import replace

from ortools.sat.python import cp_model

from gangfit.solver.engine import Budget, Incumbent, Outcome, run
from gangfit.solver.mip import TINY, run_mip
from gangfit.solver.slots import Slots
from gangfit.solver.stages import raced

CONFIRM_SHARE = 0.1
"""Most of the remaining time for CP-SAT to confirm in integers what HiGHS refused in floats."""
QUICK_SHARE = 0.8
"""Most of a question's time for CP-SAT before branch and bound."""
CONFIRM_LIMIT = 5_000
"""Most variables of a model that is put to CP-SAT for that."""
COUNT_LIMIT = 10_000
"""The same where victims are counted: then a relaxation says little."""
RACED_S = 3.0
"""Seconds of a question from which on both threads are HiGHS': the root of a large model takes as long."""


def solved(slots: Slots, budget: Budget, share: float, known: int | None, gap: float) -> Outcome:
    """As `run_mip`, beside CP-SAT where it may be the quicker; the first to settle the question ends the other.

    A large model with an objective is HiGHS' alone, in both threads. With one worker CP-SAT goes first where rights
    depend on who else leaves: then it is the quicker by far.
    """
    model = slots.model
    size = len(model.proto.variables)
    most = COUNT_LIMIT if max(model.proto.objective.coeffs, default=0) == 1 else CONFIRM_LIMIT
    room = share * budget.remaining >= RACED_S
    alone = room and not gap and not slots.conditional and raced(size, budget)
    if alone or not TINY < size <= most or not (budget.parallel or slots.conditional):
        return run_mip(model, budget, share, known, gap, translated=slots.linear)

    def settles(outcome: Outcome) -> bool:
        return outcome.status in ("optimal", "infeasible") or bool(gap and outcome.values is not None)

    if not budget.parallel:
        outcome = run(model, budget, share * QUICK_SHARE, tight=True, gap=gap)
        return outcome if settles(outcome) else run_mip(model, budget, share, known, gap, translated=slots.linear)
    found: list[Outcome] = []
    incumbent = Incumbent()

    def branch_and_bound(done: threading.Event) -> bool:
        found.append(run_mip(model, budget, share, known, gap, done, incumbent, slots.linear))
        return settles(found[0])

    outcome = run(model, budget, share, tight=True, beside=branch_and_bound, gap=gap, incumbent=incumbent)
    if not found:
        return outcome
    best = outcome if settles(outcome) else _better(model, outcome, found[0], settles(found[0]))
    return replace(best, within=found[0].within)


def _better(model: cp_model.CpModel, search: Outcome, other: Outcome, settled: bool) -> Outcome:
    """What two unfinished solves say together; the other alone if it has `settled` the question."""
    if settled:
        return other
    values = [outcome.values for outcome in (search, other) if outcome.values is not None]
    best = min(values, key=lambda found: _cost(model, found), default=None)
    bounds = [outcome for outcome in (search, other) if outcome.bound is not None]
    first = max(bounds, key=lambda outcome: (outcome.bound or 0, outcome.certified), default=search)
    if best is None:
        return Outcome("unknown", None, first.bound, first.certified)
    met = first.bound is not None and first.bound >= _cost(model, best)
    return Outcome("optimal" if met else "feasible", best, first.bound, first.certified)


def _cost(model: cp_model.CpModel, values: Sequence[int]) -> int:
    objective = model.proto.objective
    cost: int = sum(c * values[v] for v, c in zip(objective.vars, objective.coeffs, strict=True))
    return cost + round(objective.offset)


def confirmed(slots: Slots, refused: Outcome, budget: Budget) -> Outcome:
    """The same refusal in integers, or what CP-SAT found where HiGHS saw nothing."""
    if len(slots.model.proto.variables) > CONFIRM_LIMIT:
        return refused
    outcome = run(slots.model, budget, CONFIRM_SHARE, tight=True)
    return refused if outcome.status == "unknown" else outcome
