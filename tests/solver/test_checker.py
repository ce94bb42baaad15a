"""The independent checker: the example by hand, and damaged plans."""

from __future__ import annotations

import copy
from collections.abc import Callable
from typing import Any

import pytest
from stated_plans import Damage, Json, Placements, bare, entry, full_plan, run

from gangfit.solver.checker import MAX_VIOLATIONS

# ---- the example by hand


HAND: Json = {
    "topology": {"levels": [{"name": "rack"}]},
    "nodes": [
        {"name": "r1-a", "path": ["r1"], "gpus": 8, "used": {"gpus": 4}},
        {"name": "r1-b", "path": ["r1"], "gpus": 8},
        {"name": "r2-a", "path": ["r2"], "gpus": 8},
        {"name": "r2-b", "path": ["r2"], "gpus": 8},
    ],
    "pending": [
        {"name": "A", "members": 2, "request": {"gpus": 8}},
        {"name": "B", "members": 2, "request": {"gpus": 4}},
        {"name": "C", "members": 1, "request": {"gpus": 8}},
        {"name": "D", "members": 1, "request": {"gpus": 8}},
    ],
}
HAND_PLACEMENTS: Placements = {"A": {"r2-a": 1, "r2-b": 1}, "B": {"r1-b": 2}}
HAND_REASONS = {"C": "competing", "D": "competing"}


class TestHandExample:
    def test_tier_values(self):
        report = run(HAND, bare(HAND_PLACEMENTS))
        assert report.ok, report.violations
        values = {tier.name: tier.value for tier in report.tiers}
        assert list(values) == [
            "admission", "broken", "preferred", "distance", "uplinks", "intact.rack", "intact.node"
        ]  # fmt: skip
        assert list(values.values()) == [2, 0, 0, 1, 0, 1, 3]

    def test_full_plan_is_clean(self):
        plan = full_plan(HAND, HAND_PLACEMENTS, HAND_REASONS, {})
        assert plan["status"] == "optimal"
        assert plan["fragmentation"] == [
            {"level": "rack", "before": 1, "after": 0},
            {"level": "node", "before": 3, "after": 0},
        ]
        assert run(HAND, plan).violations == ()

    def test_other_seat_of_b_costs_distance(self):
        report = run(HAND, bare({"A": {"r2-a": 1, "r2-b": 1}, "B": {"r1-a": 1, "r1-b": 1}}))
        assert report.ok
        assert [tier.value for tier in report.tiers] == [2, 0, 0, 2, 0, 1, 3]

    def test_empty_plan_breaks_admission_for_every_gang(self):
        report = run(HAND, {})
        assert [(violation.rule, violation.gang) for violation in report.violations] == [
            ("admission", name) for name in "ABCD"
        ]
        assert "waits with 2 members, the plan leaves room for 3" in report.violations[0].message

    def test_capacity_message_states_value_and_limit(self):
        report = run(HAND, bare({"A": {"r2-a": 1, "r1-b": 1}, "B": {"r1-b": 1, "r1-a": 1}}))
        (violation,) = [violation for violation in report.violations if violation.rule == "node_capacity"]
        assert violation.node == "r1-b"
        assert violation.message == "node 'r1-b': gangs A, B take 12 gpus, 8 are free"

    def test_violations_are_capped(self):
        plan = bare({"A": {f"nowhere{i}": 1 for i in range(MAX_VIOLATIONS + 5)}})
        assert len(run(HAND, plan).violations) == MAX_VIOLATIONS


# ---- a plan that uses every rule and every reason, damaged


def _node(name: str, pod: str, rack: str | None, **more: Any) -> Json:
    size = {"gpus": 8, "cpu_milli": 64_000, "memory_mib": 1_000, "resources": {"nic": 4}}
    return {"name": name, "path": [pod, rack], **size, "gpu_model": "H100", "labels": {"zone": "west"}, **more}


def _gang(name: str, members: int, gpus: int, **more: Any) -> Json:
    request = {"gpus": gpus, "cpu_milli": 8_000, "memory_mib": 100, "resources": {"nic": 1}}
    return {"name": name, "members": members, "request": request, **more}


