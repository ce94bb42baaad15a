"""`starts_after_s`: what is free or given back goes to gangs in considered order; no limit is passed on the way."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from brute_force import Round, total
from hand_made import gang, node, running, snapshot
from random_rounds import contested_round

from gangfit.models import Plan, Snapshot
from gangfit.solver import check, solve

NOW = 10_000


def starts(round: Snapshot) -> dict[str, int | None]:
    plan = solve(round)
    assert check(round, plan).ok
    return {placement.gang: placement.starts_after_s for placement in plan.placements}


def leaving(name: str, gpus: int, until: int, **facts: Any) -> dict[str, Any]:
    return running(name, {"n": 1}, gpus, phase="terminating", expected_end_s=until, **facts)


class TestSpace:
    def test_what_is_free_goes_to_the_first(self) -> None:
        pending = [gang("a", 1, 4, submitted_s=1), gang("b", 1, 4, submitted_s=2)]
        round = snapshot([node("n", "r")], pending, [leaving("old", 4, NOW + 90)], time_s=NOW)
        assert starts(round) == {"a": None, "b": NOW + 90}

    def test_what_is_given_back_first_goes_to_the_next(self) -> None:
        pending = [gang(name, 1, 2, submitted_s=i) for i, name in enumerate("abcd")]
        held = [leaving("soon", 2, NOW + 10), leaving("later", 4, NOW + 90)]
        round = snapshot([node("n", "r")], pending, held, time_s=NOW)
        assert starts(round) == {"a": None, "b": NOW + 10, "c": NOW + 90, "d": NOW + 90}

    def test_one_that_asks_nothing_short_starts_at_once(self) -> None:
        nodes = [node("n", "r", cpu_milli=8_000)]
        pending = [gang("big", 1, 8, submitted_s=1), gang("cpu", 1, 0, submitted_s=2)]
        pending[1]["request"] = {"cpu_milli": 1_000}
        round = snapshot(nodes, pending, [leaving("old", 8, NOW + 90)], time_s=NOW)
        assert starts(round) == {"big": NOW + 90, "cpu": None}

    def test_an_end_that_has_come_is_now(self) -> None:
        round = snapshot([node("n", "r")], [gang("a", 1, 8)], [leaving("old", 8, NOW)], time_s=NOW)
        assert starts(round) == {"a": None}

    @pytest.mark.parametrize("wrong", [{"a": NOW + 90, "b": None}, {"b": None}, {"a": NOW + 90}])
    def test_checker_flags_another_order(self, wrong: dict[str, int | None]) -> None:
        pending = [gang("a", 1, 4, submitted_s=1), gang("b", 1, 4, submitted_s=2)]
        round = snapshot([node("n", "r")], pending, [leaving("old", 4, NOW + 90)], time_s=NOW)
        plan = solve(round)
        changed = tuple(
            p.model_copy(update={"starts_after_s": wrong[p.gang]}) if p.gang in wrong else p for p in plan.placements
        )
        report = check(round, plan.model_copy(update={"placements": changed}))
        assert {(v.rule, v.gang) for v in report.violations} == {("claims", name) for name in wrong}


class TestLimit:
    @staticmethod
    def round(limit: int) -> Snapshot:
        """A tenant holds 8 of its limit; the node where its gang of higher priority goes is free."""
        nodes = [node("n", "r"), node("m", "r")]
        held = [running("low", {"n": 1}, 8, tenant="t", grace_s=120, started_s=0)]
        tenants = [{"name": "t", "quota": {"gpus": 16}, "limit": {"gpus": limit}}]
        return snapshot(nodes, [gang("high", 1, 8, tenant="t", priority=1)], held, tenants=tenants, time_s=NOW)

    def test_a_start_waits_for_a_victim_of_its_limit(self) -> None:
        plan = solve(self.round(8))
        assert [p.gang for p in plan.preemptions] == ["low"]
        assert starts(self.round(8)) == {"high": NOW + 120}

    def test_without_one_it_starts_at_once(self) -> None:
        assert starts(self.round(16)) == {"high": None}

    def test_checker_flags_a_start_beyond_the_limit(self) -> None:
        plan = solve(self.round(8))
        at_once = tuple(p.model_copy(update={"starts_after_s": None}) for p in plan.placements)
        report = check(self.round(8), plan.model_copy(update={"placements": at_once}))
        assert [(v.rule, v.gang) for v in report.violations] == [("claims", "high")]


def replay(snapshot: Snapshot, plan: Plan) -> int:
    """Walk through the drain instant by instant; fails if a node or a limit is passed. Starts that waited."""
    now = snapshot.time_s
    ends = {p.gang: p.drain.kill_s for p in plan.preemptions}
    for one in snapshot.running:
        if one.phase == "terminating":
            ends[one.name] = one.expected_end_s if one.expected_end_s is not None else now + one.grace_s
    begins = {p.gang: p.starts_after_s or now for p in plan.placements}
    exact = Round(snapshot)
    for instant in sorted({now, *begins.values()}):
        gone = frozenset(name for name, end in ends.items() if end <= instant)
        there = {p.gang: p.nodes() for p in plan.placements if begins[p.gang] <= instant}
        asked: dict[str, Counter[str]] = {}
        for one in [*snapshot.running, *snapshot.pending]:
            places = there.get(one.name, {}) if one.name in exact.pending else one.placement  # type: ignore[union-attr]
            if one.name in gone:
                continue
            for name, members in places.items():
                for resource, amount in total(one).items():
                    asked.setdefault(name, Counter())[resource] += amount // one.members * members
        for entry in snapshot.nodes:
            used = Counter({"gpus": entry.used.gpus, "cpu_milli": entry.used.cpu_milli or 0})
            starters = [exact.pending[name] for name, nodes in there.items() if entry.name in nodes]
            for resource, capacity in (("gpus", entry.gpus), ("cpu_milli", entry.cpu_milli)):
                if capacity is not None and any(total(one)[resource] for one in starters):
                    assert asked[entry.name][resource] + used[resource] <= capacity, (entry.name, instant)
        for tenant in snapshot.tenants:
            if tenant.limit is None:
                continue
            started = tuple(there)
            held = exact.use(
                tenant.name, started, frozenset(v for v in gone if v in {p.gang for p in plan.preemptions})
            )
            below = [exact.pending[name] for name in started if tenant.name in exact.above(exact.pending[name].tenant)]
            for resource in ("gpus", "cpu_milli"):
                most = getattr(tenant.limit, resource)
                if most is not None and any(total(one)[resource] for one in below):
                    assert held[resource] <= most, (tenant.name, instant)
    return sum(begin > now for begin in begins.values())


class TestReplay:
    @pytest.mark.parametrize("block", range(2))
    def test_nothing_is_passed_at_any_time(self, block: int) -> None:
        waited = 0
        for seed in range(block * 60, block * 60 + 60):
            snapshot = contested_round(seed, running=9, pending=6)
            waited += replay(snapshot, solve(snapshot))
        assert waited >= 3
