"""Tier 1: which gangs start. One loop over the considered order with an exact oracle, cheap first."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass
from typing import Literal

from gangfit.solver.assignment import Assignment, Spread
from gangfit.solver.bounds import Headroom
from gangfit.solver.engine import Budget, run
from gangfit.solver.greedy.strategies import PLACES, Place, place_one
from gangfit.solver.merged import merged
from gangfit.solver.problem import Problem
from gangfit.solver.space import Alone, Space

Decision = Literal["greedy", "bound", "search", "limit"]

MODEL_LIMIT = 200_000
"""Most variables of a model that is handed to CP-SAT."""
SHARE = 0.25
"""Most of the remaining time that one question may take."""


@dataclass(frozen=True)
class Admission:
    """What the loop decided."""

    plans: dict[str, Assignment]
    """Greedy rule → a placement of all admitted gangs by that rule, as far as it got."""
    decided: tuple[Decision, ...]
    """(J,): how each gang's question was settled; `limit` = undecided."""


@dataclass
class _Candidate:
    """One greedy rule's plan, grown gang by gang."""

    place: Place
    assignment: Assignment
    space: Space

    def offer(self, problem: Problem, gang: int, places: Iterable[Place]) -> Spread | None:
        """A spread for the gang in the space this plan leaves."""
        for place in places:
            spread = place_one(problem, self.space, place, gang)
            if spread is not None:
                return spread
        return None

    def add(self, gang: int, spread: Spread) -> None:
        self.assignment[gang] = spread
        self.space.take(gang, spread)


def admit(problem: Problem, budget: Budget | None, progress: Callable[[str], None]) -> Admission:
    """Ask every gang in considered order whether it can start jointly with all admitted before it.

    The greedy rules grow a plan each, in step; one that places the gang says yes, counts say no, CP-SAT decides the
    rest. A rule whose plan has no room goes on from a plan that has. So the admitted vector is never worse than any
    greedy's, and where it is the same, that greedy's own plan is among `plans`. Without a budget CP-SAT isn't asked:
    what greedy and counting leave open stays undecided.
    """
    headroom, alone = Headroom(problem), Alone(problem)
    candidates = {name: _Candidate(place, {}, Space(problem)) for name, place in PLACES.items()}
    decided: list[Decision] = []
    for gang in range(len(problem.gangs)):
        if headroom.rules_out(gang) or not alone.fits(gang):
            decided.append("bound")
            continue
        offers = {name: c.offer(problem, gang, [c.place]) for name, c in candidates.items()}
        if not any(offers.values()):
            offers = {name: c.offer(problem, gang, PLACES.values()) for name, c in candidates.items()}
        how: Decision = "greedy"
        if not any(offers.values()):
            progress(f"admission: asking CP-SAT about {problem.gangs[gang].name!r} ({gang + 1}/{len(problem.gangs)})")
            admitted = next(iter(candidates.values())).assignment
            how, found = _ask(problem, [*admitted, gang], budget)
            if found is not None:
                for candidate in candidates.values():
                    candidate.assignment, candidate.space = dict(found), Space.after(problem, found)
        else:
            _agree(problem, candidates, offers, gang)
        decided.append(how)
        if gang in next(iter(candidates.values())).assignment:
            headroom.take(gang)
    return Admission({name: c.assignment for name, c in candidates.items()}, tuple(decided))


def _agree(problem: Problem, candidates: dict[str, _Candidate], offers: dict[str, Spread | None], gang: int) -> None:
    """Every candidate takes the gang: by its own offer, by another rule, or by going on from a plan that has room."""
    for name, candidate in candidates.items():
        spread = offers[name] or candidate.offer(problem, gang, PLACES.values())
        if spread is not None:
            candidate.add(gang, spread)
    host = next(c for c in candidates.values() if gang in c.assignment)
    for candidate in candidates.values():
        if gang not in candidate.assignment:
            candidate.assignment, candidate.space = dict(host.assignment), host.space.copy()


def _ask(problem: Problem, gangs: list[int], budget: Budget | None) -> tuple[Decision, Assignment | None]:
    """CP-SAT on the merged model; classes whose counts can't be handed out are split and the question asked again."""
    if budget is None:
        return "limit", None
    single: set[int] = set()
    while True:
        model = merged(problem, gangs, single, spread=False)
        if not model.feasible:
            return "search", None
        if len(model.members) > MODEL_LIMIT:
            return "limit", None
        outcome = run(model.model, budget, SHARE)
        if outcome.status == "infeasible":
            return "search", None
        if outcome.values is None:
            return "limit", None
        found, failed = model.decode(outcome.values, budget)
        if found is not None:
            return "search", found
        fresh = {int(n) for group in failed if group.size > 1 for n in group.nodes}
        if not fresh:
            return "limit", None
        single |= fresh


def fill_leftover(
    problem: Problem, assignment: Assignment, decided: tuple[Decision, ...]
) -> tuple[Assignment, tuple[Decision, ...]]:
    """Undecided gangs that fit the space a plan leaves start after all: the plan and decisions with them added."""
    space = Space.after(problem, assignment)
    filled, settled = dict(assignment), list(decided)
    for gang in [j for j, how in enumerate(decided) if how == "limit"]:
        spread = next((s for s in (place_one(problem, space, p, gang) for p in PLACES.values()) if s is not None), None)
        if spread is not None:
            filled[gang] = spread
            space.take(gang, spread)
            settled[gang] = "greedy"
    return filled, tuple(settled)
