"""The exact questions of admission, put to CP-SAT: does it fit, does it fit with victims, who are the cheapest."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Literal

import numpy as np

from gangfit.solver.assignment import Assignment
from gangfit.solver.classes import grouping
from gangfit.solver.contest import confirmed, solved
from gangfit.solver.engine import Budget, run
from gangfit.solver.greedy.homes import place_in_homes
from gangfit.solver.greedy.repacking import orders
from gangfit.solver.greedy.strategies import PLACES, place_in_order
from gangfit.solver.joint import Joint, pairs
from gangfit.solver.lending import ground
from gangfit.solver.merged import Merged, Sum
from gangfit.solver.mip import run_mip
from gangfit.solver.moving import Moving
from gangfit.solver.problem import Problem
from gangfit.solver.rights import Right, attainable, claimable, claims, given_back, rights
from gangfit.solver.slots import Slots

Verdict = Literal["yes", "no", "limit"]

MODEL_LIMIT = 200_000
"""Most variables of a model that is handed to CP-SAT."""
SHARE = 0.25
"""Most of the remaining time that one question may take."""
TIER_SHARE = 0.8
"""The same for a question with an objective on slots."""
JOINT_LIMIT = 20_000
"""Most (class, gang) pairs of a question that is put to CP-SAT after slots: building more takes seconds."""
BUILD = 3e-5
"""Seconds to build it, per pair."""
BUILD_SHARE = 0.5
"""Most of the remaining time that building may take."""
ROUGH = 1.0
"""Gap at which a set of victims is small enough to be tried: any; the cheapest is found once all are admitted."""
TIDY = 0.3
"""The same where somebody may be needless (rule 11): a small set is more likely to hold nobody of that kind."""


@dataclass(frozen=True)
class Answer:
    """Verdict on one question, with a witness if it is yes."""

    verdict: Verdict
    assignment: Assignment = field(default_factory=dict)
    victims: frozenset[int] = frozenset()
    moved: Mapping[int, int] = field(default_factory=dict)
    """Running gang moved → the admitted gang it is for."""
    bound: int | None = None
    """Lower bound of the objective, if the question had one."""
    optimal: bool = False
    """Whether the witness is proven best."""
    certified: bool = True
    """Whether a no, or the bound, rests on integers; else on HiGHS' floats, to 1e-6."""


def ask(
    problem: Problem, build: Callable[[set[int]], Merged | None], budget: Budget | None, share: float = SHARE
) -> Answer:
    """Put a model to CP-SAT; classes whose counts can't be handed out are split and the question is put again.

    `build` makes the model, objective included, with the given nodes kept apart; None if it would be too large.
    """
    if budget is None:
        return Answer("limit")
    single: set[int] = set()
    while True:
        if budget.exhausted:
            return Answer("limit")
        model = build(single)
        if model is None:
            return Answer("limit")
        if not model.feasible:
            return Answer("no")
        if len(model.members) > MODEL_LIMIT:
            return Answer("limit")
        outcome = run(model.model, budget, share)
        if outcome.status == "infeasible":
            return Answer("no")
        if outcome.values is None:
            return Answer("limit", bound=outcome.bound)
        found, failed = model.decode(outcome.values, budget)
        if found is not None:
            victims = model.leaving(outcome.values) if isinstance(model, Joint) else frozenset()
            moved = model.moves(outcome.values) if isinstance(model, Moving) else {}
            return Answer("yes", found, victims, moved, outcome.bound, outcome.status == "optimal")
        fresh = {int(n) for group in failed if group.size > 1 for n in group.nodes}
        if not fresh:
            return Answer("limit", bound=outcome.bound)
        single |= fresh


def fits(problem: Problem, gangs: Sequence[int], budget: Budget | None) -> Answer:
    """Whether the gangs fit jointly into free space."""

    def build(single: set[int]) -> Merged | None:
        groups = grouping(problem, gangs, single)
        return None if groups.pairs > MODEL_LIMIT else Merged(problem, gangs, groups.classes(), spread=False)

    return ask(problem, build, budget)