YARD: Json = {
    "topology": {"levels": [{"name": "pod"}, {"name": "rack"}]},
    "policy": {"overcommit": "clamp"},
    "nodes": [
        _node("a[1-2]", "p1", "r1", labels={"zone": "east"}),
        _node("b[1-2]", "p1", "r2", labels={"zone": "east"}),
        _node("o1", "p1", "r2", gpus=4, used={"gpus": 6}),
        _node("c[1-2]", "p2", "r3"),
        _node("d1", "p2", None),
        _node("m1", "p2", "r4", gpu_model="A100"),
        _node("t1", "p2", "r4", taints=[{"key": "dedicated", "value": "infra"}]),
        _node("x1", "p2", "r4", state="cordoned"),
        _node("k1", "p2", "r4", gpus=0, gpu_model=None, memory_mib=None, resources={}),
        _node("e1", "p3", "r5"),
    ],
    "running": [
        {**_gang("run1", 2, 4), "placement": {"a1": 1, "b1": 1}},
        {"name": "run2", "members": 2, "request": {"cpu_milli": 4_000}, "placement": {"c1": 1, "k1": 1}},
    ],
    "pending": [
        _gang("late", 1, 8, submitted_s=30),
        _gang("maybe", 2, 8, submitted_s=40),
        _gang("wide", 2, 8, priority=9, topology={"preferred": "rack"}),
        _gang("pack", 2, 8, priority=8, topology={"required": "rack"}, selector={"zone": "west"}, gpu_model="H100"),
        _gang("spot", 1, 8, priority=7),
        _gang("tol", 1, 8, priority=7, tolerations=[{"key": "dedicated", "operator": "Equal", "value": "infra"}]),
        _gang("amp", 1, 8, priority=7, gpu_model="A100"),
        _gang("solo", 1, 8, priority=7, topology={"required": "node"}),
        _gang("tiny", 2, 2, priority=6),
        _gang("huge", 100, 8, submitted_s=50),
        _gang("racky", 3, 8, submitted_s=50, topology={"required": "rack"}),
        _gang("picky", 2, 8, submitted_s=50, selector={"zone": "north"}),
        _gang("shy", 8, 8, submitted_s=50),
        _gang("model", 2, 8, submitted_s=50, gpu_model="A100"),
    ],
}
YARD_PLACEMENTS: Placements = {
    "wide": {"a2": 1, "b2": 1},
    "pack": {"c1": 1, "c2": 1},
    "spot": {"d1": 1},
    "tol": {"t1": 1},
    "amp": {"m1": 1},
    "solo": {"e1": 1},
    "tiny": {"a1": 2},
}
YARD_REASONS = {
    "late": "competing",
    "maybe": "undecided",
    "huge": "capacity",
    "racky": "topology",
    "picky": "selector",
    "shy": "taint",
    "model": "gpu_model",
}
YARD_BOUNDS = {"admission": 8, "preferred": 0, "distance": 2, "uplinks": 1, "intact.node": 5}
TIERS = ("admission", "broken", "preferred", "distance", "uplinks", "intact.pod", "intact.rack", "intact.node")
YARD_VALUES = (7, 0, 1, 6, 2, 1, 3, 7)


def yard_plan() -> Json:
    return full_plan(YARD, YARD_PLACEMENTS, YARD_REASONS, YARD_BOUNDS)


DAMAGES: list[tuple[str, str, Damage]] = []
"""(id, names of exactly the rules that notice it, damage)"""


def damage(name: str, rules: str) -> Callable[[Damage], Damage]:
    def register(change: Damage) -> Damage:
        DAMAGES.append((name, rules, change))
        return change

    return register


def put(name: str, rules: str, path: tuple[str, ...], value: Any) -> None:
    """A damage that sets one field of the plan; a name in the path picks the list's entry of that name."""

    def change(_: Json, plan: Json) -> None:
        target: Any = plan
        for step in path[:-1]:
            target = entry(target, step) if isinstance(target, list) else target[step]
        target[path[-1]] = value

    DAMAGES.append((name, rules, change))


def cut(name: str, rules: str, where: str, which: str) -> None:
    """A damage that leaves out one entry of a list of the plan."""
    DAMAGES.append((name, rules, lambda _, plan: plan[where].remove(entry(plan[where], which))))


def move(name: str, rules: str, gang: str, **on_nodes: int) -> None:
    """A damage that places a gang elsewhere."""
    put(name, rules, ("placements", gang, "roles"), {"members": on_nodes})


def ask(name: str, rules: str, gang: str, **fields: Any) -> None:
    """A damage of the question: a placed gang asks something that the plan doesn't grant."""
    DAMAGES.append((name, rules, lambda data, _: entry(data["pending"], gang).update(fields)))


