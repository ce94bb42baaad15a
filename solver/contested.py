"""Tiers 3–6 where gangs give way: placements and victims stay one joint choice, the losses of tier 2 held."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial

from gangfit.solver.assignment import Assignment, tier_names, tier_values
from gangfit.solver.bounds import tier_bounds
from gangfit.solver.engine import Budget
from gangfit.solver.joint import Joint, candidates, pairs
from gangfit.solver.merged import Merged
from gangfit.solver.oracle import Answer, Preemption, ask, joint, losses, needed
from gangfit.solver.problem import Problem
from gangfit.solver.rights import rights
from gangfit.solver.tiers import Improvement, TierResult

SHARE = 0.5
"""Most of the remaining time that one tier may take."""
BUILD = 1.5e-4
"""Seconds to build the joint model with all that placements touch, per (class, gang) pair."""
BUILD_SHARE = 0.5
"""Most of the remaining time that building may take."""


@dataclass
class ContestedImprovement:
    """As `Improvement`, over the joint model."""

    problem: Problem
    gangs: Sequence[int]
    """Admitted gangs in considered order."""
    preemption: Preemption
    assignment: Assignment
    budget: Budget | None
    progress: Callable[[str], None]
    sizes: dict[str, int] = field(default_factory=dict)
    sources: dict[str, str] = field(default_factory=dict)
    failures: list[str] = field(default_factory=list)
    _pairs: int | None = None

    def run(self) -> list[TierResult]:
        """Improve placements and victims tier by tier."""
        self._warm_start()
        names = tier_names(self.problem)
        known = self.counted()
        bounds = list(known)
        for tier, name in enumerate(names):
            value = self.values()[tier]
            if value > bounds[tier] and self._worth_building():
                self.progress(f"{name}: {value}, bound {bounds[tier]}")
                bounds[tier] = max(bounds[tier], self._search(tier, bounds[tier]))
        return [
            TierResult(name, value, bound, None if value > bound else "bound" if bound == sure else "search")
            for name, value, bound, sure in zip(names, self.values(), bounds, known, strict=True)
        ]

    def counted(self) -> tuple[int, ...]:
        """Lower bounds that hold for every placement of the gangs, whoever leaves."""
        return tier_bounds(self.problem.without(self._reach()), sorted(self.gangs))

    def minimise(self, tier: int, most: Mapping[int, int], bound: int) -> int:
        """Make a tier as small as the joint model gets it, some tiers at most so large; returns a lower bound."""
        if self.values()[tier] <= bound or not self._worth_building():
            return bound
        return self._search(tier, bound, most)

    def _worth_building(self) -> bool:
        """Whether the model would be there long before the time is over."""
        if self.budget is None or self.budget.exhausted:
            return False
        if self._pairs is None:
            self._pairs = pairs(self.problem, self.gangs, self._reach())
        return self._pairs * BUILD <= BUILD_SHARE * self.budget.remaining

    def _reach(self) -> list[int]:
        """Running gangs that may leave their places in any plan of equal losses."""
        held = rights(self.problem, self.gangs, self.preemption.preemptors)
        return candidates(held, len(self.problem.victims.gangs))

    def values(self) -> tuple[int, ...]:
        """Values of the tiers now."""
        return tier_values(self.problem, self.assignment, self.preemption.leaving)

    def _warm_start(self) -> None:
        """The best placement beside the victims at hand, which need not be the best victims to have."""
        fixed = Improvement(self.problem.without(self.preemption.leaving), self.assignment, self.budget, self.progress)
        fixed.run()
        self.assignment = fixed.assignment

    def _search(self, tier: int, bound: int, most: Mapping[int, int] | None = None) -> int:
        """`most`: tier → what it is held at; else the earlier tiers are held at their values."""
        assert self.budget is not None
        while True:
            values = self.values()
            held = dict(enumerate(values[:tier])) if most is None else most
            answer = ask(self.problem, partial(self._model, tier, held, values[tier], bound), self.budget, SHARE)
            if answer.verdict == "no":
                # The plan at hand satisfies every row: the answer is wrong, and proves nothing.
                return bound
            if answer.bound is not None:
                bound = max(bound, min(answer.bound, values[tier]))
            if answer.verdict == "limit":
                return bound
            found = tier_values(self.problem, answer.assignment, answer.victims | answer.moved.keys())
            if (found[: tier + 1] >= values[: tier + 1]) if most is None else (found[tier] >= values[tier]):
                return bound
            if not self._lawful(answer):
                continue
            self.assignment, self.preemption.victims = answer.assignment, answer.victims
            self.preemption.moved = dict(answer.moved)
            self.preemption.lost = losses(self.problem, answer.victims, self.preemption.lost)
            return min(bound, found[tier])

    def _lawful(self, answer: Answer) -> bool:
        """Whether the answer's victims are all needed; if not, the next model knows what is enough."""
        assert self.budget is not None
        held = rights(self.problem, self.gangs, self.preemption.preemptors)
        enough = needed(self.problem, self.gangs, held, answer.victims, self.budget)
        if len(enough) == len(answer.victims):
            return True
        self.preemption.cuts.append(enough)
        return False

    def _joint(self, single: set[int]) -> Joint:
        """The model of rules 1–11 with what is at hand as a start."""
        held = rights(self.problem, self.gangs, self.preemption.preemptors)
        return joint(self.problem, self.gangs, held, self.preemption.cuts, single, spread=True)

    def _hint(self, model: Joint) -> None:
        model.hint(self.assignment, self.preemption.victims)

    def _model(self, tier: int, held: Mapping[int, int], value: int, bound: int, single: set[int]) -> Merged:
        model = self._joint(single)
        for priority, lost in self.preemption.lost.items():
            model.model.add(model.lost_progress(priority) <= lost)
        model.model.add(model.broken() <= self.preemption.broken)
        for other, limit in held.items():
            model.model.add(model.objective(other) <= limit)
        objective = model.objective(tier)
        model.model.add(objective >= bound)
        model.model.add(objective <= value)
        model.model.minimize(objective)
        self._hint(model)
        self.sizes = {"classes": len(model.classes), "counts": len(model.members), "candidates": len(model.evicted)}
        return model
