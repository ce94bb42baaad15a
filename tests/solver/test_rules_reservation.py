"""Rule `reservation`, as in `test_rules.py`: who is promised what, for when, and what starts beside it."""

from __future__ import annotations

from typing import Any

import pytest
from hand_made import Json, gang, node, placed, racks, running, snapshot

from gangfit.models import Plan, Reservation, Snapshot
from gangfit.solver import InvalidPlanError, check, solve
from gangfit.solver.reservation import Calendar

NOW = 10_000


def held(name: str, at: str, ends: int | None = None, gpus: int = 8, **facts: Any) -> Json:
    """A running gang of one member that ends so many seconds from now."""
    return running(name, {at: 1}, gpus, expected_end_s=None if ends is None else NOW + ends, **facts)


def lasting(name: str, seconds: int | None, members: int = 1, gpus: int = 8, **facts: Any) -> Json:
    """A pending gang that runs so long; `after` orders them."""
    return gang(name, members, gpus, expected_duration_s=seconds, submitted_s=facts.pop("after", 0), **facts)


def promises(plan: Plan) -> dict[str, tuple[int, dict[str, int]]]:
    """Gang → seconds from now, nodes."""
    stated: dict[str, Reservation] = {b.gang: b.reservation for b in plan.blocked if b.reservation is not None}
    assert {s.gang: s.reserved_s for s in plan.considered if s.reserved_s} == {g: r.start_s for g, r in stated.items()}
    return {gang: (reservation.start_s - NOW, reservation.nodes) for gang, reservation in stated.items()}


def four(*pending: Json, policy: Json | None = None, **facts: Any) -> Snapshot:
    """The example of the page: n0 free at 100, n1 at 200, n2 and n3 now."""
    nodes = [node(f"n{i}", "r") for i in range(4)]
    ends = [held("a", "n0", 100), held("b", "n1", 200)]
    return snapshot(nodes, list(pending), ends, time_s=NOW, policy=policy or {}, **facts)


BIG = lasting("big", None, 3)
PAGE = (BIG, lasting("x", 150, after=1), lasting("y", 90, after=2), lasting("z", None, after=3))


