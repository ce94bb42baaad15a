"""The greedy preemptor, as schedulers do it: gang by gang, lowest priority first, then newest, with a reprieve pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from gangfit.solver.assignment import Assignment, Spread
from gangfit.solver.greedy.strategies import PLACES, place_one
from gangfit.solver.problem import Problem
from gangfit.solver.rights import Right, claims, given_back, rights
from gangfit.solver.space import Space


@dataclass(frozen=True)
class Preempted:
    """A plan with victims."""

    assignment: Assignment
    victims: frozenset[int]
    preemptors: frozenset[int]


def preempt_greedily(problem: Problem, place: str = "lexicographic") -> Preempted:
    """Every gang in considered order: into free space, else beside the first few victims of its right, else it waits.

    Victims are taken in the order of priority, then start (newest first), then name, until the gang fits; then each is
    left running after all if the gang still fits (reprieve, last taken first). Earlier placements and victims stay.
    """
    order = problem.order()
    assignment: Assignment = {}
    victims: frozenset[int] = frozenset()
    preemptors: set[int] = set()
    admitted: list[int] = []
    space = Space(problem)
    while (gang := order.next()) is not None:
        within = order.within_limit(gang, given_back(problem, victims))
        spread = place_one(space.problem, space, PLACES[place], gang) if within else None
        if spread is None:
            held = rights(problem, [*admitted, gang], {gang})[-1]
            found = victims_for(problem, held, assignment, victims, place)
            if found is not None:
                spread, victims = found
                preemptors.add(gang)
                space = Space.after(problem.without(victims), assignment)
        if spread is not None:
            assignment[gang] = spread
            admitted.append(gang)
            space.take(gang, spread)
        order.settle(gang, spread is not None)
    return Preempted(assignment, victims, frozenset(preemptors))


def victims_for(
    problem: Problem,
    held: Right,
    assignment: Assignment,
    gone: frozenset[int],
    place: str = "lexicographic",
) -> tuple[Spread, frozenset[int]] | None:
    """A spread of the right's gang and all victims then, or None."""
    started = [gang.started_s for gang in problem.victims.gangs]
    reach = [v for v in held.any.nonzero()[0].tolist() if v not in gone]
    reach.sort(key=lambda v: (int(problem.victims.priority[v]), -started[v], problem.victims.gangs[v].name))

    def fits(chosen: Sequence[int]) -> Spread | None:
        space = Space.after(problem.without(gone | set(chosen)), assignment)
        return place_one(space.problem, space, PLACES[place], held.gang)

    taken = _lawful(problem, held, gone, reach)
    if fits(taken) is None:
        return None
    low, high = 0, len(taken)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if fits(taken[:middle]) is not None else (middle + 1, high)
    chosen = taken[:low]
    for v in reversed(chosen):
        spared = [other for other in chosen if other != v]
        if fits(spared) is not None:
            chosen = spared
    spread = fits(chosen)
    everyone = gone | set(chosen)
    if spread is None or not _all_lawful(problem, held, chosen, everyone):
        return None
    return spread, everyone


def _lawful(problem: Problem, held: Right, gone: frozenset[int], reach: Sequence[int]) -> list[int]:
    """As many victims as may be taken, one after the other."""
    taken: list[int] = []
    for v in reach:
        if held.own[v] or 0 in claims(problem, [held], gone | {*taken, v})[v]:
            taken.append(v)
    return taken


def _all_lawful(problem: Problem, held: Right, chosen: Sequence[int], everyone: frozenset[int]) -> bool:
    """Whether the right covers each of its victims, with all of them gone."""
    claimed = claims(problem, [held], everyone)
    return all(held.own[v] or claimed[v] for v in chosen)
