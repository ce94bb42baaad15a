"""Reservations, exactly: head, instant, who starts and every tier against all instants and all placements."""

from __future__ import annotations

from typing import Any

import pytest
from crowded_rounds import ANY_SIZE, improve
from reserving import Reserving, timed_contest, timed_round

from gangfit.models import Plan, Snapshot
from gangfit.solver import check, solve
from gangfit.solver.admission import admit
from gangfit.solver.assignment import tier_values
from gangfit.solver.engine import Budget
from gangfit.solver.plain import optimum
from gangfit.solver.problem import encode

BLOCK = 50
Vector = tuple[int, ...]


def promise(plan: Plan) -> tuple[str | None, int]:
    """Head and instant."""
    return next(((b.gang, b.reservation.start_s) for b in plan.blocked if b.reservation is not None), (None, 0))


def solver_vector(snapshot: Snapshot, exact: Reserving) -> tuple[tuple[str | None, int], Vector]:
    """As in test_contested; fails unless proven and clean."""
    plan = solve(snapshot)
    assert plan.status == "optimal", plan.tiers
    report = check(snapshot, plan)
    assert report.ok, report.violations
    values = {tier.name: tier.value for tier in plan.tiers[1:]}
    lost = [values.pop(f"lost.p{priority}", 0) for priority in exact.priorities]
    turns, again = plan.considered[: len(snapshot.pending)], plan.considered[len(snapshot.pending) :]
    started = {step.gang for step in again}
    refused = [step.gang for step in turns if not step.admitted]
    first = (*(-step.admitted for step in turns), *(-(name in started) for name in refused))
    return promise(plan), (*first, *lost, *values.values())


def agree(snapshot: Snapshot, seed: int) -> None:
    exact = Reserving(snapshot)
    best = exact.optimum()
    assert solver_vector(snapshot, exact) == ((exact.head, exact.start), best), seed


class TestExact:
    @pytest.mark.parametrize("block", range(2))
    def test_contested(self, block: int) -> None:
        for seed in range(block * BLOCK, (block + 1) * BLOCK):
            agree(timed_contest(seed), seed)

    @pytest.mark.parametrize("block", range(2))
    def test_crowded(self, block: int) -> None:
        for seed in range(block * BLOCK, (block + 1) * BLOCK):
            agree(timed_contest(seed, running=7, pending=5), seed)

    @pytest.mark.parametrize("block", range(2))
    def test_placement_alone(self, block: int) -> None:
        for seed in range(block * BLOCK, (block + 1) * BLOCK):
            agree(timed_round(seed, nodes=5, gangs=4, members=4), seed)

    @pytest.mark.long
    @pytest.mark.parametrize("block", range(100, 300))
    def test_long(self, block: int) -> None:
        self.test_contested(block)
        self.test_crowded(block)
        self.test_placement_alone(block)


class TestFormulations:
    """Fast path, merged and plain model on the round with second columns: the head is one of its gangs."""

    @pytest.mark.parametrize("block", range(2))
    def test_agree(self, block: int) -> None:
        seen = 0
        for seed in range(block * BLOCK, (block + 1) * BLOCK):
            snapshot = timed_round(seed, nodes=24, gangs=8, members=6, crowded=True)
            problem = encode(snapshot)
            admitted = admit(problem, Budget(snapshot.policy), lambda line: None)
            if admitted.reservation is None:
                continue
            seen += 1
            round, plan = (
                admitted.reservation.problem,
                max(admitted.plans.values(), key=lambda plan: tier_values(problem, plan)),
            )
            fast, _ = improve(round, plan, 0)
            merged, _ = improve(round, plan, ANY_SIZE)
            placed, best = optimum(round)
            assert all(result.proof for result in fast), seed
            assert sorted(placed) == sorted(plan), seed
            assert [r.value for r in fast] == [r.value for r in merged] == list(best), seed
        assert seen >= 20


class TestInAHurry:
    """Next to no time: nothing is proven, but no rule broken either; `solve` raises if the checker objects."""

    @pytest.mark.parametrize("policy", [{"time_limit_s": 0.002}, {"time_limit_s": 0.005, "deterministic": True}])
    def test_time_out(self, policy: dict[str, Any]) -> None:
        for seed in range(100):
            for snapshot in (timed_contest(seed, running=9, pending=6), timed_round(seed)):
                solve(snapshot.model_copy(update={"policy": snapshot.policy.model_copy(update=policy)}))

    def test_without_search(self) -> None:
        promised = sum(promise(solve(timed_contest(seed), search=False))[0] is not None for seed in range(100))
        assert promised >= 20


def test_rounds_are_about_reservations() -> None:
    """They hold what they are for: heads, fillers, gangs kept from starting, victims beside a promise."""
    plans = [solve(timed_contest(seed, running=7, pending=5)) for seed in range(200)]
    heads = [plan for plan in plans if promise(plan)[0] is not None]
    assert len(heads) >= 60
    assert sum(bool(plan.placements) for plan in heads) >= 40
    assert sum(bool(plan.preemptions) for plan in heads) >= 10
    never = {"reservation": "never"}
    kept = 0
    for seed, plan in enumerate(plans):
        snapshot = timed_contest(seed, running=7, pending=5)
        other = solve(snapshot.model_copy(update={"policy": snapshot.policy.model_copy(update=never)}))
        kept += {p.gang for p in plan.placements} != {p.gang for p in other.placements}
    assert kept >= 10
