"""Tiers `preferred` and `distance` from cheap to dear: pattern bound, local search, cut, gap model.

Each step leaves a plan that is no worse and a bound that holds; the clock may stop it anywhere. See docs/model.md,
"The fast path".
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from gangfit.solver.assignment import Assignment, tier_values
from gangfit.solver.engine import Budget, run
from gangfit.solver.gap_model import LIMIT, GapModel, Reduced, reachable
from gangfit.solver.hand_out import hand_out
from gangfit.solver.leaves import Leaves, leaves
from gangfit.solver.local_search import LocalSearch
from gangfit.solver.pattern_bound import PatternBound
from gangfit.solver.problem import Problem
from gangfit.solver.spine_split import exact_sum, spine_split

DISTANCE = 1
"""Place of the tier among those after admission."""
FIRST_ROUNDS = 2_000
"""Local search before the dearer bounds."""


@dataclass
class Topology:
    """One of the two tiers with the admitted set fixed."""

    problem: Problem
    assignment: Assignment
    tier: int
    bound: int
    budget: Budget
    progress: Callable[[str], None]
    source: str = "count"
    """What gave the bound: count, pattern, cut or gap."""
    sizes: dict[str, int] = field(default_factory=dict)

    @property
    def value(self) -> int:
        """The tier's value now."""
        return tier_values(self.problem, self.assignment)[self.tier]

    def close(self, share: float) -> None:
        """Work on the tier with a share of the remaining time, or until the value meets the bound."""
        until = self.budget.until(share)
        view = leaves(self.problem, sorted(self.assignment), ("preferred", "distance")[self.tier])
        pattern = PatternBound(view)
        pattern.start(self.assignment)
        self.sizes.update(leaves=view.forest.leaves, types=len(view.types))
        self._generate(pattern, "pattern", until)
        if self.value <= self.bound:
            return
        search = LocalSearch(self.problem, self.assignment, self.budget.policy.seed)
        search.search(self.tier, self.bound, FIRST_ROUNDS, self.budget, until)
        self._adopt(search.record)
        if self.value > self.bound and self.tier == DISTANCE:
            self._cut(pattern, view, until)
        self._gaps(pattern, view, search, until)
        self.sizes.update(iterations=search.rounds, rounds=pattern.rounds)

    def _generate(self, pattern: PatternBound, source: str, until: float) -> None:
        certificate = pattern.run(self.value, self.budget, until)
        if certificate is not None:
            self._raise(certificate.bound, source)

    def _raise(self, bound: int, source: str) -> None:
        if bound > self.bound:
            self.bound, self.source = min(bound, self.value), source
            self.progress(f"bound {self.bound} by {source}")

    def _adopt(self, assignment: Assignment) -> None:
        """Take a plan if it is better on this tier and no worse on those before."""
        now, new = tier_values(self.problem, self.assignment), tier_values(self.problem, assignment)
        if new < now:
            self.assignment = assignment

    def _cut(self, pattern: PatternBound, view: Leaves, until: float) -> None:
        """The spine-split cut, by counting or by CP-SAT, and column generation with it."""
        pattern.require(exact_sum(view))
        self._generate(pattern, "cut", until)
        if self.value > self.bound and not self.budget.past(until):
            pattern.require(spine_split(view, self.budget, self.budget.part(until, 0.15)))
            self._generate(pattern, "cut", until)

    def _gaps(self, pattern: PatternBound, view: Leaves, search: LocalSearch, until: float) -> None:
        """Local search and gap models by turns: whichever closes the tier first."""
        part = 0.2
        while self.value > self.bound and not self.budget.past(until) and self.budget.remaining > 0:
            rounds = search.rounds
            search.search(self.tier, self.bound, 10 * FIRST_ROUNDS, self.budget, self.budget.until(part / 2, until))
            self._adopt(search.record)
            if self.value <= self.bound:
                return
            if pattern.best is not None and reachable(view):
                self._gap(pattern, self.budget.part(until, part))
            elif search.rounds == rounds:
                return
            part = min(1.0, part * 2)

    def _gap(self, pattern: PatternBound, share: float) -> None:
        assert pattern.best is not None
        reduced = Reduced(pattern, pattern.best)
        if reduced.pairs(self.bound) > LIMIT:
            return
        model = GapModel(reduced, self.bound)
        outcome = run(model.model, self.budget, share) if model.feasible else None
        if outcome is None or outcome.status == "infeasible":
            self._raise(self.bound + 1, "gap")
        elif outcome.values is not None:
            found = hand_out(self.problem, model.solution(outcome.values))
            if found is not None:
                self._adopt(found)