@dataclass
class Preemption:
    """Victims of the gangs admitted so far, and what they lose: C of docs/model.md."""

    preemptors: frozenset[int] = frozenset()
    """P: admitted gangs that needed victims."""
    victims: frozenset[int] = frozenset()
    """The cheapest lawful set known."""
    lost: dict[int, int] = field(default_factory=dict)
    """Priority → GPU-seconds."""
    bounds: dict[int, int] = field(default_factory=dict)
    """Priority → proven lower bound, given the losses of higher priorities."""
    broken_bound: int = 0
    cuts: list[frozenset[int]] = field(default_factory=list)
    """Sets known to be enough for the gangs admitted so far, so that no larger set is lawful (rule 11)."""
    movers: frozenset[int] = frozenset()
    """Q: admitted gangs that needed moves."""
    moved: dict[int, int] = field(default_factory=dict)
    """Running gang moved → the gang it is for."""
    moved_bound: int = 0
    members_bound: int = 0
    """Proven lower bounds of the gangs moved and of their members, given what comes before."""
    enough: list[tuple[frozenset[int], frozenset[int]]] = field(default_factory=list)
    """(victims, gangs moved) known to be enough: as `cuts`, where gangs move."""
    uncertified: frozenset[int | None] = frozenset()
    """Priorities (None: gangs broken) whose bound rests on floats."""
    exceeded: tuple[int, int] | None = None
    """(priority, what it would lose at least) where more is given for fewer gangs broken."""
    least: bool = True
    """Whether what is given is proven the least that buys it."""

    @property
    def leaving(self) -> frozenset[int]:
        """Running gangs that leave their places, for good or to others."""
        return self.victims | self.moved.keys()

    @property
    def broken(self) -> int:
        """Gangs preempted."""
        return len(self.victims)

    def traded(self, priority: int) -> int:
        """GPU-seconds of a priority that are given for fewer gangs broken."""
        if self.exceeded is None or self.exceeded[0] != priority:
            return 0
        return max(0, self.lost[priority] - self.exceeded[1])


def joint(
    problem: Problem,
    gangs: Sequence[int],
    held: Sequence[Right],
    cuts: Sequence[frozenset[int]],
    single: set[int],
    spread: bool,
) -> Joint:
    """The joint model with the cuts of rule 11."""
    model = Joint(problem, gangs, held, single, spread)
    for enough in cuts:
        model.cut(enough)
    return model


def fits_with_victims(
    problem: Problem, gangs: Sequence[int], preemption: Preemption, mine: bool, budget: Budget | None
) -> tuple[Answer, list[frozenset[int]]]:
    """Whether the last gang fits beside the others (in considered order) within the budget of their victims.

    `mine`: with victims of its own right; else in free space and what the others' victims leave. A witness holds nobody
    needless; the sets that turned out to be enough come with the answer.
    """
    preemptors = preemption.preemptors | ({gangs[-1]} if mine else set())
    held = rights(problem, gangs, preemptors)
    if mine:
        held[-1] = attainable(problem, held, preemption.broken)
    entitled = all(
        ground(problem, right, 0, owner).entitled
        for right in held
        for owner in np.unique(problem.victims.tenant[right.reclaim]).tolist()
    )

    def limit(model: Joint) -> None:
        model.budget(preemption.lost, preemption.broken, held[-1] if mine else None)
        if entitled:
            # Whatever is found is a start for the cheapest.
            model.model.minimize(Sum([int(problem.victims.lost[v]) * e for v, e in model.evicted.items()]))
        else:
            # A set found without a view to its size is likely to hold some who only make a tenant entitled.
            model.minimize(None)

    cuts: list[frozenset[int]] = []
    while True:
        answer = settle(problem, gangs, held, cuts, limit, None, budget, gap=ROUGH if entitled else TIDY)
        if answer.verdict != "yes" or budget is None:
            return answer, cuts
        enough = needed(problem, gangs, held, answer.victims, budget)
        if len(enough) == len(answer.victims):
            return answer, cuts
        if lawful(problem, held, enough) and _in_budget(problem, held, enough, preemption, mine):
            # The fewest that are enough: none of them is needless.
            placed = place_beside(problem, gangs, enough, budget)
            return (answer if placed is None else replace(answer, assignment=placed, victims=enough)), cuts
        cuts.append(enough)


@dataclass(frozen=True)
class Asked:
    """A question with victims of the gang's own, answered."""

    answer: Answer
    cuts: list[frozenset[int]]
    """Sets that turned out to be enough (rule 11)."""
    greedy: bool = False
    """The greedy preemptor answered."""


def lawful(problem: Problem, held: Sequence[Right], victims: frozenset[int]) -> bool:
    """Whether every victim is an own one of some right, or may be reclaimed once all of them are gone."""
    own = np.zeros(len(problem.victims.gangs), dtype=np.bool_)
    for right in held:
        own |= right.own
    back = given_back(problem, victims)
    # Gangs of one tenant that hold the same are claimed alike.
    alike = {(int(problem.victims.tenant[v]), problem.victims.total[v].tobytes()): v for v in victims if not own[v]}
    return all(any(claimable(problem, right, v, back) for right in held) for v in alike.values())


