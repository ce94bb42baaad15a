"""A naive recomputation of what the checker says: dictionaries and loops, nothing shared with the checker."""

from __future__ import annotations

import math
from collections import Counter, defaultdict

from gangfit.models import amounts


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
