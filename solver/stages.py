"""The order in which a large question with an objective is put to HiGHS: small models first, the whole one last."""

from __future__ import annotations

import math
import threading
import time
from dataclasses import replace

import highspy
import numpy as np

from gangfit.solver.arrays import BoolArray
from gangfit.solver.engine import Budget, both
from gangfit.solver.highs import Found, Highs, Relaxation, Shared
from gangfit.solver.linear_form import TOLERANCE, FloatArray, Form
from gangfit.solver.probing import Probing
from gangfit.solver.victim_search import VictimSearch

STAGED = 200
"""Columns from which on a model is worth a small model of its own."""
TIGHT = 0.75
"""Share of the best solution's cost from which on a relaxation promises that branch and bound is quick."""
KERNELS = (0.1, 0.25, 0.5, 0.75, 0.9, 0.97)
"""Shares of the priced columns that the small models let in, until one holds the best or isn't solved in its time."""
KERNEL_SHARE = 0.25
"""Most of the remaining time that one small model may take."""
KERNEL_GAP = 1e-3
START_SHARE = 0.1
"""Most of the remaining time for making a hint whole."""
SEARCH_SHARE = 0.05, 0.25
"""Most of the remaining time for local search before branch and bound, and before probing."""
TURN = 4_000
"""Iterations of local search between two turns of branch and bound on who gives way."""
TURN_SHARE = 0.25
"""Most of the time for both that one of these may take."""
TURN_GAP = 1e-4
WIDE = 0.5
"""Share of the columns that probing left open from which on branch and bound on those promises no more than on all."""
PLAIN_SHARE = 0.3
"""Most of the remaining time for branch and bound on all of a model before the stages."""
RACED = 1_500
"""Columns from which on local search comes first, and where there are two threads, branch and bound on all of a model
goes beside the stages."""
FEWER_SHARE = 0.4
"""Most of the remaining time for the question whether less will do within a budget."""
TURNED_SHARE = 0.95
"""The same for a large model."""
PROBING_SHARE = 0.15, 0.3
"""Most of the remaining time for probing before a good solution is known, and after."""
DIVE_SHARE = 0.2
"""Most of the remaining time for the victims once each gang that was probed has its domain."""
DIVE_GAP = 1e-2
DIVE_KERNELS = (0.1, 0.3, 0.6)
"""Shares of the priced victims that are let in, until they are enough."""
OPTIONS = 4
"""Domains looked at for each of them."""


def staged(form: Form, highs: Highs, relaxation: Relaxation) -> Found:
    """Local search on a large form, the hint made whole if that found nothing as good, then branch and bound.

    That on all of the form if it is likely to be quick, else on small models, then on all that may matter; a large form
    is split between two threads, where there are two.
    """
    search = VictimSearch.of(form, highs, relaxation) if len(form.cost) > RACED else None
    best = highs.met(Found() if search is None else search.run(highs, SEARCH_SHARE[0]))
    priced = form.cost > 0
    if form.hint is not None and best.value > highs.known:
        whole = highs.run(form.without(priced & (form.hint <= form.lower)), START_SHARE, KERNEL_GAP)
        best = best.better(Found(values=whole.values, value=whole.value))
    form = form.without(priced & (form.cost > min(best.value, highs.known)))
    best.bound = relaxation.value
    best = highs.met(best)
    for row in form.budgets()[-1:]:
        best = highs.met(_fewer(form, highs, row, best))
    if highs.settled(best) or highs.left <= 0:
        return best
    if highs.elsewhere is None and raced(len(form.cost), highs.budget):
        return _raced(form, highs, relaxation, best, search)
    if relaxation.value >= TIGHT * min(best.value, highs.known):
        plain = highs.run(form, PLAIN_SHARE, start=best.values)
        if plain.infeasible:
            return plain
        best = highs.met(best.better(plain))
    return _narrowed(form, highs, relaxation, best, search)


def raced(columns: int, budget: Budget) -> bool:
    """Whether a model of so many columns is worth two threads of HiGHS."""
    return columns > RACED and budget.parallel


