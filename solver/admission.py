"""Tier 1: which gangs start. One loop over the considered order with an exact oracle, cheap first."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from gangfit.solver.assignment import Assignment
from gangfit.solver.bounds import Headroom
from gangfit.solver.candidates import Candidates
from gangfit.solver.decided import Admission, Decision
from gangfit.solver.dominance import Dominance
from gangfit.solver.engine import Budget
from gangfit.solver.greedy.preemptor import victims_for
from gangfit.solver.greedy.repacking import repacked
from gangfit.solver.greedy.strategies import PLACES, place_one
from gangfit.solver.joint import candidates as reach
from gangfit.solver.leximin import share_out, startable
from gangfit.solver.oracle import (
    Answer,
    Asked,
    Preemption,
    cheapest_victims,
    fits,
    fits_with_victims,
    lawful,
    losses,
)
from gangfit.solver.problem import Problem
from gangfit.solver.refusals import Grounds, Refusals
from gangfit.solver.reservation import Calendar, Reservation, earliest
from gangfit.solver.rights import Right, attainable, given_back, may_take, rights
from gangfit.solver.scales import Patterns
from gangfit.solver.space import Alone, Space
from gangfit.solver.tenants import Order, Step

PLACINGS = 600
"""How many gangs may be placed anew in vain, each some ten times, up to 0.1 ms each."""
WEIGHINGS = 20
"""How often weights are looked for in vain, up to 20 ms each; where nothing is searched once."""


def admit(problem: Problem, budget: Budget | None, progress: Callable[[str], None]) -> Admission:
    """Ask every gang in considered order whether it can start jointly with all admitted before it.

    The greedy rules grow a plan each, in step; one that places the gang says yes, counts say no, CP-SAT decides the
    rest, with victims where free space isn't enough. A rule whose plan has no room goes on from a plan that has. So the
    admitted vector is never worse than any greedy's, and where it is the same, that greedy's own plan is among `plans`.
    Without a budget CP-SAT isn't asked: what greedy and counting leave open stays undecided.
    """
    if problem.snapshot.policy.order == "leximin":
        shared = share_out(problem, budget, progress)
        if shared is not None:
            return Admission(shared.plans, Preemption(), shared.steps, shared.decided, shared.late)
    loop = Loop(problem, budget, progress, problem.order(), Calendar(problem))
    while (gang := loop.order.next()) is not None:
        loop.consider(gang)
    if loop.preemption.preemptors:
        loop.ask_again()
        loop.settle()
    if problem.snapshot.policy.order == "leximin":
        # Whom leximin would have started is open, whatever this loop found.
        able = startable(problem)
        loop.decided = {gang: "limit" if gang in able else how for gang, how in loop.decided.items()}
    return loop.admission()


@dataclass
class Loop:
    """The state of the loop: what is admitted so far, a plan per greedy rule, and who gives way."""

    problem: Problem
    """With second columns once something is promised."""
    budget: Budget | None
    progress: Callable[[str], None]
    order: Order
    calendar: Calendar
    preemption: Preemption = field(default_factory=Preemption)
    admitted: list[int] = field(default_factory=list)
    """In considered order, the gang with a promise among them."""
    reservation: Reservation | None = None
    steps: list[Step] = field(default_factory=list)
    late: list[int] = field(default_factory=list)
    decided: dict[int, Decision] = field(default_factory=dict)
    candidates: Candidates = field(init=False)
    alone: Alone = field(init=False)
    grounds: Grounds = field(init=False)
    refusals: Refusals = field(init=False)
    headroom: Headroom = field(init=False)
    """Counts on free space and all that preemptors could free."""
    dominance: Dominance = field(init=False)
    """Gangs without room in the snapshot's free space."""
    weighings: int = field(init=False)
    """How often weights may still be looked for in vain."""
    placings: int = field(init=False)
    """How many gangs may still be placed anew in vain."""
    asked: dict[int, Asked] = field(default_factory=dict)
    """Questions with victims that were put before the one in free space."""
    hopeless: dict[tuple[int, int], int] = field(default_factory=dict)
    """(shape, required level) → members that have no room even when all of known end has ended."""
    doubtful: int = 0
    """Refusals that rest on floats."""
    again: bool = False
    """All have been considered: who is asked now has been refused with victims of its own."""
    stale: bool = False
    """The victims at hand are lawful, but not known to be the cheapest."""

    def __post_init__(self) -> None:
        self.grounds = Grounds(self.problem)
        self.refusals = Refusals(self.problem)
        self.candidates = Candidates(self.problem)
        self.headroom = Headroom(self.problem)
        self.alone = Alone(self.problem)
        self.dominance = Dominance(self.problem)
        self.weighings = WEIGHINGS if self.budget is not None else 1
        self.placings = PLACINGS if self.budget is not None else 0

    def admission(self) -> Admission:
        """What was decided."""
        plans = self.candidates.plans()
        late = frozenset(self.late)
        return Admission(plans, self.preemption, tuple(self.steps), self.decided, late, self.doubtful, self.reservation)

    def consider(self, gang: int) -> None:
        """One gang's turn: in free space, else with victims."""
        self.steps.append(self.order.step(gang))
        how, yes = self._in_free_space(gang)
        if not yes:
            with_victims, yes = self._with_victims(gang)
            how = "limit" if how == "limit" and not yes else with_victims or how
        self.decided[gang] = how
        if yes:
            self.admitted.append(gang)
            self.headroom.take(gang)
            if gang not in self.preemption.preemptors:
                self.refusals.started()
        self.order.settle(gang, yes)
        if not yes:
            self._reserve(gang)

    def _reserve(self, gang: int) -> None:
        """Promise the refused gang a start, if it is the first of which one is known."""
        calendar, preemption, problem = self.calendar, self.preemption, self.problem
        if self.reservation is not None or not self.order.within_limit(gang) or not calendar.instants(self.admitted):
            return
        alike, members = (int(problem.shape_of[gang]), int(problem.required[gang])), int(problem.members[gang])
        if not preemption.preemptors and (
            members >= self.hopeless.get(alike, members + 1) or not calendar.ever_fits(gang)
        ):
            return
        if preemption.preemptors:
            self._refresh()
        found = earliest(calendar, gang, self.admitted, lambda later: self._later(later, gang))
        if found == "limit":
            self.decided[gang] = "limit"
        elif found == "no" and not preemption.preemptors:
            self.hopeless[alike] = members
        if isinstance(found, str):
            return
        self.reservation, answer = found
        self.progress(f"admission: {self.problem.gangs[gang].name!r}: promised for {self.reservation.start_s}")
        problem, moved = self.reservation.problem, answer.victims != self.preemption.victims
        plans = self.candidates.plans()
        self.preemption.victims, self.preemption.cuts = answer.victims, []
        self._enter(problem, [*self.admitted, gang])
        self._resume(dict.fromkeys(plans, answer.assignment) if moved else plans)
        if not moved and not self.candidates.take(gang):
            self._resume(dict.fromkeys(plans, answer.assignment))

    def _later(self, problem: Problem, gang: int) -> tuple[Answer, Literal["bound", "search"]]:
        """Whether the gang fits at the instant of a round with second columns, beside all admitted now."""
        most = self._most(problem)
        headroom = Headroom(most)
        for other in self.admitted:
            headroom.take(other)
        if headroom.rules_out(gang) or not Alone(most).fits(gang):
            return Answer("no"), "bound"
        victims = self.preemption.victims
        reduced = problem.without(victims)
        place = next(iter(PLACES.values()))
        for plan in self.candidates.distinct():
            spread = place_one(reduced, Space.after(reduced, plan), place, gang)
            if spread is not None:
                return Answer("yes", {**plan, gang: spread}, victims), "bound"
        gangs = [*self.admitted, gang]
        if not self.preemption.preemptors:
            return fits(problem, gangs, self.budget), "search"
        return fits_with_victims(problem, gangs, self.preemption, False, self.budget)[0], "search"

    def _most(self, problem: Problem) -> Problem:
        """A round with all gone that preemptors could take."""
        held = rights(problem, self.admitted, self.preemption.preemptors)
        return problem.without(reach(held, len(problem.victims.gangs))) if held else problem

    def _enter(self, problem: Problem, gangs: list[int]) -> None:
        """Go on in a round with other columns; the candidates are still to follow."""
        self.problem, self.admitted = problem, gangs
        self.grounds, self.refusals = Grounds(problem), Refusals(problem)
        self.order.move(problem.tenants, problem.total, gangs)
        self.alone, self.headroom = Alone(problem), Headroom(self._most(problem))
        for gang in gangs:
            self.headroom.take(gang)
        self.asked.clear()

    def _instead(self, head: Reservation) -> tuple[Decision, bool]:
        """The gang with the promise is asked whether it starts now; the promise ends if so."""
        self._refresh()
        plans = self.candidates.plans()
        gangs = self.admitted
        self._enter(self.calendar.problem, [gang for gang in gangs if gang != head.gang])
        self._resume({name: {j: s for j, s in plan.items() if j != head.gang} for name, plan in plans.items()})
        self.reservation = None
        how, yes = self._in_free_space(head.gang)
        if not yes:
            self.reservation = head
            self._enter(head.problem, gangs)
            self._resume(plans)
        return how, yes

    def _resume(self, plans: dict[str, Assignment]) -> None:
        """Every candidate goes on from a plan of its own, beside the victims at hand."""
        self.candidates.resume(self.problem.without(self.preemption.victims), plans)

    def ask_again(self) -> None:
        """Victims may have left more room than their takers needed: the refused are asked again, in free space."""
        self.again = True
        for gang in [step.gang for step in self.steps if not self._starts(step.gang)]:
            head = self.reservation
            how, yes = self._instead(head) if head is not None and gang == head.gang else self._in_free_space(gang)
            if yes:
                self.admitted.append(gang)
                self.late.append(gang)
                self.headroom.take(gang)
                self.refusals.started()
                self.order.add(gang)
            if how == "limit" or yes:
                self.decided[gang] = "limit" if self.decided[gang] == "limit" else how

    def _starts(self, gang: int) -> bool:
        return gang in self.admitted and (self.reservation is None or gang != self.reservation.gang)

    def _in_free_space(self, gang: int) -> tuple[Decision, bool]:
        """Beside all admitted, without losses beyond those of their victims."""
        preempting = bool(self.preemption.preemptors)
        if self.stale and not self._alike(gang):
            self._refresh()
        victims = self.preemption.victims
        within = self.order.within_limit(gang, given_back(self.problem, victims) if victims else None)
        if self.headroom.rules_out(gang) or not (within or preempting):
            return "bound", False
        if self.dominance.problem is not self.problem:
            self.dominance = Dominance(self.problem)
        if not preempting and (known := self.dominance.cover(gang)) is not None:
            return known if self.alone.fits(gang) else "bound", False
        if within and self._offers(gang):
            self.preemption.cuts = []
            return "greedy", True
        if not preempting:
            if not self.alone.fits(gang):
                return "bound", False
            if self._outweighed(gang):
                self.dominance.add(gang, "bound")
                return "bound", False
            if self._repacked(gang):
                return "greedy", True
            self.progress(f"admission: {self.problem.gangs[gang].name!r}: in free space?")
            answer = fits(self.problem, [*self.admitted, gang], self.budget)
            if answer.verdict == "no":
                self.dominance.add(gang, "search")
        elif self._alike(gang):
            # The question with victims of its own, which comes next, is the same question.
            return "search", False
        elif (settled := self.refusals.covers(gang, None)) is not None:
            return ("search" if settled else "limit"), False
        elif not self.again and self._ask(gang) == "no":
            # With victims of its own it would have more room than without: no twice.
            return "search", False
        else:
            self.progress(f"admission: {self.problem.gangs[gang].name!r}: beside the victims of others?")
            gangs = [*self.admitted, gang]
            answer, cuts = fits_with_victims(self.problem, gangs, self.preemption, False, self.budget)
            if answer.verdict == "yes":
                self.preemption.victims, self.preemption.cuts = answer.victims, cuts
            else:
                self.refusals.add(gang, None, answer.verdict == "no", not cuts)
                self.doubtful += answer.verdict == "no" and not answer.certified
        if answer.verdict == "yes":
            self._restart(answer.assignment)
        return ("limit" if answer.verdict == "limit" else "search"), answer.verdict == "yes"

    def _outweighed(self, gang: int) -> bool:
        """Whether weights prove that the gang has no room in free space; once they proved nothing often enough, no."""
        if self.weighings <= 0:
            return False
        full = Patterns(self.problem, [*self.admitted, gang]).full() is not None
        self.weighings -= not full
        return full

    def _repacked(self, gang: int) -> bool:
        """Whether all have room, placed anew with the difficult ones first; then the candidates go on there."""
        if self.budget is None or self.budget.exhausted or self.placings <= 0:
            return False
        gangs = [*self.admitted, gang]
        plans = repacked(self.problem, gangs)
        if not plans:
            self.placings -= len(gangs)
            return False
        others = next(iter(plans.values()))
        self._resume({rule: plans.get(rule, others) for rule in PLACES})
        return True

    def _offers(self, gang: int) -> bool:
        """Whether a candidate has room; then every candidate takes the gang, by its own rule where it has room."""
        return self.candidates.take(gang) or self._around_head(gang)

    def _around_head(self, gang: int) -> bool:
        """The same with the promised nodes changed."""
        if self.reservation is None:
            return False
        plans = self.candidates.around(self.reservation.gang, gang)
        if plans:
            self._resume(plans)
        return bool(plans)

    def _rights(self, gang: int | None = None) -> list[Right]:
        """The rights of the preemptors so far and of a gang that would join them."""
        if gang is None:
            return rights(self.problem, self.admitted, self.preemption.preemptors)
        return rights(self.problem, [*self.admitted, gang], self.preemption.preemptors | {gang})

    def _alike(self, gang: int) -> bool:
        """Whether the gang may take exactly whom the preemptors before it may take, whatever the shares.

        Then no loss is beyond its right: what C is doesn't matter to it, nor whether it starts in free space.
        """
        held = self._rights(gang)
        return self.grounds.alike(held, held[-1])

    def _refresh(self) -> None:
        """Make the victims at hand the cheapest, so that C is known."""
        if not self.stale or self.budget is None:
            return
        self.stale = False
        preemption = self.preemption
        witness = Answer("yes", dict(self.candidates.first()), preemption.victims)
        cheapest = cheapest_victims(
            self.problem, self.admitted, preemption.preemptors, witness, preemption.cuts, self.budget
        )
        if not isinstance(cheapest, str):
            self.preemption = cheapest[1]
            self.refusals.clear()
            self._restart(cheapest[0])

    def _entitled(self, gang: int) -> tuple[Right, Headroom] | None:
        """The gang's right and the counts with everyone gone who may be taken; None: no right, or no room even then."""
        if not may_take(self.problem, gang):
            return None
        held = self._rights(gang)
        held[-1] = attainable(self.problem, held, self.preemption.broken) if not self.stale else held[-1]
        if not held[-1].any.any():
            return None
        most = self.problem.without(reach(held, len(self.problem.victims.gangs)))
        if not Alone(most).fits(gang):
            return None
        headroom = Headroom(most)
        for other in self.admitted:
            headroom.take(other)
        return None if headroom.rules_out(gang) else (held[-1], headroom)

    def _ask(self, gang: int) -> str | None:
        """Verdict of the question with victims of its own, asked once; None: it has no right over anyone."""
        if self.budget is None or (entitled := self._entitled(gang)) is None:
            return None
        self._refresh()
        return self._question(gang, entitled[0]).answer.verdict

    def _question(self, gang: int, held: Right) -> Asked:
        """The question with victims of its own: by what is known, by the greedy preemptor, else by search."""
        if gang in self.asked:
            return self.asked[gang]
        assert self.budget is not None
        gangs, everyone = [*self.admitted, gang], self._rights(gang)
        plain = all(self.grounds.plain(right) for right in everyone)
        found = None
        if (known := self.refusals.covers(gang, held)) is not None:
            asked = Asked(Answer("no" if known else "limit"), [])
        elif plain and (found := self._found(gang, held, everyone)) is not None:
            asked = Asked(found, [], greedy=True)
        else:
            self.progress(f"admission: {self.problem.gangs[gang].name!r}: with victims?")
            asked = Asked(*fits_with_victims(self.problem, gangs, self.preemption, True, self.budget))
            if asked.answer.verdict != "yes":
                self.refusals.add(gang, held, asked.answer.verdict == "no", not asked.cuts)
                self.doubtful += asked.answer.verdict == "no" and not asked.answer.certified
        self.asked[gang] = asked
        return asked

    def _with_victims(self, gang: int) -> tuple[Decision | None, bool]:
        """With victims of its own; None: it has no right over anyone."""
        entitled = self._entitled(gang)
        if entitled is None:
            return None, False
        if self.budget is None:
            return "limit", False
        held, headroom = entitled
        alike = self._alike(gang)
        if not alike:
            self._refresh()
        asked = self._question(gang, held)
        del self.asked[gang]
        answer = asked.answer
        if answer.verdict != "yes":
            return ("limit" if answer.verdict == "limit" else "search"), False
        if alike:
            self._accept(gang, answer.assignment, answer.victims, headroom)
            return "greedy" if asked.greedy else "search", True
        return self._preempt(gang, asked, headroom)

    def _found(self, gang: int, held: Right, everyone: list[Right]) -> Answer | None:
        """Victims that the greedy preemptor finds beside a candidate's placements, all rights plain.

        Those before it stay, so they keep to C; those it adds are covered by its own right. And of victims by plain
        rights any who turn out needless may stay.
        """
        for plan in self.candidates.distinct():
            found = victims_for(self.problem, held, plan, self.preemption.victims)
            if found is None:
                continue
            spread, victims = found
            within = self.order.within_limit(gang, given_back(self.problem, victims))
            if within and lawful(self.problem, everyone, victims):
                return Answer("yes", {**plan, gang: spread}, victims)
        return None

    def _accept(self, gang: int, assignment: Assignment, victims: frozenset[int], headroom: Headroom) -> None:
        """The gang starts as a preemptor; who is cheapest for all of them is settled when it matters."""
        priorities = set(self.problem.victims.priority.tolist())
        self.preemption = Preemption(
            self.preemption.preemptors | {gang},
            victims,
            losses(self.problem, victims, priorities),
            dict.fromkeys(priorities, 0),
        )
        self.stale = True
        self.refusals.clear()
        self._restart(assignment)
        self.headroom = headroom

    def _preempt(self, gang: int, asked: Asked, headroom: Headroom) -> tuple[Decision, bool]:
        assert self.budget is not None
        preemptors = self.preemption.preemptors | {gang}
        gangs = [*self.admitted, gang]
        cheapest = cheapest_victims(self.problem, gangs, preemptors, asked.answer, asked.cuts, self.budget)
        if isinstance(cheapest, str):
            return ("search" if cheapest == "no" else "limit"), False
        assignment, self.preemption = cheapest
        self.refusals.clear()
        self._restart(assignment)
        self.headroom = headroom
        return "search", True

    def settle(self) -> None:
        """The cheapest victims once all gangs are admitted: others may be lawful now, where gangs reclaim."""
        self._refresh()
        preemption = self.preemption
        reclaims = self.problem.snapshot.policy.preemption.across == "reclaim"
        held = self._rights()
        reclaims = reclaims and any(right.reclaim.any() for right in held)
        if not preemption.victims or not reclaims or self.budget is None or self.admitted[-1] in preemption.preemptors:
            return
        assignment = self.candidates.first()
        answer = Answer("yes", dict(assignment), preemption.victims)
        cheapest = cheapest_victims(
            self.problem, self.admitted, preemption.preemptors, answer, preemption.cuts, self.budget, preemption
        )
        if not isinstance(cheapest, str):
            changed = cheapest[1].victims != preemption.victims
            self.preemption = cheapest[1]
            if changed:
                self._restart(cheapest[0])

    def _restart(self, assignment: Assignment) -> None:
        """Every candidate goes on from a plan of the oracle."""
        self.candidates.restart(self.problem.without(self.preemption.leaving), assignment)
