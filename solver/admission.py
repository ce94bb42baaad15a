"""Tier 1: which gangs start. One loop over the considered order with an exact oracle, cheap first."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal

from gangfit.solver.assignment import Assignment, Spread, considered, starting
from gangfit.solver.bounds import Headroom
from gangfit.solver.dominance import Dominance
from gangfit.solver.engine import Budget
from gangfit.solver.greedy.preemptor import preempt_greedily, victims_for
from gangfit.solver.greedy.strategies import PLACES, Place, Site, place_at, place_one, site_of
from gangfit.solver.joint import candidates as reach
from gangfit.solver.leximin import share_out, startable
from gangfit.solver.oracle import Answer, Preemption, cheapest_victims, fits, fits_with_victims, losses
from gangfit.solver.problem import Problem
from gangfit.solver.reservation import Calendar, Reservation, earliest
from gangfit.solver.rights import Right, claims, given_back, rights
from gangfit.solver.scales import Patterns
from gangfit.solver.space import Alone, Space
from gangfit.solver.tenants import Order, Step

Decision = Literal["greedy", "bound", "search", "limit"]


WEIGHINGS = 20
"""How often weights are looked for in vain, up to 20 ms each; where nothing is searched once."""


@dataclass(frozen=True)
class Admission:
    """What the loop decided."""

    plans: dict[str, Assignment]
    """Greedy rule → a placement of all admitted gangs by that rule, as far as it got; equal plans may be one object."""
    preemption: Preemption
    """Victims of the admitted gangs."""
    steps: tuple[Step, ...]
    """Whose turn it was, and why."""
    decided: dict[int, Decision]
    """Gang → how its question was settled; `limit` = undecided."""
    late: frozenset[int] = frozenset()
    """Gangs that start only when they are asked again."""
    reservation: Reservation | None = None
    """What is promised to the first gang that waits; plans place that gang, too."""

    def round(self, problem: Problem) -> Problem:
        """The round that the plans are for: with second columns if something is promised."""
        return problem if self.reservation is None else self.reservation.problem

    def starts(self, assignment: Assignment) -> Assignment:
        """An assignment without the gang that only has a promise."""
        head = -1 if self.reservation is None else self.reservation.gang
        return {gang: spread for gang, spread in assignment.items() if gang != head}


@dataclass
class _Candidate:
    """One greedy rule's plan, grown gang by gang. Rules whose plans are the same so far share assignment and space."""

    place: Place
    assignment: Assignment
    space: Space

    def share(self, other: _Candidate) -> None:
        """Go on from another's plan."""
        self.assignment, self.space = other.assignment, other.space

    def add(self, gang: int, spread: Spread) -> None:
        self.assignment[gang] = spread
        self.space.take(gang, spread)


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
    candidates: dict[str, _Candidate] = field(init=False)
    alone: Alone = field(init=False)
    headroom: Headroom = field(init=False)
    """Counts on free space and all that preemptors could free."""
    dominance: Dominance = field(init=False)
    """Gangs without room in the snapshot's free space."""
    weighings: int = field(init=False)
    """How often weights may still be looked for in vain."""
    asked: dict[int, tuple[Answer, list[frozenset[int]]]] = field(default_factory=dict)
    """Questions with victims that were put before the one in free space."""
    hopeless: dict[tuple[int, int], int] = field(default_factory=dict)
    """(shape, required level) → members that have no room even when all of known end has ended."""
    stale: bool = False
    """The victims at hand are lawful, but not known to be the cheapest."""

    def __post_init__(self) -> None:
        space, plan = Space(self.problem), Assignment()
        self.candidates = {name: _Candidate(place, plan, space) for name, place in PLACES.items()}
        self.headroom = Headroom(self.problem)
        self.alone = Alone(self.problem)
        self.dominance = Dominance(self.problem)
        self.weighings = WEIGHINGS if self.budget is not None else 1

    def admission(self) -> Admission:
        """What was decided."""
        plans = {name: candidate.assignment for name, candidate in self.candidates.items()}
        late = frozenset(self.late)
        return Admission(plans, self.preemption, tuple(self.steps), self.decided, late, self.reservation)

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
        plans = {name: candidate.assignment for name, candidate in self.candidates.items()}
        self.preemption.victims, self.preemption.cuts = answer.victims, []
        self._enter(problem, [*self.admitted, gang])
        self._resume(dict.fromkeys(plans, answer.assignment) if moved else plans)
        if not moved and not self._joins(gang):
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
        for plan in {id(c.assignment): c.assignment for c in self.candidates.values()}.values():
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
        self.order.move(problem.tenants, problem.total, gangs)
        self.alone, self.headroom = Alone(problem), Headroom(self._most(problem))
        for gang in gangs:
            self.headroom.take(gang)
        self.asked.clear()

    def _instead(self, head: Reservation) -> tuple[Decision, bool]:
        """The gang with the promise is asked whether it starts now; the promise ends if so."""
        self._refresh()
        plans = {name: candidate.assignment for name, candidate in self.candidates.items()}
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
        """Every candidate goes on from a plan of its own."""
        reduced = self.problem.without(self.preemption.victims)
        spaces = {id(plan): (dict(plan), Space.after(reduced, plan)) for plan in plans.values()}
        for name, plan in plans.items():
            candidate = self.candidates[name]
            candidate.assignment, candidate.space = spaces[id(plan)]

    def ask_again(self) -> None:
        """Victims may have left more room than their takers needed: the refused are asked again, in free space."""
        for gang in [step.gang for step in self.steps if not self._starts(step.gang)]:
            head = self.reservation
            how, yes = self._instead(head) if head is not None and gang == head.gang else self._in_free_space(gang)
            if yes:
                self.admitted.append(gang)
                self.late.append(gang)
                self.headroom.take(gang)
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
        within = self.order.within_limit(gang, given_back(self.problem, self.preemption.victims))
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
            self.progress(f"admission: {self.problem.gangs[gang].name!r}: in free space?")
            answer = fits(self.problem, [*self.admitted, gang], self.budget)
            if answer.verdict == "no":
                self.dominance.add(gang, "search")
        elif self._alike(gang):
            # The question with victims of its own, which comes next, is the same question.
            return "search", False
        elif self._ask(gang) == "no":
            # With victims of its own it would have more room than without: no twice.
            return "search", False
        else:
            self.progress(f"admission: {self.problem.gangs[gang].name!r}: beside the victims of others?")
            gangs = [*self.admitted, gang]
            answer, cuts = fits_with_victims(self.problem, gangs, self.preemption, False, self.budget)
            if answer.verdict == "yes":
                self.preemption.victims, self.preemption.cuts = answer.victims, cuts
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

    def _offers(self, gang: int) -> bool:
        """Whether a candidate has room; then every candidate takes the gang, by its own rule where it has room."""
        return self._joins(gang) or self._around_head(gang)

    def _joins(self, gang: int) -> bool:
        """The same with everything where it is."""
        groups: dict[int, list[_Candidate]] = {}
        for candidate in self.candidates.values():
            groups.setdefault(id(candidate.space), []).append(candidate)
        sites = [site_of(self.problem, group[0].space, gang) for group in groups.values()]
        if not any(sites):
            return False
        homeless = []
        for site, group in zip(sites, groups.values(), strict=True):
            if site is None:
                homeless += group
            else:
                self._place(gang, site, group)
        host = next(c for c in self.candidates.values() if gang in c.assignment)
        for candidate in homeless:
            candidate.share(host)
        return True

    def _around_head(self, gang: int) -> bool:
        """The same with the promised nodes changed: a candidate places the gang first, then the head again."""
        if self.reservation is None:
            return False
        head, plans = self.reservation.gang, {}
        for name, candidate in self.candidates.items():
            space, place = candidate.space, candidate.place
            space.take(head, candidate.assignment[head], -1)
            spread = place_one(self.problem, space, place, gang)
            if spread is not None:
                space.take(gang, spread)
                promised = place_one(self.problem, space, place, head)
                if promised is not None:
                    plans[name] = {**candidate.assignment, gang: spread, head: promised}
                space.take(gang, spread, -1)
            space.take(head, candidate.assignment[head])
        if not plans:
            return False
        self._resume({name: plans.get(name, next(iter(plans.values()))) for name in self.candidates})
        return True

    def _place(self, gang: int, site: Site, group: list[_Candidate]) -> None:
        """Candidates of one plan take the gang; where their rules differ, they go on with plans of their own."""
        parts: dict[tuple[bytes, bytes], tuple[Spread, list[_Candidate]]] = {}
        for candidate in group:
            spread = place_at(site, candidate.place)
            key = spread.nodes.tobytes(), spread.counts.tobytes()
            parts.setdefault(key, (spread, []))[1].append(candidate)
        for spread, (first, *rest) in list(parts.values())[1:]:
            first.assignment, first.space = dict(first.assignment), first.space.copy()
            first.add(gang, spread)
            for candidate in rest:
                candidate.share(first)
        spread, (first, *_) = next(iter(parts.values()))
        first.add(gang, spread)

    def _alike(self, gang: int) -> bool:
        """Whether the gang may take exactly whom the preemptors before it may take, whatever the shares.

        Then no loss is beyond its right: what C is doesn't matter to it, nor whether it starts in free space.
        """
        held = rights(self.problem, [*self.admitted, gang], self.preemption.preemptors | {gang})
        return not any(r.reclaim.any() or (r.own != held[-1].own).any() for r in held)

    def _refresh(self) -> None:
        """Make the victims at hand the cheapest, so that C is known."""
        if not self.stale or self.budget is None:
            return
        self.stale = False
        preemption = self.preemption
        witness = Answer("yes", dict(next(iter(self.candidates.values())).assignment), preemption.victims)
        cheapest = cheapest_victims(
            self.problem, self.admitted, preemption.preemptors, witness, preemption.cuts, self.budget
        )
        if not isinstance(cheapest, str):
            self.preemption = cheapest[1]
            self._restart(cheapest[0])

    def _entitled(self, gang: int) -> tuple[Right, Headroom] | None:
        """The gang's right and the counts with everyone gone who may be taken; None: no right, or no room even then."""
        held = rights(self.problem, [*self.admitted, gang], self.preemption.preemptors | {gang})
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
        if self.budget is None or self._entitled(gang) is None:
            return None
        self._refresh()
        self.progress(f"admission: {self.problem.gangs[gang].name!r}: with victims?")
        self.asked[gang] = fits_with_victims(self.problem, [*self.admitted, gang], self.preemption, True, self.budget)
        return self.asked[gang][0].verdict

    def _with_victims(self, gang: int) -> tuple[Decision | None, bool]:
        """With victims of its own; None: it has no right over anyone."""
        entitled = self._entitled(gang)
        if entitled is None:
            return None, False
        if self.budget is None:
            return "limit", False
        held, headroom = entitled
        alike = self._alike(gang)
        if alike and self._takes(gang, held, headroom):
            return "greedy", True
        gangs = [*self.admitted, gang]
        if gang not in self.asked:
            if not alike:
                self._refresh()
            self.progress(f"admission: {self.problem.gangs[gang].name!r}: with victims?")
            self.asked[gang] = fits_with_victims(self.problem, gangs, self.preemption, True, self.budget)
        answer, cuts = self.asked.pop(gang)
        if answer.verdict != "yes":
            return ("limit" if answer.verdict == "limit" else "search"), False
        if alike:
            self._accept(gang, answer.assignment, answer.victims, headroom)
            return "search", True
        return self._preempt(gangs, self.preemption.preemptors | {gang}, answer, cuts, headroom)

    def _takes(self, gang: int, held: Right, headroom: Headroom) -> bool:
        """Whether the greedy preemptor finds victims beside a candidate's placements."""
        for candidate in self.candidates.values():
            found = victims_for(self.problem, held, candidate.assignment, self.preemption.victims)
            if found is not None and self.order.within_limit(gang, given_back(self.problem, found[1])):
                spread, victims = found
                self._accept(gang, {**candidate.assignment, gang: spread}, victims, headroom)
                return True
        return False

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
        self._restart(assignment)
        self.headroom = headroom

    def _preempt(
        self,
        gangs: list[int],
        preemptors: frozenset[int],
        answer: Answer,
        cuts: list[frozenset[int]],
        headroom: Headroom,
    ) -> tuple[Decision, bool]:
        assert self.budget is not None
        cheapest = cheapest_victims(self.problem, gangs, preemptors, answer, cuts, self.budget)
        if isinstance(cheapest, str):
            return ("search" if cheapest == "no" else "limit"), False
        assignment, self.preemption = cheapest
        self._restart(assignment)
        self.headroom = headroom
        return "search", True

    def settle(self) -> None:
        """The cheapest victims once all gangs are admitted: others may be lawful now, where gangs reclaim."""
        self._refresh()
        preemption = self.preemption
        reclaims = self.problem.snapshot.policy.preemption.across == "reclaim"
        held = rights(self.problem, self.admitted, preemption.preemptors)
        reclaims = reclaims and any(right.reclaim.any() for right in held)
        if not preemption.victims or not reclaims or self.budget is None or self.admitted[-1] in preemption.preemptors:
            return
        assignment = next(iter(self.candidates.values())).assignment
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
        space = Space.after(self.problem.without(self.preemption.leaving), assignment)
        assignment = dict(assignment)
        for candidate in self.candidates.values():
            candidate.assignment, candidate.space = assignment, space


