"""One test class per rule of docs/model.md, of the same name: the answer keeps it, both formulations have it, the
checker flags a plan that breaks it. A rule that is taken out of a formulation fails its class.
"""

from __future__ import annotations

import inspect
import re
from fractions import Fraction
from pathlib import Path
from typing import Any, ClassVar

import numpy as np
import pytest
from formulations import ELIGIBILITY, forget, merged_answer, plain_answer
from hand_made import Json, gang, node, placed, plan, racks, running, snapshot
from ortools.sat.python import cp_model
from vectors import tiers

import gangfit.solver.admission
from gangfit.models import Plan, Snapshot
from gangfit.solver import InvalidPlanError, assignment, check, eligibility, oracle, solve, tenants, victims
from gangfit.solver import rights as rights_module
from gangfit.solver.checker import rules as checker_rules
from gangfit.solver.checker import tiers as checker_tiers
from gangfit.solver.engine import Budget
from gangfit.solver.joint import Joint
from gangfit.solver.merged import Merged
from gangfit.solver.plain import Plain
from gangfit.solver.problem import encode

DOC = Path(__file__).parents[2] / "docs" / "model.md"


def values(snapshot: Snapshot) -> tuple[int, ...]:
    """Tier values after admission of a proven answer that preempts nobody."""
    answer = solve(snapshot)
    assert answer.status == "optimal"
    return tiers(answer)


def rules_broken_by(snapshot: Snapshot, plan: Plan) -> set[str]:
    return {violation.rule for violation in check(snapshot, plan).violations}


def broken_rules(snapshot: Snapshot, placements: dict[str, dict[str, int]]) -> set[str]:
    return rules_broken_by(snapshot, plan(placements))


class Hard:
    """What holds for each of rules 1–7."""

    rule: ClassVar[str]
    round: ClassVar[Snapshot]
    starts: ClassVar[tuple[str, ...]]
    """Gangs that start in the round."""
    too_many: ClassVar[list[str]]
    """Gangs that this rule alone keeps from starting together."""
    breaking: ClassVar[dict[str, dict[str, int]]]
    """Placements that break this rule."""

    def test_solve_keeps_it(self) -> None:
        answer = solve(self.round)
        assert tuple(placed(answer)) == self.starts
        assert answer.status == "optimal"
        assert check(self.round, answer).ok

    def test_plain_model_has_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert plain_answer(self.round).admitted == self.starts
        forget(monkeypatch, Plain, self.rule)
        assert plain_answer(self.round).admitted != self.starts

    @pytest.mark.parametrize("single", [False, True])
    def test_merged_model_has_it(self, monkeypatch: pytest.MonkeyPatch, single: bool) -> None:
        assert merged_answer(self.round, list(self.starts), single=single) is not None
        assert merged_answer(self.round, self.too_many, single=single) is None
        forget(monkeypatch, Merged, self.rule)
        assert merged_answer(self.round, self.too_many, single=single) is not None

    def test_checker_flags_it(self) -> None:
        assert self.rule in broken_rules(self.round, self.breaking)
        assert not check(self.round, plan(placed(solve(self.round)))).violations

    def test_a_plan_that_breaks_it_is_never_an_answer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        if self.rule in ELIGIBILITY:
            forget(monkeypatch, Plain, self.rule)
            with pytest.raises(InvalidPlanError):
                solve(self.round)


class TestWholeGang(Hard):
    rule = "whole_gang"
    round = snapshot(racks((8, 8)), [gang("three", 3), gang("two", 2)])
    starts = ("two",)
    too_many = ["three"]
    breaking = {"three": {"r0n0": 1, "r0n1": 1}}

    def test_more_members_than_asked(self) -> None:
        assert "whole_gang" in broken_rules(self.round, {"two": {"r0n0": 2, "r0n1": 1}})

    def test_placed_and_blocked(self) -> None:
        answer = solve(self.round)
        both = answer.model_copy(
            update={"blocked": (*answer.blocked, answer.blocked[0].model_copy(update={"gang": "two"}))}
        )
        assert "whole_gang" in {violation.rule for violation in check(self.round, both).violations}

    def test_placed_twice(self) -> None:
        once = plan({"two": {"r0n0": 1, "r0n1": 1}})
        twice = once.model_copy(update={"placements": once.placements * 2})
        assert "whole_gang" in {violation.rule for violation in check(self.round, twice).violations}


class TestNodeCapacity(Hard):
    rule = "node_capacity"
    round = snapshot(racks((8,)), [gang("first", 2, 3), gang("second", 1, 4)])
    starts = ("first",)
    too_many = ["first", "second"]
    breaking = {"first": {"r0n0": 2}, "second": {"r0n0": 1}}

    @pytest.mark.parametrize(
        ("capacity", "asks"),
        [
            ({"cpu_milli": 999}, {"gpus": 1, "cpu_milli": 500}),
            ({"memory_mib": 1023}, {"gpus": 1, "memory_mib": 512}),
            ({"resources": {"rdma": 1}}, {"gpus": 1, "resources": {"rdma": 1}}),
            ({}, {"gpus": 1, "resources": {"rdma": 1}}),
        ],
    )
    def test_every_resource_binds(self, capacity: Json, asks: Json) -> None:
        round = snapshot([node("n", "r", **capacity)], [gang("pair", 2, request=asks)])
        assert not placed(solve(round))
        assert not plain_answer(round).admitted
        assert broken_rules(round, {"pair": {"n": 2}}) == {"node_capacity"}

    def test_running_gangs_and_used_take(self) -> None:
        nodes = [node("n", "r", used={"gpus": 2})]
        round = snapshot(nodes, [gang("one", 1, 4)], [running("old", {"n": 1}, 3)])
        assert not placed(solve(round))
        assert broken_rules(round, {"one": {"n": 1}}) == {"node_capacity"}

    def test_clamped_resource_hinders_only_those_who_ask_it(self) -> None:
        nodes = [node("n", "r", cpu_milli=1, used={"cpu_milli": 2})]
        asks = {"gpus": 1, "cpu_milli": 1}
        round = snapshot(nodes, [gang("asks", request=asks), gang("not")], policy={"overcommit": "clamp"})
        assert list(placed(solve(round))) == ["not"]
        assert plain_answer(round).admitted == ("not",)
        assert broken_rules(round, {"asks": {"n": 1}}) >= {"node_capacity"}


