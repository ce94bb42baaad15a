"""Better plans of a topology tier, beside its bounds: local search, and what the linear program's patterns round to."""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from gangfit.solver.assignment import Assignment, tier_values
from gangfit.solver.dive import Fractional, dive
from gangfit.solver.engine import Budget
from gangfit.solver.local_search import LocalSearch
from gangfit.solver.problem import Problem

STRETCH = 4_096
"""Iterations of local search between two looks at the bound."""
DIVE = 0.4
"""Share of the time left for rounding."""


@dataclass
class Improver:
    """A plan that only gets better on the tier and those before it. One thread works, others may read the record."""

    problem: Problem
    assignment: Assignment
    """Where it starts."""
    tier: int
    budget: Budget
    offered: Fractional | None = None
    """Patterns to be rounded; another thread may put them here."""
    done: threading.Event = field(default_factory=threading.Event)

    def __post_init__(self) -> None:
        self._search = LocalSearch(self.problem, self.assignment, self.budget.policy.seed)
        self._earlier = 0

    @property
    def record(self) -> Assignment:
        """The best plan so far."""
        return self._search.record

    @property
    def rounds(self) -> int:
        """Iterations of local search."""
        return self._earlier + self._search.rounds

    def beside(self, target: Callable[[], int], until: float, done: threading.Event) -> bool:
        """Work until the record meets the target, which may rise meanwhile; returns whether it does."""
        self.done = done
        while not (done.is_set() or self.budget.past(until)):
            goal = target()
            if self.work(goal, STRETCH, until) and goal == target():
                return True
        return False

    def work(self, target: int, rounds: int, until: float) -> bool:
        """Round what was offered, then so many iterations; returns whether the record meets the target."""
        if self.offered is not None:
            offered, self.offered = self.offered, None
            self._round(offered, self.budget.until(DIVE, until))
        return self._search.search(self.tier, target, rounds, self.budget, until, self.done)

    def _round(self, offered: Fractional, until: float) -> None:
        """Local search goes on from what patterns round to, if that is better."""
        plan = dive(offered, ("preferred", "distance")[self.tier], self.budget, until, self.done)
        if plan is not None and tier_values(self.problem, plan) < self._search.values:
            self._earlier += self._search.rounds
            self._search = LocalSearch(self.problem, plan, self.budget.policy.seed)
