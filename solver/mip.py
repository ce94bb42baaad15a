"""HiGHS on a CP-SAT model: the linear relaxation CP-SAT lacks bounds every victim question in milliseconds.

A solution counts only after its rounded values satisfy every constraint in integers. What the relaxation's duals prove
in integers is certified; the rest of HiGHS' bounds and infeasibility is its own, to 1e-6.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable
from dataclasses import replace

import numpy as np
from ortools.sat.python import cp_model

from gangfit.solver.engine import Budget, Incumbent, Outcome, Within, run
from gangfit.solver.highs import Found, Highs
from gangfit.solver.linear_form import TOLERANCE, Form, linear_form, satisfied
from gangfit.solver.stages import STAGED, staged, within_budget

TINY = 60
"""Columns up to which CP-SAT is as quick, and its answers are integer proofs."""


def run_mip(
    model: cp_model.CpModel,
    budget: Budget,
    share: float = 1.0,
    known: int | None = None,
    gap: float = 0.0,
    done: threading.Event | None = None,
    elsewhere: Incumbent | None = None,
    translated: Callable[[], Form] | None = None,
) -> Outcome:
    """Minimise a model within a share of the remaining budget. HiGHS failing in any way is `unknown`.

    `gap`: share of the value above the bound at which to stop. `done` ends the work from another thread, `elsewhere`
    tells what that one finds. `translated` gives the model's form, if something of it is known.

    A hint of the model that is complete in the variables that cost is where it starts. `known`: value of a solution at
    hand; where nothing is better, the outcome is optimal without values.
    """
    limit = budget.remaining * share
    if limit <= 0:
        return Outcome("unknown", None, None)
    if len(model.proto.variables) <= TINY:
        return run(model, budget, share, tight=True)
    deadline = time.monotonic() + limit
    form = linear_form(model) if translated is None else translated()
    offset = round(model.proto.objective.offset)
    most = math.inf if known is None else known - offset
    highs = Highs(budget, limit, deadline, done or threading.Event(), elsewhere, form.cost, most)
    for row in form.budgets():
        form = within_budget(form, highs, row)
    relaxation = highs.relaxation(form)
    if isinstance(relaxation, Outcome):
        return relaxation
    floor = None if relaxation is None or relaxation.floor is None else relaxation.floor + offset
    if known is not None and floor is not None and floor >= known:
        return Outcome("optimal", None, known)
    if relaxation is None or gap or not form.cost.any() or len(form.cost) < STAGED or budget.policy.deterministic:
        found = highs.run(form, gap=gap)
    else:
        found = staged(form, highs, relaxation)
        if not found.closed and not found.infeasible and highs.settled(found):
            return Outcome("optimal", None, known, certified=False, within=_within(form, found, offset))
    return replace(_outcome(model, form, found, floor), within=_within(form, found, offset))


def _within(form: Form, found: Found, offset: int) -> Within | None:
    """What holds of the columns up to a cost, where that is more than their own bounds say."""
    if found.within is None:
        return None
    lower, upper, value = found.within
    narrower = np.flatnonzero((lower > form.lower) | (upper < form.upper))
    bounds = {int(x): (math.ceil(lower[x] - TOLERANCE), math.floor(upper[x] + TOLERANCE)) for x in narrower}
    return Within(math.floor(value + TOLERANCE) + offset, bounds)


def _outcome(model: cp_model.CpModel, form: Form, found: Found, floor: int | None) -> Outcome:
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
    values = tuple(found.values.astype(np.int64).tolist())
    if not satisfied(model, values):
        return Outcome("unknown", None, lower, certified)
    value = sum(c * values[v] for v, c in zip(model.proto.objective.vars, model.proto.objective.coeffs, strict=True))
    value += offset
    if found.closed or not form.cost.any():
        return Outcome("optimal", values, value, not form.cost.any() or (floor is not None and floor >= value))
    return Outcome("feasible", values, None if lower is None else min(lower, value), certified)