class TestNodeState(Hard):
    rule = "node_state"
    round = snapshot([node("up", "r"), node("off", "r", state="down")], [gang("a"), gang("b")])
    starts = ("a",)
    too_many = ["a", "b"]
    breaking = {"a": {"off": 1}}

    @pytest.mark.parametrize("state", ["cordoned", "down"])
    def test_no_state_but_ready(self, state: str) -> None:
        round = snapshot([node("n", "r", state=state)], [gang("a")])
        assert not placed(solve(round))
        assert broken_rules(round, {"a": {"n": 1}}) == {"node_state"}

    def test_running_members_stay_on_nodes_that_left(self) -> None:
        round = snapshot([node("n", "r"), node("off", "r", state="down")], [gang("a")], [running("old", {"off": 1})])
        assert placed(solve(round)) == {"a": {"n": 1}}


class TestNodeSelector(Hard):
    rule = "node_selector"
    round = snapshot(
        [node("in", "r", labels={"pool": "a"}), node("out", "r", labels={"pool": "b"})],
        [gang("a", selector={"pool": "a"}), gang("b", selector={"pool": "a"})],
    )
    starts = ("a",)
    too_many = ["a", "b"]
    breaking = {"a": {"out": 1}}

    @pytest.mark.parametrize(
        ("labels", "fits"),
        [({}, False), ({"pool": "a"}, False), ({"pool": "a", "zone": ""}, True), ({"pool": "A", "zone": ""}, False)],
    )
    def test_every_key_with_its_very_value(self, labels: dict[str, str], fits: bool) -> None:
        round = snapshot([node("n", "r", labels=labels)], [gang("a", selector={"pool": "a", "zone": ""})])
        assert bool(placed(solve(round))) is fits
        assert broken_rules(round, {"a": {"n": 1}}) == (set() if fits else {"node_selector"})


class TestNodeTaints(Hard):
    rule = "node_taints"
    round = snapshot([node("bare", "r"), node("hot", "r", taints=[{"key": "hot"}])], [gang("a"), gang("b")])
    starts = ("a",)
    too_many = ["a", "b"]
    breaking = {"a": {"hot": 1}}

    @pytest.mark.parametrize(
        ("tolerations", "fits"),
        [
            ([], False),
            ([{"key": "k"}], True),
            ([{"key": "other"}], False),
            ([{"operator": "Exists"}], True),
            ([{"key": "k", "operator": "Equal", "value": "v"}], True),
            ([{"key": "k", "operator": "Equal", "value": ""}], False),
            ([{"key": "other", "operator": "Equal", "value": "v"}], False),
            ([{"key": "k", "effect": "NoExecute"}], True),
            ([{"key": "k", "effect": "NoSchedule"}], False),
            ([{"operator": "Exists", "effect": "NoSchedule"}], False),
            ([{"key": "other"}, {"key": "k"}], True),
        ],
    )
    def test_what_tolerates_what(self, tolerations: list[Json], fits: bool) -> None:
        taints = [{"key": "k", "value": "v", "effect": "NoExecute"}]
        round = snapshot([node("n", "r", taints=taints)], [gang("a", tolerations=tolerations)])
        assert bool(placed(solve(round))) is fits
        assert broken_rules(round, {"a": {"n": 1}}) == (set() if fits else {"node_taints"})

    def test_one_taint_of_two_is_not_enough(self) -> None:
        round = snapshot([node("n", "r", taints=[{"key": "k"}, {"key": "l"}])], [gang("a", tolerations=[{"key": "k"}])])
        assert not placed(solve(round))
        assert broken_rules(round, {"a": {"n": 1}}) == {"node_taints"}


class TestGpuModel(Hard):
    rule = "gpu_model"
    round = snapshot(
        [node("new", "r", gpu_model="H100"), node("old", "r", gpu_model="A100")],
        [gang("a", gpu_model="H100"), gang("b", gpu_model="H100")],
    )
    starts = ("a",)
    too_many = ["a", "b"]
    breaking = {"a": {"old": 1}}

    def test_a_node_of_unknown_model_serves_nobody_who_names_one(self) -> None:
        round = snapshot([node("n", "r")], [gang("names", gpu_model="H100"), gang("any")])
        assert list(placed(solve(round))) == ["any"]
        assert "gpu_model" in broken_rules(round, {"names": {"n": 1}})


class TestRequiredLevel(Hard):
    rule = "required_level"
    round = snapshot(racks((8,), (8,)), [gang("pair", 2, required="rack", priority=1), gang("one")])
    starts = ("one",)
    too_many = ["pair"]
    breaking = {"pair": {"r0n0": 1, "r1n0": 1}}

    def test_required_node_is_one_node(self) -> None:
        round = snapshot(racks((8, 8)), [gang("pair", 2, 5, required="node"), gang("fits", 2, 4, required="node")])
        assert list(placed(solve(round))) == ["fits"]
        assert len(placed(solve(round))["fits"]) == 1
        assert "required_level" in broken_rules(round, {"pair": {"r0n0": 1, "r0n1": 1}})

    def test_required_node_found_by_search_is_one_node(self) -> None:
        """The admission model merges alike nodes; a gang that needs one node must not be handed two of them."""
        round = snapshot(racks((8, 8)), [gang("a", 2, 2, required="node", priority=1), gang("b", 2, 5)])
        answer = solve(round)
        assert answer.considered[1].decided_by == "search"
        assert [len(on) for on in placed(answer).values()] == [1]

    def test_a_domain_is_its_whole_path(self) -> None:
        nodes = [node("x", "s0", "r0"), node("y", "s1", "r0")]
        round = snapshot(nodes, [gang("pair", 2, required="rack")], levels="spine rack")
        assert not placed(solve(round))
        assert broken_rules(round, {"pair": {"x": 1, "y": 1}}) == {"required_level"}

    @pytest.mark.parametrize("path", [(None, "r0"), ("s0", None), (None, None)])
    def test_an_unknown_domain_serves_nobody_who_requires_it(self, path: tuple[str | None, ...]) -> None:
        round = snapshot([node("n", *path)], [gang("one", required="rack"), gang("any")], levels="spine rack")
        assert list(placed(solve(round))) == ["any"]
        assert plain_answer(round).admitted == ("any",)
        assert "required_level" in broken_rules(round, {"one": {"n": 1}})

    def test_a_known_prefix_is_enough(self) -> None:
        round = snapshot([node("n", "s0", None)], [gang("one", required="spine")], levels="spine rack")
        assert placed(solve(round)) == {"one": {"n": 1}}


