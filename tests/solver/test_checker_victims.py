"""The independent checker on a plan with tenants and victims, damaged."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from stated_plans import Damage, Json, Placements, bare, entry, full_plan, run


def _held(name: str, tenant: str, on_nodes: dict[str, int], **more: Any) -> Json:
    facts = {"request": {"gpus": 8}, "members": sum(on_nodes.values()), "placement": on_nodes, "started_s": 1_000}
    return {"name": name, "tenant": tenant, **facts, **more}


def _asks(name: str, tenant: str, members: int = 1, **more: Any) -> Json:
    return {"name": name, "tenant": tenant, "members": members, "request": {"gpus": 8}, **more}


COURT: Json = {
    "time_s": 10_000,
    "topology": {"levels": [{"name": "rack"}]},
    "nodes": [
        *({"name": f"n{i}", "path": [f"r{(i + 1) // 2}"], "gpus": 8, "cpu_milli": 10_000} for i in range(1, 7)),
        {"name": "n7", "path": ["r4"], "gpus": 8, "cpu_milli": 10_000, "taints": [{"key": "keep"}]},
        {"name": "n8", "path": ["r4"], "gpus": 8, "cpu_milli": 10_000, "state": "cordoned"},
    ],
    "tenants": [
        {"name": "a", "quota": {"gpus": 16}, "limit": {"gpus": 40}},
        {"name": "a1", "parent": "a", "quota": {"gpus": 8}, "limit": {"gpus": 12}},
        {"name": "a2", "parent": "a", "quota": {"gpus": 8}},
        {"name": "b", "quota": {"gpus": 24}, "weight": 2},
        {"name": "c"},
    ],
    "running": [
        _held("hog", "c", {"n1": 1, "n3": 1}, priority=5, checkpoint={"last_s": 9_000}),
        _held("mule", "a1", {"n2": 1}, priority=1, checkpoint={"bytes": 599 * 10**9, "write_gbps": 2.0}),
        _held("gone", "c", {"n4": 1}, phase="terminating", expected_end_s=10_100),
        _held("rock", "c", {"n5": 1}, preemptible=False),
        _held("young", "c", {"n6": 1}, min_runtime_s=10_000),
        _held("idle", "c", {"n1": 1, "n5": 1}, request={"cpu_milli": 1_000}),
    ],
    "pending": [
        _asks("boss", "a1", priority=9, topology={"required": "node"}),
        _asks("capped", "a1", priority=2),
        _asks("late", "a2", submitted_s=10),
        _asks("comp", "a2", submitted_s=20),
        _asks("take", "b", 2),
        _asks("prot", "b", 5, submitted_s=20),
        _asks("keen", "b", submitted_s=10, tolerations=[{"key": "keep"}]),
    ],
}
COURT_PLACEMENTS: Placements = {
    "take": {"n1": 1, "n3": 1},
    "boss": {"n2": 1},
    "late": {"n4": 1},
    "keen": {"n7": 1},
}
COURT_REASONS = {"capped": "limit", "comp": "competing", "prot": "protected"}
COURT_LOST = {"hog": 16 * (1_000 + 300), "mule": 8 * 300}
COURT_TIERS = {
    "admission": 4, "lost.p5": 20_800, "lost.p1": 2_400, "broken": 2, "preferred": 0, "distance": 5, "uplinks": 1,
    "intact.rack": 1, "intact.node": 1,
}  # fmt: skip


def _gives_way(victim: str, taker: str, reason: str, lost: int, saved: int | None, resume: int | None) -> Json:
    drain = {"stop_s": 10_000, "saved_by_s": saved, "kill_s": 10_300, "resume_from_s": resume, "lost_gpu_s": lost}
    return {"gang": victim, "for": taker, "reason": reason, "drain": drain}


def court_plan(data: Json = COURT, placements: Placements = COURT_PLACEMENTS, *more: Json) -> Json:
    """Two victims and `more`; all figures are right, whatever the placements."""
    reasons = dict(COURT_REASONS)
    reasons |= {name: "competing" for name in COURT_PLACEMENTS if name not in placements}
    lost = COURT_LOST | {entry["gang"]: entry["drain"]["lost_gpu_s"] for entry in more}
    plan = full_plan(data, placements, reasons, {}, lost)
    plan["preemptions"] = [
        _gives_way("hog", "take", "reclaim", 20_800, None, 9_000),
        _gives_way("mule", "boss", "own", 2_400, 10_300, 10_000),
        *more,
    ]
    for name, instant in {"take": 10_300, "boss": 10_300, "late": 10_100}.items():
        if name in placements:
            entry(plan["placements"], name)["starts_after_s"] = instant
    plan["fairness"] = [
        {"tenant": "a", "dominant_resource": "gpus", "share_before": 8 / 64, "share_after": 16 / 64},
        {"tenant": "a1", "dominant_resource": "gpus", "share_before": 8 / 64, "share_after": 8 / 64},
        {"tenant": "a2", "dominant_resource": "gpus", "share_before": 0.0, "share_after": 8 / 64},
        {"tenant": "b", "dominant_resource": "gpus", "share_before": 0.0, "share_after": 24 / 64},
        {"tenant": "c", "dominant_resource": "gpus", "share_before": 32 / 64, "share_after": 16 / 64},
    ]
    entry(plan["blocked"], "prot")["retry_at_s"] = 11_000
    return plan


COURT_DAMAGES: list[tuple[str, str, Damage]] = []


def court(name: str, rules: str, **where: Any) -> None:
    """A damage of the court: `path`/`value` set a field of the plan, `asked`/`fields` change the snapshot."""

    def change(data: Json, plan: Json) -> None:
        if "path" in where:
            target: Any = plan
            for step in where["path"][:-1]:
                target = entry(target, step) if isinstance(target, list) else target[step]
            target[where["path"][-1]] = where["value"]
        else:
            kind, gang = where["asked"]
            entry(data[kind], gang).update(where["fields"])

    COURT_DAMAGES.append((name, rules, change))


def court_damage(name: str, rules: str) -> Callable[[Damage], Damage]:
    def register(change: Damage) -> Damage:
        COURT_DAMAGES.append((name, rules, change))
        return change

    return register


def rebuild(data: Json, plan: Json, *args: Any) -> None:
    """The plan again, figures right for changed data, placements or victims."""
    plan.clear()
    plan.update(court_plan(data, *args))


# rule 8
court("limit of a leaf", "tenant_limit", asked=("tenants", "a1"), fields={"limit": {"gpus": 7}})
court("limit of a parent", "tenant_limit blocked_reason claims", asked=("tenants", "a"), fields={"limit": {"gpus": 15}})
court("limit of nothing", "tenant_limit", asked=("tenants", "b"), fields={"limit": {"gpus": 0}})
# rule 9
court("victim not preemptible", "victim_eligible", asked=("running", "hog"), fields={"preemptible": False})
court("victim too young", "victim_eligible", asked=("running", "hog"), fields={"min_runtime_s": 9_001})
court("victim guarded", "victim_eligible", asked=("running", "hog"), fields={
    "preemptions": 3, "checkpoint": {"last_s": 9_000, "interval_s": 9_001}})  # fmt: skip
court("victim guarded by its minimum run", "victim_eligible", asked=("running", "mule"), fields={
    "preemptions": 4, "min_runtime_s": 9_001})  # fmt: skip


@court_damage("victim twice", "victim_eligible")
def _victim_twice(_, plan):
    plan["preemptions"].append(plan["preemptions"][0])


@court_damage("victim terminating", "victim_eligible victim_needed claims")
def _victim_terminating(_, plan):
    plan["preemptions"].append(_gives_way("gone", "late", "reclaim", 0, None, None))


# rule 10
court("taker has just been preempted", "victim_right", asked=("pending", "take"), fields={"preempted_s": 9_401})
court("taker beyond its quota", "victim_right considered_order", asked=("tenants", "b"), fields={"quota": {"gpus": 15}})
court("victim's tenant within quota", "victim_right", asked=("tenants", "c"), fields={"quota": {"gpus": 32}})
court("victim's tenant above quota in something else", "victim_right", asked=("tenants", "c"), fields={
    "quota": {"cpu_milli": 0}})  # fmt: skip
court("own gang of equal priority", "victim_right claims", asked=("running", "mule"), fields={"priority": 9})
court("reclaim called priority", "victim_right", path=("preemptions", "hog", "reason"), value="priority")
court("reclaim called own", "victim_right", path=("preemptions", "hog", "reason"), value="own")
court("own called reclaim", "victim_right", path=("preemptions", "mule", "reason"), value="reclaim")
court("for a gang that waits", "victim_right", path=("preemptions", "mule", "for"), value="comp")
court("for a gang of another tenant", "victim_right", path=("preemptions", "mule", "for"), value="keen")
court("for an unknown gang", "reference", path=("preemptions", "mule", "for"), value="ghost")
court("for a running gang", "reference", path=("preemptions", "mule", "for"), value="rock")


@court_damage("reclaim is off", "victim_right")
def _no_reclaim(data, _):
    data["policy"] = {"preemption": {"across": "never"}}


@court_damage("priorities across tenants instead", "victim_right")
def _across_priority(data, _):
    data["policy"] = {"preemption": {"across": "priority"}}


@court_damage("own gangs may not be taken", "victim_right")
def _no_own(data, _):
    data["policy"] = {"preemption": {"within": "never"}}


# rule 11
@court_damage("victim without need", "victim_needed claims")
def _needless(data, plan):
    rebuild(data, plan, COURT_PLACEMENTS, _gives_way("idle", "take", "reclaim", 2 * 9_300, None, None))


@court_damage("victim whose node nobody takes", "victim_needed admission victim_eligible claims")
def _nobody_there(data, plan):
    rebuild(data, plan, COURT_PLACEMENTS, _gives_way("young", "take", "reclaim", 8 * 9_300, None, None))


# order and admission
court("group wrong", "considered_order", path=("considered", "late", "group"), value="surplus")
court("share off by a millionth", "considered_order", path=("considered", "late", "share"), value=0.000001)
court("order by priority asked", "considered_order", asked=("pending", "capped"), fields={"priority": 10})
court("weight tips the order", "considered_order", asked=("tenants", "b"), fields={"weight": 1})
court("quota tips the order", "considered_order", asked=("tenants", "a2"), fields={"quota": {"gpus": 0}})


@court_damage("room of a terminating gang left", "admission claims")
def _left_terminating(data, plan):
    rebuild(data, plan, {name: on for name, on in COURT_PLACEMENTS.items() if name != "late"})


@court_damage("room of a victim left", "admission victim_needed victim_right blocked_reason claims")
def _left_by_victim(data, plan):
    rebuild(data, plan, {name: on for name, on in COURT_PLACEMENTS.items() if name != "boss"})


# claims
for _name in COURT_TIERS:
    court(f"court: value of {_name}", "claims", path=("tiers", _name, "value"), value=99_999)
for _name in ("lost.p5", "lost.p1", "broken"):
    court(f"court: bound of {_name}", "claims", path=("tiers", _name, "bound"), value=99_999)
for _field in ("stop_s", "saved_by_s", "kill_s", "resume_from_s", "lost_gpu_s"):
    court(f"drain: {_field} wrong", "claims", path=("preemptions", "mule", "drain", _field), value=10_001)
court(
    "drain: saved although nothing is known", "claims", path=("preemptions", "hog", "drain", "saved_by_s"), value=10_200
)
court("checkpoint doesn't fit the grace window", "claims", asked=("running", "mule"), fields={
    "checkpoint": {"bytes": 601 * 10**9, "write_gbps": 2.0}})  # fmt: skip
court("checkpoint earlier than said", "claims", asked=("running", "hog"), fields={"checkpoint": {"last_s": 8_000}})
court("restart costs more", "claims", asked=("running", "mule"), fields={"restart_s": 301})
court("starts at once, but waits for a victim", "claims", path=("placements", "take", "starts_after_s"), value=None)
court("waits for a victim too short", "claims", path=("placements", "take", "starts_after_s"), value=10_100)
court("waits for a terminating gang too long", "claims", path=("placements", "late", "starts_after_s"), value=10_300)
court("waits for nobody", "claims", path=("placements", "keen", "starts_after_s"), value=10_300)
court("terminating gang ends later", "claims", asked=("running", "gone"), fields={"expected_end_s": 10_101})
court("terminating gang ends by its grace", "claims", asked=("running", "gone"), fields={"expected_end_s": None})
court("fairness: dominant resource", "claims", path=("fairness", "b", "dominant_resource"), value="cpu_milli")
court("fairness: share before", "claims", path=("fairness", "c", "share_before"), value=0.625)
court("fairness: share after", "claims", path=("fairness", "c", "share_after"), value=0.5)
court("fairness: unknown tenant", "reference claims", path=("fairness", "c", "tenant"), value="z")
court("victim unknown", "reference node_capacity claims", path=("preemptions", "hog", "gang"), value="ghost")


def court_cut(name: str, rules: str, where: str, which: str) -> None:
    COURT_DAMAGES.append((name, rules, lambda _, plan: plan[where].remove(entry(plan[where], which))))


court_cut("lost tier missing", "claims", "tiers", "lost.p1")
court_cut("broken missing", "claims", "tiers", "broken")
court_cut("fairness of a tenant missing", "claims", "fairness", "b")
court_cut("victim left out", "node_capacity claims", "preemptions", "hog")


@court_damage("lost tiers out of order", "claims")
def _lost_order(_, plan):
    plan["tiers"][1], plan["tiers"][2] = plan["tiers"][2], plan["tiers"][1]


# reasons
for _wrong in ("limit", "competing", "protected", "capacity", "topology"):
    for _name, _right in COURT_REASONS.items():
        if _right != _wrong:
            _path = ("blocked", _name, "reason")
            court(f"court: {_right} called {_wrong}", "blocked_reason", path=_path, value=_wrong)
court("called undecided", "blocked_reason", path=("blocked", "comp", "reason"), value="undecided")
court(
    "out of time, called competing", "blocked_reason claims", path=("considered", "comp", "decided_by"), value="limit"
)
court("admitted out of time", "claims", path=("considered", "take", "decided_by"), value="limit")
court("retry in the past", "blocked_reason", path=("blocked", "prot", "retry_at_s"), value=10_000)
court("retry of a gang that competes", "blocked_reason", path=("blocked", "comp", "retry_at_s"), value=11_000)


class TestVictims:
    def test_undamaged_plan_is_clean(self):
        plan = court_plan()
        assert plan["status"] == "optimal"
        assert run(COURT, plan).violations == ()

    def test_its_tiers_by_hand(self):
        report = run(COURT, court_plan())
        assert {tier.name: tier.value for tier in report.tiers} == COURT_TIERS
        assert [tier.name for tier in report.tiers] == list(COURT_TIERS)

    def test_considered_by_hand(self):
        """b and a offer within quota at shares 0 and 1/8; then b has 1/4 of weight 2, as much, and goes first by name.

        In surplus b comes first with 3/8 of weight 2 before a's 1/4; below a both have 1/8, and priority decides.
        """
        steps = [(step["gang"], step["group"], step["share"]) for step in court_plan()["considered"]]
        assert steps == [
            ("take", "within", 0.0),
            ("keen", "within", 0.125),
            ("late", "within", 0.0),
            ("prot", "surplus", 0.1875),
            ("boss", "surplus", 0.125),
            ("comp", "surplus", 0.125),
            ("capped", "surplus", 0.25),
        ]

    def test_a_callers_own_plan_needs_no_figures(self):
        plan = court_plan()
        placements = [{**entry, "starts_after_s": None} for entry in plan["placements"]]
        report = run(COURT, {"placements": placements, "preemptions": plan["preemptions"]})
        assert report.ok, report.violations

    @pytest.mark.parametrize("left_out", ["fairness", "considered", "tiers"])
    def test_a_part_left_out_is_no_fault(self, left_out):
        assert run(COURT, {**court_plan(), "status": "feasible", left_out: []}).violations == ()

    @pytest.mark.parametrize(
        ("rules", "change"), [pytest.param(rules, change, id=name) for name, rules, change in COURT_DAMAGES]
    )
    def test_noticed(self, rules, change):
        data, plan = copy.deepcopy(COURT), court_plan()
        change(data, plan)
        report = run(data, plan)
        assert {violation.rule for violation in report.violations} == set(rules.split()), report.violations

    @pytest.mark.parametrize(("surge_first", "lawful"), [(True, True), (False, False)])
    def test_only_what_starts_before_the_taker_makes_its_tenant_reclaimable(self, surge_first, lawful):
        """c holds 32 of 32; with `surge` it would hold 40, which counts only if `surge` comes before `take`."""
        data = copy.deepcopy(COURT)
        data["policy"] = {"order": "priority"}
        entry(data["tenants"], "c")["quota"] = {"gpus": 32}
        data["nodes"].append({"name": "n9", "path": ["r5"], "gpus": 8, "cpu_milli": 10_000})
        data["pending"].append(_asks("surge", "c", priority=99 if surge_first else -99))
        placements = {**COURT_PLACEMENTS, "surge": {"n9": 1}}
        preemptions = court_plan()["preemptions"]
        violations = run(data, {**bare(placements), "preemptions": preemptions}).violations
        assert ("victim_right" not in {violation.rule for violation in violations}) == lawful

    def test_priority_across_tenants(self):
        data = copy.deepcopy(COURT)
        data["policy"] = {"preemption": {"across": "priority"}}
        entry(data["pending"], "take")["priority"] = 6
        plan = court_plan(data)
        plan["preemptions"][0]["reason"] = "priority"
        assert run(data, plan).violations == ()
        entry(data["running"], "hog")["priority"] = 6
        (violation, *_) = run(data, plan).violations
        assert violation.rule == "victim_right"
        assert "its priority 6 is not below 6" in violation.message
