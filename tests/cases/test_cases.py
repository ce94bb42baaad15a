"""Other schedulers' own test cases, replayed: same snapshot, and the outcome that any sound placement has to reach.

`README.md` beside this file says where the cases come from and how each of their fields is written in the wire form.
A case that needs an ability this solver doesn't have yet is a strict expected failure that names the ability.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from pydantic import ValidationError

from gangfit.models import Plan, Snapshot
from gangfit.solver import check, solve

Case = dict[str, Any]

TIME_S = 1_000_000
BUILT = {"packing", "preemption", "reclaim", "protected", "quota", "limits", "fair-share", "tenant-tree", "moves"}
"""Abilities a case can need that the solver has. Every other one makes the case an expected failure."""
REASONS = {
    "capacity": {"capacity"},
    "topology": {"topology"},
    "competing": {"competing"},
    "protected": {"protected"},
    "selector": {"selector", "taint", "gpu_model"},
}
"""Reason of a case → reasons of a plan that say the same."""
MORE_EXACT = {("kai-recg-002", "protected"): "capacity"}
"""(Case, its reason) → ours. That gang wouldn't fit the cluster if every running gang were gone."""


class NotBuiltError(Exception):
    """The case says something that the wire form or the plan has no field for yet."""


def load() -> list[Case]:
    """Every case but the `-policy` ones, whose outcome follows from one peer's own rules."""
    paths = sorted(Path(__file__).parent.glob("*.jsonl"))
    return [
        json.loads(line)
        for path in paths
        if not path.stem.endswith("-policy")
        for line in path.read_text(encoding="utf-8").splitlines()
    ]


def lacking(case: Case) -> set[str]:
    """Abilities that the case needs and the solver doesn't have: as the case itself says, or as its fields show."""
    return (set(case["needs"]) - BUILT) | inexpressible(case)


def inexpressible(case: Case) -> set[str]:
    """Abilities whose fields the case uses and the wire form doesn't have."""
    gangs = case["running"] + case["pending"]
    expect = case["expect"]
    found = {
        "slices": any(gang.get("slices") or gang.get("slice_size") for gang in gangs),
        "roles": any(gang.get("groups") for gang in gangs),
        "elastic": any(gang["min_members"] != gang["members"] for gang in gangs) or "grow" in expect,
        "repair": "repair" in expect,
    }
    return {ability for ability, used in found.items() if used}


def wire(case: Case) -> dict[str, Any]:
    """Wire form of the case; raises NotBuiltError rather than leave out anything that could change the outcome."""
    if missing := inexpressible(case):
        raise NotBuiltError(", ".join(sorted(missing)))
    return {
        "policy": {"moves": {"mode": "allowed" if case["moves_allowed"] else "never"}},
        "time_s": TIME_S,
        "topology": {"levels": [{"name": level} for level in case["levels"][:-1]]},
        "nodes": [
            {
                "name": node["name"],
                "path": node["path"],
                "gpus": node["gpus"],
                "cpu_milli": whole(node["cpu"], 1000),
                "memory_mib": whole(node["mem_gib"], 1024),
                "labels": node["labels"],
                "taints": [{"key": key} for key in node["taints"]],
                "state": "ready" if node["ready"] else "down",
                "used": {"gpus": node["gpu_used"]},
            }
            for node in case["nodes"]
        ],
        "tenants": [
            {
                "name": tenant["name"],
                "weight": tenant["weight"],
                "parent": tenant["parent"],
                "quota": share(tenant["quota"]),
                "limit": share(tenant["limit"]),
            }
            for tenant in case["tenants"]
        ],
        "running": [
            {
                **common(gang),
                "placement": gang["nodes"],
                "started_s": TIME_S - (gang["started_s_ago"] or 0),
                "preemptible": gang["preemptible"],
            }
            for gang in case["running"]
        ],
        "pending": [
            {
                **common(gang),
                "submitted_s": gang["submitted_order"],
                "preemptible": gang["preemptible"],
                "selector": gang["node_selector"] or {},
                "tolerations": [{"key": key} for key in gang.get("tolerations") or []],
            }
            for gang in case["pending"]
        ],
    }


def common(gang: dict[str, Any]) -> dict[str, Any]:
    return {
        "name": gang["name"],
        "tenant": gang["tenant"],
        "priority": gang["priority"],
        "members": gang["members"],
        "request": {
            "gpus": gang["gpus_per_member"],
            "cpu_milli": whole(gang["cpu_per_member"], 1000) or 0,
            "memory_mib": whole(gang.get("mem_per_member"), 1024) or 0,
        },
        "topology": {
            "required": level_name(gang.get("required_level")),
            "preferred": level_name(gang.get("preferred_level")),
        },
    }


def share(amounts: dict[str, float] | None) -> dict[str, int | None] | None:
    """Quota or limit."""
    if not amounts:
        return None
    assert set(amounts) <= {"gpu", "cpu"}
    return {"gpus": amounts.get("gpu"), "cpu_milli": whole(amounts.get("cpu"), 1000)}  # type: ignore[dict-item]  # a float that is whole


def whole(amount: float | None, scale: int) -> int | None:
    if amount is None:
        return None
    scaled = round(amount * scale)
    assert abs(scaled - amount * scale) < 1e-6, f"{amount} × {scale} is not whole"
    return scaled