class TestConsideredOrder:
    """Progressive filling: of two tenants the one that holds less, whatever the gangs' submission."""

    round = snapshot(
        racks((8, 8, 8)),
        [gang("a0", tenant="a"), gang("a1", tenant="a", submitted_s=1), gang("b0", tenant="b", submitted_s=2)],
        [running("old", {"r0n0": 1}, tenant="a")],
        tenants=[{"name": "a"}, {"name": "b"}],
    )

    KEYS: ClassVar[dict[str, tuple[Snapshot, list[str]]]] = {
        "class": (
            snapshot(
                racks((8, 8, 8)),
                [gang("a", tenant="a"), gang("b", tenant="b")],
                [running("old", {"r0n0": 1}, tenant="b")],
                tenants=[{"name": "a", "quota": {"gpus": 0}}, {"name": "b", "quota": {"gpus": 16}}],
            ),
            ["b", "a"],
        ),
        "weight 0": (
            snapshot(
                racks((8, 8)),
                [gang("a", tenant="a"), gang("b", tenant="b")],
                tenants=[{"name": "a", "weight": 0, "quota": {"gpus": 16}}, {"name": "b", "quota": {"gpus": 16}}],
            ),
            ["b", "a"],
        ),
        "weighted share": (
            snapshot(
                racks((8, 8, 8, 8, 8)),
                [gang("a", tenant="a"), gang("b", tenant="b", submitted_s=1)],
                [running("a0", {"r0n0": 1}, tenant="a"), running("b0", {"r0n1": 1, "r0n2": 1}, tenant="b")],
                tenants=[{"name": "a", "quota": {"gpus": 40}}, {"name": "b", "weight": 3, "quota": {"gpus": 40}}],
            ),
            ["b", "a"],
        ),
        "priority": (
            snapshot(
                racks((8, 8)),
                [gang("a", tenant="a"), gang("b", tenant="b", priority=1)],
                tenants=[{"name": "a"}, {"name": "b"}],
            ),
            ["b", "a"],
        ),
    }

    def test_solve_keeps_it(self) -> None:
        answer = solve(self.round)
        assert [step.gang for step in answer.considered] == ["b0", "a0", "a1"]
        assert list(placed(answer)) == ["b0", "a0"]
        assert [step.group for step in answer.considered] == ["within", "below", "surplus"]
        assert [step.share for step in answer.considered] == [0.0, 8 / 24, 16 / 24]

    def test_plain_model_has_it(self) -> None:
        assert set(plain_answer(self.round).admitted) == {"a0", "b0"}

    @pytest.mark.parametrize("key", KEYS)
    def test_every_part_of_the_key(self, key: str) -> None:
        round, order = self.KEYS[key]
        assert [step.gang for step in solve(round).considered] == order

    def test_order_priority_comes_before_class_and_share(self) -> None:
        round, order = self.KEYS["class"]
        pending = [{**entry, "priority": entry["name"] == "a"} for entry in round.model_dump(by_alias=True)["pending"]]
        for policy, wanted in (({"order": "drf"}, order), ({"order": "priority"}, order[::-1])):
            document = {**round.model_dump(), "pending": pending, "policy": {**round.policy.model_dump(), **policy}}
            document["pending"] = [{**entry, "priority": int(entry["priority"])} for entry in pending]
            assert [step.gang for step in solve(Snapshot.model_validate(document)).considered] == wanted

    def test_a_tree_is_walked_top_down(self) -> None:
        """`a` as a whole holds more than `b`, though its second child holds nothing."""
        round = snapshot(
            racks((8, 8, 8)),
            [gang("x", tenant="a2"), gang("y", tenant="b")],
            [running("old", {"r0n0": 1}, tenant="a1")],
            tenants=[{"name": "a"}, {"name": "a1", "parent": "a"}, {"name": "a2", "parent": "a"}, {"name": "b"}],
        )
        assert [step.gang for step in solve(round).considered] == ["y", "x"]

    @pytest.mark.parametrize("key", ["class", "weight 0", "weighted share"])
    def test_the_model_has_it(self, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
        """By priority, submission and name alone another gang is next, and the checker won't have it."""
        monkeypatch.setattr(tenants.Order, "_class", lambda *_: 0)
        monkeypatch.setattr(tenants.Tenants, "dominant", lambda *_: (-1, Fraction(0)))
        monkeypatch.setattr(tenants.Order, "_best", first_by_rank)
        with pytest.raises(InvalidPlanError, match="considered"):
            solve(self.KEYS[key][0])
        with pytest.raises(InvalidPlanError, match="considered"):
            solve(self.round)

    def test_checker_flags_it(self) -> None:
        answer = solve(self.round)
        swapped = answer.model_copy(update={"considered": (*answer.considered[1:], answer.considered[0])})
        assert "considered_order" in rules_broken_by(self.round, swapped)
        for change in ({"group": "below"}, {"share": 0.5}, {"admitted": False}):
            first = answer.considered[0].model_copy(update=change)
            changed = answer.model_copy(update={"considered": (first, *answer.considered[1:])})
            assert "considered_order" in rules_broken_by(self.round, changed)


def first_by_rank(order: tenants.Order, children: list[int]) -> object:
    """`Order._best` with nothing but priority, submission and name."""
    offers = [offer for t in children if (offer := order._offer[t]) is not None]
    return min(offers, key=lambda offer: offer[1], default=None)


class TestTenantLimit:
    round = snapshot(
        racks((8, 8)),
        [gang("a", tenant="t"), gang("b", tenant="t")],
        tenants=[{"name": "t", "limit": {"gpus": 8}}],
    )
    contested = snapshot(
        racks((8, 8)),
        [gang("high", tenant="t", priority=1)],
        [running("low", {"r0n0": 1}, tenant="t")],
        tenants=[{"name": "t", "limit": {"gpus": 8}}],
    )
    """There is a free node, but `high` may only start if `low` stops."""

    def test_solve_keeps_it(self) -> None:
        answer = solve(self.round)
        assert list(placed(answer)) == ["a"]
        assert [(blocked.gang, blocked.reason) for blocked in answer.blocked] == [("b", "competing")]
        assert answer.status == "optimal"

    def test_a_gang_that_running_ones_leave_no_limit_for_is_told_so(self) -> None:
        full = [running("old", {"r0n0": 1}, tenant="t", preemptible=False)]
        answer = solve(
            snapshot(racks((8, 8)), [gang("a", tenant="t")], full, tenants=[{"name": "t", "limit": {"gpus": 8}}])
        )
        assert [(blocked.gang, blocked.reason) for blocked in answer.blocked] == [("a", "limit")]

    def test_own_victims_make_room_below_the_limit(self) -> None:
        answer = solve(self.contested)
        assert [(p.gang, p.for_gang, p.reason) for p in answer.preemptions] == [("low", "high", "own")]
        assert answer.status == "optimal"

    def test_plain_model_has_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert plain_answer(self.round).admitted == ("a",)
        monkeypatch.setattr(tenants.Order, "within_limit", lambda *_: True)
        assert plain_answer(self.round).admitted == ("a", "b")

    def test_the_order_has_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(tenants.Order, "within_limit", lambda *_: True)
        with pytest.raises(InvalidPlanError, match="limit"):
            solve(self.round)

    def test_joint_model_has_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Joint, "tenant_limit", lambda *_: None)
        with pytest.raises(InvalidPlanError, match="limit"):
            solve(self.contested)

    @pytest.mark.parametrize("limit", [{"gpus": 8}, {"cpu_milli": 8}, {"memory_mib": 8}, {"resources": {"x": 8}}])
    @pytest.mark.parametrize("owner", ["leaf", "parent"])
    def test_every_resource_at_every_level(self, limit: Json, owner: str) -> None:
        asks = {"gpus": 5, "cpu_milli": 5, "memory_mib": 5, "resources": {"x": 5}}
        nodes = [node(f"n{i}", "r", resources={"x": 9}) for i in range(2)]
        tree: list[Json] = [{"name": "parent"}, {"name": "leaf", "parent": "parent"}]
        limited = [{**tenant, **({"limit": limit} if tenant["name"] == owner else {})} for tenant in tree]
        pending = [gang(name, request=asks, tenant="leaf") for name in "ab"]
        answer = solve(snapshot(nodes, pending, tenants=limited))
        assert list(placed(answer)) == ["a"]
        assert "tenant_limit" in broken_rules(
            snapshot(nodes, pending, tenants=limited), {"a": {"n0": 1}, "b": {"n1": 1}}
        )

    def test_a_tenant_above_its_limit_is_not_made_worse_by_what_asks_nothing_of_it(self) -> None:
        pending = [gang("cpu", request={"cpu_milli": 1}, tenant="t"), gang("gpu", tenant="t")]
        over = [running("old", {"r0n0": 1}, tenant="t")]
        answer = solve(snapshot(racks((8, 8)), pending, over, tenants=[{"name": "t", "limit": {"gpus": 4}}]))
        assert list(placed(answer)) == ["cpu"]
        assert answer.blocked[0].reason == "limit"

    def test_checker_flags_it(self) -> None:
        assert "tenant_limit" in broken_rules(self.round, {"a": {"r0n0": 1}, "b": {"r0n1": 1}})
        assert "tenant_limit" in broken_rules(self.contested, {"high": {"r0n1": 1}})