def _in_budget(
    problem: Problem, held: Sequence[Right], victims: frozenset[int], preemption: Preemption, mine: bool
) -> bool:
    """Whether the victims that the last right doesn't cover (`mine`; else all of them) keep to C."""
    others = victims
    if mine:
        claimed = claims(problem, held[-1:], victims)
        others = frozenset(v for v in victims if not held[-1].own[v] and not claimed[v])
    lost = losses(problem, others, {int(problem.victims.priority[v]) for v in others})
    fits = all(value <= preemption.lost.get(priority, 0) for priority, value in lost.items())
    return fits and len(others) <= preemption.broken


def settle(
    problem: Problem,
    gangs: Sequence[int],
    held: Sequence[Right],
    cuts: Sequence[frozenset[int]],
    rows: Callable[[Joint], None],
    start: Answer | None,
    budget: Budget | None,
    slots: Slots | None = None,
    gap: float = 0.0,
) -> Answer:
    """Solve a question about victims: on slots by HiGHS; where its victims don't leave room, on placements by CP-SAT.

    `rows` adds the question's own rows and its objective; `slots` has them already. `gap` is as in `run_mip`. Where
    nothing is better than `start`, that is the answer.
    """
    if budget is None or budget.exhausted:
        return Answer("limit")
    if slots is None:
        slots = Slots(problem, gangs, held, cuts)
        if slots.feasible:
            rows(slots)
    if not slots.feasible:
        return Answer("no")
    known = None
    if start is not None:
        slots.model.clear_hints()  # type: ignore[no-untyped-call]  # untyped in ortools 9.15
        slots.hint(start.assignment, start.victims)
        known = slots.value(start.victims)
    outcome = solved(slots, budget, SHARE if gap or not slots.model.has_objective() else TIER_SHARE, known, gap)
    if outcome.status == "infeasible" and not outcome.certified:
        outcome = confirmed(slots, outcome, budget)
    if outcome.status == "infeasible":
        return Answer("no", certified=outcome.certified)
    bound, slots.within = outcome.bound, outcome.within
    if outcome.status == "optimal" and outcome.values is None and start is not None:
        return replace(start, bound=bound, optimal=True, certified=outcome.certified)
    if outcome.values is not None:
        victims = slots.leaving(outcome.values)
        placed = place_beside(problem, gangs, victims, budget, slots.homes(outcome.values))
        if placed is not None:
            return Answer("yes", placed, victims, {}, bound, outcome.status == "optimal", outcome.certified)
    most = min(JOINT_LIMIT, BUILD_SHARE * budget.remaining / BUILD)
    if budget.exhausted or pairs(problem, gangs, slots.victims) > most:
        return Answer("limit", bound=bound)

    def build(single: set[int]) -> Merged:
        model = joint(problem, gangs, held, cuts, single, spread=False)
        rows(model)
        if start is not None:
            model.hint(start.assignment, start.victims)
        return model

    answer = ask(problem, build, budget)
    certified = answer.bound is not None and (bound is None or answer.bound >= bound or outcome.certified)
    bound = max((b for b in (bound, answer.bound) if b is not None), default=None)
    return replace(answer, bound=bound, certified=certified or answer.verdict == "no")


def place_beside(
    problem: Problem,
    gangs: Sequence[int],
    victims: frozenset[int],
    budget: Budget,
    homes: Mapping[int, int] | None = None,
) -> Assignment | None:
    """A placement of all gangs once the victims are gone: greedy in several orders, in their homes, else CP-SAT.

    `homes`: gang → domain of its required level in which there is room for it.
    """
    reduced = problem.without(victims)
    for order in (gangs, *orders(problem, gangs)):
        for place in PLACES.values():
            assignment = place_in_order(reduced, place, order)
            if assignment is not None:
                return assignment
    if homes is not None:
        assignment = place_in_homes(reduced, gangs, homes)
        if assignment is not None:
            return assignment
    answer = fits(reduced, gangs, budget)
    return answer.assignment if answer.verdict == "yes" else None


