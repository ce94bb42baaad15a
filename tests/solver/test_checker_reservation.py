"""The checker on a plan with a reservation, damaged one thing at a time."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from hand_made import Json, gang, node, running

from gangfit.models import Plan, Snapshot
from gangfit.solver import check, solve

NOW = 10_000

ROUND: Json = {
    "time_s": NOW,
    "topology": {"levels": [{"name": "rack"}]},
    "nodes": [
        node("n0", "r0"),
        node("n1", "r0"),
        node("n2", "r0"),
        node("n3", "r0"),
        node("odd", "r1", labels={"kind": "odd"}),
        node("off", "r0", state="cordoned"),
        node("taint", "r0", taints=[{"key": "keep"}]),
        node("model", "r0", gpu_model="other"),
        node("lost", None),
    ],
    "tenants": [{"name": "t", "limit": {"gpus": 200}}],
    "running": [
        running("a", {"n0": 1}, tenant="t", expected_end_s=NOW + 100, preemptible=False),
        running("b", {"n1": 1}, tenant="t", expected_end_s=NOW + 200, preemptible=False),
        running("c", {"odd": 1}, tenant="t", preemptible=False),
    ],
    "pending": [
        gang("big", 3, tenant="t", required="rack", gpu_model="H", selector={"pool": "p"}),
        gang("x", 1, tenant="t", submitted_s=1, expected_duration_s=101, gpu_model="H", required="rack"),
        gang("y", 1, tenant="t", submitted_s=2, expected_duration_s=100, gpu_model="H", required="rack"),
        gang("blind", 1, 9, tenant="t", submitted_s=3),
    ],
    "policy": {"deterministic": True, "workers": 1},
}
"""`big` fits on n0, n2, n3 at 100; `y` fills n2 or n3 until then, `x` would stay too long."""
for _entry in ROUND["nodes"]:
    _entry.setdefault("gpu_model", "H")
    _entry["labels"] = {"pool": "p", **_entry.get("labels", {})} if _entry["name"] != "odd" else {"pool": "q"}


@pytest.fixture(scope="module")
def answer() -> Json:
    plan = solve(Snapshot.model_validate(ROUND)).model_dump(by_alias=True)
    assert plan["blocked"][0]["reservation"] == {
        "start_s": NOW + 100,
        "nodes": {"n0": 1, "n2": 1, "n3": 1},
        "proof": "bound",
    }
    assert [placement["gang"] for placement in plan["placements"]] == ["y"]
    return plan


def broken(data: Json, plan: Json) -> set[str]:
    return {v.rule for v in check(Snapshot.model_validate(data), Plan.model_validate(plan)).violations}


def messages(data: Json, plan: Json) -> str:
    report = check(Snapshot.model_validate(data), Plan.model_validate(plan))
    return " | ".join(v.message for v in report.violations if v.rule == "reservation")


def promised(plan: Json, **fields: Any) -> Json:
    """The plan with another reservation; figures of tiers aside."""
    changed = copy.deepcopy(plan)
    changed["blocked"][0]["reservation"].update(fields)
    if "start_s" in fields:
        changed["considered"][0]["reserved_s"] = fields["start_s"]
    changed["tiers"], changed["status"] = [], "feasible"
    return changed


def test_the_plan_is_sound(answer: Json) -> None:
    assert not broken(ROUND, answer)
    assert not broken(ROUND, promised(answer))


@pytest.mark.parametrize(
    ("nodes", "message"),
    [
        ({"n0": 1, "n2": 1}, "2 members are placed, it has 3"),
        ({"n0": 2, "n2": 1, "n3": 1}, "4 members are placed, it has 3"),
        ({"n0": 1, "n1": 1, "n2": 1}, "on node 'n1' 8 gpus are taken, 0 are free"),
        ({"n0": 2, "n2": 1}, "on node 'n0' 16 gpus are taken, 8 are free"),
        ({"n0": 1, "n2": 1, "nowhere": 1}, "node 'nowhere' is unknown"),
        ({"n0": 1, "n2": 1, "off": 1}, "node 'off' is none that it may use"),
        ({"n0": 1, "n2": 1, "taint": 1}, "node 'taint' is none that it may use"),
        ({"n0": 1, "n2": 1, "model": 1}, "node 'model' is none that it may use"),
        ({"n0": 1, "n2": 1, "odd": 1}, "node 'odd' is none that it may use"),
        ({"n0": 1, "n2": 1, "lost": 1}, "its nodes aren't in one known domain of level 'rack'"),
    ],
)
def test_nodes(answer: Json, nodes: dict[str, int], message: str) -> None:
    changed = promised(answer, nodes=nodes)
    assert "reservation" in broken(ROUND, changed)
    assert message in messages(ROUND, changed)


@pytest.mark.parametrize(
    ("start", "message"),
    [
        (NOW, "that isn't after time_s 10000"),
        (NOW + 99, "nothing is known to end then"),
        (NOW + 99, "on node 'n0' 16 gpus are taken, 8 are free"),
        (NOW + 150, "nothing is known to end then"),
    ],
)
def test_instants(answer: Json, start: int, message: str) -> None:
    data = copy.deepcopy(ROUND)
    if "16" in message:
        data["running"][0]["expected_end_s"] = NOW + 100
        message = message.replace("16 gpus are taken, 8", "8 gpus are taken, 0")
    assert message in messages(data, promised(answer, start_s=start))


def test_a_later_instant_is_not_refused(answer: Json) -> None:
    """That it is the earliest is the solver's claim; brute force tests it. But `x` would be gone by then."""
    assert broken(ROUND, promised(answer, start_s=NOW + 200)) == {"admission"}
    data = copy.deepcopy(ROUND)
    data["pending"][1]["expected_duration_s"] = 201
    assert not broken(data, promised(answer, start_s=NOW + 200))