def with_preemptor(problem: Problem, admission: Admission) -> Admission:
    """The greedy preemptor's plan instead, where time ran out and it admits more in considered order.

    Its victims are lawful; whether they are the cheapest is open, and so is everything it refuses that has room at all.
    It knows no promises: where one is made, the plan that keeps it stays.
    """
    if "limit" not in admission.decided.values() or not problem.victims.gangs or admission.reservation is not None:
        return admission
    found = preempt_greedily(problem)
    steps = considered(problem, found.assignment)
    ours = next(iter(admission.plans.values()))
    first = [-(step.gang in ours and step.gang not in admission.late) for step in admission.steps]
    if [-(step.gang in found.assignment) for step in steps] >= first:
        return admission
    held = rights(problem, [s.gang for s in steps if s.gang in found.assignment], found.preemptors)
    claimed = claims(problem, held, found.victims)
    if any(not claimed[v] and not any(right.own[v] for right in held) for v in found.victims):
        return admission
    priorities = set(problem.victims.priority.tolist())
    lost = losses(problem, found.victims, priorities)
    preemption = Preemption(found.preemptors, found.victims, lost, dict.fromkeys(priorities, 0))
    room = Alone(problem.empty())
    decided: dict[int, Decision] = {
        step.gang: "greedy" if step.gang in found.assignment else "limit" if room.fits(step.gang) else "bound"
        for step in steps
    }
    return Admission({"preemptor": found.assignment}, preemption, tuple(steps), decided)


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
