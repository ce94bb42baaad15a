"""Rules of tenants, a test class each, as in `test_rules.py`: who is next, and their limits."""

from __future__ import annotations

from fractions import Fraction
from typing import ClassVar

import pytest
from formulations import plain_answer
from hand_made import Json, broken_rules, gang, node, placed, racks, rules_broken_by, running, snapshot

from gangfit.models import Snapshot
from gangfit.solver import InvalidPlanError, solve, tenants
from gangfit.solver.joint import Joint


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
        answer = solve(round)
        assert [step.gang for step in answer.considered] == ["y", "x"]
        first, second = answer.considered
        assert (first.share, first.above) == (0.0, ())
        assert (second.share, [(turn.tenant, turn.share) for turn in second.above]) == (0.0, [("a", 8 / 24)])
        for above in ({"share": 0.5}, {"group": "surplus"}, {"tenant": "b"}):
            entry = second.model_copy(update={"above": (second.above[0].model_copy(update=above),)})
            assert "considered_order" in rules_broken_by(
                round, answer.model_copy(update={"considered": (first, entry)})
            )
        for left_out in (answer.considered[0], second.model_copy(update={"above": ()})):
            own = answer.model_copy(update={"considered": (first, left_out)})
            assert ("considered_order" in rules_broken_by(round, own)) == (left_out is first)

    def test_the_weighted_share_is_stated(self) -> None:
        answer = solve(self.KEYS["weighted share"][0])
        assert [step.share for step in answer.considered] == [16 / 40 / 3, 8 / 40]

    @pytest.mark.parametrize("key", ["class", "weight 0", "weighted share"])
    def test_the_model_has_it(self, monkeypatch: pytest.MonkeyPatch, key: str) -> None:
        """By priority, submission and name alone another gang is next, and the checker won't have it."""
        monkeypatch.setattr(tenants.Order, "_class", lambda *_: 0)
        monkeypatch.setattr(tenants.Tenants, "dominant_of", lambda *_: (-1, Fraction(0)))
        monkeypatch.setattr(tenants.Order, "_key", lambda order, tenant, gang: (0, 0, 0, 0, gang))
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
