"""Tiers 3–6 with the admitted set fixed: closed by a bound, closed by search, or open with an honest bound."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Literal

from gangfit.solver.assignment import Assignment, tier_names, tier_values
from gangfit.solver.bounds import intact_by_weight, tier_bounds
from gangfit.solver.classes import node_classes
from gangfit.solver.engine import Budget, run
from gangfit.solver.held_bound import UPLINKS, HeldBound
from gangfit.solver.kernels import ready
from gangfit.solver.local_search import LocalSearch
from gangfit.solver.merged import Merged
from gangfit.solver.pattern_bound import Known
from gangfit.solver.pricing import quick
from gangfit.solver.problem import Problem
from gangfit.solver.topology import DISTANCE, Topology

TOPOLOGY = 0.75
"""Share of the remaining time for a topology tier."""
HELD = 0.6
"""Share of the remaining time for the pattern bound of a later tier."""
WIDEST = 2 * 10**9
"""Most additions of one pricing of the patterns."""
SHARE = 0.5
"""Most of the remaining time that one tier may take."""
FIRST = 0.02
"""Share of the remaining time for the merged model before any kernel is loaded."""
SMALL = 150
"""Counts of a merged model so small that CP-SAT is asked before any kernel is loaded."""
LARGE = 60_000
"""Counts of a merged model that CP-SAT would not get anywhere with in time."""
COUNTED = 400_000
"""Nodes × gangs up to which counts are counted."""
BUILD = 4e-5
"""Seconds to build the merged model, per count and level."""


@dataclass(frozen=True)
class TierResult:
    """One tier after search."""

    name: str
    value: int
    bound: int
    proof: Literal["bound", "search"] | None
    traded: int = 0
    """How much of the value is given for the next tier."""


@dataclass
class Improvement:
    """State of the tier-by-tier improvement."""

    problem: Problem
    assignment: Assignment
    budget: Budget | None
    progress: Callable[[str], None]
    single: set[int] = field(default_factory=set)
    """Nodes kept apart because a class's counts could not be handed out."""
    sizes: dict[str, int] = field(default_factory=dict)
    """Sizes of the models built last, and work done."""
    sources: dict[str, str] = field(default_factory=dict)
    """Tier → what gave its bound: count, pattern, cut, gap or merged."""
    seconds: dict[str, float] = field(default_factory=dict)
    """Tier → wall time spent on it."""
    failures: list[str] = field(default_factory=list)
    """Engines that gave up, and on which tier; a defect each."""
    known: Known = field(default_factory=Known)
    """Patterns of the distance tier."""
    small: int = SMALL
    """As the constant; tests set it to 0."""

    def run(self) -> list[TierResult]:
        """Improve the assignment tier by tier."""
        names = tier_names(self.problem)
        known = tier_bounds(self.problem, sorted(self.assignment))
        bounds = list(known)
        values = tier_values(self.problem, self.assignment)
        for tier, name in enumerate(names):
            self.sources[name] = "count"
            value = values[tier]
            if value > bounds[tier] and tier > UPLINKS and self.budget is not None:
                level = tier - UPLINKS - 1
                bounds[tier] = max(bounds[tier], intact_by_weight(self.problem, sorted(self.assignment), level))
            if value > bounds[tier] and self.budget is not None:
                started = time.perf_counter()
                self.progress(f"{name}: {value}, bound {bounds[tier]}")
                bounds[tier] = self._close(tier, name, bounds[tier])
                values = tier_values(self.problem, self.assignment)
                self.seconds[name] = time.perf_counter() - started
        # Search for a later tier may have improved an earlier one that was still open; its bound holds all the same.
        return [
            TierResult(name, value, bound, None if value > bound else "search" if self._searched(name) else "bound")
            for name, value, bound in zip(names, values, bounds, strict=True)
        ]

    def values(self) -> tuple[int, ...]:
        """Values of the tiers now."""
        return tier_values(self.problem, self.assignment)

    def counted(self) -> tuple[int, ...]:
        """Lower bounds that hold for every placement of the gangs."""
        return tier_bounds(self.problem, sorted(self.assignment))

    def minimise(self, tier: int, most: Mapping[int, int], bound: int) -> int:
        """Make a tier as small as the merged model gets it, some tiers at most so large; returns a lower bound."""
        if self.budget is None or self.values()[tier] <= bound or self._counts() > LARGE:
            return bound
        return self._merged(tier, tier_names(self.problem)[tier], bound, SHARE, most)

    def _searched(self, name: str) -> bool:
        return self.sources[name] in ("cut", "gap", "merged")

    def _value(self, tier: int) -> int:
        return tier_values(self.problem, self.assignment)[tier]

    def _close(self, tier: int, name: str, bound: int) -> int:
        """Work on one tier with the earlier ones held; keeps the assignment if better. Returns a lower bound."""
        assert self.budget is not None
        if self.budget.remaining <= 0:
            return bound
        counts = self._counts()
        if counts <= self.small:
            bound = self._merged(tier, name, bound, FIRST)
        exact = False
        if self._value(tier) > bound and self._kernels():
            try:
                bound, exact = self._fast(tier, name, bound)
            except (RuntimeError, ImportError, MemoryError) as error:
                # An engine that fails costs its bound, never the plan.
                self.failures.append(f"{name}: {error}")
        if self._value(tier) > bound and not exact and counts <= LARGE:
            bound = self._merged(tier, name, bound, SHARE)
        return bound

    def _kernels(self) -> bool:
        """Whether there is time for the kernels; deterministic mode takes the time."""
        assert self.budget is not None
        if self.budget.policy.deterministic or ready(self.budget.remaining):
            return True
        self.progress("the kernels are not compiled yet (`gangfit warmup`) or there is no time to load them")
        return False

    def _fast(self, tier: int, name: str, bound: int) -> tuple[int, bool]:
        """The fast path. Returns a bound, and whether the merged model could do no better."""
        if tier <= DISTANCE:
            return self._topology(tier, name, bound)
        bound = self._held(tier, name, bound)
        if self._value(tier) > bound:
            self._local(tier, bound)
        return bound, False

    def _counts(self) -> int:
        """Member counts of the merged model, without building it; too many where even counting takes long."""
        gangs = sorted(self.assignment)
        if len(gangs) * len(self.problem.node_names) > COUNTED:
            return LARGE + 1
        return sum(len(group.room) for group in node_classes(self.problem, gangs, self.single))

    def _topology(self, tier: int, name: str, bound: int) -> tuple[int, bool]:
        """The fast path of the two topology tiers. Returns a bound, and false where the merged model may do better."""
        assert self.budget is not None
        if self._too_wide():
            return bound, True
        topology = Topology(
            self.problem, self.assignment, tier, bound, self.budget, self.progress, doubt=bool(self.failures)
        )
        topology.close(TOPOLOGY)
        self.assignment, self.known = topology.assignment, topology.known
        self.sizes |= topology.sizes
        if topology.source != "count":
            self.sources[name] = topology.source
        return topology.bound, not topology.relaxed

    def _too_wide(self) -> bool:
        """Whether one pricing of the patterns, members² per leaf, would outlast any limit."""
        tree = self.problem.tree
        most = int(self.problem.members[sorted(self.assignment)].max(initial=0))
        return most**2 * tree.domains(max(tree.named - 1, 0)) > WIDEST

    def _held(self, tier: int, name: str, bound: int) -> int:
        """The pattern bound of a later tier."""
        assert self.budget is not None
        if self._too_wide():
            return bound
        values = tier_values(self.problem, self.assignment)
        pattern = HeldBound(self.problem, self.assignment, values[:UPLINKS], tier, self.known)
        if not quick(pattern.tables, self.budget.remaining):
            return bound
        found = pattern.run(values[tier], self.budget, self.budget.until(HELD))
        if found > bound:
            self.sources[name] = "pattern"
        return max(bound, min(found, values[tier]))

    def _local(self, tier: int, bound: int) -> None:
        """Local search for a later tier, the earlier ones held."""
        assert self.budget is not None
        search = LocalSearch(self.problem, self.assignment, self.budget.policy.seed)
        search.search(tier, bound, 20_000, self.budget, self.budget.until(SHARE))
        if search.values < tier_values(self.problem, self.assignment):
            self.assignment = search.record

    def _merged(self, tier: int, name: str, bound: int, share: float, most: Mapping[int, int] | None = None) -> int:
        """CP-SAT on the merged model, nodes split off until its counts can be handed out.

        `most`: tier → what it is held at; else the earlier tiers are held at their values.
        """
        assert self.budget is not None
        until = self.budget.until(share)
        while self.budget.remaining > 0 and not self.budget.past(until):
            gangs = sorted(self.assignment)
            classes = node_classes(self.problem, gangs, self.single)
            counts = sum(len(group.room) for group in classes)
            left = self.budget.remaining * self.budget.part(until, 1.0)
            if counts > LARGE or BUILD * counts * len(self.problem.tree.levels) > left / 2:
                return bound
            model = Merged(self.problem, gangs, classes, spread=True)
            self.sizes |= {"classes": len(model.classes), "counts": len(model.members)}
            values = tier_values(self.problem, self.assignment)
            held = dict(enumerate(values[:tier])) if most is None else most
            self._rows(model, held, tier, values[tier], bound)
            outcome = run(model.model, self.budget, self.budget.part(until, 1.0))
            if outcome.status == "infeasible":
                # The plan at hand satisfies every row: the answer is wrong, and proves nothing.
                self.failures.append(f"{name}: the merged model was called infeasible")
                return bound
            if outcome.bound is not None and outcome.bound > bound:
                bound = min(outcome.bound, values[tier])
                self.sources[name] = "merged"
            if outcome.values is None:
                return bound
            found, failed = model.decode(outcome.values, self.budget)
            if found is not None:
                better = tier_values(self.problem, found)
                if (better[: tier + 1] < values[: tier + 1]) if most is None else (better[tier] < values[tier]):
                    self.assignment = found
                    self.sources[name] = "merged" if better[tier] == bound else self.sources[name]
                    return min(bound, better[tier])
                return bound
            fresh = {int(n) for group in failed if group.size > 1 for n in group.nodes}
            if not fresh:
                return bound
            self.single |= fresh
        return bound

    def _rows(self, model: Merged, held: Mapping[int, int], tier: int, value: int, bound: int) -> None:
        """Rows that hold other tiers, and this tier as objective between bound and value."""
        for other, limit in held.items():
            model.model.add(model.objective(other) <= limit)
        objective = model.objective(tier)
        model.model.add(objective >= bound)
        model.model.add(objective <= value)
        model.model.minimize(objective)
        model.hint(self.assignment)
