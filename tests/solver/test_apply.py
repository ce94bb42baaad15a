"""The snapshot that a plan leads to, and that solving again at the same instant changes nothing."""

from __future__ import annotations

from typing import Any

import pytest
from hand_made import Json, gang, node, placed, plan, racks, running, snapshot
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from random_rounds import random_round

from gangfit.models import PendingGang, Plan, Snapshot
from gangfit.solver import apply, solve

ROUNDS = st.builds(
    random_round, st.integers(0, 10**9), nodes=st.just(16), gangs=st.just(10), members=st.just(6), crowded=st.booleans()
)


class TestApply:
    round = snapshot(
        racks((8, 8)),
        [gang("a", priority=3, submitted_s=5, preferred="rack"), gang("b", 2)],
        [running("old", {"r0n1": 1})],
        time_s=77,
        tenants=[{"name": "t"}],
        meta={"origin": "hand"},
    )

    def test_placed_gangs_run_from_now(self) -> None:
        after = apply(self.round, solve(self.round))
        old, started = after.running
        assert old == self.round.running[0]
        assert (started.name, started.placement, started.started_s) == ("a", {"r0n0": 1}, 77)
        assert (started.priority, started.submitted_s, started.topology.preferred) == (3, 5, "rack")
        assert [waiting.name for waiting in after.pending] == ["b"]

    def test_the_rest_is_as_it_was(self) -> None:
        after = apply(self.round, solve(self.round))
        for field in set(Snapshot.model_fields) - {"running", "pending"}:
            assert getattr(after, field) == getattr(self.round, field)
        assert after.pending[0] == self.round.pending[1]
        assert len(self.round.running) == 1

    def test_the_result_is_a_snapshot_on_the_wire(self) -> None:
        after = apply(self.round, solve(self.round))
        assert Snapshot.model_validate_json(after.model_dump_json()) == after

    def test_a_plan_that_starts_nothing(self) -> None:
        full = self.round.model_copy(update={"pending": self.round.pending[1:]})
        assert apply(full, plan({})) == full
        with pytest.raises(ValueError, match="can't be applied, admission: gang 'a' waits"):
            apply(self.round, plan({}))

    @pytest.mark.parametrize("name", ["nobody", "old"])
    def test_not_pending(self, name: str) -> None:
        with pytest.raises(ValueError, match=f"places '{name}', which isn't pending"):
            apply(self.round, plan({name: {"r0n0": 1}}))

    def test_placed_twice(self) -> None:
        once = plan({"a": {"r0n0": 1}})
        with pytest.raises(ValueError, match="'a', which isn't pending"):
            apply(self.round, once.model_copy(update={"placements": once.placements * 2}))

    @pytest.mark.parametrize(
        ("on", "message"),
        [
            ({"r0n1": 1}, "gang a takes 8 gpus, 0 are free"),
            ({"r0n0": 2}, "placed with 2 members, it has 1"),
            ({"elsewhere": 1}, "unknown node 'elsewhere'"),
        ],
    )
    def test_what_does_not_fit_is_refused(self, on: dict[str, int], message: str) -> None:
        with pytest.raises(ValueError, match=message):
            apply(self.round, plan({"a": on}))

    def test_hostlists_stay_hostlists(self) -> None:
        round = snapshot([node("n[1-4]", "r")], [gang("a", 2)])
        after = apply(round, solve(round))
        assert after.nodes == round.nodes
        assert set(after.running[0].placement) < {"n1", "n2", "n3", "n4"}

    def test_clamped_nodes_stay_full(self) -> None:
        nodes = [node("full", "r", used={"gpus": 9}), node("n", "r")]
        round = snapshot(nodes, [gang("a"), gang("b")], policy={"overcommit": "clamp"})
        after = apply(round, solve(round))
        assert after.running[0].placement == {"n": 1}
        assert not solve(after).placements


FACTS: Json = {
    "topology": {"preferred": "rack"}, "tolerations": [{"key": "k"}], "selector": {}, "min_runtime_s": 60,
    "grace_s": 30, "restart_s": 9,
}  # fmt: skip


