"""`policy.order: leximin`: the ascending vector of weighted dominant shares is maximised exactly, level by level.

Who starts is chosen jointly by CP-SAT over the model of `choice`; docs/model.md, "Leximin", says what is meant.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from functools import cached_property
from heapq import heapify, heappop, heappush

import numpy as np

from gangfit.solver.assignment import Assignment
from gangfit.solver.bounds import Headroom
from gangfit.solver.choice import Choice
from gangfit.solver.classes import node_classes
from gangfit.solver.decided import Decision
from gangfit.solver.engine import Budget
from gangfit.solver.greedy.strategies import PLACES, Place, place_in_order, place_one
from gangfit.solver.oracle import Answer, ask, fits
from gangfit.solver.problem import Problem
from gangfit.solver.space import Alone, Space
from gangfit.solver.tenants import Step

SHARE = 0.4
"""Most of the remaining time that one question may take."""
LIMIT = 20_000
"""Most member counts of a model: building more takes seconds."""
COUNTED = 4_000_000
"""Nodes × gangs up to which counts are counted."""


@dataclass(frozen=True)
class Row:
    """A level that is settled: so many of these tenants have this share or more."""

    tenants: tuple[int, ...]
    share: Fraction
    number: int


@dataclass(frozen=True)
class SharedOut:
    """What leximin decided."""

    plans: dict[str, Assignment]
    """Placements of all gangs that start, by the search and by those greedy rules that find room for them."""
    steps: tuple[Step, ...]
    decided: dict[int, Decision]
    late: frozenset[int]
    """Gangs that start only when they are asked again."""


def leaves(problem: Problem) -> tuple[int, ...]:
    """Leaf tenants with pending or running gangs: those whose shares make the vector."""
    tenants = problem.tenants
    holds = np.flatnonzero(tenants.use.any(axis=1)).tolist()
    return tuple(t for t in sorted({*holds, *problem.tenant_of.tolist()}) if t not in tenants.parent)


def weighted_share(problem: Problem, tenant: int, started: Collection[int]) -> Fraction:
    """Weighted dominant share of a leaf with these gangs started; without the weight where that is 0."""
    mine = [j for j in started if problem.tenant_of[j] == tenant]
    use = problem.tenants.use.copy()
    use[tenant] += problem.total[mine].sum(axis=0)
    return problem.tenants.dominant(tenant, use)[1] / (problem.tenants.weight[tenant] or 1)


def vector(problem: Problem, started: Collection[int]) -> list[tuple[int, Fraction]]:
    """(tenant, weighted dominant share), ascending; those of weight 0 after all others."""
    weight = problem.tenants.weight
    shares = [(weight[t] == 0, weighted_share(problem, t, started), t) for t in leaves(problem)]
    return [(t, share) for _, share, t in sorted(shares)]


def worth(problem: Problem, started: Collection[int]) -> tuple[bool, list[tuple[bool, Fraction]]]:
    """Sort key of a choice of gangs, larger is better: whether it is closed upward, then its vector."""
    weight, gangs = problem.tenants.weight, problem.gangs
    first = {int(problem.tenant_of[j]): gangs[j].priority for j in reversed(startable(problem)) if j not in started}
    closed = all(gangs[j].priority >= first.get(int(problem.tenant_of[j]), gangs[j].priority) for j in started)
    return closed, [(weight[t] == 0, share) for t, share in vector(problem, started)]


def startable(problem: Problem) -> tuple[int, ...]:
    """Gangs that could start alone, limits included, by priority, submission and name."""
    alone, order = Alone(problem), problem.order()
    return tuple(j for j in range(len(problem.gangs)) if alone.fits(j) and order.within_limit(j))


def share_out(problem: Problem, budget: Budget | None, progress: Callable[[str], None]) -> SharedOut | None:
    """Who starts, by leximin; None where that isn't settled in time, or its model would be too large."""
    return _Leximin(problem, budget, progress).run()


