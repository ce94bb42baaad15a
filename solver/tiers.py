"""Tiers 2–5 with the admitted set fixed: each is closed by a bound, or by CP-SAT on the merged model, or stays open."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Literal

from gangfit.solver.assignment import Assignment, tier_names, tier_values
from gangfit.solver.bounds import tier_bounds
from gangfit.solver.engine import Budget, run
from gangfit.solver.merged import Merged, merged
from gangfit.solver.oracle import MODEL_LIMIT
from gangfit.solver.problem import Problem

SHARE = 0.5
"""Most of the remaining time that one tier may take."""


@dataclass(frozen=True)
class TierResult:
    """One tier after search."""

    name: str
    value: int
    bound: int
    proof: Literal["bound", "search"] | None


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
    """Node classes and member variables of the last model built."""

    def run(self) -> list[TierResult]:
        """Improve the assignment tier by tier."""
        names = tier_names(self.problem)
        known = tier_bounds(self.problem, sorted(self.assignment))
        bounds = list(known)
        for tier, name in enumerate(names):
            value = tier_values(self.problem, self.assignment)[tier]
            if value > bounds[tier] and self.budget is not None:
                self.progress(f"{name}: {value}, bound {bounds[tier]}")
                bounds[tier] = self._search(tier, bounds[tier])
        # Search for a later tier may have improved an earlier one that was still open; its bound holds all the same.
        values = tier_values(self.problem, self.assignment)
        return [
            TierResult(name, value, bound, None if value > bound else "bound" if bound == sure else "search")
            for name, value, bound, sure in zip(names, values, bounds, known, strict=True)
        ]

    def _search(self, tier: int, bound: int) -> int:
        """Minimise one tier with the earlier ones held; keeps the assignment if better. Returns a lower bound."""
        assert self.budget is not None
        while self.budget.remaining > 0:
            model = merged(self.problem, sorted(self.assignment), self.single, spread=True)
            self.sizes = {"classes": len(model.classes), "counts": len(model.members)}
            if len(model.members) > MODEL_LIMIT:
                return bound
            values = tier_values(self.problem, self.assignment)
            self._hold(model, values, tier, bound)
            outcome = run(model.model, self.budget, SHARE)
            if outcome.status == "infeasible":
                # Nothing below the value we hold: it is the optimum.
                return values[tier]
            if outcome.bound is not None:
                bound = max(bound, min(outcome.bound, values[tier]))
            if outcome.values is None:
                return bound
            found, failed = model.decode(outcome.values, self.budget)
            if found is not None:
                better = tier_values(self.problem, found)
                if better[: tier + 1] < values[: tier + 1]:
                    self.assignment = found
                    return min(bound, better[tier])
                return bound
            fresh = {int(n) for group in failed if group.size > 1 for n in group.nodes}
            if not fresh:
                return bound
            self.single |= fresh
        return bound

    def _hold(self, model: Merged, values: tuple[int, ...], tier: int, bound: int) -> None:
        """Rows that hold the earlier tiers at their values, and this tier as objective between bound and value."""
        for earlier in range(tier):
            model.model.add(model.objective(earlier) <= values[earlier])
        objective = model.objective(tier)
        model.model.add(objective >= bound)
        model.model.add(objective <= values[tier])
        model.model.minimize(objective)
        model.hint(self.assignment)
