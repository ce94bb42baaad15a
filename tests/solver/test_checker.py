"""The independent checker: the example by hand, damaged plans, and a naive recomputation on random snapshots."""

from __future__ import annotations

import copy
import math
import random
from collections import Counter, defaultdict
from collections.abc import Callable
from typing import Any

import pytest
from brute_force import Round
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from random_rounds import contested_round

from gangfit.models import Plan, Snapshot, amounts
from gangfit.solver.checker import MAX_VIOLATIONS, check

Json = dict[str, Any]
Placements = dict[str, dict[str, int]]


# ---- the naive recomputation: dictionaries and loops, nothing shared with the checker


def node_entries(snapshot):
    return {name: node for names, node in zip(snapshot.node_names, snapshot.nodes, strict=True) for name in names}


def level_names(snapshot):
    return [*(level.name for level in snapshot.topology.levels), "node"]


def domain_of(snapshot, name, level):
    """A hashable domain, and whether it is known."""
    if level == "node":
        return ("node", name), True
    prefix = node_entries(snapshot)[name].path[: level_names(snapshot).index(level) + 1]
    return (("alone", name), False) if None in prefix else (("path", prefix), True)


def naive_touched(snapshot, on_nodes, level):
    return len({domain_of(snapshot, name, level)[0] for name in on_nodes})


def naive_intact(snapshot, hosts, level):
    """Intact domains when members sit on `hosts`."""
    domains = defaultdict(list)
    for name, node in node_entries(snapshot).items():
        if node.state == "ready" and node.gpus > 0:
            domains[domain_of(snapshot, name, level)[0]].append(node.used.gpus == 0 and name not in hosts)
    return sum(all(empty) for empty in domains.values())


def naive_fragmentation(snapshot, placements):
    running = {name for gang in snapshot.running for name in gang.placement}
    placed = {name for on_nodes in placements.values() for name in on_nodes}
    return {
        level: (naive_intact(snapshot, running, level), naive_intact(snapshot, running | placed, level))
        for level in level_names(snapshot)
    }


def naive_tiers(snapshot, placements, lost=()):
    """`lost`: victim → GPU-seconds."""
    levels, gangs = level_names(snapshot), {gang.name: gang for gang in snapshot.pending}
    weights = dict(zip(levels, snapshot.topology.weights(), strict=True))
    preferred = distance = uplinks = 0
    for name, on_nodes in placements.items():
        wished = gangs[name].topology.preferred
        if wished is not None:
            preferred += naive_touched(snapshot, on_nodes, wished) - 1
        for level in levels:
            distance += weights[level] * (naive_touched(snapshot, on_nodes, level) - 1)
    staying = [gang for gang in snapshot.running if gang.phase == "running" and gang.name not in lost]
    everyone = [gang.placement for gang in staying] + list(placements.values())
    for level in levels[:-1]:
        crossing = Counter()
        for on_nodes in everyone:
            domains = {domain_of(snapshot, name, level)[0] for name in on_nodes}
            if len(domains) > 1:
                crossing.update(domains)
        uplinks += sum(max(0, count - 1) for count in crossing.values())
    tiers = {"admission": len(placements)}
    leaving = [gang for gang in snapshot.running if gang.name in lost]
    for priority in sorted({gang.priority for gang in leaving}, reverse=True):
        tiers[f"lost.p{priority}"] = sum(lost[gang.name] for gang in leaving if gang.priority == priority)
    tiers |= {"broken": len(leaving), "preferred": preferred, "distance": distance, "uplinks": uplinks}
    for level, (before, after) in naive_fragmentation(snapshot, placements).items():
        tiers[f"intact.{level}"] = before - after
    return tiers


def naive_free(snapshot, placements, gone=()):
    """Node → resource → free amount; missing: 0, infinite: not limited."""
    gangs = {gang.name: gang for gang in snapshot.pending}
    result = {}
    for name, node in node_entries(snapshot).items():
        free = {key: math.inf if value is None else value for key, value in amounts(node).items()}
        used = amounts(node.used)
        for gang in snapshot.running:
            if gang.phase == "terminating" or gang.name in gone:
                continue
            for key, value in amounts(gang.request).items():
                used[key] = used.get(key, 0) + value * gang.placement.get(name, 0)
        free = {key: max(0, free.get(key, 0) - used.get(key, 0)) for key in {*free, *used}}
        for gang, on_nodes in placements.items():
            for key, value in amounts(gangs[gang].request).items():
                free[key] = free.get(key, 0) - value * on_nodes.get(name, 0)
        result[name] = free
    return result


