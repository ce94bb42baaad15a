"""Tiers `preferred` and `distance` from cheap to dear: pattern bound, local search, configurations, cut, gap model.

Each step leaves a plan that is no worse and a bound that holds; the clock may stop it anywhere. See docs/model.md,
"The fast path".
"""

from __future__ import annotations

import threading
from collections.abc import Callable
from dataclasses import dataclass, field

from gangfit.solver.assemble import choose, lay_out
from gangfit.solver.assignment import Assignment, tier_values
from gangfit.solver.configurations import ConfigurationBound, tightest_row
from gangfit.solver.cuts import exact_sum, spine_split
from gangfit.solver.dive import dive
from gangfit.solver.engine import Budget, both, run
from gangfit.solver.gap_model import LIMIT, GapModel, Reduced, reachable
from gangfit.solver.hand_out import hand_out
from gangfit.solver.leaves import Leaves, leaves
from gangfit.solver.local_search import LocalSearch
from gangfit.solver.pattern_bound import Known, PatternBound
from gangfit.solver.pricing import quick
from gangfit.solver.problem import Problem

DISTANCE = 1
"""Place of the tier among those after admission."""
FIRST_ROUNDS = 2_000
"""Local search before the dearer bounds."""
MANY = 60
"""Gangs from which on the linear program's patterns are rounded to a start."""
CONFIGURE = 0.5
"""Share of the tier's time for the configuration bound."""
ASSEMBLE = 0.4
"""Share of what is left then for plans made of its columns."""
FOREVER = 1 << 40
"""Rounds that the clock ends."""
BUILD = 1.5e-4
"""Seconds to build the gap model, per (gang, leaf) pair."""


@dataclass
class Topology:
    """One of the two tiers with the admitted set fixed."""

    problem: Problem
    assignment: Assignment
    tier: int
    bound: int
    budget: Budget
    progress: Callable[[str], None]
    doubt: bool = False
    """Whether CP-SAT has been caught at a wrong "no": another one proves nothing."""
    source: str = "count"
    """What gave the bound: count, pattern, configuration, cut or gap."""
    relaxed: bool = False
    """Whether the counts per leaf that meet the bound could not be handed out to nodes."""
    known: Known = field(default_factory=Known)
    """Patterns generated, for the bounds of later tiers."""
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
        self.sizes.update(leaves=view.forest.leaves, types=len(view.types))
        priced = quick(pattern.tables, self.budget.remaining)
        if priced:
            pattern.start(self.assignment)
            self._generate(pattern, "pattern", until)
            self.known = pattern.known()
        if self.value <= self.bound:
            return
        if priced and len(self.assignment) >= MANY:
            start = dive(pattern, ("preferred", "distance")[self.tier], self.budget, self.budget.until(0.4, until))
            if start is not None:
                self._adopt(start)
        search = LocalSearch(self.problem, self.assignment, self.budget.policy.seed)
        search.search(self.tier, self.bound, FIRST_ROUNDS, self.budget, until)
        self._adopt(search.record)
        if self.value > self.bound and self.tier == DISTANCE:
            self._configure(view, search, until)
        if priced and self.value > self.bound and self.tier == DISTANCE:
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

    def _configure(self, view: Leaves, search: LocalSearch, until: float) -> None:
        """The configuration bound, and plans made of its columns with local search beside."""
        row = tightest_row(view)
        if row is None:
            return
        bound = ConfigurationBound(view, row)
        bound.start_from(self.assignment)
        self._raise(bound.run(self.value, self.budget, self.budget.until(CONFIGURE, until)), "configuration")
        self.sizes.update(configurations=len(bound.columns))
        if not self._open(until):
            return
        deadline = self.budget.until(ASSEMBLE, until)

        def assemble(idle: threading.Event) -> None:
            bound.dive(self.budget, deadline, idle)
            chosen = None if idle.is_set() else choose(bound, self.value, self.budget, deadline, idle)
            found = None if chosen is None else lay_out(bound, chosen)
            if found is not None:
                self._adopt(found)

        both(
            assemble,
            lambda done: search.search(self.tier, self.bound, FOREVER, self.budget, until, done),
            self.budget,
        )
        self._adopt(search.record)

    def _cut(self, pattern: PatternBound, view: Leaves, until: float) -> None:
        """Cuts on domains touched, by counting or by CP-SAT, and column generation with them."""
        named = self.problem.tree.named
        news = [pattern.require(level, exact_sum(view, level)) for level in range(named)]
        if any(news):
            self._generate(pattern, "cut", until)
        if self.value > self.bound and not self.budget.past(until) and len(view.forest.spines):
            split = spine_split(view, self.budget, self.budget.part(until, 0.15))
            if pattern.require(named - 2, split):
                self._generate(pattern, "cut", until)

    def _gaps(self, pattern: PatternBound, view: Leaves, search: LocalSearch, until: float) -> None:
        """Gap models with local search beside them, as long as they say no; what remains is local search's."""
        while pattern.best is not None and reachable(view) and self._open(until):
            before = (self.bound, self.value)
            self._gap(pattern, search, until)
            if before == (self.bound, self.value):
                break
        if self._open(until):
            # Where counts per leaf are too coarse, the merged model goes on.
            rounds = FIRST_ROUNDS if self.relaxed else FOREVER
            if self.budget.policy.deterministic:
                rounds = min(rounds, 40 * FIRST_ROUNDS)
            search.search(self.tier, self.bound, rounds, self.budget, until)
            self._adopt(search.record)

    def _open(self, until: float) -> bool:
        return self.value > self.bound and not self.budget.past(until) and self.budget.remaining > 0

    def _gap(self, pattern: PatternBound, search: LocalSearch, until: float) -> None:
        """Ask whether the bound can be met: no raises it, yes may bring a plan that meets it."""
        assert pattern.best is not None
        reduced = Reduced(pattern, pattern.best)
        pairs = reduced.pairs(self.bound)
        if pairs > LIMIT or pairs * BUILD > self.budget.remaining * self.budget.part(until, 0.3):
            return
        model = GapModel(reduced, self.bound)
        if not model.feasible:
            self._raise(self.bound + 1, "gap")
            return
        outcome = run(
            model.model,
            self.budget,
            self.budget.part(until, 0.8),
            tight=True,
            beside=lambda done: search.search(self.tier, self.bound, FOREVER, self.budget, until, done),
        )
        self._adopt(search.record)
        if outcome.status == "infeasible":
            if not self.doubt:
                self._raise(self.bound + 1, "gap")
        elif outcome.values is not None and self.value > self.bound:
            found = hand_out(self.problem, model.solution(outcome.values))
            if found is not None:
                self._adopt(found)
            self.relaxed = self.value > self.bound
