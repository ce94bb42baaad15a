"""Local search keeps every rule at every step, counts its tiers right, and never hands back a worse plan."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
from crowded_rounds import crowded, greedy_plan
from lawful import lawful
from random_rounds import random_round

from gangfit.models import Snapshot
from gangfit.solver import local_search
from gangfit.solver.assignment import tier_values
from gangfit.solver.engine import Budget
from gangfit.solver.local_search import LocalSearch, binding_resources
from gangfit.solver.problem import encode

BLOCK = 100


class TestEveryRule:
    @pytest.mark.parametrize("block", range(3))
    def test_random_rounds(self, block: int) -> None:
        for seed in range(block * BLOCK, (block + 1) * BLOCK):
            problem = encode(random_round(seed, nodes=40, gangs=9))
            plan = greedy_plan(problem, worst=True)
            if not plan:
                continue
            search = LocalSearch(problem, plan, seed)
            assert search.values == tier_values(problem, plan), seed
            before = search.values
            for tier in range(len(before)):
                search.search(tier, -1, 300, Budget(problem.snapshot.policy))
                assert search.values <= before, seed
                before = search.values
                assert lawful(problem, search.record), seed
                assert tier_values(problem, search.record) == search.values, seed

    @pytest.mark.long
    @pytest.mark.parametrize("block", range(10, 60))
    def test_random_rounds_long(self, block: int) -> None:
        self.test_random_rounds(block)


def test_same_seed_same_plan() -> None:
    problem = encode(crowded(2))
    plan = greedy_plan(problem)
    searches = [LocalSearch(problem, plan, seed) for seed in (5, 5)]
    for search in searches:
        search.search(1, 0, 2_000, Budget(problem.snapshot.policy))
    one, other = (search.record for search in searches)
    assert all((one[j].nodes == other[j].nodes).all() for j in plan)


def test_improves_a_poor_plan() -> None:
    problem = encode(crowded(4))
    plan = greedy_plan(problem, worst=True)
    search = LocalSearch(problem, plan, 0)
    search.search(1, 0, 4_000, Budget(problem.snapshot.policy))
    assert search.values[1] < tier_values(problem, plan)[1]


def test_resources_that_cannot_bind_are_left_out() -> None:
    """CPU asked in proportion to GPUs is implied by them; one gang that asks more than its share brings it back."""
    snapshot = random_round(0).model_dump()
    for node in snapshot["nodes"]:
        node |= {"gpus": 8, "cpu_milli": 64_000, "used": {}, "state": "ready", "gpu_model": None, "resources": {}}
    for gang in snapshot["pending"]:
        gang |= {"request": {"gpus": 2, "cpu_milli": 16_000}, "gpu_model": None}
    snapshot["running"] = []
    problem = encode(Snapshot.model_validate(snapshot))
    assert binding_resources(problem, [0]).tolist() == [0]
    snapshot["pending"][0]["request"]["cpu_milli"] = 17_000
    problem = encode(Snapshot.model_validate(snapshot))
    assert binding_resources(problem, list(range(len(problem.gangs)))).tolist() == [0, 1]


class TestClock:
    """The search looks at the clock as often as its iterations are slow."""

    @pytest.mark.parametrize(("each", "limit"), [(0.055, 1.0), (0.001, 1.0), (0.02, 0.05), (0.0001, 0.3)])
    def test_slow_iterations_keep_the_limit(self, monkeypatch: pytest.MonkeyPatch, each: float, limit: float) -> None:
        now = [1000.0]
        done: list[int] = []

        def slow(batch: int, *_: object) -> int:
            now[0] += batch * each
            done.append(batch)
            return batch

        problem = encode(crowded(2, time_limit_s=limit))
        search = LocalSearch(problem, greedy_plan(problem), 0)
        monkeypatch.setattr(local_search, "kernel", lambda name: slow)
        clock = SimpleNamespace(monotonic=lambda: now[0])
        for module in ("engine", "local_search"):
            monkeypatch.setattr(f"gangfit.solver.{module}.time", clock)
        search.search(1, -1, 1 << 40, Budget(problem.snapshot.policy, now[0]))
        assert now[0] - 1000.0 <= limit + max(2 * local_search.SLICE, each)
        assert search.rounds == sum(done) >= limit / each - 1
        # Quick iterations are not asked one by one.
        assert len(done) <= limit / local_search.SLICE * 4 + 10

    def test_pace_changes_nothing_but_the_time(self, monkeypatch: pytest.MonkeyPatch) -> None:
        problem = encode(crowded(2))
        plan = greedy_plan(problem)
        paced, free = (LocalSearch(problem, plan, 5) for _ in range(2))
        monkeypatch.setattr(local_search, "SLICE", -1.0)
        paced.search(1, 0, 600, Budget(problem.snapshot.policy))
        monkeypatch.setattr(local_search, "SLICE", 60.0)
        free.search(1, 0, 600, Budget(problem.snapshot.policy))
        assert paced.values == free.values
        assert paced.rounds == free.rounds