# members and gangs
move("member dropped", "whole_gang claims admission", "pack", c1=1)
move("member added", "whole_gang claims node_capacity", "tiny", a1=2, b1=1, d1=1)
move("no members", "whole_gang claims admission", "solo")
put("no roles", "whole_gang claims admission", ("placements", "solo", "roles"), {})
put("unknown role", "whole_gang", ("placements", "solo", "roles"), {"workers": {"e1": 1}})
put("two roles", "whole_gang", ("placements", "pack", "roles"), {"members": {"c1": 1}, "workers": {"c2": 1}})
put(
    "a second role on the same node",
    "whole_gang node_capacity",
    ("placements", "solo", "roles"),
    {"members": {"e1": 1}, "workers": {"e1": 1}},
)
put(
    "unknown gang placed",
    "reference whole_gang considered_order admission claims",
    ("placements", "solo", "gang"),
    "ghost",
)
put(
    "running gang placed",
    "reference whole_gang considered_order admission claims",
    ("placements", "solo", "gang"),
    "run1",
)
put("unknown gang blocked", "reference whole_gang", ("blocked", "huge", "gang"), "ghost")
put("unknown gang considered", "reference considered_order", ("considered", "huge", "gang"), "ghost")
put("unknown gang in quality", "reference", ("quality", "solo", "gang"), "ghost")
put("unknown level in fragmentation", "reference", ("fragmentation", "rack", "level"), "aisle")
move("unknown node", "reference admission claims", "solo", zz9=1)
move("hostlist as node", "reference claims", "tiny", **{"a[1-2]": 2})
cut("placement left out", "whole_gang considered_order admission claims", "placements", "solo")
cut("neither placed nor blocked", "whole_gang", "blocked", "huge")


@damage("placed twice on the same nodes", "whole_gang node_capacity")
def _twice(_, plan):
    plan["placements"].append(entry(plan["placements"], "pack"))


@damage("placed twice, half each", "whole_gang")
def _halves(_, plan):
    entry(plan["placements"], "pack")["roles"] = {"members": {"c1": 1}}
    plan["placements"].append({"gang": "pack", "roles": {"members": {"c2": 1}}})


@damage("placed and blocked", "whole_gang")
def _both(_, plan):
    plan["blocked"].append({"gang": "solo", "reason": "competing", "message": "", "counters": {}})


@damage("blocked twice", "blocked_reason")
def _blocked_twice(_, plan):
    plan["blocked"].append(entry(plan["blocked"], "huge"))


@damage("blocked although it fits", "considered_order admission claims")
def _blocked_fits(_, plan):
    plan["placements"].remove(entry(plan["placements"], "tiny"))
    entry(plan["considered"], "tiny")["admitted"] = False
    plan["blocked"].append({"gang": "tiny", "reason": "competing", "message": "", "counters": {}})


# nodes
move("wrong node: cordoned", "node_state admission claims", "spot", x1=1)
move("wrong node: tainted", "node_capacity node_taints admission claims", "solo", t1=1)
move("wrong node: no GPUs", "node_capacity admission claims", "solo", k1=1)
move("wrong node: other model", "gpu_model node_capacity admission claims", "amp", d1=1)
move("wrong node: other label", "node_selector required_level node_capacity admission claims", "pack", c1=1, b2=1)
move("wrong node: clamped", "node_capacity", "tiny", o1=2)
move("valid node, figures of the old one", "claims", "tiny", a1=1, b1=1)
move("all on one node", "node_capacity admission claims", "wide", a2=2)
ask("selector not met", "node_selector", "pack", selector={"zone": "east"})
ask("selector of a label that no node has", "node_selector", "solo", selector={"disk": "nvme"})
ask("model not met", "gpu_model", "pack", gpu_model="A100")
_infra = {"key": "dedicated", "operator": "Equal", "value": "infra"}
ask("taint not tolerated", "node_taints", "tol", tolerations=[])
ask("taint tolerated with another value", "node_taints", "tol", tolerations=[{**_infra, "value": "batch"}])
ask("taint tolerated with another key", "node_taints", "tol", tolerations=[{**_infra, "key": "reserved"}])
ask("taint tolerated with another effect", "node_taints", "tol", tolerations=[{**_infra, "effect": "NoExecute"}])
ask("level split", "required_level", "wide", topology={"required": "rack", "preferred": "rack"})
ask("node level split", "required_level", "pack", topology={"required": "node"})
ask("unknown domain serves a required level", "required_level", "spot", topology={"required": "rack"})
ask("too many GPUs", "node_capacity considered_order", "tiny", request={"gpus": 3})
ask("too much CPU", "node_capacity", "solo", request={"gpus": 8, "cpu_milli": 64_001})
ask("too much memory", "node_capacity", "solo", request={"gpus": 8, "memory_mib": 1_001})
ask("too much of a named resource", "node_capacity", "solo", request={"gpus": 8, "resources": {"nic": 5}})
ask("named resource that no node has", "node_capacity", "solo", request={"gpus": 8, "resources": {"tpu": 1}})