class TestReservation:
    def test_the_example_of_the_page(self) -> None:
        plan = solve(four(*PAGE))
        assert promises(plan) == {"big": (100, {"n0": 1, "n2": 1, "n3": 1})}
        assert list(placed(plan)) == ["y"]
        assert {b.gang: b.reason for b in plan.blocked} == {"big": "protected", "x": "competing", "z": "competing"}
        assert plan.status == "optimal"
        assert (
            "promised for 10100 on 3 nodes, when these have ended: 'a' (10100), 'y' (10090)" in plan.blocked[0].message
        )

    def test_never(self) -> None:
        plan = solve(four(*PAGE, policy={"reservation": "never"}))
        assert not promises(plan)
        assert list(placed(plan)) == ["x", "y"]

    @pytest.mark.parametrize(("members", "start"), [(3, 100), (4, 200)])
    def test_the_earliest_end_that_makes_room(self, members: int, start: int) -> None:
        plan = solve(four(lasting("big", None, members)))
        assert {gang: at for gang, (at, _) in promises(plan).items()} == {"big": start}
        assert plan.blocked[0].reservation.proof == "bound"  # type: ignore[union-attr]

    def test_gangs_that_start_end_too(self) -> None:
        """`first` takes both free nodes for 150 s: `big` waits for it, not for `b`."""
        plan = solve(four(lasting("first", 150, 2), lasting("big", None, 3, after=1)))
        assert promises(plan) == {"big": (150, {"n0": 1, "n2": 1, "n3": 1})}

    def test_what_ends_at_the_very_instant_leaves_room(self) -> None:
        assert list(placed(solve(four(BIG, lasting("x", 100, after=1))))) == ["x"]
        assert not placed(solve(four(BIG, lasting("x", 101, after=1))))

    def test_space_that_the_head_does_not_need_is_free(self) -> None:
        """Two of four nodes are enough for the head at 100: one stays for a gang without end."""
        wide = [node(f"n{i}", "r") for i in range(4)]
        ends = [held("a", "n0", 100), held("b", "n1", 100), held("c", "n2")]
        plan = solve(snapshot(wide, [lasting("big", None, 2), lasting("z", None, after=1)], ends, time_s=NOW))
        assert {gang: at for gang, (at, _) in promises(plan).items()} == {"big": 100}
        assert placed(plan) == {"z": {"n3": 1}}

    def test_the_promised_nodes_move_for_a_later_gang(self) -> None:
        """`small` may only sit on n2; `big` takes n0 and n1 then, whichever it had before."""
        nodes = [node("n0", "r"), node("n1", "r"), node("n2", "r", labels={"pool": "a"})]
        ends = [held("a", "n0", 100), held("b", "n1", 100)]
        pending = [lasting("big", None, 2), lasting("small", None, after=1, selector={"pool": "a"})]
        plan = solve(snapshot(nodes, pending, ends, time_s=NOW))
        assert promises(plan) == {"big": (100, {"n0": 1, "n1": 1})}
        assert placed(plan) == {"small": {"n2": 1}}

    def test_only_the_first_has_one(self) -> None:
        plan = solve(four(BIG, lasting("next", None, 4, after=1)))
        assert list(promises(plan)) == ["big"]

    @pytest.mark.parametrize(
        "first",
        [lasting("first", None, 5), lasting("first", None, 1, 16), lasting("first", None, selector={"pool": "a"})],
    )
    def test_a_gang_that_has_no_instant_is_passed_over(self, first: Json) -> None:
        assert list(promises(solve(four(first, {**BIG, "submitted_s": 1})))) == ["big"]

    def test_so_are_others_like_it(self) -> None:
        """n1 is held for ever: four members and more have no instant, three have."""
        nodes = [node(f"n{i}", "r") for i in range(4)]
        ends = [held("a", "n0", 100), held("b", "n1")]
        pending = [lasting(f"g{i}", None, members, after=i) for i, members in enumerate((4, 4, 5, 3))]
        plan = solve(snapshot(nodes, pending, ends, time_s=NOW))
        assert list(promises(plan)) == ["g3"]

    def test_whom_nothing_is_known_to_end_for_waits_without(self) -> None:
        plan = solve(snapshot(racks((8,)), [lasting("g", None)], [held("old", "r0n0")], time_s=NOW))
        assert not promises(plan)

    def test_a_gang_that_waits_for_its_limit_has_none(self) -> None:
        tenants = [{"name": "t", "limit": {"gpus": 16}}, {"name": "u"}]
        pending = [{**BIG, "tenant": "t"}, lasting("x", None, after=1, tenant="u")]
        plan = solve(four(*pending, tenants=tenants))
        assert not promises(plan)
        assert list(placed(plan)) == ["x"]

    def test_limits_hold_at_the_instant(self) -> None:
        """`x` fits beside `big`, but both would pass their tenant's limit of 24 GPUs."""
        nodes = [node(f"n{i}", "r") for i in range(6)]
        ends = [held("a", "n0", 100), held("b", "n1"), held("c", "n2")]
        tenants = [{"name": "t", "limit": {"gpus": 32}}, {"name": "u"}]
        for owner, starts in (("t", []), ("u", ["x"])):
            pending = [{**BIG, "members": 4, "tenant": "t"}, lasting("x", None, after=1, tenant=owner)]
            ends[1:] = [held("b", "n1", 100, tenant="u"), held("c", "n2", tenant="u")]
            plan = solve(snapshot(nodes, pending, ends, time_s=NOW, tenants=tenants, policy={"order": "priority"}))
            assert list(promises(plan)) == ["big"]
            assert list(placed(plan)) == starts

    def test_an_end_that_is_over_is_unknown(self) -> None:
        old = held("old", "r0n0", 0)
        plan = solve(snapshot(racks((8, 8)), [lasting("g", None, 2)], [old], time_s=NOW))
        assert not promises(plan)
        assert plan.warnings == (
            "gang 'old': expected_end_s 10000 isn't after time_s 10000; when it ends is taken as unknown",
        )

    @pytest.mark.parametrize(
        ("other", "starts"),
        [
            (running("old", {"n4": 1}, phase="terminating", grace_s=11), False),
            (running("old", {"n4": 1}, phase="terminating", grace_s=10), True),
            (running("old", {"n4": 1}, phase="terminating", expected_end_s=NOW + 11), False),
            (running("old", {"n4": 1}, priority=-1, grace_s=11), False),
            (running("old", {"n4": 1}, priority=-1, grace_s=10), True),
            (running("old", {"n4": 1}, priority=0, grace_s=11), True),
            (running("old", {"n4": 1}, priority=-1, grace_s=11, preemptible=False), True),
            (running("old", {"n4": 1}, priority=0, grace_s=11, tenant="u"), False),
        ],
    )
    def test_a_start_may_have_to_wait(self, other: Json, starts: bool) -> None:
        """`y` runs for 90 s, `big` starts at 100: if `y` might wait for 11 s, it doesn't start. n4 is small."""
        nodes = [*(node(f"n{i}", "r") for i in range(4)), node("n4", "r")]
        nodes[4]["state"] = "cordoned"
        ends = [held("a", "n0", 100), held("b", "n1", 200), other]
        pending = [BIG, lasting("y", 90, after=1)]
        tenants = [{"name": "default", "quota": {"gpus": 64}}, {"name": "u", "quota": {"gpus": 64}}]
        plan = solve(snapshot(nodes, pending, ends, time_s=NOW, tenants=tenants))
        assert {gang: at for gang, (at, _) in promises(plan).items()} == {"big": 100}
        assert bool(placed(plan)) is starts

    def test_the_required_level_holds_for_the_promise(self) -> None:
        """One node of each rack is free at 100, two of rack r1 at 200."""
        nodes = [node("a0", "r0"), node("a1", "r0"), node("b0", "r1"), node("b1", "r1")]
        ends = [held("p", "a0", 100), held("q", "a1"), held("s", "b0", 100), held("t", "b1", 200)]
        plan = solve(snapshot(nodes, [lasting("g", None, 2, required="rack")], ends, time_s=NOW))
        assert promises(plan) == {"g": (200, {"b0": 1, "b1": 1})}

    def test_it_sits_well(self) -> None:
        """At 100 one node of r0 is free and two of r1: it gets r1, and what it gets there is no longer intact."""
        nodes = [node("a0", "r0"), node("b0", "r1"), node("b1", "r1")]
        ends = [held("o", "a0", 100), held("p", "b0", 100)]
        plan = solve(snapshot(nodes, [lasting("g", None, 2)], ends, time_s=NOW))
        assert promises(plan) == {"g": (100, {"b0": 1, "b1": 1})}
        assert {tier.name: tier.value for tier in plan.tiers} == {
            "admission": 0, "broken": 0, "preferred": 0, "distance": 1, "uplinks": 0, "intact.rack": 0,
            "intact.node": 1,
        }  # fmt: skip
        assert [(level.before, level.after) for level in plan.fragmentation] == [(0, 0), (1, 1)]

    def test_victims_are_chosen_that_leave_it_room(self) -> None:
        """`high` would take `b`, which loses less; but on n1, free at 1,000, sits the promise of `big`, which may not
        preempt yet."""
        nodes = [node("n0", "r"), node("n1", "r")]
        ends = [
            held("a", "n0", priority=-1, started_s=5_000),
            held("b", "n1", 1_000, priority=-1, started_s=9_000),
        ]
        high = lasting("high", None, after=1)
        plan = solve(snapshot(nodes, [high], ends, time_s=NOW))
        assert [p.gang for p in plan.preemptions] == ["b"]
        plan = solve(snapshot(nodes, [lasting("big", None, priority=1, preempted_s=NOW), high], ends, time_s=NOW))
        assert promises(plan) == {"big": (1_000, {"n1": 1})}
        assert [p.gang for p in plan.preemptions] == ["a"]

    def test_an_empty_policy_acts_only_where_ends_are_known(self) -> None:
        unknown = [held("a", "n0"), held("b", "n1")]
        nodes = [node(f"n{i}", "r") for i in range(4)]
        pending = [{**each, "expected_duration_s": None} for each in PAGE]
        plan = solve(snapshot(nodes, pending, unknown, time_s=NOW))
        never = solve(snapshot(nodes, pending, unknown, time_s=NOW, policy={"reservation": "never"}))
        assert plan == never

    @pytest.mark.parametrize("forgotten", ["head", "ends"])
    def test_the_model_has_it(self, monkeypatch: pytest.MonkeyPatch, forgotten: str) -> None:
        """Without the head's column, or with ends that nobody keeps, the checker refuses the plan."""
        if forgotten == "head":
            at = Calendar.at

            def without(self: Calendar, instant: int, head: int) -> Any:
                round = at(self, instant, head)
                round.request[[j for j in range(len(round.gangs)) if j != head], round.request.shape[1] // 2 :] = 0
                return round

            monkeypatch.setattr(Calendar, "at", without)
        else:
            monkeypatch.setattr("gangfit.solver.reservation.known_end_s", lambda *_: NOW + 50)
        with pytest.raises(InvalidPlanError, match="promised for"):
            solve(four(*PAGE))

    def test_a_plan_of_ones_own_needs_none(self) -> None:
        round = four(*PAGE)
        bare = Plan.model_validate({"placements": [{"gang": "x", "roles": {"members": {"n2": 1}}}]})
        assert {violation.rule for violation in check(round, bare).violations} == {"admission"}  # n3 is left