@dataclass
class _Leximin:
    problem: Problem
    budget: Budget | None
    progress: Callable[[str], None]
    rows: list[Row] = field(default_factory=list)
    witness: Assignment = field(default_factory=dict)
    """A choice of gangs, closed upward, that satisfies the rows."""
    searched: bool = False
    """Whether the witness comes from search."""

    @cached_property
    def gangs(self) -> tuple[int, ...]:
        return startable(self.problem)

    def run(self) -> SharedOut | None:
        self.witness = self._greedy()
        if len(self.witness) < len(self.gangs):
            if self.budget is None or self._too_large():
                return None
            weight = self.problem.tenants.weight
            for zero in (False, True):
                if not self._settle(tuple(t for t in leaves(self.problem) if (weight[t] == 0) == zero)):
                    return None
        return self._turns()

    def _too_large(self) -> bool:
        if len(self.gangs) * len(self.problem.node_names) > COUNTED:
            return True
        return sum(len(group.room) for group in node_classes(self.problem, self.gangs)) > LIMIT

    # ---- a first choice

    def _greedy(self) -> Assignment:
        """The best of the greedy rules' choices: progressive filling that keeps to priorities."""
        choices = [self._fill(place) for place in PLACES.values()]
        return max(choices, key=lambda choice: worth(self.problem, choice))

    def _fill(self, place: Place) -> Assignment:
        """Smallest weighted share first; a tenant's gang that finds no room keeps those of lower priority out."""
        problem, order, space = self.problem, self.problem.order(), Space(self.problem)
        weight, use = problem.tenants.weight, problem.tenants.use.copy()
        queues: dict[int, list[int]] = {}
        for j in reversed(self.gangs):
            queues.setdefault(int(problem.tenant_of[j]), []).append(j)

        def offer(t: int) -> tuple[bool, Fraction, int]:
            return weight[t] == 0, problem.tenants.dominant(t, use)[1] / (weight[t] or 1), queues[t][-1]

        heap = [offer(t) for t in queues]
        heapify(heap)
        chosen: Assignment = {}
        while heap:
            gang = heappop(heap)[-1]
            tenant = int(problem.tenant_of[gang])
            queues[tenant].pop()
            spread = place_one(problem, space, place, gang) if order.within_limit(gang) else None
            if spread is not None:
                chosen[gang] = spread
                space.take(gang, spread)
                order.add(gang)
                use[tenant] += problem.total[gang]
            else:
                lowest = problem.gangs[gang].priority
                queues[tenant] = [j for j in queues[tenant] if problem.gangs[j].priority == lowest]
            if queues[tenant]:
                heappush(heap, offer(tenant))
        return chosen

    # ---- the vector

    def _settle(self, tenants: tuple[int, ...]) -> bool:
        """Maximise the ascending vector of these tenants with the rows so far held; false: out of time.

        At a level with share z: as many tenants as can be are brought above z. If that is all who have z or more, z
        wasn't the most; else the level is settled, and the next one is about those above.
        """
        number = len(tenants)
        most = sorted(weighted_share(self.problem, t, self._all_of(t)) for t in tenants)
        while number:
            shares = self._shares(tenants)
            share = shares[-number]
            above = sum(other > share for other in shares)
            if above < sum(other > share for other in most):
                self.progress(f"leximin: {number} tenants have {float(share):.4g} or more")
                found = self._raise(tenants, share, number)
                if found is None:
                    return False
                if found > above and found == number:
                    self._gallop(tenants, most[-number], number)
                    continue
                above = found
            self.rows.append(Row(tenants, share, number))
            number = above
        return True

    def _all_of(self, tenant: int) -> list[int]:
        return [j for j in self.gangs if self.problem.tenant_of[j] == tenant]

    def _shares(self, tenants: Iterable[int], choice: Collection[int] | None = None) -> list[Fraction]:
        started = self.witness if choice is None else choice
        return sorted(weighted_share(self.problem, t, started) for t in tenants)

    def _raise(self, tenants: tuple[int, ...], share: Fraction, number: int) -> int | None:
        """Most tenants above a share while `number` of them have it or more; None: not proven in time."""

        def build(single: set[int]) -> Choice:
            model = self._model(single, [*self.rows, Row(tenants, share, number)])
            model.model.minimize(number - model.reaching(tenants, share, above=True))
            return model

        answer = ask(self.problem, build, self.budget, SHARE)
        if answer.verdict != "yes":
            # A "no" is wrong: the witness satisfies every row.
            return None
        above = sum(other > share for other in self._shares(tenants, answer.assignment))
        self._take(answer)
        return above if answer.optimal or number - above == answer.bound else None

    def _gallop(self, tenants: tuple[int, ...], most: Fraction, number: int) -> None:
        """One guess half-way between what is reached and what can't be passed, lest a level be climbed by inches."""
        middle = (self._shares(tenants)[-number] + most) / 2

        def build(single: set[int]) -> Choice:
            return self._model(single, [*self.rows, Row(tenants, middle, number)])

        answer = ask(self.problem, build, self.budget, SHARE / 4)
        if answer.verdict == "yes":
            self._take(answer)

    def _take(self, answer: Answer) -> None:
        self.witness, self.searched = answer.assignment, True

    def _model(self, single: set[int], rows: Sequence[Row]) -> Choice:
        model = Choice(self.problem, self.gangs, node_classes(self.problem, self.gangs, single))
        for row in rows:
            model.model.add(model.reaching(row.tenants, row.share, above=False) >= row.number)
        model.hint(self.witness)
        return model

    # ---- the admissions

    def _turns(self) -> SharedOut | None:
        """Gangs in considered order: each starts if it can beside those admitted before it, with the vector held."""
        problem, order = self.problem, self.problem.order()
        admitted: list[int] = []
        refused = set(range(len(problem.gangs))) - set(self.gangs)
        steps: list[Step] = []
        decided: dict[int, Decision] = dict.fromkeys(refused, "bound")
        headroom = Headroom(problem)
        while (gang := order.next()) is not None:
            steps.append(order.step(gang))
            if gang not in refused:
                decided[gang] = how = self._decide(gang, admitted, refused, headroom)
                if how == "limit":
                    return None
            starts = gang not in refused and gang in self.witness
            if starts:
                admitted.append(gang)
                headroom.take(gang)
            else:
                refused.add(gang)
            order.settle(gang, starts)
        late = self._again([step.gang for step in steps if step.gang in refused], admitted, decided, headroom)
        gangs = [*admitted, *late]
        greedy = ((name, place_in_order(problem, place, gangs)) for name, place in PLACES.items())
        plans = {name: found for name, found in greedy if found is not None}
        return SharedOut({**plans, "leximin": self.witness}, tuple(steps), decided, frozenset(late))

    def _decide(self, gang: int, admitted: list[int], refused: set[int], headroom: Headroom) -> Decision:
        """How a gang's turn is settled; it starts if it is in the witness then."""
        if gang in self.witness:
            return "search" if self.searched else "greedy"
        if headroom.rules_out(gang):
            return "bound"
        self.progress(f"leximin: {self.problem.gangs[gang].name!r}: with these shares?")

        def build(single: set[int]) -> Choice:
            model = self._model(single, self.rows)
            model.fix([*admitted, gang], refused.intersection(self.gangs))
            return model

        answer = ask(self.problem, build, self.budget, SHARE)
        if answer.verdict == "yes":
            self._take(answer)
        return "limit" if answer.verdict == "limit" else "search"

    def _again(
        self,
        refused: list[int],
        admitted: list[int],
        decided: dict[int, Decision],
        headroom: Headroom,
    ) -> list[int]:
        """Those refused start after all where room is left over: a gang of higher priority has none, or it started."""
        order = self.problem.order()
        for gang in admitted:
            order.add(gang)
        late: list[int] = []
        for gang in refused:
            if gang not in self.gangs or headroom.rules_out(gang) or not order.within_limit(gang):
                continue
            space = Space.after(self.problem, self.witness)
            offers = (place_one(self.problem, space, place, gang) for place in PLACES.values())
            spread = next((offer for offer in offers if offer is not None), None)
            if spread is not None:
                self.witness[gang] = spread
            else:
                answer = fits(self.problem, [*admitted, *late, gang], self.budget)
                decided[gang] = "limit" if answer.verdict == "limit" else "search"
                if answer.verdict != "yes":
                    continue
                self.witness = answer.assignment
            late.append(gang)
            headroom.take(gang)
            order.add(gang)
        return late
