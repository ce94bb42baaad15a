"""Random rounds: small snapshots with every rule in play. The same seed gives the same snapshot."""

from __future__ import annotations

import random
from typing import Any

from hand_made import PLACEMENT_ONLY

from gangfit.models import Snapshot


def random_round(seed: int, *, nodes: int = 48, gangs: int = 5, members: int = 8, crowded: bool = False) -> Snapshot:
    """A snapshot with up to so many nodes, pending gangs and members per gang; 0–3 levels; nobody gives way.

    `crowded`: so many gangs exactly, most nodes in use, most gangs with a required level, so that gangs compete.
    """
    rng = random.Random(seed)
    levels = ["zone", "spine", "rack"][: rng.randint(0, 3)]
    count = rng.randint(1, nodes)
    per_rack = rng.choice([2, 3, 4, 8])
    sizes = rng.choice([[8], [4], [8, 4], [7], [6, 8]])
    cpu = rng.choice([None, None, 16_000, 8_000])
    models = rng.choice([[None], [None], ["H100", "A100"]])
    entries: list[dict[str, Any]] = []
    for n in range(count):
        path: list[str | None] = [f"z{n // (per_rack * 4)}", f"s{n // (per_rack * 2)}", f"r{n // per_rack}"][
            3 - len(levels) :
        ]
        if levels and rng.random() < 0.04:
            path[rng.randrange(len(levels))] = None
        entry: dict[str, Any] = {"name": f"n{n:02d}", "path": path, "gpus": rng.choice(sizes)}
        if rng.random() < 0.03:
            entry["gpus"] = 0
        if cpu is not None:
            entry["cpu_milli"] = cpu
        if rng.random() < 0.5:
            entry["resources"] = {"rdma": 4}
        model = rng.choice(models)
        if model:
            entry["gpu_model"] = model
        if rng.random() < 0.2:
            entry["labels"] = {"pool": rng.choice("ab")}
        if rng.random() < 0.1:
            entry["taints"] = [{"key": rng.choice(["gpu", "spot"]), "value": rng.choice(["", "yes"])}]
        if rng.random() < 0.08:
            entry["state"] = rng.choice(["cordoned", "down"])
        if rng.random() < 0.15:
            entry["used"] = {"gpus": rng.randint(0, entry["gpus"])}
        if rng.random() < 0.1 and cpu:
            entry.setdefault("used", {})["cpu_milli"] = rng.randint(0, cpu)
        entries.append(entry)
    free = {e["name"]: e["gpus"] - e.get("used", {}).get("gpus", 0) for e in entries}
    running = _running(rng, free, rng.uniform(0.1, 0.6) if crowded else rng.uniform(0, 0.9))
    waiting = gangs if crowded else rng.randint(1, gangs)
    required = 0.6 if crowded else 0.35
    pending = [_pending(rng, j, levels, members, cpu is not None, models, required) for j in range(waiting)]
    weights = [{"name": name, **({"weight": rng.randint(0, 9)} if rng.random() < 0.3 else {})} for name in levels]
    return Snapshot.model_validate(
        {
            "time_s": 1_000_000,
            "topology": {"levels": weights, "node_weight": rng.choice([1, 1, 0, 3])},
            "nodes": entries,
            "running": running,
            "pending": pending,
            "policy": {**PLACEMENT_ONLY, "time_limit_s": 60, "workers": 1},
        }
    )


