"""Measuring one snapshot through the public interface: solver, first answer and greedy baselines."""

from __future__ import annotations

import gc
import re
import time
from collections.abc import Sequence

from benchmarks.generators import contended, contiguous_runs
from benchmarks.records import DISTANCE, Answer, Baseline, TierOutcome, Trial
from gangfit.models import Plan, Snapshot
from gangfit.solver import solve
from gangfit.solver.assignment import admission, tier_names, tier_values
from gangfit.solver.greedy import STRATEGIES
from gangfit.solver.kernels import warmup
from gangfit.solver.problem import encode

_LINE = re.compile(r"(?P<tier>[a-z]+(?:\.\S+)?): .*?bound (?P<bound>\d+)")
"""A progress line about a tier."""


class Timeline:
    """When the solver said what: a callback for `on_progress`."""

    def __init__(self) -> None:
        self.started = time.perf_counter()
        self.lines: list[tuple[float, str]] = []

    def __call__(self, line: str) -> None:
        """Note a line and its time."""
        self.lines.append((time.perf_counter() - self.started, line))

    def bound_s(self, tier: str, bound: int) -> float | None:
        """Seconds until a line gave the tier this bound; None if no line did."""
        for second, line in self.lines:
            match = _LINE.match(line)
            if match and match["tier"] == tier and int(match["bound"]) == bound:
                return second
        return None

    def turn_s(self, tiers: Sequence[str]) -> float | None:
        """Seconds until the first line about one of these tiers; None if there is none."""
        turns = (second for second, line in self.lines if (m := _LINE.match(line)) and m["tier"] in tiers)
        return next(turns, None)


def first_answer(snapshot: Snapshot, repeats: int = 1) -> tuple[Plan, Answer]:
    """The plan without search; the quickest of some repeats."""
    best = float("inf")
    for _ in range(repeats):
        started = time.perf_counter()
        plan = solve(snapshot, search=False)
        best = min(best, time.perf_counter() - started)
    return plan, _answer(snapshot, plan, None, best, None)


def limited(snapshot: Snapshot, limit_s: float) -> Snapshot:
    """The snapshot with another time limit, the rest of its policy unchanged."""
    return snapshot.model_copy(update={"policy": snapshot.policy.model_copy(update={"time_limit_s": limit_s})})


def outcomes(plan: Plan) -> list[TierOutcome]:
    """Value, bound and proof of every tier."""
    return [TierOutcome(name=t.name, value=t.value, bound=t.bound, proven=t.proof is not None) for t in plan.tiers]


def searched(snapshot: Snapshot, limit_s: float) -> tuple[Plan, Answer]:
    """The plan of a full solve within a time limit."""
    timeline = Timeline()
    plan = solve(limited(snapshot, limit_s), on_progress=timeline)
    return plan, _answer(snapshot, plan, limit_s, time.perf_counter() - timeline.started, timeline)


def _answer(snapshot: Snapshot, plan: Plan, limit_s: float | None, wall_s: float, timeline: Timeline | None) -> Answer:
    tiers = outcomes(plan)
    bound_s = settled_s = None
    if timeline is not None:
        names = [tier.name for tier in tiers]
        topology = next(tier for tier in tiers if tier.name == DISTANCE)
        settled_s = timeline.turn_s(names[names.index(DISTANCE) + 1 :]) or wall_s
        bound_s = min(settled_s, timeline.bound_s(DISTANCE, topology.bound) or settled_s)
    return Answer(
        limit_s=limit_s,
        wall_s=wall_s,
        optimal=plan.status == "optimal",
        admitted=len(plan.placements),
        units=_units(snapshot, {p.gang for p in plan.placements}, plan_value(plan, DISTANCE)),
        tiers=tiers,
        seconds=dict(plan.stats.seconds or {}),
        sizes=dict(plan.stats.sizes),
        bound_s=bound_s,
        settled_s=settled_s,
    )


def plan_value(plan: Plan, tier: str) -> int:
    """Value of one tier of a plan."""
    return next(t.value for t in plan.tiers if t.name == tier)


def _units(snapshot: Snapshot, admitted: set[str], distance: int) -> int:
    """Σ weight × domains touched over admitted gangs of ≥ 2 members: the distance plus one of each level per gang."""
    multi = sum(gang.members >= 2 for gang in snapshot.pending if gang.name in admitted)
    return distance + multi * sum(snapshot.topology.weights())


def considered(plan: Plan) -> list[int]:
    """Admitted or not, in considered order; gangs that are asked again come a second time, at the end."""
    return [int(step.admitted) for step in plan.considered]


def baselines(snapshot: Snapshot, repeats: int = 1) -> list[Baseline]:
    """Every greedy strategy; the quickest of some repeats."""
    rows = []
    for name, strategy in STRATEGIES.items():
        wall_s = float("inf")
        for _ in range(repeats):
            started = time.perf_counter()
            problem = encode(snapshot)
            assignment = strategy(problem)
            wall_s = min(wall_s, time.perf_counter() - started)
        values = dict(zip(tier_names(problem), tier_values(problem, assignment), strict=True))
        admitted = {problem.gangs[j].name for j in assignment}
        rows.append(
            Baseline(
                name=name,
                wall_s=wall_s,
                values={"admission": len(assignment), **values},
                vector=list(admission(problem, assignment)),
                units=_units(snapshot, admitted, values[DISTANCE]),
            )
        )
    return rows


def trial(
    snapshot: Snapshot, *, suite: str, setting: str, seed: int, limits: Sequence[float], all_tiers: bool, repeats: int
) -> Trial:
    """The solver at several time limits, its first answer and every greedy on one snapshot.

    A longer limit is tried only while something is open: with `all_tiers` any tier, else the topology tier.
    """
    first_plan, first = first_answer(snapshot, repeats)
    answers: list[Answer] = []
    for limit in limits:
        plan, answer = searched(snapshot, limit)
        answers.append(answer)
        if answer.optimal or (answer.proven and not all_tiers):
            break
    return Trial(
        suite=suite,
        setting=setting,
        seed=seed,
        nodes=sum(map(len, snapshot.node_names)),
        pending=len(snapshot.pending),
        first=first,
        answers=answers,
        vector=considered(plan)[: len(snapshot.pending)],
        first_vector=considered(first_plan)[: len(snapshot.pending)],
        baselines=baselines(snapshot, repeats),
    )


def warm_up() -> float:
    """Pay kernels and imports before the clock runs, as a service worker does; returns the seconds it took."""
    started = time.perf_counter()
    warmup()
    for pending in (3, 20):
        snapshot = contiguous_runs(256, 0.8, pending)
        solve(snapshot, search=False)
        solve(limited(snapshot, 1.0))
        baselines(snapshot)
        solve(limited(contended("share", 128, pending), 1.0))
    gc.freeze()
    return time.perf_counter() - started