class TestVictimEligible:
    """One node, held by `old`; `new` outranks it."""

    @staticmethod
    def held(policy: Json | None = None, **facts: Any) -> Snapshot:
        old = running("old", {"r0n0": 1}, **{"started_s": 10_000, **facts})
        return snapshot(racks((8,)), [gang("new", priority=1)], [old], time_s=20_000, policy=policy or {})

    PROTECTED: ClassVar[dict[str, tuple[Json, int | None]]] = {
        "not preemptible": ({"preemptible": False}, None),
        "young": ({"min_runtime_s": 10_001}, 20_001),
        "guard by interval": ({"preemptions": 3, "checkpoint": {"interval_s": 10_500}}, 20_500),
        "guard without interval": ({"preemptions": 3, "started_s": 16_401}, 20_001),
        "guard by minimum run": ({"preemptions": 3, "started_s": 15_000, "min_runtime_s": 5_001}, 20_001),
    }
    """What protects → fields of `old`, and when that ends."""
    FREE: ClassVar[dict[str, Json]] = {
        "preemptible": {},
        "old enough": {"min_runtime_s": 10_000},
        "guard not reached": {"preemptions": 2, "checkpoint": {"interval_s": 10_500}},
        "an interval has passed": {"preemptions": 3, "checkpoint": {"interval_s": 10_000}},
        "an hour has passed": {"preemptions": 9, "started_s": 16_400},
    }

    @pytest.mark.parametrize("case", PROTECTED)
    def test_solve_keeps_it(self, case: str) -> None:
        facts, ends = self.PROTECTED[case]
        answer = solve(self.held(**facts))
        assert not answer.preemptions
        assert [(blocked.reason, blocked.retry_at_s) for blocked in answer.blocked] == [("protected", ends)]

    @pytest.mark.parametrize("case", FREE)
    def test_nobody_else_is_protected(self, case: str) -> None:
        assert [(p.gang, p.for_gang) for p in solve(self.held(**self.FREE[case])).preemptions] == [("old", "new")]

    @pytest.mark.parametrize("case", PROTECTED)
    def test_the_protection_ends_when_it_says(self, case: str) -> None:
        facts, ends = self.PROTECTED[case]
        if ends is not None:
            later = self.held(**facts).model_copy(update={"time_s": ends})
            assert [p.gang for p in solve(later).preemptions] == ["old"]
            assert not solve(later.model_copy(update={"time_s": ends - 1})).preemptions

    @pytest.mark.parametrize("guard", [1, 2, 4])
    def test_the_guard_is_the_policys(self, guard: int) -> None:
        round = self.held({"preemption": {"guard": guard}}, preemptions=2, checkpoint={"interval_s": 10_500})
        assert bool(solve(round).preemptions) is (guard > 2)

    def test_a_terminating_gang_is_no_victim(self) -> None:
        answer = solve(self.held(phase="terminating", expected_end_s=20_100))
        assert not answer.preemptions
        assert [(p.gang, p.starts_after_s) for p in answer.placements] == [("new", 20_100)]

    @pytest.mark.parametrize("case", PROTECTED)
    def test_the_model_has_it(self, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
        monkeypatch.setattr(victims, "victim_eligible", lambda *_: True)
        with pytest.raises(InvalidPlanError, match="'old'"):
            solve(self.held(**self.PROTECTED[case][0]))

    @pytest.mark.parametrize("facts", [*(facts for facts, _ in PROTECTED.values()), {"phase": "terminating"}])
    def test_checker_flags_it(self, facts: Json) -> None:
        wanted = solve(self.held())
        assert check(self.held(), wanted).ok
        assert "victim_eligible" in rules_broken_by(self.held(**facts), wanted)


class TestVictimRight:
    """Who may take from whom, on one node of 8 GPUs, full; `new` of tenant `a` asks."""

    @staticmethod
    def full(
        held: list[Json], asks: int, *, priority: int = 1, quota: tuple[int, int] = (0, 0), across: str = "reclaim",
        within: str = "priority", **facts: Any,
    ) -> Snapshot:  # fmt: skip
        return snapshot(
            racks((8,)),
            [gang("new", 1, asks, tenant="a", priority=priority, **facts)],
            held,
            tenants=[{"name": name, "quota": {"gpus": gpus}} for name, gpus in zip("ab", quota, strict=True)],
            time_s=5_000,
            policy={"preemption": {"across": across, "within": within}},
        )

    @classmethod
    def rounds(cls) -> dict[str, tuple[Snapshot, str | None]]:
        """Case → round, and by which right `new` starts in it (None: by none)."""
        mine, other = running("old", {"r0n0": 1}, tenant="a"), running("old", {"r0n0": 1}, tenant="b")
        halves = [running("b1", {"r0n0": 1}, 4, tenant="b"), running("b2", {"r0n0": 1}, 1, tenant="b")]
        return {
            "own, lower": (cls.full([mine], 8), "own"),
            "own, equal": (cls.full([mine], 8, priority=0), None),
            "own, higher": (cls.full([mine], 8, priority=-1), None),
            "own, never": (cls.full([mine], 8, within="never"), None),
            "settling": (cls.full([mine], 8, preempted_s=4_401), None),
            "settled": (cls.full([mine], 8, preempted_s=4_400), "own"),
            "other, lower": (cls.full([other], 8, across="priority"), "priority"),
            "other, equal": (cls.full([other], 8, priority=0, across="priority"), None),
            "other, never": (cls.full([other], 8, across="never", quota=(8, 0)), None),
            "reclaim": (cls.full([other], 8, priority=-5, quota=(8, 0)), "reclaim"),
            "reclaim, settling": (cls.full([other], 8, quota=(8, 0), preempted_s=5_000), None),
            "not within": (cls.full([other], 8, quota=(7, 0)), None),
            "not above": (cls.full([other], 8, quota=(8, 8)), None),
            "the last is taken whole": (cls.full([other], 8, quota=(8, 7)), "reclaim"),
            "one too many": (cls.full(halves, 8, quota=(8, 4)), None),
        }

    CASES: ClassVar[list[str]] = [
        "own, lower", "own, equal", "own, higher", "own, never", "settling", "settled", "other, lower", "other, equal",
        "other, never", "reclaim", "reclaim, settling", "not within", "not above", "the last is taken whole",
        "one too many",
    ]  # fmt: skip

    @pytest.mark.parametrize("case", CASES)
    def test_solve_keeps_it(self, case: str) -> None:
        round, right = self.rounds()[case]
        answer = solve(round)
        assert answer.status == "optimal"
        assert {p.reason for p in answer.preemptions} == ({right} if right else set())
        assert list(placed(answer)) == (["new"] if right else [])
        assert [blocked.reason for blocked in answer.blocked] == ([] if right else ["protected"])

    def test_cases_are_all(self) -> None:
        assert list(self.rounds()) == self.CASES

    @pytest.mark.parametrize("case", ["own, equal", "settling", "other, equal", "not within", "not above"])
    def test_the_rights_have_it(self, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
        """With a right over everybody `new` starts, and the checker won't have it."""

        def everybody(problem: Any, gang: int, *_: Any) -> rights_module.Right:
            over = np.ones(len(problem.victims.gangs), dtype=np.bool_)
            return rights_module.Right(gang, over, ~over, rights_module.started(problem, [gang]))

        monkeypatch.setattr(rights_module, "_right", everybody)
        with pytest.raises(InvalidPlanError, match="'old' gives way to 'new' by"):
            solve(self.rounds()[case][0])

    @pytest.mark.parametrize(
        ("case", "shortcut"), [("not within", "_may_be_within"), ("not above", "_may_lend"), ("one too many", None)]
    )
    def test_joint_model_has_it(self, monkeypatch: pytest.MonkeyPatch, case: str, shortcut: str | None) -> None:
        """The joint model rules out what the shortcut would let pass; without its rows nobody does."""
        round, _ = self.rounds()[case]
        if shortcut is not None:
            monkeypatch.setattr(rights_module, shortcut, lambda *_: True)
            assert not solve(round).preemptions
        monkeypatch.setattr(Joint, "victim_right", lambda *_: None)
        monkeypatch.setattr(Joint, "budget", lambda *_: None)  # it counts claims of that rule's rows
        # Where nobody has a right there is none to state in the plan either.
        with pytest.raises((InvalidPlanError, IndexError)):
            solve(round)

    @pytest.mark.parametrize("case", CASES)
    def test_checker_flags_it(self, case: str) -> None:
        round, right = self.rounds()[case]
        names = [gang.name for gang in round.running]
        wish = solve(self.full([running(n, {"r0n0": 1}, 8 // len(names), tenant="a") for n in names], 8))
        assert len(wish.preemptions) == len(names)
        reason = right or ("own" if case.startswith("own") else "reclaim" if "other" not in case else "priority")
        given = tuple(p.model_copy(update={"reason": reason}) for p in wish.preemptions)
        taken = Plan(placements=wish.placements, preemptions=given)
        broken = {v.rule for v in check(round, taken).violations} - {"claims"}
        assert broken == (set() if right else {"victim_right"})

    @pytest.mark.parametrize("reason", ["own", "priority", "reclaim"])
    def test_checker_flags_a_wrong_reason(self, reason: str) -> None:
        for case, right in (("own, lower", "own"), ("other, lower", "priority"), ("reclaim", "reclaim")):
            answer = solve(self.rounds()[case][0])
            stated = answer.preemptions[0].model_copy(update={"reason": reason})
            broken = rules_broken_by(self.rounds()[case][0], answer.model_copy(update={"preemptions": (stated,)}))
            assert broken == (set() if reason == right else {"victim_right"})


class TestVictimNeeded:
    """`a` may hold 4 GPUs. It would have to stop `small` to be within quota, and `small` is in nobody's way."""

    round = snapshot(
        [node("n0", "r", gpus=4), node("n1", "r", gpus=1)],
        [gang("new", 1, 4, tenant="a", priority=1)],
        [running("small", {"n1": 1}, 1, tenant="a"), running("big", {"n0": 1}, 4, tenant="b")],
        tenants=[{"name": "a", "quota": {"gpus": 4}}, {"name": "b", "quota": {"gpus": 0}}],
    )
    allowed = round.model_copy(
        update={"tenants": (round.tenants[0].model_copy(update={"quota": None}), round.tenants[1])}
    )

    def test_solve_keeps_it(self) -> None:
        answer = solve(self.round)
        assert not answer.preemptions
        assert answer.status == "optimal"
        assert answer.blocked[0].reason == "protected"

    def test_with_one_gpu_more_of_quota_only_the_other_stops(self) -> None:
        tenants = [{"name": "a", "quota": {"gpus": 5}}, {"name": "b", "quota": {"gpus": 0}}]
        roomy = Snapshot.model_validate({**self.round.model_dump(), "tenants": tenants})
        assert [p.gang for p in solve(roomy).preemptions] == ["big"]

    def test_an_own_victim_that_makes_room_may_also_make_entitled(self) -> None:
        """Both leave: the space of both is needed."""
        whole = snapshot(
            [node("n", "r", gpus=5)],
            [gang("new", 1, 5, tenant="a", priority=1)],
            [running("small", {"n": 1}, 1, tenant="a"), running("big", {"n": 1}, 4, tenant="b")],
            tenants=[{"name": "a", "quota": {"gpus": 5}}, {"name": "b", "quota": {"gpus": 0}}],
        )
        assert [(p.gang, p.reason) for p in solve(whole).preemptions] == [("big", "reclaim"), ("small", "own")]

    def test_the_model_has_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(oracle, "needed", lambda problem, gangs, held, victims, budget: victims)
        # Trimmed of `small`, who is needless, the plan has nobody with a right to `big`.
        with pytest.raises((InvalidPlanError, IndexError)):
            solve(self.round)

    def test_checker_flags_it(self) -> None:
        taken = snapshot(
            [node("n0", "r", gpus=4), node("n1", "r", gpus=1)],
            [gang("new", 1, 4, tenant="a", priority=1)],
            [running("small", {"n1": 1}, 1, tenant="a"), running("big", {"n0": 1}, 4, tenant="a")],
            tenants=[{"name": "a"}, {"name": "b"}],
        )
        answer = solve(taken)
        (first,) = answer.preemptions
        more = (first, first.model_copy(update={"gang": "small"}))
        assert "victim_needed" in rules_broken_by(taken, answer.model_copy(update={"preemptions": more}))


class TestAdmission:
    round = snapshot(racks((8, 8)), [gang("big", 2, priority=1), gang("x"), gang("y")])
    """Two small gangs would be more in number; the one that goes first decides."""
    joint = snapshot(racks((8,), (4, 4)), [gang("a", 2, 4, priority=1), gang("b")])
    """`a` alone would sit on the one node that `b` needs."""

    def test_solve_keeps_it(self) -> None:
        assert list(placed(solve(self.round))) == ["big"]
        assert placed(solve(self.joint)) == {"a": {"r1n0": 1, "r1n1": 1}, "b": {"r0n0": 1}}
        assert solve(self.joint).considered[1].decided_by == "search"

    def test_plain_model_has_it(self) -> None:
        assert plain_answer(self.round).admitted == ("big",)
        assert plain_answer(self.joint).admitted == ("a", "b")

    def test_merged_model_has_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without its answer `b` waits, and nobody claims to know why."""
        monkeypatch.setattr(oracle, "MODEL_LIMIT", -1)
        answer = solve(self.joint)
        assert list(placed(answer)) == ["a"]
        assert answer.blocked[0].reason == "undecided"
        assert answer.status == "feasible"

    def test_checker_flags_it(self) -> None:
        assert broken_rules(self.round, {}) == {"admission"}
        assert broken_rules(self.round, {"x": {"r0n0": 1}}) == {"admission"}
        assert not broken_rules(self.round, {"x": {"r0n0": 1}, "y": {"r0n1": 1}})

    def test_checker_flags_a_wrong_order(self) -> None:
        answer = solve(self.round)
        swapped = answer.model_copy(update={"considered": answer.considered[::-1]})
        assert "considered_order" in {violation.rule for violation in check(self.round, swapped).violations}


class Soft:
    """What holds for each tier."""

    rule: ClassVar[str]
    round: ClassVar[Snapshot]
    """One in which later tiers want another plan than this one."""
    best: ClassVar[tuple[int, ...]]
    tier: ClassVar[int]
    """Place in `best`."""

    def test_solve_keeps_it(self) -> None:
        assert values(self.round) == self.best

    def test_plain_model_has_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        answer = plain_answer(self.round)
        assert answer.stated == answer.real == self.best
        self.forget(monkeypatch, Plain)
        forgotten = plain_answer(self.round)
        assert forgotten.admitted == answer.admitted
        assert forgotten.real[: self.tier] == self.best[: self.tier]
        assert forgotten.real[self.tier] > self.best[self.tier]

    @pytest.mark.parametrize("single", [False, True])
    def test_merged_model_has_it(self, monkeypatch: pytest.MonkeyPatch, single: bool) -> None:
        names = [waiting.name for waiting in self.round.pending]
        answer = merged_answer(self.round, names, single=single)
        assert answer is not None
        assert answer.stated == answer.real == self.best
        self.forget(monkeypatch, Merged)
        forgotten = merged_answer(self.round, names, single=single)
        assert forgotten is not None
        assert forgotten.real[: self.tier] == self.best[: self.tier]
        assert forgotten.real[self.tier] > self.best[self.tier]

    def test_checker_flags_it(self) -> None:
        answer = solve(self.round)
        report = check(self.round, answer)
        assert tuple(tier.value for tier in report.tiers[2:]) == self.best
        better = answer.tiers[2 + self.tier].model_copy(update={"value": self.best[self.tier] - 1})
        claimed = (*answer.tiers[: 2 + self.tier], better, *answer.tiers[3 + self.tier :])
        assert rules_broken_by(self.round, answer.model_copy(update={"tiers": claimed})) == {"claims"}

    def forget(self, monkeypatch: pytest.MonkeyPatch, formulation: type[Plain] | type[Merged]) -> None:
        forget(monkeypatch, formulation, self.rule)


class TestLostProgress:
    """Two nodes, each held by gangs of lower priority; `new` needs one node."""

    @staticmethod
    def held(*gangs: Json) -> Snapshot:
        return snapshot(racks((8, 8)), [gang("new", priority=9)], list(gangs), time_s=10_000)

    ROUNDS: ClassVar[dict[str, tuple[tuple[Json, ...], set[str], dict[str, int]]]] = {
        "the youngest": (
            (running("x", {"r0n0": 1}, started_s=1_000), running("y", {"r0n1": 1}, started_s=9_000)),
            {"y"},
            {"lost.p0": 8 * 1_300, "broken": 1},
        ),
        "since the last checkpoint": (
            (
                running("x", {"r0n0": 1}, started_s=1_000, checkpoint={"last_s": 9_900}),
                running("y", {"r0n1": 1}, started_s=9_000),
            ),
            {"x"},
            {"lost.p0": 8 * 400, "broken": 1},
        ),
        "a checkpoint in the grace window": (
            (
                running("x", {"r0n0": 1}, checkpoint={"bytes": 3_000_000_000_000, "write_gbps": 10.0}),
                running("y", {"r0n1": 1}, started_s=9_999),
            ),
            {"x"},
            {"lost.p0": 8 * 300, "broken": 1},
        ),
        "one byte too much for the grace window": (
            (
                running("x", {"r0n0": 1}, checkpoint={"bytes": 3_000_000_000_001, "write_gbps": 10.0}),
                running("y", {"r0n1": 1}, started_s=9_999),
            ),
            {"y"},
            {"lost.p0": 8 * 301, "broken": 1},
        ),
        "the lower priority, whatever it loses": (
            (running("x", {"r0n0": 1}), running("y", {"r0n1": 1}, started_s=9_999, priority=1)),
            {"x"},
            {"lost.p0": 8 * 10_300, "broken": 1},
        ),
        "fewest gangs among equals": (
            (
                *(running(f"x{i}", {"r0n0": 1}, 2, started_s=9_000) for i in range(4)),
                running("y", {"r0n1": 1}, started_s=9_000),
            ),
            {"y"},
            {"lost.p0": 8 * 1_300, "broken": 1},
        ),
        "what it loses before how many": (
            (
                *(running(f"x{i}", {"r0n0": 1}, 2, started_s=9_001) for i in range(4)),
                running("y", {"r0n1": 1}, started_s=9_000),
            ),
            {"x0", "x1", "x2", "x3"},
            {"lost.p0": 8 * 1_299, "broken": 4},
        ),
    }

    @staticmethod
    def mirrored(gangs: tuple[Json, ...]) -> tuple[Json, ...]:
        """The same with the nodes exchanged and the gangs named the other way round."""
        seats, names = str.maketrans("01", "10"), str.maketrans("xy", "yx")
        return tuple(
            {
                **held,
                "name": held["name"].translate(names),
                "placement": {on[:-1] + on[-1].translate(seats): count for on, count in held["placement"].items()},
            }
            for held in gangs
        )

    @pytest.mark.parametrize("case", ROUNDS)
    def test_solve_keeps_it(self, case: str) -> None:
        gangs, wanted, lost = self.ROUNDS[case]
        for held in (gangs, self.mirrored(gangs)):
            answer = solve(self.held(*held))
            assert answer.status == "optimal"
            names = {name.translate(str.maketrans("xy", "yx")) if held is not gangs else name for name in wanted}
            assert {p.gang for p in answer.preemptions} == names
            values = {tier.name: tier.value for tier in answer.tiers}
            assert {name: values.get(name) for name in lost} == lost
            assert all(tier.bound == tier.value for tier in answer.tiers)

    @pytest.mark.parametrize("case", [case for case in ROUNDS if case != "fewest gangs among equals"])
    def test_joint_model_has_it(self, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
        """Without the objective one of the two mirrored rounds is answered with other victims."""
        gangs, wanted, _ = self.ROUNDS[case]
        monkeypatch.setattr(Joint, "lost_progress", lambda *_: cp_model.LinearExpr.sum([]))
        mirrored = {name.translate(str.maketrans("xy", "yx")) for name in wanted}
        taken = [{p.gang for p in solve(self.held(*held)).preemptions} for held in (gangs, self.mirrored(gangs))]
        assert taken != [wanted, mirrored]

    @pytest.mark.parametrize(("sign", "taken"), [(1, {"y"}), (-1, {"x0", "x1", "x2", "x3"})])
    def test_joint_model_counts_gangs_broken(self, sign: int, taken: set[str]) -> None:
        problem = encode(self.held(*self.ROUNDS["fewest gangs among equals"][0]))
        held, budget = rights_module.rights(problem, [0], {0}), Budget(problem.snapshot.policy)

        def most(model: Joint) -> None:
            model.model.add(model.lost_progress(0) <= 8 * 1_300)
            model.model.minimize(sign * model.broken())

        found = oracle.settle(problem, [0], held, [], most, None, budget)
        assert {problem.victims.gangs[v].name for v in found.victims} == taken

    def test_cpu_only_gangs_count_by_cpu(self) -> None:
        """16 GPUs to 16,000 millicores: 2,500 millicores are 2 GPUs."""
        nodes = [node(f"n{i}", "r", cpu_milli=8_000) for i in range(2)]
        held = [running(f"v{i}", {f"n{i}": 1}, request={"cpu_milli": 2_500}, started_s=9_000 + i) for i in range(2)]
        round = snapshot(nodes, [gang("new", request={"cpu_milli": 8_000}, priority=1)], held, time_s=10_000)
        answer = solve(round)
        assert [(p.gang, p.drain.lost_gpu_s) for p in answer.preemptions] == [("v1", 2 * 1_299)]

    @pytest.mark.parametrize("tier", ["lost.p0", "broken"])
    def test_checker_flags_it(self, tier: str) -> None:
        round = self.held(*self.ROUNDS["the youngest"][0])
        answer = solve(round)
        for change in (-1, 1):
            tiers = tuple(
                t.model_copy(update={"value": t.value + change, "bound": t.bound + change}) if t.name == tier else t
                for t in answer.tiers
            )
            assert "claims" in rules_broken_by(round, answer.model_copy(update={"tiers": tiers}))


class TestPreferredLevel(Soft):
    """Two nodes of two racks instead of three nodes of one."""

    rule = "preferred_level"
    tier = 0
    round = snapshot(racks((8, 4, 4), (8,)), [gang("a", 4, 4, preferred="node")])
    best = (1, 5, 0, 1, 2)


class TestTreeDistance(Soft):
    """Two whole nodes instead of three broken ones."""

    rule = "tree_distance"
    tier = 1
    round = snapshot(racks((8, 8), (4, 4, 4)), [gang("a", 3, 4)])
    best = (0, 1, 0, 1, 2)

    def test_weights_decide(self) -> None:
        """A rack that weighs less than a node is crossed for one node less."""
        nodes = racks((8, 4, 4), (8,))
        for weight, distance in ((0, 1), (1, 2), (2, 2)):
            topology = {"levels": [{"name": "rack", "weight": weight}]}
            assert values(snapshot(nodes, [gang("a", 4, 4)], topology=topology))[1] == distance

    def test_unknown_domains_are_one_each(self) -> None:
        nodes = [node("x", None), node("y", None), node("z", "r")]
        assert values(snapshot(nodes, [gang("a", 3)]))[1] == 2 * 4 + 2


class TestSharedUplinks(Soft):
    """A gang that has to leave its rack shares the uplink of one rack, not of two, at the price of a whole rack."""

    rule = "shared_uplinks"
    tier = 2
    round = snapshot(
        racks((8, 8), (8, 8), (8,)), [gang("a", 2, required=None)], [running("old", {"r0n0": 1, "r1n0": 1})]
    )
    best = (0, 5, 1, 1, 2)

    def test_three_gangs_on_one_uplink_count_two(self) -> None:
        nodes = racks((8, 8, 8), (8,), (8,), (8,))
        round = snapshot(nodes, [gang("a", 2), gang("b", 2), gang("c", 2)])
        assert values(round) == plain_answer(round).stated


class TestIntactDomains(Soft):
    """Two whole nodes of a rack that is broken already instead of one node that is a rack of its own."""

    rule = "intact_domains"
    tier = 3
    round = snapshot(
        [node("r0n0", "r0", gpus=16), *racks((), (8, 8, 4))], [gang("a", 2, 5)], topology={"node_weight": 0}
    )
    best = (0, 0, 0, 0, 2)

    def forget(self, monkeypatch: pytest.MonkeyPatch, formulation: type[Plain] | type[Merged]) -> None:
        """The tier of the racks only: the nodes' tier is the one that wants another plan."""
        original = formulation.intact_domains
        monkeypatch.setattr(formulation, self.rule, lambda model, level: original(model, level) if level else 0)

    def test_every_level_counts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        round = snapshot(racks((8, 4)), [gang("a")])
        assert values(round) == plain_answer(round).stated == (0, 0, 0, 0, 1)
        forget(monkeypatch, Plain, self.rule)
        assert plain_answer(round).stated == (0, 0, 0, 0, 0)

    def test_a_member_without_gpus_breaks_a_node_too(self) -> None:
        round = snapshot(racks((8, 4)), [gang("a", request={"memory_mib": 1})])
        assert placed(solve(round)) == {"a": {"r0n1": 1}}
        only = snapshot(racks((8,)), [gang("a", request={"memory_mib": 1})])
        assert values(only) == plain_answer(only).stated == (0, 0, 0, 1, 1)

    def test_used_without_gpus_leaves_a_node_intact(self) -> None:
        nodes = [node("n", "r", cpu_milli=9, used={"cpu_milli": 5})]
        assert solve(snapshot(nodes, [])).fragmentation[-1].before == 1


WITHOUT_VICTIMS = {"tenant_limit", "considered_order", "admission"}
"""Rules that the plain model takes from the order it admits gangs in: they decide who is asked, not where he sits."""
WITH_VICTIMS = {"victim_eligible", "victim_right", "victim_needed", "lost_progress"}
"""Rules that the plain model doesn't have: it is for rounds in which nobody gives way. Brute force is their oracle."""


def rule_functions(of: type) -> set[str]:
    """Public functions of a formulation that aren't its mechanics."""
    mechanics = {"build", "tiers", "objective", "hint", "decode", "back", "budget", "broken", "cut", "leaving"}
    return {name for name, _ in inspect.getmembers(of, inspect.isfunction) if name[0] != "_"} - mechanics


class TestNames:
    """The page, the formulations, the checker and this file name the same rules."""

    numbered = re.findall(r"^\d+\. \*\*(\w+)\*\*", DOC.read_text(), flags=re.MULTILINE)
    names = ("considered_order", *numbered)

    def test_the_page_names_each_once(self) -> None:
        assert len(self.numbered) == len(set(self.numbered)) == 17
        bold = re.findall(r"\*\*(\w+_\w+)\*\*", DOC.read_text())
        assert sorted(bold) == sorted(set(self.names) - {"admission"})

    def test_classes_of_this_file(self) -> None:
        classes = {name for name in globals() if name.startswith("Test")} - {"TestNames"}
        assert classes == {"Test" + name.title().replace("_", "") for name in self.names}

    @pytest.mark.parametrize("formulation", [Plain, Merged])
    def test_functions_of_the_models_without_victims(self, formulation: type) -> None:
        local = {name for name, value in vars(eligibility).items() if inspect.isfunction(value) and name[0] != "_"}
        assert local == set(ELIGIBILITY)
        assert rule_functions(formulation) | local == set(self.names) - WITHOUT_VICTIMS - WITH_VICTIMS

    def test_functions_of_the_model_with_victims(self) -> None:
        more = {"tenant_limit", "victim_right", "lost_progress"}
        assert rule_functions(Joint) - rule_functions(Merged) == more
        assert WITH_VICTIMS - more == {"victim_eligible", "victim_needed"}
        assert callable(victims.victim_eligible)
        assert "Rule 11" in (oracle.needed.__doc__ or "")

    def test_functions_of_the_values(self) -> None:
        assert set(self.numbered[13:]) <= set(vars(assignment))
        assert callable(victims.lost_progress)
        assert callable(gangfit.solver.admission.admit)

    def test_functions_of_the_checker(self) -> None:
        beyond = {"reference", "blocked_reason", "claims"}
        assert {rule.__name__ for rule in checker_rules.RULES} == {"considered_order", *self.numbered[:12], *beyond}
        tiers = {name for name, value in vars(checker_tiers).items() if inspect.isfunction(value) and name[0] != "_"}
        assert set(self.numbered[12:]) <= tiers
