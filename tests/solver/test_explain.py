"""Why a gang waits, in words with their figures; `explain` for plans of any origin."""

from __future__ import annotations

from typing import Any

import pytest
from hand_made import gang, plan, racks, running, snapshot
from random_rounds import contested_round

from gangfit.models import Blocked, Snapshot
from gangfit.solver import explain, solve

NOW = 10_000


def waiting(snapshot: Snapshot) -> Blocked:
    """The one gang that waits."""
    (blocked,) = solve(snapshot).blocked
    return blocked


class TestLimit:
    def test_names_tenant_and_figures(self) -> None:
        tenants = [{"name": "top", "limit": {"gpus": 20}}, {"name": "t", "parent": "top", "limit": {"gpus": 24}}]
        old = [running("old", {"r0n0": 1}, tenant="t")]
        round = snapshot(racks((8, 8, 8)), [gang("g", 2, tenant="t")], old, tenants=tenants)
        blocked = waiting(round)
        assert blocked.reason == "limit"
        assert blocked.message == "2 members of 8 gpus would take tenant 'top' from 8 to 24 gpus, its limit is 20"


class TestProtected:
    @staticmethod
    def round(*facts: dict[str, Any], **own: Any) -> Snapshot:
        """Each running gang fills a node of its own; one gang waits for a node."""
        old = [
            running(f"old{i}", {f"r0n{i}": 1}, **{"started_s": 0, "tenant": "t", **fact})
            for i, fact in enumerate(facts)
        ]
        waits = gang("g", **{"priority": 5, "tenant": "t", **own})
        tenants = [{"name": "t"}, {"name": "u"}]
        return snapshot(racks((8,) * len(facts)), [waits], old, time_s=NOW, tenants=tenants)

    @pytest.mark.parametrize(
        ("facts", "why", "retry"),
        [
            ({"preemptible": False}, "1 not preemptible", None),
            ({"started_s": NOW - 5, "min_runtime_s": 60}, "1 younger than its minimum run", NOW + 55),
            ({"started_s": NOW - 5, "preemptions": 3}, "1 guarded after preemptions", NOW + 3_595),
            ({"priority": 5}, "1 of no lower priority", None),
            ({"tenant": "u"}, "1 not to be reclaimed (quotas)", None),
        ],
    )
    def test_says_what_protects_them(self, facts: dict[str, Any], why: str, retry: int | None) -> None:
        blocked = waiting(self.round(facts))
        assert (blocked.reason, blocked.retry_at_s) == ("protected", retry)
        assert blocked.message.endswith(f"that it may not preempt: {why}")

    def test_counts_them(self) -> None:
        blocked = waiting(self.round({"preemptible": False}, {"priority": 7}, {"preemptible": False}))
        assert blocked.message.endswith("2 not preemptible, 1 of no lower priority")

    def test_a_gang_that_settles_itself(self) -> None:
        """Until it has, it may not preempt: that is when to ask again, or when age no longer protects the other."""
        blocked = waiting(self.round({}, preempted_s=NOW - 100))
        assert (blocked.reason, blocked.retry_at_s) == ("protected", NOW + 500)
        assert blocked.message.endswith("it was preempted itself and may not preempt for 500 s more")
        young = self.round({"started_s": NOW - 5, "min_runtime_s": 2_000}, preempted_s=NOW - 100)
        assert waiting(young).retry_at_s == NOW + 1_995


class TestExplain:
    def test_any_plan(self) -> None:
        round = snapshot(racks((8, 8)), [gang("a"), gang("b", 3), gang("c", 2)])
        found = explain(round, plan({"a": {"r0n0": 1}}))
        assert [(blocked.gang, blocked.reason) for blocked in found] == [("b", "capacity"), ("c", "competing")]

    def test_as_the_plan_itself(self) -> None:
        for seed in range(80):
            round = contested_round(seed)
            round = round.model_copy(update={"policy": round.policy.model_copy(update={"reservation": "never"})})
            answer = solve(round)
            assert sorted(explain(round, answer), key=lambda b: b.gang) == sorted(answer.blocked, key=lambda b: b.gang)
