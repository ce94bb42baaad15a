"""Random rounds whose free space is in pieces: small running gangs on every node, large ones that wait."""

from __future__ import annotations

import random
from typing import Any

from gangfit.models import Snapshot

NOW = 100_000


def fragmented_round(seed: int, *, nodes: int = 4, running: int = 6, pending: int = 3) -> Snapshot:
    """A tiny snapshot in which gangs may move; the same seed gives the same snapshot."""
    rng = random.Random(seed)
    levels = ["spine", "rack"][: rng.choice([0, 1, 1, 2])]
    cpu = rng.choice([None, None, None, 8_000])
    count = rng.randint(2, nodes)
    entries: list[dict[str, Any]] = [
        {"name": f"n{n}", "path": [f"s{n // 3}", f"r{n // 2}"][: len(levels)], "gpus": rng.choice([2, 4, 4, 4, 3])}
        | ({"cpu_milli": cpu} if cpu else {})
        | ({"state": "cordoned"} if rng.random() < 0.05 else {})
        | ({"labels": {"pool": "a"}} if rng.random() < 0.3 else {})
        for n in range(count)
    ]
    capacity = sum(entry["gpus"] for entry in entries)
    tenants: list[dict[str, Any]] = [
        {"name": name, "weight": 1} | ({"quota": {"gpus": rng.randint(0, capacity)}} if rng.random() < 0.7 else {})
        for name in "ab"[: rng.choice([1, 2, 2])]
    ]
    if rng.random() < 0.2:
        tenants[0]["limit"] = {"gpus": rng.randint(2, capacity)}
    names = [tenant["name"] for tenant in tenants]
    return Snapshot.model_validate(
        {
            "time_s": NOW,
            "topology": {"levels": [{"name": name} for name in levels]},
            "nodes": entries,
            "tenants": tenants,
            "running": _running(rng, entries, names, running, levels),
            "pending": [_pending(rng, j, names, levels) for j in range(rng.randint(1, pending))],
            "policy": {
                "preemption": {
                    "across": rng.choice(["never", "never", "reclaim", "priority"]),
                    "within": rng.choice(["never", "priority"]),
                },
                "moves": {
                    "mode": "allowed",
                    "max_gangs": rng.choice([1, 2, 2, 8, 8]),
                    "max_ratio": rng.choice([0.5, 1.0, 1.5, 2.0, 4.0, 4.0]),
                },
                "time_limit_s": 60,
                "workers": 1,
            },
        }
    )


def _facts(rng: random.Random, tenants: list[str]) -> dict[str, Any]:
    return {"tenant": rng.choice(tenants), "priority": rng.choice([0, 0, 0, 1, 2])}


def _running(
    rng: random.Random, entries: list[dict[str, Any]], tenants: list[str], count: int, levels: list[str]
) -> list[dict[str, Any]]:
    free = {entry["name"]: entry["gpus"] for entry in entries}
    result: list[dict[str, Any]] = []
    for i in range(rng.randint(2, count)):
        gpus = rng.choice([1, 1, 1, 2])
        placement: dict[str, int] = {}
        for _ in range(rng.choice([1, 1, 2])):
            # The roomiest nodes first, so that what is left is in small pieces.
            name = max(free, key=lambda name: (free[name], rng.random()))
            if free[name] > gpus:
                free[name] -= gpus
                placement[name] = placement.get(name, 0) + 1
        if not placement:
            continue
        gang = _facts(rng, tenants) | {"name": f"run{i}", "members": sum(placement.values()), "placement": placement}
        gang |= {"request": {"gpus": gpus} | ({"cpu_milli": 1_000} if rng.random() < 0.2 else {})}
        gang |= {"started_s": NOW - rng.choice([0, 50, 5_000, 50_000]), "preemptible": rng.random() < 0.9}
        gang |= {"grace_s": rng.choice([0, 300]), "restart_s": rng.choice([0, 300])}
        if rng.random() < 0.15 and not any(entry.get("state") for entry in entries):
            gang["selector"] = {"pool": "a"}
        if levels and rng.random() < 0.15 and len(placement) == 1:
            gang["topology"] = {"required": rng.choice(levels)}
        if rng.random() < 0.1:
            gang |= {"phase": "terminating", "expected_end_s": rng.choice([None, NOW + 100])}
        result.append(gang)
    return result


def _pending(rng: random.Random, j: int, tenants: list[str], levels: list[str]) -> dict[str, Any]:
    gang = _facts(rng, tenants) | {"name": f"g{j}", "submitted_s": rng.randint(0, 3)}
    gang |= {"members": rng.choice([1, 1, 1, 2]), "request": {"gpus": rng.choice([2, 3, 3, 4])}}
    topology = {}
    if rng.random() < 0.2:
        topology["required"] = rng.choice([*levels, "node"])
    if rng.random() < 0.2:
        topology["preferred"] = rng.choice([*levels, "node"])
    gang["topology"] = topology
    if rng.random() < 0.1:
        gang["preempted_s"] = NOW - rng.choice([10, 5_000])
    return gang
