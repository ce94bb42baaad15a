"""The questions of admission where gangs may move: does it fit, and with the fewest losses and moves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Literal

from ortools.sat.python import cp_model

from gangfit.solver.assignment import Assignment
from gangfit.solver.engine import Budget
from gangfit.solver.merged import Merged
from gangfit.solver.mip import run_mip
from gangfit.solver.movers import Mover, moved_members, movers
from gangfit.solver.moving import Moving
from gangfit.solver.moving_slots import MovingSlots
from gangfit.solver.oracle import (
    JOINT_LIMIT,
    SHARE,
    TIER_SHARE,
    Answer,
    Preemption,
    ask,
    losses,
    needed,
    place_beside,
)
from gangfit.solver.problem import Problem
from gangfit.solver.rights import Right, rights

Enough = list[tuple[frozenset[int], frozenset[int]]]
Stage = int | Literal["broken", "moved", "members"]
"""One figure of the cost: the loss of a priority, gangs broken, gangs moved, their members."""
Rows = Callable[[Moving | MovingSlots], None]


@dataclass(frozen=True)
class Question:
    """Gangs that are to start together, and who of them may take whom."""

    problem: Problem
    gangs: Sequence[int]
    """In considered order."""
    held: Sequence[Right]
    movers: Sequence[Mover]

    @classmethod
    def of(cls, problem: Problem, gangs: Sequence[int], preemptors: frozenset[int], who: frozenset[int]) -> Question:
        """The question in which these of the gangs may take victims and have others moved."""
        return cls(problem, gangs, rights(problem, gangs, preemptors), movers(problem, gangs, who))

    def model(self, single: set[int], spread: bool, enough: Enough) -> Moving:
        """Its model, with the nodes in `single` kept apart."""
        model = Moving(self.problem, self.gangs, self.held, self.movers, single, spread)
        for victims, moved in enough:
            model.enough(victims, moved)
        return model

    def put(self, rows: Rows, start: Answer | None, enough: Enough, budget: Budget | None) -> Answer:
        """Ask on slots by HiGHS; where its victims and moves don't leave room for everybody, on placements by CP-SAT.

        `rows` adds the question's own rows and its objective.
        """
        if budget is None or budget.exhausted:
            return Answer("limit")
        slots = MovingSlots(self.problem, self.gangs, self.held, self.movers)
        if not slots.feasible:
            return Answer("no")
        for victims, moved in enough:
            slots.enough(victims, moved)
        rows(slots)
        if start is not None:
            slots.start(start.victims, start.moved)
        outcome = run_mip(slots.model, budget, TIER_SHARE if slots.model.has_objective() else SHARE)
        if outcome.status == "infeasible":
            return Answer("no")
        if outcome.values is not None:
            gone, moved_for = slots.leaving(outcome.values), slots.moves(outcome.values)
            placed = self._place(gone, moved_for, budget)
            if placed is not None:
                return Answer("yes", placed, gone, moved_for, outcome.bound, outcome.status == "optimal")
        answer = self._on_placements(rows, start, enough, budget)
        return replace(answer, bound=max((b for b in (outcome.bound, answer.bound) if b is not None), default=None))

    def _place(self, victims: frozenset[int], moved: Mapping[int, int], budget: Budget) -> Assignment | None:
        """Everybody beside each other once these are gone."""
        copies = [int(self.problem.copy_of[v]) for v in sorted(moved)]
        beside = self.problem.without(moved.keys())
        return place_beside(beside, [*self.gangs, *copies], victims, budget)

    def _on_placements(self, rows: Rows, start: Answer | None, enough: Enough, budget: Budget) -> Answer:
        everyone = len(self.gangs) + len(self.problem.gangs) - self.problem.waiting
        if budget.exhausted or everyone * len(self.problem.node_names) > 10 * JOINT_LIMIT:
            return Answer("limit")

        def build(single: set[int]) -> Merged:
            model = self.model(single, False, enough)
            rows(model)
            if start is not None:
                model.start(start.assignment, start.victims, start.moved)
            return model

        return ask(self.problem, build, budget)

    def needed(self, answer: Answer, budget: Budget) -> frozenset[int]:
        """Rule 11: fewer of the victims that are enough beside the moves; all of them if nobody is needless."""
        copies = [int(self.problem.copy_of[v]) for v in sorted(answer.moved)]
        beside = self.problem.without(answer.moved.keys())
        return needed(beside, [*self.gangs, *copies], self.held, answer.victims, budget)


def fits_within(
    question: Question, cost: Preemption, mine: Right | None, more: bool, budget: Budget | None
) -> tuple[Answer, Enough]:
    """Whether the gangs fit with no losses beyond `cost`, but for victims of `mine`; `more`: with further moves.

    A witness holds no needless victim; what turned out to be enough comes with the answer.
    """

    def rows(model: Moving | MovingSlots) -> None:
        model.budget(cost.lost, cost.broken, mine)
        if not more:
            model.model.add(model.gangs_moved() <= len(cost.moved))
            model.model.add(model.members_moved() <= moved_members(question.problem, cost.moved))

    enough: Enough = []
    while True:
        answer = question.put(rows, None, enough, budget)
        if answer.verdict != "yes" or budget is None:
            return answer, enough
        fewer = question.needed(answer, budget)
        if len(fewer) == len(answer.victims):
            return answer, enough
        enough.append((fewer, frozenset(answer.moved)))


def cheapest(
    question: Question,
    cost: Preemption,
    witness: Answer,
    enough: Enough,
    budget: Budget,
    most: Preemption | None = None,
) -> tuple[Answer, Preemption] | Literal["no", "limit"]:
    """Fewest losses, gangs broken, gangs moved and members moved, in this order; starts from a witness.

    `cost` holds who may take and move; `most` bounds the losses. Verdicts as in `cheapest_victims`.
    """
    problem = question.problem
    reach = [v for v in range(len(problem.victims.gangs)) if any(right.any[v] for right in question.held)]
    priorities = sorted({int(problem.victims.priority[v]) for v in reach}, reverse=True)
    stages: list[Stage] = [*priorities, "broken", "moved", "members"]
    best: Answer | None = witness
    while True:
        limits: dict[Stage, int] = {}
        bounds: dict[Stage, int] = {}
        for stage in stages:
            value = None if best is None else figure(problem, best, stage)
            answer = Answer("limit", bound=0)
            if value != 0:
                answer = question.put(partial(_stage, limits, stage, most), best, enough, budget)
            if answer.verdict == "yes" and (value is None or figure(problem, answer, stage) <= value):
                best = answer
            if best is None:
                return "no" if answer.verdict == "no" else "limit"
            limits[stage] = figure(problem, best, stage)
            bounds[stage] = min(max(answer.bound or 0, 0), limits[stage])
        assert best is not None
        fewer = question.needed(best, budget)
        if len(fewer) == len(best.victims):
            break
        enough, best = [*enough, (fewer, frozenset(best.moved))], None
    return best, replace(
        cost,
        victims=best.victims,
        lost=losses(problem, best.victims, priorities),
        bounds={priority: bounds[priority] for priority in priorities},
        broken_bound=bounds["broken"],
        moved=dict(best.moved),
        moved_bound=bounds["moved"],
        members_bound=bounds["members"],
        enough=enough,
    )


def figure(problem: Problem, answer: Answer, stage: Stage) -> int:
    """One figure of the cost of an answer."""
    match stage:
        case "broken":
            return len(answer.victims)
        case "moved":
            return len(answer.moved)
        case "members":
            return moved_members(problem, answer.moved)
    return losses(problem, answer.victims, [stage])[stage]


def expression(model: Moving | MovingSlots, stage: Stage) -> cp_model.LinearExpr:
    """The same figure in the model."""
    match stage:
        case "broken":
            return model.broken()
        case "moved":
            return model.gangs_moved()
        case "members":
            return model.members_moved()
    return model.lost_progress(stage)


def _stage(limits: Mapping[Stage, int], stage: Stage, most: Preemption | None, model: Moving | MovingSlots) -> None:
    """One figure as objective, those before it held."""
    if most is not None:
        model.budget(most.lost, most.broken, None)
        model.model.add(model.gangs_moved() <= len(most.moved))
        model.model.add(model.members_moved() <= moved_members(model.problem, most.moved))
    for earlier, limit in limits.items():
        model.model.add(expression(model, earlier) <= limit)
    model.model.minimize(expression(model, stage))