def _running(rng: random.Random, free: dict[str, int], share: float) -> list[dict[str, Any]]:
    running: list[dict[str, Any]] = []
    names = list(free)
    for n, name in enumerate(names):
        if rng.random() >= share:
            continue
        placement: dict[str, int] = {}
        gpus = rng.choice([1, 2, 4, 8, free[name]])
        for host in names[n : n + rng.choice([1, 1, 2, 3])]:
            if gpus and free[host] >= gpus:
                placement[host] = rng.randint(1, free[host] // gpus)
                free[host] -= gpus * placement[host]
        if placement:
            request = {"gpus": gpus}
            running.append(
                {"name": f"run{n:02d}", "members": sum(placement.values()), "request": request, "placement": placement}
            )
        elif rng.random() < 0.1:
            running.append({"name": f"run{n:02d}", "members": 1, "request": {"memory_mib": 1}, "placement": {name: 1}})
    return running


def _pending(
    rng: random.Random, j: int, levels: list[str], members: int, cpu: bool, models: list[str | None], required: float
) -> dict[str, Any]:
    request: dict[str, Any] = {"gpus": rng.choice([1, 1, 2, 2, 4, 4, 8, 8, 3, 5, 6, 0])}
    if cpu and rng.random() < 0.5:
        request["cpu_milli"] = rng.choice([1_000, 2_000, 3_000, 8_000])
    if rng.random() < 0.1:
        request["resources"] = {"rdma": rng.randint(1, 3)}
    if not any(request.values()):
        request["memory_mib"] = 1
    gang: dict[str, Any] = {
        "name": f"g{j}",
        "members": rng.randint(1, members),
        "request": request,
        "priority": rng.choice([0, 0, 0, 5]),
        "submitted_s": rng.randint(0, 3),
    }
    topology = {}
    if rng.random() < required:
        topology["required"] = rng.choice([*levels, *levels, "node"])
    if rng.random() < 0.3:
        topology["preferred"] = rng.choice([*levels, *levels, "node"])
    if topology:
        gang["topology"] = topology
    if rng.random() < 0.15:
        gang["selector"] = {"pool": rng.choice("ab")}
    if rng.random() < 0.3:
        gang["tolerations"] = [
            rng.choice([{"key": "gpu"}, {"key": "spot", "operator": "Equal", "value": "yes"}, {"operator": "Exists"}])
        ]
    if models != [None] and rng.random() < 0.3:
        gang["gpu_model"] = rng.choice(["H100", "A100", "B200"])
    return gang


NOW = 100_000


def contested_round(seed: int, *, nodes: int = 4, running: int = 5, pending: int = 4) -> Snapshot:
    """A tiny snapshot whose tenants contend: quotas, limits, trees, running gangs of every age and priority."""
    rng = random.Random(seed)
    levels = ["spine", "rack"][: rng.choice([0, 1, 1, 2])]
    cpu = rng.choice([None, None, 8_000])
    entries: list[dict[str, Any]] = []
    for n in range(rng.randint(2, nodes)):
        entry: dict[str, Any] = {"name": f"n{n}", "path": [f"s{n // 3}", f"r{n // 2}"][: len(levels)]}
        entry["gpus"] = rng.choice([2, 4, 4, 3])
        if cpu is not None:
            entry["cpu_milli"] = cpu
        if rng.random() < 0.06:
            entry["state"] = rng.choice(["cordoned", "down"])
        if rng.random() < 0.1:
            entry["used"] = {"gpus": 1}
        entries.append(entry)
    capacity = sum(entry["gpus"] for entry in entries)
    tenants = _tenants(rng, capacity, cpu is not None)
    parents = {tenant.get("parent") for tenant in tenants}
    leaves = [tenant["name"] for tenant in tenants if tenant["name"] not in parents] or ["default"]
    if rng.random() < 0.1:
        leaves.append("default")
    policy = {
        "order": rng.choice(["drf", "drf", "priority"]),
        "preemption": {
            "across": rng.choice(["never", "reclaim", "reclaim", "priority"]),
            "within": rng.choice(["never", "priority", "priority"]),
        },
        "time_limit_s": 60,
        "workers": 1,
    }
    return Snapshot.model_validate(
        {
            "time_s": NOW,
            "topology": {"levels": [{"name": name} for name in levels]},
            "nodes": entries,
            "tenants": tenants,
            "running": _holders(rng, entries, leaves, rng.randint(1, running), cpu),
            "pending": [_contender(rng, j, leaves, levels, cpu) for j in range(rng.randint(1, pending))],
            "policy": policy,
        }
    )


def _tenants(rng: random.Random, capacity: int, cpu: bool) -> list[dict[str, Any]]:
    """None declared, a flat list, or two roots of which the first has two or three leaves."""
    shape = rng.choice(["none", "flat", "flat", "tree", "tree"])
    if shape == "none":
        return []
    names = [(name, None) for name in "abcd"[: rng.randint(1, 4)]]
    if shape == "tree":
        names = [("a", None), ("a1", "a"), ("a2", "a"), *[("a3", "a")] * rng.randint(0, 1), ("b", None)]
    stated = rng.choice([0, 0.5, 0.8, 1])
    limited = rng.choice([0, 0, 0.3])
    tenants = []
    for name, parent in names:
        tenant: dict[str, Any] = {"name": name, "parent": parent, "weight": rng.choice([1, 1, 1, 2, 3, 0])}
        if rng.random() < stated:
            tenant["quota"] = {"gpus": rng.randint(0, capacity)}
            if cpu and rng.random() < 0.3:
                tenant["quota"]["cpu_milli"] = rng.choice([0, 4_000, 16_000])
        if rng.random() < limited:
            tenant["limit"] = {"gpus": rng.randint(1, capacity)}
        tenants.append(tenant)
    return tenants


def _facts(rng: random.Random, cpu: int | None) -> dict[str, Any]:
    """What running and pending gangs have in common."""
    request: dict[str, Any] = {"gpus": rng.choice([1, 1, 2, 2, 3, 4])}
    if cpu is not None and rng.random() < 0.4:
        request["cpu_milli"] = rng.choice([1_000, 2_000, 5_000])
        if rng.random() < 0.3:
            request["gpus"] = 0
    return {"members": rng.choice([1, 1, 1, 2, 2, 3]), "request": request, "priority": rng.choice([0, 0, 1, 1, 2, 5])}


def _holders(
    rng: random.Random, entries: list[dict[str, Any]], leaves: list[str], count: int, cpu: int | None
) -> list[dict[str, Any]]:
    """Running gangs, placed at random as far as there is room."""
    gpus = {entry["name"]: entry["gpus"] - entry.get("used", {}).get("gpus", 0) for entry in entries}
    millis = dict.fromkeys(gpus, cpu or 0)
    holders: list[dict[str, Any]] = []
    for i in range(count):
        facts = _facts(rng, cpu)
        asked, asked_cpu = facts["request"]["gpus"], facts["request"].get("cpu_milli", 0)
        placement: dict[str, int] = {}
        for _ in range(facts["members"]):
            room = [name for name in gpus if gpus[name] >= asked and millis[name] >= asked_cpu]
            if room:
                name = rng.choice(room)
                gpus[name] -= asked
                millis[name] -= asked_cpu
                placement[name] = placement.get(name, 0) + 1
        if not placement:
            continue
        gang = {**facts, "members": sum(placement.values()), "name": f"run{i}", "placement": placement}
        gang |= {"tenant": rng.choice(leaves), "started_s": NOW - rng.choice([50, 1_000, 5_000, 50_000])}
        gang |= {"preemptible": rng.random() < 0.85, "min_runtime_s": rng.choice([0, 0, 0, 2_000])}
        gang |= {"grace_s": rng.choice([0, 300]), "restart_s": rng.choice([0, 300])}
        gang["preemptions"] = rng.choice([0, 0, 0, 0, 3, 4])
        if rng.random() < 0.4:
            last = rng.choice([None, NOW - 600])
            gang["checkpoint"] = {"last_s": last, "interval_s": rng.choice([None, 900, 6_000])}
            gang["checkpoint"] |= {"bytes": rng.choice([None, 10**12]), "write_gbps": rng.choice([None, 2.0, 10.0])}
        if rng.random() < 0.12:
            gang |= {"phase": "terminating", "expected_end_s": rng.choice([None, NOW, NOW + 100])}
        holders.append(gang)
    return holders


def _contender(rng: random.Random, j: int, leaves: list[str], levels: list[str], cpu: int | None) -> dict[str, Any]:
    gang = {**_facts(rng, cpu), "name": f"g{j}", "tenant": rng.choice(leaves), "submitted_s": rng.randint(0, 3)}
    topology = {}
    if rng.random() < 0.2:
        topology["required"] = rng.choice([*levels, "node"])
    if rng.random() < 0.2:
        topology["preferred"] = rng.choice([*levels, "node"])
    gang["topology"] = topology
    if rng.random() < 0.15:
        gang["preempted_s"] = NOW - rng.choice([10, 600, 5_000])
    return gang
