"""The plans of all greedy rules, grown gang by gang, in step."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from gangfit.solver.assignment import Assignment, Spread
from gangfit.solver.greedy.strategies import PLACES, Place, Site, place_at, place_one, site_of
from gangfit.solver.problem import Problem
from gangfit.solver.space import Space


@dataclass
class _Candidate:
    """One rule's plan. Rules whose plans are the same so far share assignment and space."""

    place: Place
    assignment: Assignment
    space: Space

    def share(self, other: _Candidate) -> None:
        """Go on from another's plan."""
        self.assignment, self.space = other.assignment, other.space

    def add(self, gang: int, spread: Spread) -> None:
        self.assignment[gang] = spread
        self.space.take(gang, spread)


class Candidates:
    """Greedy rule → a plan that places every gang given so far, by that rule as far as it got."""

    def __init__(self, problem: Problem) -> None:
        space, plan = Space(problem), Assignment()
        self._all = {name: _Candidate(place, plan, space) for name, place in PLACES.items()}

    def plans(self) -> dict[str, Assignment]:
        """Rule → its plan; equal ones may be one object."""
        return {name: candidate.assignment for name, candidate in self._all.items()}

    def first(self) -> Assignment:
        """One of the plans."""
        return next(iter(self._all.values())).assignment

    def distinct(self) -> list[Assignment]:
        """The plans, each once."""
        return list({id(one.assignment): one.assignment for one in self._all.values()}.values())

    def take(self, gang: int) -> bool:
        """Whether a plan has room; then every plan takes the gang, by its own rule where it has room.

        A rule whose plan has no room goes on from a plan that has.
        """
        groups: dict[int, list[_Candidate]] = {}
        for candidate in self._all.values():
            groups.setdefault(id(candidate.space), []).append(candidate)
        sites = [site_of(group[0].space.problem, group[0].space, gang) for group in groups.values()]
        if not any(sites):
            return False
        homeless = []
        for site, group in zip(sites, groups.values(), strict=True):
            if site is None:
                homeless += group
            else:
                _place(gang, site, group)
        host = next(c for c in self._all.values() if gang in c.assignment)
        for candidate in homeless:
            candidate.share(host)
        return True

    def around(self, head: int, gang: int) -> dict[str, Assignment]:
        """Plans with the gang placed first and the head, which has a place in all of them, again; empty if none."""
        plans = {}
        for name, candidate in self._all.items():
            space, place = candidate.space, candidate.place
            space.take(head, candidate.assignment[head], -1)
            spread = place_one(space.problem, space, place, gang)
            if spread is not None:
                space.take(gang, spread)
                promised = place_one(space.problem, space, place, head)
                if promised is not None:
                    plans[name] = {**candidate.assignment, gang: spread, head: promised}
                space.take(gang, spread, -1)
            space.take(head, candidate.assignment[head])
        return {name: plans.get(name, next(iter(plans.values()))) for name in self._all} if plans else {}

    def resume(self, problem: Problem, plans: Mapping[str, Assignment]) -> None:
        """Every rule goes on from a plan of its own, in another round."""
        spaces = {id(plan): (dict(plan), Space.after(problem, plan)) for plan in plans.values()}
        for name, plan in plans.items():
            candidate = self._all[name]
            candidate.assignment, candidate.space = spaces[id(plan)]

    def restart(self, problem: Problem, assignment: Assignment) -> None:
        """Every rule goes on from one plan, in another round."""
        self.resume(problem, dict.fromkeys(self._all, assignment))


def _place(gang: int, site: Site, group: list[_Candidate]) -> None:
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