class TestVictims:
    """`new` takes the node of `old`."""

    @staticmethod
    def round(**facts: Any) -> Snapshot:
        old = running("old", {"r0n0": 1}, submitted_s=5, started_s=1_000, **facts)
        return snapshot(racks((8,)), [gang("new", priority=1, submitted_s=50)], [old], time_s=9_000)

    def after(self, **facts: Any) -> Snapshot:
        round = self.round(**facts)
        answer = solve(round)
        assert [p.gang for p in answer.preemptions] == ["old"]
        return apply(round, answer)

    def test_they_wait_again_as_they_were_submitted(self) -> None:
        after = self.after(**FACTS)
        (back,) = after.pending
        assert (back.name, back.submitted_s, back.preempted_s, back.preemptions) == ("old", 5, 9_000, 1)
        (old,) = self.round(**FACTS).running
        for field in set(PendingGang.model_fields) - {"preempted_s", "preemptions", "expected_duration_s"}:
            assert getattr(back, field) == getattr(old, field), field

    def test_the_taker_runs(self) -> None:
        (new,) = self.after().running
        assert (new.name, new.placement, new.started_s, new.submitted_s) == ("new", {"r0n0": 1}, 9_000, 50)

    @pytest.mark.parametrize(
        ("facts", "last", "preemptions"),
        [
            ({"preemptions": 2}, None, 3),
            ({"preemptions": 2, "checkpoint": {}}, None, 3),
            ({"preemptions": 2, "checkpoint": {"last_s": 1_000}}, 1_000, 3),
            ({"preemptions": 2, "checkpoint": {"last_s": 500}}, 500, 3),
            ({"preemptions": 2, "checkpoint": {"last_s": 1_001}}, 1_001, 0),
            ({"preemptions": 2, "checkpoint": {"bytes": 3 * 10**12, "write_gbps": 10.0}}, 9_000, 0),
            ({"preemptions": 2, "checkpoint": {"last_s": 500, "bytes": 3 * 10**12, "write_gbps": 10.0}}, 9_000, 0),
            ({"preemptions": 2, "checkpoint": {"last_s": 500, "bytes": 3 * 10**12 + 1, "write_gbps": 10.0}}, 500, 3),
        ],
    )
    def test_set_back_once_more_unless_it_saved_since_its_start(
        self, facts: Json, last: int | None, preemptions: int
    ) -> None:
        (back,) = self.after(**facts).pending
        assert (back.checkpoint.last_s if back.checkpoint else None) == last
        assert back.preemptions == preemptions

    def test_terminating_gangs_are_gone_where_their_space_is_taken(self) -> None:
        leaving = [running(f"leaving{n}", {f"r0n{n}": 1}, phase="terminating", expected_end_s=9_100) for n in range(2)]
        round = snapshot(racks((8, 8)), [gang("new")], leaving, time_s=9_000)
        answer = solve(round)
        assert [p.starts_after_s for p in answer.placements] == [9_100]
        after = apply(round, answer)
        (node,) = placed(answer)["new"]
        assert [g.name for g in after.running] == [f"leaving{1 - int(node[-1])}", "new"]
        assert not after.pending

    def test_it_may_not_preempt_until_it_has_settled(self) -> None:
        after = self.after()
        lower = after.running[0].model_copy(update={"priority": -1})
        for passed, taken in ((0, []), (599, []), (600, ["new"])):
            later = after.model_copy(update={"running": (lower,), "time_s": after.time_s + passed})
            assert [p.gang for p in solve(later).preemptions] == taken

    @pytest.mark.parametrize(
        ("facts", "left"),
        [
            ({}, None),
            ({"expected_end_s": 9_000}, None),
            ({"expected_end_s": 9_500}, 8_500 + 300),
            ({"expected_end_s": 9_500, "checkpoint": {"last_s": 8_000}}, 1_500 + 300),
            ({"expected_end_s": 9_500, "checkpoint": {"last_s": 500}}, 8_500 + 300),
            ({"expected_end_s": 9_500, "checkpoint": {"bytes": 1, "write_gbps": 1.0}, "restart_s": 0}, 500),
        ],
    )
    def test_what_it_has_not_saved_is_still_to_run(self, facts: Json, left: int | None) -> None:
        """`old` runs since 1,000 and restarts in 300 s."""
        (back,) = self.after(**facts).pending
        assert back.expected_duration_s == left

    def test_what_starts_ends(self) -> None:
        leaving = [running("leaving", {"r0n0": 1}, phase="terminating", expected_end_s=9_100)]
        pending = [gang("now", required="node", expected_duration_s=60), gang("later", expected_duration_s=60)]
        pending += [gang("ever", gpus=0, request={"memory_mib": 1})]
        round = snapshot(racks((8, 8)), pending, leaving, time_s=9_000)
        after = apply(round, solve(round))
        assert sorted((g.expected_end_s or 0) for g in after.running) == [0, 9_060, 9_160]

    def test_the_wire(self) -> None:
        after = self.after(checkpoint={"last_s": 2_000})
        assert Snapshot.model_validate_json(after.model_dump_json()) == after

    def test_nobody_of_that_name_runs(self) -> None:
        round = self.round()
        (given,) = solve(round).preemptions
        for name in ("nobody", "new"):
            wrong = Plan(preemptions=(given.model_copy(update={"gang": name}),))
            with pytest.raises(ValueError, match=f"preempts '{name}', which isn't running"):
                apply(round, wrong)
        with pytest.raises(ValueError, match="preempts 'old', which isn't running"):
            apply(round, Plan(preemptions=(given, given)))

    def test_a_plan_that_needs_the_space_of_victims_it_leaves_out(self) -> None:
        answer = solve(self.round()).model_copy(update={"preemptions": ()})
        with pytest.raises(ValueError, match="node_capacity: node 'r0n0': gang new takes 8 gpus, 0 are free"):
            apply(self.round(), answer)


class TestAgain:
    @settings(max_examples=120, deadline=None)
    @given(round=ROUNDS)
    def test_starts_nothing_more(self, round: Snapshot) -> None:
        first = solve(round)
        assume(first.status == "optimal")
        after = apply(round, first)
        second = solve(after)
        assert not second.placements
        assert [blocked.gang for blocked in second.blocked] == [blocked.gang for blocked in first.blocked]
        assert second.status == "optimal"

    @settings(max_examples=60, deadline=None)
    @given(round=ROUNDS)
    def test_nor_after_greedy_alone(self, round: Snapshot) -> None:
        """What greedy left undecided needs another placement of the others, and they run now."""
        after = apply(round, solve(round, search=False))
        assert not solve(after).placements

    @settings(max_examples=60, deadline=None)
    @given(round=ROUNDS)
    def test_intact_domains_carry_over(self, round: Snapshot) -> None:
        first = solve(round)
        second = solve(apply(round, first))
        assert [intact.before for intact in second.fragmentation] == [intact.after for intact in first.fragmentation]
        assert [tier.value for plan in (first, second) for tier in plan.tiers if tier.name == "uplinks"] == [
            next(tier.value for tier in first.tiers if tier.name == "uplinks")
        ] * 2