def test_a_gang_that_stays_too_long(answer: Json) -> None:
    """`x` in place of `y`, on a node of the promise."""
    changed = promised(answer)
    changed["placements"][0]["gang"] = "x"
    node = next(iter(changed["placements"][0]["roles"]["members"]))
    changed["blocked"][1]["gang"] = "y"
    assert f"on node {node!r} 16 gpus are taken, 8 are free" in messages(ROUND, changed)


def test_what_starts_longer_than_it_may(answer: Json) -> None:
    data = copy.deepcopy(ROUND)
    data["pending"][2]["expected_duration_s"] = 101
    assert "16 gpus are taken, 8 are free" in messages(data, promised(answer))
    data["pending"][2]["expected_duration_s"] = None
    assert "16 gpus are taken, 8 are free" in messages(data, promised(answer))


@pytest.mark.parametrize("end", [NOW + 101, NOW, None])
def test_a_running_gang_ends_later(answer: Json, end: int | None) -> None:
    data = copy.deepcopy(ROUND)
    data["running"][0]["expected_end_s"] = end
    assert "on node 'n0' 8 gpus are taken, 0 are free" in messages(data, promised(answer, start_s=NOW + 100))


def test_a_start_that_may_have_to_wait(answer: Json) -> None:
    data = copy.deepcopy(ROUND)
    data["running"].append(running("gone", {"lost": 1}, tenant="t", phase="terminating", expected_end_s=NOW + 1))
    assert "16 gpus are taken, 8 are free" in messages(data, promised(answer))


def test_the_limit_at_the_instant(answer: Json) -> None:
    """At 100 the tenant holds `b`, `c` and `big`: 40 GPUs; now, with `y`, 32."""
    data = copy.deepcopy(ROUND)
    for limit, faults in ((40, ""), (39, "tenant 't' holds 40 gpus of 39")):
        data["tenants"][0]["limit"]["gpus"] = limit
        assert faults in messages(data, promised(answer))
        assert bool(messages(data, promised(answer))) is bool(faults)


def test_only_one(answer: Json) -> None:
    changed = promised(answer)
    changed["blocked"][1]["reservation"] = changed["blocked"][0]["reservation"]
    assert "gang 'x' has a reservation beside 'big', one is allowed" in messages(ROUND, changed)


def test_none_where_the_policy_says_never(answer: Json) -> None:
    data = copy.deepcopy(ROUND)
    data["policy"]["reservation"] = "never"
    assert "policy.reservation is 'never'" in messages(data, answer)


def test_considered_says_it(answer: Json) -> None:
    changed = copy.deepcopy(answer)
    changed["considered"][0]["reserved_s"] = None
    assert messages(ROUND, changed) == "considered: gang 'big' has reserved_s None, its reservation is for 10100"
    changed = copy.deepcopy(answer)
    changed["considered"][1]["reserved_s"] = NOW
    assert messages(ROUND, changed) == "considered: gang 'x' has reserved_s 10000, its reservation is for None"


def test_a_gang_that_would_not_hinder_starts(answer: Json) -> None:
    """Without the promise there is room for `x` on n2 or n3: then it has to start."""
    changed = promised(answer)
    changed["blocked"][0]["reservation"] = None
    changed["considered"][0]["reserved_s"] = None
    assert broken(ROUND, changed) == {"admission"}
    data = copy.deepcopy(ROUND)
    data["pending"][1]["expected_duration_s"] = 100
    assert broken(data, promised(answer)) == {"admission"}


def test_the_tiers_count_it(answer: Json) -> None:
    for tier in answer["tiers"]:
        if tier["name"] in ("distance", "intact.node"):
            changed = copy.deepcopy(answer)
            stated = next(other for other in changed["tiers"] if other["name"] == tier["name"])
            stated["value"] = stated["bound"] = 0
            assert tier["value"] > 0
            assert broken(ROUND, changed) == {"claims"}


def test_optimal_only_if_proven(answer: Json) -> None:
    changed = copy.deepcopy(answer)
    changed["blocked"][0]["reservation"]["proof"] = None
    assert broken(ROUND, changed) == {"claims"}
    changed["status"] = "feasible"
    assert not broken(ROUND, changed)
