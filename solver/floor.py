"""The floor under a hurried answer: what the greedy preemptor starts or spares, and gangs that fit what is left."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from gangfit.solver.assignment import Assignment, considered, starting
from gangfit.solver.decided import Admission, Decision
from gangfit.solver.greedy.preemptor import Preempted, preempt_greedily
from gangfit.solver.greedy.strategies import PLACES, place_one
from gangfit.solver.oracle import Preemption, lawful, losses
from gangfit.solver.problem import Problem
from gangfit.solver.rights import given_back, rights
from gangfit.solver.space import Alone, Space

PREEMPTOR = "preemptor"
"""Name of the greedy preemptor's plan."""


def with_preemptor(problem: Problem, admission: Admission) -> tuple[Admission, Preempted | None]:
    """The greedy preemptor's plan instead, where time ran out and it admits more in considered order; its plan anyway.

    Its victims are lawful; whether they are the cheapest is open, and so is everything it refuses that has room at all.
    It knows no promises: where one is made, the plan that keeps it stays.
    """
    if "limit" not in admission.decided.values() or not problem.victims.gangs or admission.reservation is not None:
        return admission, None
    found = preempt_greedily(problem)
    steps = considered(problem, found.assignment)
    ours = next(iter(admission.plans.values()))
    first = [-(step.gang in ours and step.gang not in admission.late) for step in admission.steps]
    if [-(step.gang in found.assignment) for step in steps] >= first:
        return admission, found
    held = rights(problem, [s.gang for s in steps if s.gang in found.assignment], found.preemptors)
    if not lawful(problem, held, found.victims):
        return admission, found
    priorities = set(problem.victims.priority.tolist())
    lost = losses(problem, found.victims, priorities)
    preemption = Preemption(found.preemptors, found.victims, lost, dict.fromkeys(priorities, 0))
    room = Alone(problem.empty())
    decided: dict[int, Decision] = {
        step.gang: "greedy" if step.gang in found.assignment else "limit" if room.fits(step.gang) else "bound"
        for step in steps
    }
    return Admission({PREEMPTOR: found.assignment}, preemption, tuple(steps), decided), found


def no_dearer(problem: Problem, admission: Admission, known: Preempted | None = None) -> Admission:
    """The greedy preemptor's victims for the same gangs instead, where ours aren't proven cheapest and cost more.

    `known`: its plan for all gangs, which is the same if it starts the same.
    """
    preemption = admission.preemption
    if admission.reservation is not None or preemption.movers or PREEMPTOR in admission.plans:
        return admission
    tiers = sorted(preemption.lost, reverse=True)
    proven = all(preemption.bounds[p] == preemption.lost[p] for p in tiers)
    if (proven and preemption.broken_bound == preemption.broken) or admission.late:
        return admission
    ours = next(iter(admission.plans.values()))
    same = known is not None and known.assignment.keys() == ours.keys()
    found = known if known is not None and same else preempt_greedily(problem, only=ours)
    order = [step.gang for step in admission.steps if step.gang in ours]
    lost = losses(problem, found.victims, tiers)
    cost = [*(lost[p] for p in tiers), len(found.victims)]
    cost_now = [*(preemption.lost[p] for p in tiers), preemption.broken]
    preemptors = preemption.preemptors | found.preemptors
    held = rights(problem, order, preemptors)
    if set(found.assignment) != set(ours) or cost >= cost_now or not lawful(problem, held, found.victims):
        return admission
    first = next(i for i, (new, old) in enumerate(zip(cost, cost_now, strict=True)) if new != old)
    # Bounds hold among sets that are equal on every earlier tier.
    bounds = {p: min(preemption.bounds[p], lost[p]) if i <= first else 0 for i, p in enumerate(tiers)}
    broken_bound = preemption.broken_bound if first == len(tiers) else 0
    cheaper = Preemption(preemptors, found.victims, lost, bounds, broken_bound, uncertified=preemption.uncertified)
    return replace(admission, plans={PREEMPTOR: found.assignment}, preemption=cheaper)


def fill_leftover(problem: Problem, assignment: Assignment, admission: Admission) -> tuple[Assignment, Admission]:
    """Undecided gangs that fit the space a plan leaves, and their tenants' limits, start after all.

    So do gangs that search refused: its "no" was wrong, and they count as undecided. One with a promise then gives it
    up. The same objects if there are none.
    """
    doubtful = [step.gang for step in admission.steps if admission.decided[step.gang] in ("limit", "search")]
    head = admission.reservation
    if head is not None and head.gang in doubtful:
        without = replace(admission, reservation=None)
        started = _fill(problem, admission.starts(assignment), without, [head.gang])
        if head.gang in started[0]:
            assignment, admission = started
    return _fill(admission.round(problem), assignment, admission, [gang for gang in doubtful if gang not in assignment])


def _fill(
    problem: Problem, assignment: Assignment, admission: Admission, waiting: Sequence[int]
) -> tuple[Assignment, Admission]:
    if not waiting:
        return assignment, admission
    space = Space.after(problem.without(admission.preemption.leaving), assignment)
    back = given_back(problem, admission.preemption.victims)
    order = problem.order()
    for gang in starting(problem, assignment):
        order.add(gang)
    filled, late = dict(assignment), set(admission.late)
    for gang in waiting:
        offers = (place_one(space.problem, space, place, gang) for place in PLACES.values())
        spread = next((s for s in offers if s is not None), None) if order.within_limit(gang, back) else None
        if spread is not None:
            filled[gang] = spread
            space.take(gang, spread)
            order.add(gang)
            late.add(gang)
    if len(filled) == len(assignment):
        return assignment, admission
    decided: dict[int, Decision] = {**admission.decided, **dict.fromkeys(late - admission.late, "limit")}
    return filled, replace(admission, late=frozenset(late), decided=decided)
