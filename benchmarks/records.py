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
                value = values.get(tier.name, 0)  # baselines have no tiers of victims: they preempt nobody
                if tier.name != "admission" and value < tier.bound:
                    wrong.append(tier.name)
                if value != tier.value:
                    break
        return wrong

    @property
    def first_no_worse(self) -> bool:
        """Whether the first answer is at least as good as the best baseline."""
        values = {tier.name: tier.value for tier in self.first.tiers}
        return _rank(self.first_vector, values) <= _rank(self.best.vector, self.best.values)


def _rank(vector: list[int], values: dict[str, int]) -> tuple[list[int], list[int]]:
    """Sort key: admissions, then the tiers of placement; greedies have no tiers of victims."""
    placement = [
        v for name, v in values.items() if name not in ("admission", "broken") and not name.startswith("lost.")
    ]
    return [-y for y in vector], placement


class Run(BaseModel, frozen=True):
    """The trials of one suite."""

    stamp: Stamp
    suite: str
    title: str
    limits: list[float]
    trials: list[Trial]


class Side(BaseModel, frozen=True):
    """What one of the two preemptors decided."""

    admitted: list[str]
    """Gangs that start, by name; for the solver with those that start when asked again."""
    vector: list[int]
    """Admitted or not at the first asking, in considered order: more is lexicographically more."""
    lost: dict[int, int]
    """Priority of the victims → GPU-seconds lost."""
    evicted: int

    @property
    def total(self) -> int:
        """GPU-seconds lost."""
        return sum(self.lost.values())

    def cost(self, priorities: list[int]) -> list[int]:
        """Lexicographic cost: losses by priority as listed, then gangs evicted."""
        return [*(self.lost.get(priority, 0) for priority in priorities), self.evicted]


class VictimTrial(BaseModel, frozen=True):
    """Solver and greedy preemptor on one snapshot."""

    family: str
    seed: int
    nodes: int
    pending: int
    running: int
    candidates: int
    """Running gangs that may be preempted."""
    limit_s: float
    wall_s: float
    """From parsed snapshot to checked plan, in seconds."""
    seconds: dict[str, float]
    """The plan's own time per stage."""
    tiers: list[TierOutcome]
    undecided: int
    """Gangs whose question the limit ended."""
    solver: Side
    greedy: Side
    greedy_s: float
    """From parsed snapshot to assignment and victims; no bounds, no check."""
    matched: Side | None = None
    """The solver asked for the gangs alone that the greedy preemptor starts, where it starts others of its own."""
    cpu_s: float = 0.0
    """Processor seconds of the solve: what `wall_s` would be with a core to itself."""

    @property
    def victim_s(self) -> float:
        """Seconds of the stage that admits and chooses victims."""
        return self.seconds["admission"]

    @property
    def contended(self) -> bool:
        """Whether somebody has to give way."""
        return bool(self.solver.evicted or self.greedy.evicted)

    @property
    def differs_at(self) -> int | None:
        """First position in considered order at which the admissions differ; None: nowhere."""
        pairs = zip(self.solver.vector, self.greedy.vector, strict=True)
        return next((i for i, (ours, theirs) in enumerate(pairs) if ours != theirs), None)

    @property
    def admits_no_worse(self) -> bool:
        """Whether no gang that goes first waits here and starts there."""
        return self.solver.vector >= self.greedy.vector

    @property
    def same_gangs(self) -> bool:
        """Whether both start the same gangs, so that their losses compare."""
        return self.solver.admitted == self.greedy.admitted

    @property
    def pair(self) -> tuple[Side, Side] | None:
        """Solver and greedy where both start the same gangs, the solver if need be asked for those alone."""
        sides = (self.solver, self.matched)
        mine = next((one for one in sides if one is not None and one.admitted == self.greedy.admitted), None)
        return None if mine is None else (mine, self.greedy)

    @property
    def costs_no_worse(self) -> bool:
        """Whether the lexicographic cost is no more than the greedy's; true where they start different gangs."""
        if self.pair is None:
            return True
        ours, theirs = self.pair
        priorities = sorted({*ours.lost, *theirs.lost}, reverse=True)
        return ours.cost(priorities) <= theirs.cost(priorities)

    @property
    def never_worse(self) -> bool:
        """Admissions and, where they are the same, costs."""
        return self.admits_no_worse and self.costs_no_worse

    @property
    def _victim_tiers(self) -> list[TierOutcome]:
        return [tier for tier in self.tiers if tier.name == "broken" or tier.name.startswith("lost.")]

    @property
    def proven(self) -> bool:
        """Whether losses of every priority and the number of victims are proven least."""
        return all(tier.proven for tier in self._victim_tiers)

    @property
    def losses_proven(self) -> bool:
        """Whether losses of every priority are proven least, the number of victims or not."""
        return all(tier.proven for tier in self._victim_tiers if tier.name != "broken")

    @property
    def gap(self) -> float:
        """Share of the losses (without any: of the victims) above the bound, at the first tier that is open."""
        for tier in self._victim_tiers:
            if not tier.proven:
                return (tier.value - tier.bound) / tier.value if tier.value else 0.0
        return 0.0

    @property
    def in_time(self) -> bool:
        """Whether the limit was kept within 10 % + 50 ms."""
        return self.wall_s <= 1.1 * self.limit_s + 0.05


class VictimRun(BaseModel, frozen=True):
    """The trials of `victims`."""

    stamp: Stamp
    trials: list[VictimTrial]


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