def cheapest_victims(
    problem: Problem,
    gangs: Sequence[int],
    preemptors: frozenset[int],
    witness: Answer | None,
    cuts: list[frozenset[int]],
    budget: Budget,
    most: Preemption | None = None,
) -> tuple[Assignment, Preemption] | Literal["no", "limit"]:
    """Tier 2 with the admitted set fixed: priority by priority, then gangs broken; starts from a witness, if any.

    `most`: losses and number are to be no more than there.
    "no" if no set is lawful; "limit" if none was found in time once the witness turned out to hold needless victims
    (rule 11).
    """
    held = rights(problem, gangs, preemptors)
    reach = [v for v in range(len(problem.victims.gangs)) if any(right.any[v] for right in held)]
    priorities = sorted({int(problem.victims.priority[v]) for v in reach}, reverse=True)
    best: Answer | None = witness
    while True:
        slots = Slots(problem, gangs, held, cuts)
        if most is not None:
            slots.budget(most.lost, most.broken, None)
        limits: dict[int, int] = {}
        bounds: dict[int | None, int] = {}
        certified: dict[int | None, bool] = {}
        narrowed = False
        for i, priority in enumerate((*priorities, None)):
            value = None if best is None else _loss(problem, best.victims, priority)
            answer = Answer("limit", bound=0)
            if value != 0 and i + 1 < len(priorities):
                # Most often the dearer priorities needn't lose at all, and the next one's question says so.
                rows = partial(_tier, {**limits, priorities[i]: 0}, priorities[i + 1], most)
                answer = settle(problem, gangs, held, cuts, rows, None, budget, gap=ROUGH)
                answer = replace(answer, bound=0, optimal=True, certified=True)
            if value != 0 and answer.verdict != "yes":
                slots.minimize(priority)
                rows = partial(_tier, limits, priority, most)
                answer = settle(problem, gangs, held, cuts, rows, best, budget, slots)
            if answer.verdict == "yes" and (value is None or _loss(problem, answer.victims, priority) <= value):
                best = answer
            if best is None:
                return "no" if answer.verdict == "no" else "limit"
            value = _loss(problem, best.victims, priority)
            bounds[priority] = min(max(answer.bound or 0, 0), value)
            certified[priority] = answer.certified and not narrowed
            if priority is not None:
                limits[priority] = value
                slots.model.add(slots.lost_progress(priority) <= value)
                narrowed |= slots.narrow(value)
        assert best is not None
        enough = needed(problem, gangs, held, best.victims, budget)
        if len(enough) == len(best.victims):
            break
        cuts, best = [*cuts, enough], None
    lost = losses(problem, best.victims, priorities)
    lower = {priority: bounds[priority] for priority in priorities}
    doubtful = frozenset(priority for priority, sure in certified.items() if not sure)
    found = Preemption(preemptors, best.victims, lost, lower, bounds[None], cuts, uncertified=doubtful)
    return best.assignment, found


def _tier(limits: Mapping[int, int], priority: int | None, most: Preemption | None, model: Joint) -> None:
    """One step of tier 2: the loss of a priority, or (None) the gangs broken, with the higher ones held."""
    if most is not None:
        model.budget(most.lost, most.broken, None)
    for higher, limit in limits.items():
        model.model.add(model.lost_progress(higher) <= limit)
    model.minimize(priority)


def losses(problem: Problem, victims: Collection[int], priorities: Iterable[int]) -> dict[int, int]:
    """Priority → GPU-seconds lost."""
    return {priority: _loss(problem, victims, priority) for priority in priorities}


def _loss(problem: Problem, victims: Collection[int], priority: int | None) -> int:
    """GPU-seconds lost by victims of one priority; None: their number."""
    if priority is None:
        return len(victims)
    return sum(int(problem.victims.lost[v]) for v in victims if problem.victims.priority[v] == priority)


def needed(
    problem: Problem, gangs: Sequence[int], held: Sequence[Right], victims: frozenset[int], budget: Budget
) -> frozenset[int]:
    """Rule 11: fewer of the victims that make room for everyone, rights aside; all of them if nobody is needless."""
    chain = problem.tenants.chain
    entitled = {t for right in held if right.reclaim.any() for t in chain(int(problem.tenant_of[right.gang]))}
    if not any(entitled.intersection(chain(int(problem.victims.tenant[v]))) for v in victims):
        # Any part of a set of this kind is lawful where the whole is, so the cheapest set holds nobody needless.
        return victims
    slots = Slots(problem, gangs, held, only=victims, lawful=False)
    slots.model.minimize(slots.broken())
    outcome = run_mip(slots.model, budget, SHARE)
    if outcome.bound is not None and outcome.bound >= len(victims):
        return victims
    if outcome.values is not None:
        fewer = slots.leaving(outcome.values)
        if len(fewer) < len(victims) and place_beside(problem, gangs, fewer, budget) is not None:
            return fewer

    def build(single: set[int]) -> Merged:
        model = Joint(problem, gangs, held, single, spread=False, only=victims, lawful=False)
        model.model.minimize(model.broken())
        return model

    answer = ask(problem, build, budget)
    return answer.victims if answer.verdict == "yes" and len(answer.victims) < len(victims) else victims