def naive_tolerated(taint, gang):
    for toleration in gang.tolerations:
        effect = toleration.effect is None or toleration.effect == taint.effect
        if toleration.operator == "Equal":
            matches = toleration.key == taint.key and toleration.value == taint.value
        else:
            matches = toleration.key in ("", taint.key)
        if effect and matches:
            return True
    return False


def naive_excluded(node, gang):
    """Rules that keep the gang off the node, in the order of the counters."""
    rules = []
    if node.state != "ready":
        rules.append("not_ready")
    if any(node.labels.get(key) != value for key, value in gang.selector.items()):
        rules.append("selector")
    if not all(naive_tolerated(taint, gang) for taint in node.taints):
        rules.append("taint")
    if gang.gpu_model is not None and node.gpu_model != gang.gpu_model:
        rules.append("gpu_model")
    return rules


def naive_held(free, gang):
    """Members that fit into the free amounts of one node; without any limit, the whole gang."""
    asks = {key: value for key, value in amounts(gang.request).items() if value}
    holds = [max(0, free.get(key, 0)) // value for key, value in asks.items() if free.get(key, 0) != math.inf]
    return min(holds) if holds else gang.members


def naive_most(snapshot, free, gang, without=()):
    """Members that fit when the rules of `without` are left out."""
    level = None if "level" in without else gang.topology.required
    per_domain = defaultdict(int)
    for name, node in node_entries(snapshot).items():
        if not set(naive_excluded(node, gang)) - set(without):
            domain, known = ("all", True) if level is None else domain_of(snapshot, name, level)
            if known:
                per_domain[domain] += naive_held(free[name], gang)
    return max(per_domain.values(), default=0)


def naive_reason(snapshot, gang):
    free = naive_free(snapshot, {})
    if naive_most(snapshot, free, gang) >= gang.members:
        return "competing"
    for rule, reason in {
        "level": "topology",
        "selector": "selector",
        "taint": "taint",
        "gpu_model": "gpu_model",
    }.items():
        if naive_most(snapshot, free, gang, without=[rule]) >= gang.members:
            return reason
    empty = naive_free(snapshot, {}, gone={other.name for other in snapshot.running})
    return "protected" if naive_most(snapshot, empty, gang) >= gang.members else "capacity"


def naive_counters(snapshot, gang):
    free = naive_free(snapshot, {})
    counters = dict.fromkeys(("not_ready", "selector", "taint", "gpu_model", "too_small", "usable"), 0)
    counters["members_that_fit"] = 0
    for name, node in node_entries(snapshot).items():
        held = naive_held(free[name], gang)
        first = [*naive_excluded(node, gang), *(["too_small"] if held == 0 else []), "usable"][0]
        counters[first] += 1
        counters["members_that_fit"] += held if first == "usable" else 0
    if gang.topology.required is not None:
        counters["largest_domain"] = naive_most(snapshot, free, gang)
    return counters


def naive_broken(snapshot, placements):
    """(rule, gang or node) that a plan of placements breaks."""
    nodes, gangs = node_entries(snapshot), {gang.name: gang for gang in snapshot.pending}
    after = naive_free(snapshot, placements)
    names = {"not_ready": "node_state", "selector": "node_selector", "taint": "node_taints", "gpu_model": "gpu_model"}
    broken = set()
    for name, on_nodes in placements.items():
        gang = gangs[name]
        if sum(on_nodes.values()) != gang.members:
            broken.add(("whole_gang", name))
        broken |= {(names[rule], name) for node in on_nodes for rule in naive_excluded(nodes[node], gang)}
        if gang.topology.required is not None:
            domains = {domain_of(snapshot, node, gang.topology.required) for node in on_nodes}
            if len(domains) > 1 or not all(known for _, known in domains):
                broken.add(("required_level", name))
    broken |= {("node_capacity", node) for node in nodes if min(after[node].values()) < 0}
    for gang in snapshot.pending:
        if gang.name not in placements and naive_most(snapshot, after, gang) >= gang.members:
            broken.add(("admission", gang.name))
    return broken


def full_plan(data: Json, placements: Placements, reasons: dict[str, str], bounds: dict[str, int], lost=()) -> Json:
    """A plan that states everything; figures are the naive ones, tiers closed where `bounds` doesn't say otherwise.

    `lost`: victim → GPU-seconds; preemptions themselves are up to the caller.
    """
    snapshot = Snapshot.model_validate(data)
    exact = Round(snapshot)
    turns = exact.turns(set(placements))
    gangs = [exact.pending[name] for name, _, _ in turns]
    placed = [gang for gang in gangs if gang.name in placements]
    levels = level_names(snapshot)
    weights = dict(zip(levels, snapshot.topology.weights(), strict=True))
    values = naive_tiers(snapshot, placements, lost)
    touched = {name: {lv: naive_touched(snapshot, on, lv) for lv in levels} for name, on in placements.items()}
    scales = dict(values)
    scales["distance"] = sum(weights[level] * count for counts in touched.values() for level, count in counts.items())
    wishes = [(gang.name, gang.topology.preferred) for gang in placed if gang.topology.preferred is not None]
    scales["preferred"] = sum(touched[name][level] for name, level in wishes)
    tiers = []
    for name, value in values.items():
        bound = bounds.get(name, value)
        gap = bound - value if name == "admission" else 0 if bound == value else (value - bound) / scales[name]
        sense = "max" if name == "admission" else "min"
        proof = "search" if bound == value else None
        tiers.append({"name": name, "sense": sense, "value": value, "bound": bound, "gap": gap, "proof": proof})
    quality = [
        {
            "gang": gang.name,
            "domains": touched[gang.name],
            "diameter": next((level for level in levels if touched[gang.name][level] > 1), None),
            "distance": sum(weights[level] * (count - 1) for level, count in touched[gang.name].items()),
        }
        for gang in placed
    ]
    blocked = [
        {"gang": gang.name, "reason": reasons[gang.name], "message": "", "counters": naive_counters(snapshot, gang)}
        for gang in gangs
        if gang.name in reasons
    ]
    return {
        "status": "feasible" if bounds else "optimal",
        "tiers": tiers,
        "placements": [{"gang": gang.name, "roles": {"members": dict(placements[gang.name])}} for gang in placed],
        "blocked": blocked,
        "considered": [
            {
                "gang": name,
                "admitted": name in placements,
                "group": ("within", "below", "surplus")[group],
                "share": float(share),
                "decided_by": "limit" if reasons.get(name) == "undecided" else "search",
            }
            for name, group, share in turns
        ],
        "quality": quality,
        "fragmentation": [
            {"level": level, "before": before, "after": after}
            for level, (before, after) in naive_fragmentation(snapshot, placements).items()
        ],
    }


def run(data: Json, plan: Json):
    return check(Snapshot.model_validate(data), Plan.model_validate(plan))


def bare(placements: Placements) -> Json:
    return {"placements": [{"gang": name, "roles": {"members": on}} for name, on in placements.items()]}


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


def entry(entries: list[Json], name: str) -> Json:
    return next(one for one in entries if name in [one.get(key) for key in ("gang", "name", "level", "tenant")])


Damage = Callable[[Json, Json], object]
"""Changes the snapshot's and the plan's dictionaries in place."""
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
ask("named resource that no node has", "node_capacity", "solo", request={"gpus": 8, "resources": {"gpus": 1}})

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


# ---- a plan with tenants and victims, damaged


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
court("limit of a parent", "tenant_limit blocked_reason", asked=("tenants", "a"), fields={"limit": {"gpus": 15}})
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
            ("keen", "within", 0.25),
            ("late", "within", 0.0),
            ("prot", "surplus", 0.375),
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


# ---- random snapshots


@st.composite
def rounds(draw):
    """(snapshot as dictionaries, placements that may break any rule)."""

    def one_of(*values):
        return draw(st.sampled_from(values))

    levels = [f"l{i}" for i in range(draw(st.integers(0, 3)))]
    nodes = [
        {
            "name": f"n{i}",
            "path": [one_of("x", "x", "y", None) for _ in levels],
            "gpus": one_of(0, 4, 8, 8),
            "cpu_milli": one_of(None, 3, 9),
            "resources": one_of({}, {"nic": 2}),
            "gpu_model": one_of(None, "H", "A"),
            "labels": one_of({}, {"z": "1"}, {"z": "2"}),
            "taints": one_of([], [], [{"key": "t", "value": "v"}]),
            "state": one_of("ready", "ready", "ready", "cordoned", "down"),
            "used": one_of({}, {}, {"gpus": 1}, {"gpus": 8}, {"cpu_milli": 2}),
        }
        for i in range(draw(st.integers(1, 7)))
    ]
    seats = st.dictionaries(
        st.sampled_from([node["name"] for node in nodes]), st.integers(1, 2), min_size=1, max_size=4
    )
    requests = st.sampled_from(
        [{"gpus": 4}, {"gpus": 8}, {"gpus": 1, "cpu_milli": 2}, {"cpu_milli": 1}, {"gpus": 2, "resources": {"nic": 1}}]
    )
    running = [
        {"name": f"r{i}", "members": sum(on.values()), "request": draw(requests), "placement": on}
        for i, on in enumerate(draw(st.lists(seats, max_size=3)))
    ]
    placements = {f"g{i}": draw(seats) for i in range(4) if draw(st.booleans())}
    pending = [
        {
            "name": f"g{i}",
            "members": sum(placements.get(f"g{i}", {}).values()) or draw(st.integers(1, 6)),
            "request": draw(requests),
            "priority": draw(st.integers(0, 1)),
            "topology": {"required": one_of(None, *levels, "node"), "preferred": one_of(None, *levels, "node")},
            "selector": one_of({}, {}, {"z": "1"}),
            "gpu_model": one_of(None, None, "H"),
            "tolerations": one_of([], [{}], [{"key": "t"}], [{"key": "t", "operator": "Equal", "value": "w"}]),
        }
        for i in range(4)
    ]
    if draw(st.booleans()):
        pending[0]["members"] += 1
    return {
        "topology": {"levels": [{"name": name, "weight": one_of(None, 0, 3)} for name in levels]},
        "nodes": nodes,
        "running": running,
        "pending": pending,
        "policy": {"overcommit": "clamp"},
    }, placements


QUICK = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class TestAgainstNaive:
    @QUICK
    @given(rounds())
    def test_tier_values(self, case):
        data, placements = case
        report = run(data, bare(placements))
        expected = naive_tiers(Snapshot.model_validate(data), placements)
        assert [(tier.name, tier.value) for tier in report.tiers] == list(expected.items())

    @QUICK
    @given(rounds())
    def test_rules(self, case):
        data, placements = case
        violations = run(data, bare(placements)).violations
        found = {(one.rule, one.node if one.rule == "node_capacity" else one.gang) for one in violations}
        assert found == naive_broken(Snapshot.model_validate(data), placements)

    @QUICK
    @given(rounds())
    def test_stated_figures_and_reasons(self, case):
        data, placements = case
        snapshot = Snapshot.model_validate(data)
        reasons = {gang.name: naive_reason(snapshot, gang) for gang in snapshot.pending if gang.name not in placements}
        report = run(data, full_plan(data, placements, reasons, {}))
        stated = {"claims", "blocked_reason", "reference"}
        assert [violation for violation in report.violations if violation.rule in stated] == []

    @pytest.mark.parametrize("block", range(4))
    def test_considered_order(self, block):
        for seed in range(block * 100, (block + 1) * 100):
            snapshot = contested_round(seed, pending=8)
            names = sorted(gang.name for gang in snapshot.pending)
            admits = set(random.Random(seed).sample(names, len(names) // 2))
            steps = [
                {
                    "gang": name,
                    "admitted": name in admits,
                    "group": ("within", "below", "surplus")[group],
                    "share": float(share),
                    "decided_by": "search",
                }
                for name, group, share in Round(snapshot).turns(admits)
            ]
            plan = Plan.model_validate({**bare({name: {} for name in admits}), "considered": steps})
            found = [one for one in check(snapshot, plan).violations if one.rule == "considered_order"]
            assert found == [], seed
