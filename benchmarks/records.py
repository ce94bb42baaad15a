"""What is measured, in the form in which it is saved."""

from __future__ import annotations

from pydantic import BaseModel

from benchmarks.machine import Stamp

DISTANCE = "distance"
"""The topology tier."""


class TierOutcome(BaseModel, frozen=True):
    """One tier of one answer."""

    name: str
    value: int
    bound: int
    proven: bool


class Answer(BaseModel, frozen=True):
    """One solve."""

    limit_s: float | None
    """Policy's time limit; None: first answer, without search."""
    wall_s: float
    """From parsed snapshot to checked plan, in seconds."""
    optimal: bool
    """Whether every tier is proven and no gang undecided."""
    admitted: int
    units: int
    """Σ weight × domains touched (without the −1) over admitted gangs of two members or more."""
    tiers: list[TierOutcome]
    seconds: dict[str, float]
    """The plan's own time per stage."""
    sizes: dict[str, int]
    """The plan's own model sizes."""
    bound_s: float | None = None
    """Seconds until the topology tier had its last bound."""
    settled_s: float | None = None
    """Seconds until the next tier's turn came, or the end: the topology tier was done with by then."""

    def tier(self, name: str) -> TierOutcome:
        """The tier of that name."""
        return next(tier for tier in self.tiers if tier.name == name)

    @property
    def gap(self) -> float:
        """Gap of the topology tier relative to `units`; 0 if proven."""
        tier = self.tier(DISTANCE)
        return (tier.value - tier.bound) / self.units if tier.value > tier.bound else 0.0

    @property
    def proven(self) -> bool:
        """Whether the topology tier is proven (admission included, on which its bound rests)."""
        return self.tier(DISTANCE).proven and self.tier("admission").proven


class Baseline(BaseModel, frozen=True):
    """One greedy strategy on one snapshot."""

    name: str
    wall_s: float
    """From parsed snapshot to assignment, in seconds; no explanation, no check."""
    values: dict[str, int]
    """Tier → value, `admission` first."""
    vector: list[int]
    """Admitted or not, in considered order: more is lexicographically more."""
    units: int
    """As in `Answer`."""


class Trial(BaseModel, frozen=True):
    """The solver and every greedy strategy on one snapshot."""

    suite: str
    setting: str
    seed: int
    nodes: int
    pending: int
    first: Answer
    answers: list[Answer]
    """By time limit, ascending; a longer limit is left out once every tier it asks about is proven."""
    vector: list[int]
    """Admissions of the last answer, in considered order."""
    first_vector: list[int]
    """Admissions of the first answer."""
    baselines: list[Baseline]

    @property
    def last(self) -> Answer:
        """The answer with the longest limit."""
        return self.answers[-1]

    def at(self, limit_s: float) -> Answer:
        """The answer with the longest limit of at most `limit_s`."""
        return [answer for answer in self.answers if (answer.limit_s or 0) <= limit_s][-1]

    def baseline(self, name: str) -> Baseline:
        """The baseline of that name."""
        return next(row for row in self.baselines if row.name == name)

    @property
    def best(self) -> Baseline:
        """The best baseline: admissions first, then tier by tier."""
        return min(self.baselines, key=lambda row: _rank(row.vector, row.values))

    def refuted(self) -> list[str]:
        """Tiers of the last answer whose bound a plan at hand beats: always empty, or a bound is wrong.

        A tier's bound holds among plans of the same gangs that are equal on every earlier tier.
        """
        rivals = [(row.vector, row.values) for row in self.baselines]
        rivals.append((self.first_vector, {tier.name: tier.value for tier in self.first.tiers}))
        wrong = []
        for vector, values in rivals:
            if vector != self.vector:
                continue
            for tier in self.last.tiers:
                if tier.name != "admission" and values[tier.name] < tier.bound:
                    wrong.append(tier.name)
                if values[tier.name] != tier.value:
                    break
        return wrong

    @property
    def first_no_worse(self) -> bool:
        """Whether the first answer is at least as good as the best baseline."""
        values = {tier.name: tier.value for tier in self.first.tiers}
        return _rank(self.first_vector, values) <= _rank(self.best.vector, self.best.values)


def _rank(vector: list[int], values: dict[str, int]) -> tuple[list[int], list[int]]:
    return [-y for y in vector], [value for name, value in values.items() if name != "admission"]


class Run(BaseModel, frozen=True):
    """The trials of one suite."""

    stamp: Stamp
    suite: str
    title: str
    limits: list[float]
    trials: list[Trial]


class Point(BaseModel, frozen=True):
    """One measurement of a speed series."""

    label: str
    """Which line or row of the series it belongs to."""
    x: float
    """Nodes, gangs, copies or the seed."""
    values: dict[str, float]
    """Figure → value."""


class Series(BaseModel, frozen=True):
    """One experiment of `speed`."""

    stamp: Stamp
    name: str
    title: str
    points: list[Point]