def level_name(level: str | None) -> str | None:
    return "node" if level == "host" else level


def domains(case: Case, placement: dict[str, int], level: str) -> set[tuple[str, ...]]:
    """Domains of one level that the placement touches; a domain is its whole path."""
    depth = case["levels"].index(level) + 1
    paths = {node["name"]: (*node["path"], node["name"]) for node in case["nodes"]}
    return {paths[node][:depth] for node in placement}


def victims(plan: Plan) -> set[str]:
    """Running gangs that give way."""
    return {preemption.gang for preemption in plan.preemptions}


def relocated(case: Case, plan: Plan) -> int:
    """Members that run on another node than before."""
    before = {gang["name"]: gang["nodes"] for gang in case["running"]}
    return sum(
        max(0, count - before[move.gang].get(node, 0)) for move in plan.moves for node, count in move.nodes().items()
    )


def hold(case: Case, plan: Plan, wanted: dict[str, Any]) -> bool:
    """Whether one machine-readable property of the case holds."""
    placed = {placement.gang: placement.nodes() for placement in plan.placements}
    match wanted["type"]:
        case "within":
            return len(domains(case, placed[wanted["job"]], wanted["level"])) == 1
        case "in_domain":
            path = wanted["path"]
            inside = {node["name"] for node in case["nodes"] if [*node["path"], node["name"]][: len(path)] == path}
            return set(placed[wanted["job"]]) <= inside
        case "domains":
            return len(domains(case, placed[wanted["job"]], wanted["level"])) <= wanted["max"]
        case "not_on":
            return not set(placed[wanted["job"]]) & set(wanted["nodes"])
        case "placed":
            return sum(placed[wanted["job"]].values()) == wanted["exact"]
        case "placed_total":
            return sum(sum(placed[job].values()) for job in wanted["jobs"]) == wanted["exact"]
        case "admitted_count":
            return len(set(wanted["of"]) & set(placed)) == wanted["exact"]
        case "victims":
            return len(victims(plan)) == wanted["exact"]
        case "not_preempted":
            return not victims(plan) & set(wanted["jobs"])
        case "slices":
            raise NotBuiltError("slices")
        case "moves":
            return relocated(case, plan) <= wanted["max"]
        case unknown:
            raise ValueError(f"{case['id']}: unknown check {unknown!r}")


def parameters() -> list[Any]:
    result = []
    for case in load():
        missing = lacking(case)
        mark = pytest.mark.xfail(
            raises=(NotBuiltError, AssertionError), strict=True, reason=f"needs {', '.join(sorted(missing))}"
        )
        result.append(pytest.param(case, id=case["id"], marks=[mark] if missing else []))
    return result


@pytest.mark.parametrize("case", parameters())
def test_case(case: Case) -> None:
    expect = case["expect"]
    request = wire(case)
    if invalid := [gang for gang, why in expect["why"].items() if why == "invalid"]:
        refused(request, invalid)
        return
    snapshot = Snapshot.model_validate(request)
    plan = solve(snapshot)
    assert check(snapshot, plan).ok
    assert {placement.gang for placement in plan.placements} == set(expect["admitted"])
    assert {blocked.gang for blocked in plan.blocked} == set(expect["blocked"])
    for blocked in plan.blocked:
        why = expect["why"][blocked.gang]
        assert blocked.reason in {MORE_EXACT.get((case["id"], why))} | REASONS[why], blocked
    placed = {placement.gang: placement.nodes() for placement in plan.placements}
    listed = expect["placement_any_of"] or ([expect["placement"]] if expect["placement"] else [])
    assert not listed or any(all(placed[gang] == nodes for gang, nodes in one.items()) for one in listed), placed
    sets = expect["preempted_any_of"] or [expect["preempted"]]
    assert any(victims(plan) == set(gangs) for gangs in sets)
    moved = {move.gang: move.nodes() for move in plan.moves}
    minimum = next((wanted["max"] for wanted in expect["checks"] if wanted["type"] == "moves"), 0)
    assert relocated(case, plan) == minimum or moved in [expect["moved"], *expect["moved_any_of"]], moved
    for wanted in expect["checks"]:
        assert hold(case, plan, wanted), wanted


def refused(request: dict[str, Any], gangs: list[str]) -> None:
    """The snapshot is rejected, with a fault at each of the gangs."""
    with pytest.raises(ValidationError) as caught:
        Snapshot.model_validate(request)
    places = [error["loc"][:2] for error in caught.value.errors()]
    for i, gang in enumerate(request["pending"]):
        assert gang["name"] not in gangs or ("pending", i) in places


def test_kinds_to_pass() -> None:
    """What today's solver claims is run for real: no case of these kinds hides behind an ability it doesn't need."""
    claimed = {"feasibility", "all-or-nothing", "required-level", "preferred-level", "best-fit", "min-domains"}
    claimed |= {"competing-gangs", "selectors-taints", "invalid"}
    claimed |= {"preemption", "reclaim", "protected-victims", "fair-share", "quota", "consolidation"}
    hidden = {case["id"]: lacking(case) for case in load() if case["kind"] in claimed and lacking(case)}
    assert hidden == {"kueue-slice-014": {"slices"}, "kai-cons-015": {"elastic"}}