# reasons
for _wrong in ("capacity", "topology", "selector", "taint", "gpu_model", "competing"):
    for _name, _right in YARD_REASONS.items():
        if _right not in ("undecided", _wrong):
            put(f"{_right} called {_wrong}", "blocked_reason", ("blocked", _name, "reason"), _wrong)
put("capacity called undecided", "blocked_reason", ("blocked", "huge", "reason"), "undecided")
put("undecided called capacity", "blocked_reason", ("blocked", "maybe", "reason"), "capacity")
put("undecided called competing", "blocked_reason", ("blocked", "maybe", "reason"), "competing")
for _counter in ("not_ready", "selector", "taint", "gpu_model", "too_small", "usable", "members_that_fit"):
    put(f"counter {_counter} wrong", "blocked_reason", ("blocked", "shy", "counters", _counter), 77)
put("counter largest_domain wrong", "blocked_reason", ("blocked", "racky", "counters", "largest_domain"), 3)
put("counter largest_domain without a level", "blocked_reason", ("blocked", "shy", "counters", "largest_domain"), 2)
put("counter unknown", "blocked_reason", ("blocked", "shy", "counters", "moon_phase"), 0)

# considered
put("considered says admitted, is blocked", "considered_order", ("considered", "late", "admitted"), True)
put("considered says waits, is placed", "considered_order", ("considered", "wide", "admitted"), False)
cut("considered lacks a gang", "considered_order", "considered", "huge")


@damage("considered out of order", "considered_order")
def _considered_order(_, plan):
    plan["considered"][0], plan["considered"][1] = plan["considered"][1], plan["considered"][0]


@damage("considered lists a gang twice", "considered_order")
def _considered_twice(_, plan):
    plan["considered"].append(plan["considered"][-1])


# tiers and status
for _tier in TIERS:
    put(f"value of {_tier} too high", "claims", ("tiers", _tier, "value"), 1_000)
    put(f"value of {_tier} too low", "claims", ("tiers", _tier, "value"), -1 if _tier == "broken" else 0)
    _worse = 6 if _tier == "admission" else 8
    put(f"bound of {_tier} worse than its value", "claims", ("tiers", _tier, "bound"), _worse)
    put(f"gap of {_tier} wrong", "claims", ("tiers", _tier, "gap"), 0.125)
    put(f"sense of {_tier} wrong", "claims", ("tiers", _tier, "sense"), "min" if _tier == "admission" else "max")
    cut(f"{_tier} missing", "claims", "tiers", _tier)
put("bound of admission beyond the undecided gangs", "claims", ("tiers", "admission", "bound"), 9)
put("gap off by a millionth", "claims", ("tiers", "uplinks", "gap"), 0.500001)
put("open tier with a proof", "claims", ("tiers", "distance", "proof"), "search")
put("closed tier without a proof", "claims", ("tiers", "intact.rack", "proof"), None)
put("status optimal with undecided gangs and open tiers", "claims", ("status",), "optimal")


@damage("bound below zero, gap to match", "claims")
def _bound_below_zero(_, plan):
    entry(plan["tiers"], "uplinks").update(bound=-1, gap=1.5)


@damage("tiers out of order", "claims")
def _tier_order(_, plan):
    plan["tiers"][1], plan["tiers"][2] = plan["tiers"][2], plan["tiers"][1]


@damage("tier twice", "claims")
def _tier_twice(_, plan):
    plan["tiers"].append(plan["tiers"][0])


@damage("tier of an unknown name", "claims")
def _tier_unknown(_, plan):
    plan["tiers"].append({**plan["tiers"][-1], "name": "beauty"})


@damage("status optimal without any tier stated", "claims")
def _optimal_untold(_, plan):
    entry(plan["blocked"], "maybe")["reason"] = "competing"
    entry(plan["considered"], "maybe")["decided_by"] = "search"
    plan.update(tiers=[], status="optimal")


