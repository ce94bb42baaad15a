"""The fast path agrees with the merged model, the plain model and every proof; its failures cost bounds, not plans."""

from __future__ import annotations

import time

import pytest
from crowded_rounds import ANY_SIZE, crowded, greedy_plan, improve
from random_rounds import random_round

from gangfit.models import Snapshot
from gangfit.solver import check, solve, tiers
from gangfit.solver.assignment import tier_values
from gangfit.solver.engine import Budget
from gangfit.solver.plain import optimum
from gangfit.solver.problem import encode
from gangfit.solver.tiers import Improvement

BLOCK = 50


def compare(snapshot: Snapshot, seed: int) -> None:
    """Fast path = merged = plain on every tier, all proven."""
    problem = encode(snapshot)
    plan = greedy_plan(problem, worst=True)
    if not plan:
        return
    fast, improvement = improve(problem, plan, 0)
    merged, _ = improve(problem, plan, ANY_SIZE)
    assert all(result.proof for result in fast), (seed, fast)
    values = [result.value for result in fast]
    assert values == [result.value for result in merged], seed
    assert values == list(tier_values(problem, improvement.assignment)), seed
    placed, best = optimum(problem)
    assert sorted(placed) == sorted(plan), seed
    assert values == list(best), seed


class TestAgreement:
    @pytest.mark.parametrize("block", range(4))
    def test_fast_merged_and_plain_agree(self, block: int) -> None:
        for seed in range(block * BLOCK, (block + 1) * BLOCK):
            compare(random_round(seed), seed)

    def test_on_tighter_rounds(self) -> None:
        for seed in range(25):
            compare(random_round(seed, nodes=24, gangs=9, members=8), seed)

    @pytest.mark.long
    @pytest.mark.parametrize("block", range(20, 420))
    def test_fast_merged_and_plain_agree_long(self, block: int) -> None:
        self.test_fast_merged_and_plain_agree(block)


class TestLimits:
    @pytest.mark.parametrize("limit", [0.001, 0.05, 0.4])
    def test_time_limit_is_kept(self, limit: float) -> None:
        solve(crowded(0, time_limit_s=1.0))
        started = time.perf_counter()
        plan = solve(crowded(1, time_limit_s=limit))
        # The promise is 10 % + 50 ms; a shared machine gets room on top.
        assert time.perf_counter() - started < 1.1 * limit + 0.6
        assert all(tier.bound <= tier.value for tier in plan.tiers[1:])

    def test_deterministic_mode_repeats_itself(self) -> None:
        snapshot = crowded(3, time_limit_s=0.5, deterministic=True, workers=1)
        assert solve(snapshot) == solve(snapshot)

    def test_never_worse_than_greedy(self) -> None:
        for seed in range(4):
            problem = encode(crowded(seed, time_limit_s=0.3))
            plan = greedy_plan(problem)
            _, improvement = improve(problem, plan, 0)
            assert tier_values(problem, improvement.assignment) <= tier_values(problem, plan)


class TestPresolve:
    """Rounds whose merged model CP-SAT 9.15 calls infeasible after probing in presolve, though a plan is at hand."""

    @pytest.mark.parametrize(("seed", "nodes", "gangs"), [(300974, 14, 5), (302097, 14, 5), (406917, 20, 6)])
    def test_feasible_stays_feasible(self, seed: int, nodes: int, gangs: int) -> None:
        compare(random_round(seed, nodes=nodes, gangs=gangs, members=6), seed)


def test_a_failing_engine_costs_its_bound_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("HiGHS gave up")

    monkeypatch.setattr(tiers, "Topology", broken)
    monkeypatch.setattr(tiers, "HeldBound", broken)
    snapshot = crowded(0, time_limit_s=0.3)
    plan = solve(snapshot)
    assert check(snapshot, plan).ok
    problem = encode(snapshot)
    improvement = Improvement(problem, greedy_plan(problem), Budget(snapshot.policy), lambda line: None)
    improvement.run()
    assert improvement.failures
