"""The fast path agrees with the merged model, the plain model and every proof; its failures cost bounds, not plans."""

from __future__ import annotations

import math
import time
from types import SimpleNamespace
from typing import Any

import pytest
from crowded_rounds import ANY_SIZE, compiled, crowded, greedy_plan, improve
from ortools.sat.python import cp_model
from random_rounds import random_round

from gangfit.models import Snapshot
from gangfit.solver import check, engine, local_search, solve, tiers, topology
from gangfit.solver.assignment import tier_values
from gangfit.solver.dive import dive
from gangfit.solver.engine import Budget, Outcome
from gangfit.solver.kernels import kernel
from gangfit.solver.master import Master
from gangfit.solver.plain import optimum
from gangfit.solver.problem import encode
from gangfit.solver.scales import SHAPES
from gangfit.solver.tiers import Improvement
from gangfit.solver.topology import Topology

BLOCK = 50
TICK = 1e-4
"""Seconds that a look at the clock takes."""


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

    def test_from_what_the_patterns_round_to(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(topology, "MANY", 2)
        dives = []
        monkeypatch.setattr(topology, "dive", lambda *given: dives.append(given) or dive(*given))
        for seed in range(1_000, 1_040):
            compare(random_round(seed), seed)
        assert dives

    @pytest.mark.long
    @pytest.mark.parametrize("block", range(20, 420))
    def test_fast_merged_and_plain_agree_long(self, block: int) -> None:
        self.test_fast_merged_and_plain_agree(block)


class TestLimits:
    @pytest.mark.parametrize("limit", [0.001, 0.05, 0.3])
    def test_nothing_dear_starts_out_of_time(self, monkeypatch: pytest.MonkeyPatch, limit: float) -> None:
        """By a clock that moves with each look at it: no engine is started, or given leave, beyond the limit."""
        compiled()
        now, started = [0.0], []

        def look() -> float:
            now[0] += TICK
            return now[0]

        def note(name: str, leave: float) -> None:
            started.append((name, now[0], leave))

        class Solver(cp_model.CpSolver):
            def solve(self, *given: Any, **named: Any) -> cp_model.CpSolverStatus:
                note("CP-SAT", self.parameters.max_time_in_seconds)
                return super().solve(*given, **named)

        master, search = Master.solve, kernel("ruin_recreate")

        def linear(self: Master, seconds: float | None) -> Any:
            # Programs without a limit of their own have at most `SHAPES` rows and one (conservative scales).
            bounded = seconds is None and self._solver.getNumRow() <= SHAPES + 1
            note("HiGHS", 0.0 if bounded else seconds or math.inf)
            return master(self, seconds)

        def iterate(batch: int, *given: Any) -> int:
            note("local search", batch * TICK / 1000)
            return int(search(batch, *given))

        snapshot = crowded(1, time_limit_s=limit)
        # Of the modules that look at it, not of the process: other threads live by the real one.
        clock = SimpleNamespace(monotonic=look, perf_counter=time.perf_counter)
        for module in ("assemble", "configurations", "engine", "held_bound", "local_search", "mip", "pattern_bound"):
            monkeypatch.setattr(f"gangfit.solver.{module}.time", clock)
        monkeypatch.setattr(engine.cp_model, "CpSolver", Solver)
        monkeypatch.setattr(Master, "solve", linear)
        monkeypatch.setattr(local_search, "kernel", lambda name: iterate)
        monkeypatch.setattr(tiers, "ready", lambda seconds: True)
        problem = encode(snapshot)
        improvement = Improvement(
            problem, greedy_plan(problem), Budget(snapshot.policy, look()), lambda line: None, small=0
        )
        begin = now[0]
        results = improvement.run()
        assert not improvement.failures
        # A few looks may lie between the last question whether there is time and the start.
        assert all(at - begin <= limit + 10 * TICK for _, at, _ in started)
        assert all(at + leave - begin <= limit + 10 * TICK for _, at, leave in started)
        assert all(result.bound <= result.value for result in results)
        assert limit < 0.01 or {name for name, _, _ in started} >= {"HiGHS", "local search"}

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


def test_once_in_doubt_no_gap_model_proves_anything(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every gap model is called infeasible, wrongly: believed it passes the optimum somewhere, in doubt nowhere."""
    beyond = {False: 0, True: 0}
    for seed in range(40):
        problem = encode(random_round(seed, nodes=24, gangs=9, members=8))
        plan = greedy_plan(problem, worst=True)
        best = improve(problem, plan, 0)[0] if plan else []
        if not best or best[0].value:
            continue
        with monkeypatch.context() as patch:
            patch.setattr(topology, "run", lambda *_, **__: Outcome("infeasible", None, None))
            for doubt in beyond:
                policy = problem.snapshot.policy.model_copy(update={"deterministic": True, "time_limit_s": 2.0})
                tier = Topology(problem, plan, 1, 0, Budget(policy), lambda line: None, doubt=doubt)
                tier.close(1.0)
                beyond[doubt] += tier.bound > best[1].value
    assert beyond[False] > 0
    assert beyond[True] == 0


def test_a_failing_engine_costs_its_bound_only(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*args: object, **kwargs: object) -> None:
        raise RuntimeError("HiGHS gave up")

    compiled()
    monkeypatch.setattr(tiers, "Topology", broken)
    monkeypatch.setattr(tiers, "HeldBound", broken)
    snapshot = crowded(0, time_limit_s=0.3)
    plan = solve(snapshot)
    assert check(snapshot, plan).ok
    problem = encode(snapshot)
    improvement = Improvement(problem, greedy_plan(problem), Budget(snapshot.policy), lambda line: None)
    improvement.run()
    assert improvement.failures
