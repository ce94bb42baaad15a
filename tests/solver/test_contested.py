"""Tenants that contend, exactly: what `solve` says against every plan and every set of victims, one by one."""

from __future__ import annotations

import random
from collections import Counter
from typing import Any

import pytest
from brute_force import Round
from random_rounds import contested_round

from gangfit.models import Snapshot
from gangfit.solver import check, contest, mip, solve, stages
from gangfit.solver.engine import Outcome
from gangfit.solver.highs import Found, Highs
from gangfit.solver.victim_search import VictimSearch

BLOCK = 50
FOUND = [5, 204, 253, 293, 315, 402, 535, 676, 830, 891, 1426, 2652, 2837, 4567, 4836, 5659, 5736, 6849, 6999, 7284]
"""Seeds on which the two have disagreed."""
HURRIED = [309, 449]
"""Seeds of which a solve cut short has kept needless victims."""


def solver_vector(snapshot: Snapshot, exact: Round) -> tuple[int, ...]:
    """Admissions in considered order (negated), losses per priority, the other tiers; fails unless proven and clean."""
    plan = solve(snapshot)
    assert plan.status == "optimal", plan.tiers
    report = check(snapshot, plan)
    assert report.ok, report.violations
    values = {tier.name: tier.value for tier in plan.tiers[1:]}
    lost = [values.pop(f"lost.p{priority}", 0) for priority in exact.priorities]
    turns, again = plan.considered[: len(snapshot.pending)], plan.considered[len(snapshot.pending) :]
    started = {step.gang for step in again}
    refused = [step.gang for step in turns if not step.admitted]
    return (*(-step.admitted for step in turns), *(-(name in started) for name in refused), *lost, *values.values())


def clamped(snapshot: Snapshot, seed: int) -> Snapshot:
    """The same round on nodes of which some are overcommitted and taken as full."""
    rng = random.Random(seed)
    document = snapshot.model_dump(by_alias=True)
    document["policy"]["overcommit"] = "clamp"
    for node in document["nodes"]:
        if rng.random() < 0.4:
            node["used"]["gpus"] = rng.randint(0, node["gpus"] + 1)
        if node["cpu_milli"] and rng.random() < 0.4:
            node["used"]["cpu_milli"] = rng.choice([1_000, 4_000, 9_000])
    return Snapshot.model_validate(document)


def agree(snapshot: Snapshot, seed: int) -> None:
    exact = Round(snapshot)
    assert solver_vector(snapshot, exact) == exact.optimum(), seed


class TestExact:
    @pytest.mark.parametrize("block", range(5))
    def test_solve_equals_brute_force(self, block: int) -> None:
        for seed in range(block * BLOCK, (block + 1) * BLOCK):
            agree(contested_round(seed), seed)

    @pytest.mark.parametrize("block", range(5))
    def test_crowded(self, block: int) -> None:
        for seed in range(block * BLOCK, (block + 1) * BLOCK):
            agree(contested_round(seed, running=9, pending=6), seed)

    @pytest.mark.parametrize("block", range(2))
    def test_overcommitted(self, block: int) -> None:
        for seed in range(block * BLOCK, (block + 1) * BLOCK):
            agree(clamped(contested_round(seed), seed), seed)

    @pytest.mark.parametrize("block", range(2))
    def test_side_by_side(self, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Every question is large enough for CP-SAT and HiGHS side by side; whoever is first, or neither alone."""
        for module in (mip, contest):
            monkeypatch.setattr(module, "TINY", 0)
        monkeypatch.setattr(mip, "STAGED", 0)
        asked: list[int] = []

        def note(*given: Any, **more: Any) -> Outcome:
            asked.append(len(given))
            return mip.run_mip(*given, **more)

        monkeypatch.setattr(contest, "run_mip", note)
        for seed in range(block * BLOCK, (block + 1) * BLOCK):
            round = contested_round(seed, running=9, pending=6)
            two = round.policy.model_copy(update={"workers": 2})
            agree(round.model_copy(update={"policy": two}), seed)
        assert asked.count(8) > BLOCK / 3  # given an event that ends it

    @pytest.mark.parametrize("block", range(2))
    def test_two_ways_of_highs(self, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """Every question with an objective is large enough for local search and for both threads to be HiGHS'."""
        monkeypatch.setattr(mip, "TINY", 0)
        monkeypatch.setattr(mip, "STAGED", 0)
        monkeypatch.setattr(stages, "RACED", 0)
        monkeypatch.setattr(contest, "RACED_S", 0.0)
        asked: list[int] = []
        exchange = Highs.exchange

        def note(highs: Highs, *given: Any) -> bool:
            asked.append(len(given))
            return exchange(highs, *given)

        monkeypatch.setattr(Highs, "exchange", note)
        searched: dict[int, VictimSearch] = {}
        run = VictimSearch.run

        def search(self: VictimSearch, *given: Any) -> Found:
            searched[id(self)] = self
            return run(self, *given)

        monkeypatch.setattr(VictimSearch, "run", search)
        for seed in range(block * BLOCK, (block + 1) * BLOCK):
            round = contested_round(seed, running=9, pending=6)
            two = round.policy.model_copy(update={"workers": 2})
            agree(round.model_copy(update={"policy": two}), seed)
        assert len(asked) >= 3
        assert sum(one.best.values is not None for one in searched.values()) >= 9

    @pytest.mark.parametrize("seed", FOUND)
    def test_found_once(self, seed: int) -> None:
        agree(contested_round(seed), seed)
        agree(contested_round(seed, running=9, pending=6), seed)

    @pytest.mark.long
    @pytest.mark.parametrize("block", range(100, 500))
    def test_long(self, block: int) -> None:
        self.test_solve_equals_brute_force(block)
        self.test_crowded(block)
        self.test_overcommitted(block)


class TestInAHurry:
    """Next to no time: nothing is proven, but no rule broken either; `solve` raises if the checker objects."""

    @pytest.mark.parametrize("policy", [{"time_limit_s": 0.002}, {"time_limit_s": 0.005, "deterministic": True}])
    def test_time_out(self, policy: dict[str, Any]) -> None:
        for seed in [*range(100), *HURRIED]:
            snapshot = contested_round(seed)
            solve(snapshot.model_copy(update={"policy": snapshot.policy.model_copy(update=policy)}))

    def test_without_search(self) -> None:
        for seed in range(100):
            solve(contested_round(seed), search=False)


def test_rounds_are_contested() -> None:
    """They hold what they are for: victims by every right, gangs asked again, starts that wait, limits."""
    plans = [solve(contested_round(seed, running=9, pending=6)) for seed in range(400)]
    reasons = Counter(entry.reason for plan in plans for entry in plan.preemptions)
    assert min(reasons[right] for right in ("own", "priority", "reclaim")) >= 5, reasons
    assert sum(len(plan.preemptions) > 1 for plan in plans) >= 8
    assert sum(len({step.gang for step in plan.considered}) < len(plan.considered) for plan in plans) >= 1
    assert any(placement.starts_after_s for plan in plans for placement in plan.placements)
    blocked = Counter(entry.reason for plan in plans for entry in plan.blocked)
    assert blocked["limit"], blocked
    assert blocked["protected"], blocked
    assert blocked["competing"], blocked
