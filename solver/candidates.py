"""The plans of all greedy rules, grown gang by gang, in step."""

from __future__ import annotations

from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass, field

from gangfit.solver.assignment import Assignment, Spread
from gangfit.solver.greedy.strategies import PLACES, place_at, place_one, site_of
from gangfit.solver.problem import Problem
from gangfit.solver.space import Space

ROW = 64
"""Most equal gangs that are placed at once."""


@dataclass
class _Group:
    """Rules whose plans are the same so far."""

    rules: list[str]
    assignment: Assignment
    space: Space
    """What the assignment leaves, and the gangs ahead."""
    ahead: deque[Spread] = field(default_factory=deque)
    """Where all these rules put the next gangs of the type that came last."""

    def drop(self, gang: int) -> None:
        """Gangs of another type come next than this one's."""
        while self.ahead:
            self.space.take(gang, self.ahead.pop(), -1)


class Candidates:
    """Greedy rule → a plan that places every gang given so far, by that rule as far as it got.

    Gangs of one type that come in a row are placed ahead, 2, 4, 8, … at once.
    """

    def __init__(self, problem: Problem) -> None:
        self._groups = [_Group(list(PLACES), {}, Space(problem))]
        kinds = problem.shape_of.tolist(), problem.members.tolist(), problem.required.tolist()
        self._types = list(zip(*kinds, strict=True))
        self._last = -1
        """The gang asked about last."""
        self._row = 0
        """How many of its type came in a row."""

    def plans(self) -> dict[str, Assignment]:
        """Rule → its plan; equal ones may be one object."""
        by_rule = {rule: group.assignment for group in self._groups for rule in group.rules}
        return {rule: by_rule[rule] for rule in PLACES}

    def first(self) -> Assignment:
        """One of the plans."""
        return self.plans()[next(iter(PLACES))]

    def distinct(self) -> list[Assignment]:
        """The plans, each once."""
        return list({id(plan): plan for plan in self.plans().values()}.values())

    def take(self, gang: int) -> bool:
        """Whether a plan has room; then every plan takes the gang, by its own rule where it has room.

        A rule whose plan has no room goes on from a plan that has.
        """
        if self._last < 0 or self._types[gang] != self._types[self._last]:
            self._drop()
        self._last = gang
        self._row += 1
        grown: list[_Group] = []
        homeless: list[str] = []
        for group in self._groups:
            parts = self._place(gang, group)
            grown += parts
            if not parts:
                homeless += group.rules
        if not grown:
            return False
        host = min(grown, key=lambda group: min(PLACES[rule].number for rule in group.rules))
        host.rules += homeless
        self._groups = grown
        return True

    def around(self, head: int, gang: int) -> dict[str, Assignment]:
        """Plans with the gang placed first and the head, which has a place in all of them, again; empty if none."""
        self._drop()
        plans = {}
        for group in self._groups:
            space = group.space
            space.take(head, group.assignment[head], -1)
            for rule in group.rules:
                spread = place_one(space.problem, space, PLACES[rule], gang)
                if spread is not None:
                    space.take(gang, spread)
                    promised = place_one(space.problem, space, PLACES[rule], head)
                    if promised is not None:
                        plans[rule] = {**group.assignment, gang: spread, head: promised}
                    space.take(gang, spread, -1)
            space.take(head, group.assignment[head])
        if not plans:
            return {}
        fallback = next(plans[rule] for rule in PLACES if rule in plans)
        return {rule: plans.get(rule, fallback) for rule in PLACES}

    def resume(self, problem: Problem, plans: Mapping[str, Assignment]) -> None:
        """Every rule goes on from a plan of its own, in another round."""
        rules: dict[int, list[str]] = {}
        for rule, plan in plans.items():
            rules.setdefault(id(plan), []).append(rule)
        given = {id(plan): plan for plan in plans.values()}
        self._groups = [_Group(rules[number], dict(plan), Space.after(problem, plan)) for number, plan in given.items()]
        self._last, self._row = -1, 0

    def restart(self, problem: Problem, assignment: Assignment) -> None:
        """Every rule goes on from one plan, in another round."""
        self.resume(problem, dict.fromkeys(PLACES, assignment))

    def _drop(self) -> None:
        """What was placed ahead is given back."""
        if self._last >= 0:
            for group in self._groups:
                group.drop(self._last)
        self._last, self._row = -1, 0

    def _place(self, gang: int, group: _Group) -> list[_Group]:
        """The group with the gang, in parts where its rules differ; empty if it has no room."""
        if not group.ahead and self._row > 1:
            numbers = [PLACES[rule].number for rule in group.rules]
            group.ahead.extend(group.space.row(numbers, gang, min(1 << self._row, ROW)))
        if group.ahead:
            group.assignment[gang] = group.ahead.popleft()
            return [group]
        site = site_of(group.space.problem, group.space, gang)
        if site is None:
            return []
        parts: dict[tuple[bytes, bytes], tuple[Spread, list[str]]] = {}
        for rule in group.rules:
            spread = place_at(site, PLACES[rule])
            key = spread.nodes.tobytes(), spread.counts.tobytes()
            parts.setdefault(key, (spread, []))[1].append(rule)
        grown = [group]
        for spread, rules in list(parts.values())[1:]:
            part = _Group(rules, {**group.assignment, gang: spread}, group.space.copy())
            part.space.take(gang, spread)
            grown.append(part)
        spread, group.rules = next(iter(parts.values()))
        group.assignment[gang] = spread
        group.space.take(gang, spread)
        return grown
