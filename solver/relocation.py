"""Tier 1 where running gangs may move: in free space, else with moves, else with victims and moves.

See docs/model.md, "Asking with moves".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace

import numpy as np

from gangfit.solver.admission import Loop
from gangfit.solver.decided import Admission, Decision
from gangfit.solver.engine import Budget
from gangfit.solver.greedy.mover import move_greedily
from gangfit.solver.joint import candidates
from gangfit.solver.movers import Mover, movers, within_bounds
from gangfit.solver.moving_oracle import Enough, Question, cheapest, fits_within
from gangfit.solver.oracle import Answer, Preemption, fits
from gangfit.solver.problem import Problem
from gangfit.solver.reservation import Calendar
from gangfit.solver.rights import given_back, rights
from gangfit.solver.space import Alone

GREEDY = 2
"""Candidate plans beside which moves are sought greedily."""


def movable(problem: Problem) -> bool:
    """Whether any running gang may move."""
    return bool((problem.copy_of >= 0).any())


def admit_with_moves(problem: Problem, budget: Budget | None, progress: Callable[[str], None]) -> Admission:
    """As `admit`, with moves before victims."""
    loop = MovingLoop(problem, budget, progress, problem.order(), Calendar(problem))
    while (gang := loop.order.next()) is not None:
        loop.consider(gang)
    if loop.preemption.preemptors or loop.preemption.movers:
        loop.ask_again()
        loop.settle()
    return loop.admission()


@dataclass
class MovingLoop(Loop):
    """The loop with moves. Every yes is followed by the cheapest victims and moves, so that C is always known."""

    def consider(self, gang: int) -> None:
        """One gang's turn: in free space, else with moves, else with victims."""
        self.steps.append(self.order.step(gang))
        decisions: list[Decision] = []
        yes = False
        for question in (self._in_free_space, self._with_moves, self._with_victims):
            how, yes = question(gang)
            if how is not None:
                decisions.append(how)
            if yes:
                break
        doubtful = "limit" in decisions and not yes
        self.decided[gang] = "limit" if doubtful else "search" if "search" in decisions[:-1] else decisions[-1]
        if yes:
            self.admitted.append(gang)
        self.order.settle(gang, yes)

    def ask_again(self) -> None:
        """As in `Loop`, without counts of room, which moves would have to be in."""
        for gang in [step.gang for step in self.steps if step.gang not in self.admitted]:
            how, yes = self._in_free_space(gang)
            if yes:
                self.admitted.append(gang)
                self.late.append(gang)
                self.order.add(gang)
            if how == "limit" or yes:
                self.decided[gang] = "limit" if self.decided[gang] == "limit" else how

    def settle(self) -> None:
        """The cheapest victims and moves for all that were admitted, within what is known to be enough."""
        if self.budget is not None and self.preemption.leaving:
            witness = Answer("yes", dict(self.candidates.first()), self.preemption.victims, self.preemption.moved)
            self._cheapest(self.admitted, self.preemption, witness, [], self.preemption)

    def _in_free_space(self, gang: int) -> tuple[Decision, bool]:
        cost = self.preemption
        within = self.order.within_limit(gang, given_back(self.problem, cost.victims))
        if within and self._offers(gang):
            return "greedy", True
        if not cost.leaving and not cost.preemptors:
            if not within or not self.alone.fits(gang):
                return "bound", False
            self.progress(f"admission: {self.problem.gangs[gang].name!r}: in free space?")
            answer = fits(self.problem, [*self.admitted, gang], self.budget)
            if answer.verdict == "yes":
                self._restart(answer.assignment)
            return ("limit" if answer.verdict == "limit" else "search"), answer.verdict == "yes"
        return self._put(gang, cost.preemptors, cost.movers, "beside those that leave")

    def _with_moves(self, gang: int) -> tuple[Decision | None, bool]:
        """With moves of its own; None: there is nobody that may move for it."""
        cost = self.preemption
        held = movers(self.problem, [*self.admitted, gang], cost.movers | {gang})
        if not held[-1].may.any():
            return None, False
        if not self._room(gang, held, with_victims=False):
            return "bound", False
        within = self.order.within_limit(gang, given_back(self.problem, cost.victims))
        witness = self._moves_greedily(gang, held) if within else None
        if witness is not None:
            preemption = replace(cost, movers=cost.movers | {gang}, moved=dict(witness.moved), moved_bound=0)
            if self.budget is None:
                self.preemption = replace(preemption, members_bound=0)
                self._restart(witness.assignment)
                return "greedy", True
            if self._cheapest([*self.admitted, gang], preemption, witness, []):
                return "greedy", True
        return self._put(gang, cost.preemptors, cost.movers | {gang}, "with moves", more=True)

    def _with_victims(self, gang: int) -> tuple[Decision | None, bool]:
        """With victims of its own, and moves; None: it has no right over anyone."""
        cost = self.preemption
        held = rights(self.problem, [*self.admitted, gang], cost.preemptors | {gang})
        if not held[-1].any.any():
            return None, False
        if not self._room(gang, movers(self.problem, [*self.admitted, gang], cost.movers | {gang}), with_victims=True):
            return "bound", False
        return self._put(gang, cost.preemptors | {gang}, cost.movers | {gang}, "with victims", more=True)

    def _room(self, gang: int, held: list[Mover], with_victims: bool) -> bool:
        """Whether the gang alone would fit if everybody were gone who may be."""
        cost = self.preemption
        takers = cost.preemptors | ({gang} if with_victims else set())
        reach = set(candidates(rights(self.problem, [*self.admitted, gang], takers), len(self.problem.victims.gangs)))
        for mover in held:
            reach.update(np.flatnonzero(mover.may).tolist())
        return Alone(self.problem.without(reach)).fits(gang)

    def _moves_greedily(self, gang: int, held: list[Mover]) -> Answer | None:
        for plan in list(self.candidates.plans().values())[:GREEDY]:
            if self.budget is not None and self.budget.exhausted:
                return None
            found = move_greedily(self.problem, held[-1], plan, self.preemption.leaving)
            if found is not None:
                moved = {**self.preemption.moved, **dict.fromkeys(sorted(found.moved), gang)}
                if within_bounds(self.problem, held, moved):
                    return Answer("yes", found.assignment, self.preemption.victims, moved)
        return None

    def _put(
        self, gang: int, preemptors: frozenset[int], who: frozenset[int], how: str, more: bool = False
    ) -> tuple[Decision, bool]:
        """The exact question, and the cheapest answer to it."""
        self.progress(f"admission: {self.problem.gangs[gang].name!r}: {how}?")
        gangs = [*self.admitted, gang]
        question = Question.of(self.problem, gangs, preemptors, who)
        mine = question.held[-1] if gang in preemptors else None
        answer, enough = fits_within(question, self.preemption, mine, more, self.budget)
        if answer.verdict != "yes":
            return ("limit" if answer.verdict == "limit" else "search"), False
        if not more:
            # C stays as it is: in free space nothing further is lost.
            self.preemption = replace(self.preemption, victims=answer.victims, moved=dict(answer.moved))
            self._restart(answer.assignment)
            return "search", True
        preemption = replace(self.preemption, preemptors=preemptors, movers=who)
        return ("search", True) if self._cheapest(gangs, preemption, answer, enough) else ("limit", False)

    def _cheapest(
        self, gangs: list[int], cost: Preemption, witness: Answer, enough: Enough, most: Preemption | None = None
    ) -> bool:
        """Go on from the cheapest victims and moves; false if the witness turned out to be unlawful."""
        assert self.budget is not None
        question = Question.of(self.problem, gangs, cost.preemptors, cost.movers)
        found = cheapest(question, cost, witness, enough, self.budget, most)
        if isinstance(found, str):
            return False
        best, self.preemption = found
        self._restart(best.assignment)
        return True
