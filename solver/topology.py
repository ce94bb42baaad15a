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
"""Gangs from which on the linear program's patterns are rounded to a start, …"""
PAIRS = 10_000
"""… or (gang, leaf) pairs."""
CONFIGURE = 0.5
"""Share of the tier's time for the configuration bound."""
ASSEMBLE = 0.4
"""Share of what is left then for plans made of its columns."""
COUNT = 0.4
"""Share of what is left then for counting domains touched."""
STRETCH = 4_096
"""Iterations of local search between two looks at the bound."""
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
        gangs = len(self.assignment)
        if priced and (gangs >= MANY or gangs * view.forest.leaves >= PAIRS):
            start = dive(pattern, ("preferred", "distance")[self.tier], self.budget, self.budget.until(0.4, until))
            if start is not None:
                self._adopt(start)
        search = LocalSearch(self.problem, self.assignment, self.budget.policy.seed)
        search.search(self.tier, self.bound, FIRST_ROUNDS, self.budget, until)
        self._adopt(search.record)
        if self._open(until):
            both(
                lambda idle: self._prove(pattern if priced else None, view, search, until, idle),
                lambda done: self._improve(search, until, done),
                self.budget,
            )
            self._adopt(search.record)
        if self._open(until):
            # Where counts per leaf are too coarse, the merged model goes on.
            rounds = FIRST_ROUNDS if self.relaxed else FOREVER
            if self.budget.policy.deterministic:
                rounds = min(rounds, 40 * FIRST_ROUNDS)
            search.search(self.tier, self.bound, rounds, self.budget, until)
            self._adopt(search.record)
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

    def _improve(self, search: LocalSearch, until: float, done: threading.Event) -> bool:
        """Local search until its record meets the bound, which may rise meanwhile."""
        while not (done.is_set() or self.budget.past(until)):
            target = self.bound
            if search.search(self.tier, target, STRETCH, self.budget, until, done) and target == self.bound:
                return True
        return False

    def _prove(
        self,
        pattern: PatternBound | None,
        view: Leaves,
        search: LocalSearch,
        until: float,
        idle: threading.Event,
    ) -> None:
        """The dearer bounds, and plans that come with them, until one meets the other."""
        row = tightest_row(view) if self.tier == DISTANCE else None
        if row is not None:
            spines = self._count(view, row, pattern, until)
            if self._goes_on(search, until, idle):
                bound = ConfigurationBound(view, row)
                bound.require(spines)
                bound.start_from(self.assignment)
                self._raise(bound.run(self.value, self.budget, self.budget.until(CONFIGURE, until)), "configuration")
                self.sizes.update(configurations=len(bound.columns))
                if self._goes_on(search, until, idle):
                    self._assemble(bound, self.budget.until(ASSEMBLE, until), idle)
        if pattern is None:
            return
        if self.tier == DISTANCE and self._goes_on(search, until, idle):
            self._cut(pattern, view, until, row is None)
        while pattern.best is not None and reachable(view) and self._goes_on(search, until, idle):
            before = (self.bound, self.value)
            self._gap(pattern, search, until, idle)
            if before == (self.bound, self.value):
                break

    def _goes_on(self, search: LocalSearch, until: float, idle: threading.Event) -> bool:
        """Take over what local search has found; whether the tier is still open."""
        self._adopt(search.record)
        return self._open(until) and not idle.is_set()

    def _count(self, view: Leaves, row: int, pattern: PatternBound | None, until: float) -> int:
        """Spines touched at least, a whole number, as a row of the pattern bound's linear program."""
        counted = ConfigurationBound(view, row, (0, 1))
        counted.start_from(self.assignment)
        spines = counted.run(FOREVER, self.budget, self.budget.until(COUNT, until))
        if pattern is not None and pattern.require(self.problem.tree.named - 2, spines):
            self._generate(pattern, "cut", self.budget.until(CONFIGURE, until))
        return spines

    def _assemble(self, bound: ConfigurationBound, until: float, idle: threading.Event) -> None:
        """Plans out of configurations: what a dive ends with, then an integer program."""
        for choice in (bound.dive, lambda *given: choose(bound, self.value, *given)):
            chosen = choice(self.budget, until, idle)
            found = None if chosen is None else lay_out(bound, chosen)
            if found is not None:
                self._adopt(found)
            if not self._open(until) or idle.is_set():
                break

    def _cut(self, pattern: PatternBound, view: Leaves, until: float, split: bool) -> None:
        """Cuts on domains touched, by counting or by CP-SAT, and column generation with them."""
        named = self.problem.tree.named
        news = [pattern.require(level, exact_sum(view, level)) for level in range(named)]
        if any(news):
            self._generate(pattern, "cut", until)
        if split and self.value > self.bound and not self.budget.past(until) and len(view.forest.spines):
            least = spine_split(view, self.budget, self.budget.part(until, 0.15))
            if pattern.require(named - 2, least):
                self._generate(pattern, "cut", until)

    def _open(self, until: float) -> bool:
        return self.value > self.bound and not self.budget.past(until) and self.budget.remaining > 0

    def _gap(self, pattern: PatternBound, search: LocalSearch, until: float, idle: threading.Event) -> None:
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
            beside=lambda done: _either(idle, done),
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


def _either(idle: threading.Event, done: threading.Event) -> bool:
    """Wait for one of the events; whether it is the first."""
    while not (done.is_set() or idle.wait(0.002)):
        pass
    return idle.is_set()
