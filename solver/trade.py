"""`policy.tolerance`: tiers exceeded by a share for the sake of the next one. See docs/model.md, "Tolerance"."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import replace
from fractions import Fraction
from functools import partial
from typing import Literal, Protocol

from gangfit.solver.assignment import Assignment, tier_names
from gangfit.solver.decided import Admission
from gangfit.solver.engine import Budget
from gangfit.solver.held_bound import UPLINKS
from gangfit.solver.joint import Joint
from gangfit.solver.oracle import Answer, Preemption, losses, needed, settle
from gangfit.solver.problem import Problem
from gangfit.solver.rights import rights
from gangfit.solver.tiers import TierResult
from gangfit.solver.topology import DISTANCE


class Search(Protocol):
    """What improves placements tier by tier, and can look for one tier with others held."""

    assignment: Assignment

    def values(self) -> tuple[int, ...]:
        """Values of the tiers after admission and victims."""

    def counted(self) -> tuple[int, ...]:
        """Lower bounds of the tiers that hold for every placement of the gangs."""

    def minimise(self, tier: int, most: Mapping[int, int], bound: int) -> int:
        """Make a tier as small as it gets with some tiers at most so large; returns a lower bound, at least `bound`."""


def allowance(problem: Problem, value: int) -> int:
    """By how much a value may be exceeded."""
    return math.floor(Fraction(problem.snapshot.policy.tolerance) * value)


def payer(lost: Mapping[int, int]) -> int | None:
    """The lowest priority that loses any GPU-seconds; None: nobody does."""
    return min((priority for priority, seconds in lost.items() if seconds), default=None)


def trade_losses(
    problem: Problem, admission: Admission, assignment: Assignment, budget: Budget, progress: Callable[[str], None]
) -> Admission:
    """The admission with fewer gangs preempted for some more GPU-seconds; with the same ones where nothing is gained.

    `assignment`: a placement beside the cheapest victims.
    """
    preemption = admission.preemption
    priority = payer(preemption.lost)
    more = 0 if priority is None else allowance(problem, preemption.lost[priority])
    if priority is None or not more or preemption.movers or preemption.broken < 2:
        return admission
    progress(f"broken: {preemption.broken}; fewer for {more} GPU-s more of priority {priority}?")
    limits = {**preemption.lost, priority: preemption.lost[priority] + more}
    gangs = admission.in_order(problem, assignment)
    answer, bound, cuts = _fewest(admission.round(problem), gangs, preemption, assignment, limits, priority, budget)
    unsure: frozenset[int | None] = frozenset() if answer.certified else frozenset({None})
    if len(answer.victims) == preemption.broken:
        same = replace(
            preemption,
            broken_bound=min(bound, preemption.broken_bound),
            uncertified=preemption.uncertified | unsure,
        )
        return replace(admission, preemption=same)
    lost = losses(problem, answer.victims, preemption.lost)
    traded = Preemption(
        preemption.preemptors,
        answer.victims,
        lost,
        {p: min(preemption.bounds[p], value) for p, value in lost.items()},
        bound,
        cuts,
        uncertified=preemption.uncertified | unsure | ({priority} if unsure else set()),
        exceeded=(priority, preemption.lost[priority]),
        least=answer.optimal,
    )
    return replace(admission, plans=dict.fromkeys(admission.plans, answer.assignment), preemption=traded)


def _fewest(
    problem: Problem,
    gangs: list[int],
    preemption: Preemption,
    assignment: Assignment,
    limits: dict[int, int],
    priority: int,
    budget: Budget,
) -> tuple[Answer, int, list[frozenset[int]]]:
    """Fewest victims within the limits, then the least loss; with the bound of their number and the cuts of rule 11.

    The answer is optimal where the loss is proven least, certified where both proofs rest on integers.
    """
    held = rights(problem, gangs, preemption.preemptors)
    cuts = list(preemption.cuts)
    start = Answer("yes", assignment, preemption.victims)
    while True:
        fewest = settle(problem, gangs, held, cuts, partial(_within, limits, None, None), start, budget)
        bound = fewest.bound or 0
        if fewest.verdict != "yes" or len(fewest.victims) >= preemption.broken:
            return replace(start, certified=fewest.certified), bound, cuts
        number = len(fewest.victims)
        least = settle(problem, gangs, held, cuts, partial(_within, limits, number, priority), fewest, budget)
        best = least if least.verdict == "yes" else replace(fewest, optimal=False)
        enough = needed(problem, gangs, held, best.victims, budget)
        if len(enough) == len(best.victims):
            return replace(best, certified=fewest.certified and best.certified), min(bound, number), cuts
        cuts.append(enough)


def _within(limits: Mapping[int, int], number: int | None, priority: int | None, model: Joint) -> None:
    """Losses within limits and at most so many victims; as objective the loss of a priority or (None) their number."""
    for other, limit in limits.items():
        model.model.add(model.lost_progress(other) <= limit)
    if number is not None:
        model.model.add(model.broken() <= number)
    model.minimize(priority)


def trade_distance(
    problem: Problem, search: Search, results: list[TierResult], progress: Callable[[str], None]
) -> list[TierResult]:
    """Fewer shared uplinks for some more distance, as far as that is allowed and gains anything.

    The search's assignment is the traded one then; else only the bound of the uplinks may be another, as the plans
    that it is about are more.
    """
    values = search.values()
    more = allowance(problem, values[DISTANCE])
    uplinks = results[UPLINKS]
    if not more or not values[UPLINKS]:
        return results
    progress(f"uplinks: {values[UPLINKS]}; fewer for {more} more of distance?")
    most, counted = dict(enumerate(values[:UPLINKS])), search.counted()
    most[DISTANCE] += more
    bound = search.minimise(UPLINKS, most, counted[UPLINKS])
    if search.values()[UPLINKS] == values[UPLINKS]:
        bound = min(bound, uplinks.bound)
        proof = uplinks.proof if bound == uplinks.value else None
        return [*results[:UPLINKS], replace(uplinks, bound=bound, proof=proof), *results[UPLINKS + 1 :]]
    most[UPLINKS] = search.values()[UPLINKS]
    bounds = {UPLINKS: min(bound, most[UPLINKS])}
    for tier in (DISTANCE, *range(UPLINKS + 1, len(values))):
        bounds[tier] = search.minimise(tier, most, counted[tier])
        most[tier] = search.values()[tier]
    traded = most[DISTANCE] - values[DISTANCE]
    least = bounds.pop(DISTANCE) == most[DISTANCE]
    distance = results[DISTANCE]
    done = list(results)
    done[DISTANCE] = replace(distance, value=most[DISTANCE], traded=traded, proof=distance.proof if least else None)
    for tier, lower in bounds.items():
        how: Literal["bound", "search"] = "bound" if lower == counted[tier] else "search"
        done[tier] = TierResult(tier_names(problem)[tier], most[tier], lower, how if lower == most[tier] else None)
    return done