def _raced(form: Form, highs: Highs, relaxation: Relaxation, best: Found, search: VictimSearch | None) -> Found:
    """Stages beside branch and bound on all of the form. Each hears what the other finds; the first to close ends both.

    Neither is the quicker in general: branch and bound has the better bound, the stages the better solutions.
    """
    found = highs.met(best)

    def stages(idle: threading.Event) -> None:
        nonlocal found
        found = _narrowed(form, replace(highs, done=idle), relaxation, found, search, beside=True)

    start = found.values
    both(stages, lambda done: replace(highs, done=done).exchange(form, start), highs.budget)
    best = highs.met(found)
    if best.values is None and best.bound == math.inf:
        return Found(infeasible=True)
    return replace(best, within=found.within)


def _narrowed(
    form: Form, highs: Highs, relaxation: Relaxation, best: Found, search: VictimSearch | None, beside: bool = False
) -> Found:
    """Where gangs choose domains, probing finds the small models, else reduced costs do. Local search goes on first.

    With branch and bound on all of the form `beside` it, it is there for solutions and takes its time over search.
    """
    if highs.settled(best) or highs.left <= 0:
        return best
    if search is not None and beside:
        best = _improved(form, highs, best, search, SEARCH_SHARE[1])
    elif search is not None:
        best = highs.met(best.better(search.run(highs, SEARCH_SHARE[1], TURN)))
    if highs.settled(best) or highs.left <= 0:
        return best
    value = min(best.value, highs.known)
    probing = Probing(form, highs, value, relaxation.basis) if math.isfinite(value) else None
    if probing is not None and probing.alive and probing.choices:
        return _probed(form, highs, best, probing, search, beside)
    return _kernels(form, highs, relaxation, best)


def _improved(form: Form, highs: Highs, best: Found, search: VictimSearch, share: float) -> Found:
    """Local search and branch and bound by turns for a share of the remaining time, or until search has nothing better.

    Branch and bound finds the best victims for the options that are taken, which search only comes near to; search goes
    on from there.
    """
    here = replace(highs, deadline=min(highs.deadline, time.monotonic() + share * highs.left))
    options, taken = search.covering.options, np.zeros(0)
    while not here.settled(best) and here.left > 0 and not search.exhausted:
        if best.values is not None and not np.array_equal(taken, best.values[options]):
            taken = best.values[options]
            lower, upper = form.lower.copy(), form.upper.copy()
            lower[options] = upper[options] = taken
            found = here.run(replace(form, lower=lower, upper=upper), TURN_SHARE, TURN_GAP, best.values)
            if found.values is not None and found.value < best.value:
                search.adopt(found.values)
            best = here.met(best.better(Found(values=found.values, value=found.value)))
        best = here.met(best.better(search.run(here, 1.0, TURN)))
    return best


def _fewer(form: Form, highs: Highs, row: int, best: Found) -> Found:
    """Less than the best within a budget that is hard to keep: the least that the budget's row takes with less.

    Where that is more than the budget, nothing is better. It is a search like the one that found what the budget is,
    while the objective itself has next to no bound.
    """
    part = slice(form.rows.start[row], form.rows.start[row + 1])
    spent = np.zeros(len(form.cost))
    spent[form.rows.index[part]] = form.rows.value[part]
    priced = np.flatnonzero(form.cost).tolist()
    while best.values is not None and not best.closed and highs.left > 0:
        rows = form.rows.copy()
        rows.add({x: round(form.cost[x]) for x in priced}, -math.inf, best.value - 1)
        turned = replace(form, cost=spent, hint=None)
        if len(form.cost) > RACED:
            found = _in_budget(replace(turned, rows=rows.without(row)), highs, form.rows.upper[row])
        else:
            found = highs.run(replace(turned, rows=rows), FEWER_SHARE)
        if found.infeasible:
            best.bound = best.value
        if found.values is None:
            break
        best = best.better(Found(values=found.values, value=float(form.cost @ found.values)))
    return best


def _in_budget(form: Form, highs: Highs, budget: float) -> Found:
    """Any solution that costs no more than a budget."""
    until = time.monotonic() + TURNED_SHARE * highs.left
    here = replace(highs, deadline=until, cost=form.cost, known=budget + 1, shared=Shared())
    # Whatever keeps to the budget is as good as any other.
    here.shared.offer(Found(bound=budget))
    settled = here.exchange(form, None)
    found = here.shared.best
    if found.value <= budget:
        return found
    return Found(infeasible=settled)