# quality and fragmentation
put("quality: domains wrong", "claims", ("quality", "wide", "domains", "rack"), 1)
put("quality: level missing", "claims", ("quality", "wide", "domains"), {"node": 2})
put("quality: diameter wrong", "claims", ("quality", "wide", "diameter"), "pod")
put("quality: diameter of one node", "claims", ("quality", "solo", "diameter"), "node")
put("quality: distance wrong", "claims", ("quality", "wide", "distance"), 4)
put("quality of a gang that waits", "claims", ("quality", "wide", "gang"), "late")
put("quality of a gang twice", "claims", ("quality", "solo", "gang"), "spot")
put("fragmentation: before wrong", "claims", ("fragmentation", "rack", "before"), 9)
put("fragmentation: after wrong", "claims", ("fragmentation", "pod", "after"), 1)
put("fragmentation: level twice", "claims", ("fragmentation", "pod", "level"), "rack")


class TestDamagedPlans:
    def test_undamaged_plan_is_clean(self):
        assert run(YARD, yard_plan()).violations == ()

    def test_its_tiers_by_hand(self):
        report = run(YARD, yard_plan())
        assert [(tier.name, tier.value) for tier in report.tiers] == list(zip(TIERS, YARD_VALUES, strict=True))

    @pytest.mark.parametrize(
        ("rules", "change"), [pytest.param(rules, change, id=name) for name, rules, change in DAMAGES]
    )
    def test_noticed(self, rules, change):
        data, plan = copy.deepcopy(YARD), yard_plan()
        change(data, plan)
        report = run(data, plan)
        assert not report.ok
        assert {violation.rule for violation in report.violations} == set(rules.split()), report.violations

    def test_status_optimal_with_one_open_tier(self):
        plan = full_plan(HAND, HAND_PLACEMENTS, HAND_REASONS, {"distance": 0})
        assert run(HAND, plan).ok
        report = run(HAND, {**plan, "status": "optimal"})
        assert [violation.message for violation in report.violations] == [
            "status is 'optimal' with open tiers distance; all have to be closed"
        ]

    def test_status_optimal_with_an_undecided_gang(self):
        plan = full_plan(HAND, HAND_PLACEMENTS, {"C": "competing", "D": "undecided"}, {"admission": 3})
        assert run(HAND, plan).ok
        report = run(HAND, {**plan, "status": "optimal"})
        assert "status is 'optimal' with 1 undecided gangs" in report.violations[0].message

    def test_placements_alone_are_enough(self):
        assert run(YARD, bare(YARD_PLACEMENTS)).violations == ()

    @pytest.mark.parametrize("left_out", ["tiers", "considered", "quality", "fragmentation"])
    def test_a_part_left_out_is_no_fault(self, left_out):
        assert run(YARD, {**yard_plan(), left_out: []}).violations == ()

    def test_broken_references_leave_the_other_values(self):
        placements = {**YARD_PLACEMENTS, "ghost": {"b1": 1}, "tiny": {"a1": 2, "zz9": 1}}
        report = run(YARD, bare(placements))
        assert {violation.rule for violation in report.violations} == {"reference", "whole_gang"}
        assert report.tiers == run(YARD, bare(YARD_PLACEMENTS)).tiers

    def test_snapshot_without_pending_gangs(self):
        data = {**YARD, "pending": []}
        report = run(data, full_plan(data, {}, {}, {}))
        assert report.ok, report.violations
        assert {tier.value for tier in report.tiers} == {0}

    def test_unlimited_node_in_an_unknown_domain(self):
        data = {
            "topology": {"levels": [{"name": "rack"}]},
            "nodes": [{"name": "n", "path": [None], "gpus": 0}],
            "pending": [{"name": "cpu", "members": 3, "request": {"cpu_milli": 1}, "topology": {"required": "rack"}}],
        }
        plan = full_plan(data, {}, {"cpu": "topology"}, {})
        assert plan["blocked"][0]["counters"]["members_that_fit"] == 3
        assert run(data, plan).violations == ()

    def test_largest_sums_are_exact(self):
        """127 gangs that each take 2³³ of memory on one node: just below what all gangs may ask together."""
        names = [f"g{i:03}" for i in range(127)]
        gangs = [{"name": name, "members": 2**19, "request": {"memory_mib": 2**14}} for name in names]
        data = {"nodes": [{"name": "n", "gpus": 0, "memory_mib": 10**10}], "pending": gangs}
        (violation,) = run(data, bare({name: {"n": 2**19} for name in names})).violations
        assert violation.rule == "node_capacity"
        assert f"take {127 * 2**33} memory_mib, 10000000000 are free" in violation.message