def _probed(
    form: Form, highs: Highs, best: Found, probing: Probing, search: VictimSearch | None, beside: bool
) -> Found:
    """Probing, the cheapest options alone, probing again, what is left. Bounds found go with the answer.

    Where local search finds solutions there is no need of the second; it also goes on if probing leaves most open.
    """
    dive = search is None or search.best.values is None
    for stage in range(2) if dive else (1,):
        probing.run(PROBING_SHARE[stage] * highs.left)
        best = highs.met(best.better(Found(bound=probing.bound)))
        if not stage and probing.alive and not highs.settled(best):
            best = highs.met(best.better(_dived(highs, probing)))
        if probing.alive:
            probing.shrink(best.value)
            best.bound = max(best.bound, probing.bound)
    best.within = probing.lower, probing.upper, probing.value
    if highs.settled(best) or highs.left <= 0:
        return best
    left = probing.within(best.values)
    wide = (left.upper > left.lower).sum() > WIDE * (form.upper > form.lower).sum()
    if search is not None and beside and not dive and wide:
        best = replace(_improved(form, highs, best, search, 1.0), within=best.within)
        if highs.settled(best) or highs.left <= 0:
            return best
        left = probing.within(best.values)
    last = highs.run(left, 1.0, 0.0, best.values)
    if last.infeasible:
        # Only what is worse than the best was left out.
        return best
    return best.better(replace(last, bound=min(last.bound, best.value)))


def _dived(highs: Highs, probing: Probing) -> Found:
    """Victims for domains that a dive chooses: those its relaxation takes and a few more, or more than a few.

    Domains that weren't probed are left to HiGHS; where so few victims are too few for that, the dive takes them, too.
    """
    left: list[Form] = []
    for complete in (False, True):
        dive = probing.dive(OPTIONS, complete, DIVE_SHARE * highs.left)
        relaxation = None if dive is None else highs.relaxation(dive)
        if dive is None or not isinstance(relaxation, Relaxation):
            continue
        reduced = Reduced(dive, relaxation.columns, relaxation.reduced)
        dear = reduced.at_lower & (dive.cost > 0)
        prices = np.sort(reduced.prices[dear])
        for share in DIVE_KERNELS if len(prices) else (1.0,):
            beyond = prices[int(share * (len(prices) - 1))] if len(prices) else 0.0
            found = highs.run(dive.without(dear & (reduced.prices > beyond)), DIVE_SHARE, DIVE_GAP)
            if found.values is not None:
                return Found(values=found.values, value=found.value)
        left.append(dive)
    found = highs.run(left[0], DIVE_SHARE, DIVE_GAP) if left else Found()
    return Found(values=found.values, value=found.value)


def _kernels(form: Form, highs: Highs, relaxation: Relaxation, best: Found) -> Found:
    """Columns worth little more than the hint, more of them, all that may matter.

    With reduced costs from the relaxation (value L), a solution of cost ≤ L + τ uses no column whose reduced cost is
    beyond τ. So the small model without those finds good solutions, and what it rules out is ruled out below L + τ.
    """
    priced, floor = form.cost > 0, relaxation.value
    reduced = Reduced(form, relaxation.columns, relaxation.reduced)
    prices = np.sort(reduced.prices[priced & (reduced.prices > TOLERANCE)])
    for share in KERNELS:
        best = highs.met(best)
        if not len(prices) or highs.settled(best) or highs.left <= 0:
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
    if highs.settled(best) or highs.left <= 0:
        return best
    everything = np.ones(len(form.cost), dtype=np.bool_)
    last = highs.run(reduced.within(best.value - floor, everything), 1.0, 0.0, best.values)
    if last.infeasible:
        # Only what is worse than the best was left out.
        return best if best.values is not None else last
    return best.better(replace(last, bound=min(last.bound, best.value)))


def within_budget(form: Form, highs: Highs, row: int) -> Form:
    """The form without columns that would break a budget, by the least that the relaxation spends of it."""
    low, high = form.rows.start[row], form.rows.start[row + 1]
    spent = np.zeros(len(form.cost))
    spent[form.rows.index[low:high]] = form.rows.value[low:high]
    relaxation = highs.solver(replace(form, cost=spent).lp(relaxed=True), 1.0, 0.0, None)
    if relaxation is None or relaxation.getModelStatus() != highspy.HighsModelStatus.kOptimal:
        return form
    solution = relaxation.getSolution()
    reduced = Reduced(form, np.array(solution.col_value), np.array(solution.col_dual))
    least = relaxation.getInfo().objective_function_value
    left = form.rows.upper[row] - least + TOLERANCE * abs(least)
    return reduced.within(left, np.ones(len(form.cost), dtype=np.bool_))


class Reduced:
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
