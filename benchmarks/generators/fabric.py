"""A regular tree of alike nodes, and gangs in wire form: what the generators share."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from gangfit.models import Snapshot

NOW = 1_700_000_000
"""`time_s` of every generated snapshot."""
TENANTS = 5
NOTES = {"node": 0, "rack": 1, "spine": 3}
"""Level weights under which earlier studies were made; the product's defaults are 1, 4, 16."""
GPU_NODE = {"gpus": 8, "cpu_milli": 128_000, "memory_mib": 1_048_576}
"""An 8-GPU node with CPU and memory."""

PLACEMENT = {"order": "priority", "preemption": {"within": "never", "across": "never"}}
"""Policy of rounds that measure placement: priority across tenants first, nobody gives way."""

Ints = np.ndarray[Any, np.dtype[np.int64]]
Wire = dict[str, Any]


def node_name(index: int) -> str:
    """Name of one node."""
    return f"n{index:05d}"


def racks(nodes: int, per_rack: int, above: Sequence[tuple[str, int]], **fields: Any) -> list[Wire]:
    """One hostlist entry per rack of `per_rack` nodes; `above` names the levels over the rack, fine → coarse, each with
    its number of children. `fields` are the node's own.
    """
    entries = []
    for rack, low in enumerate(range(0, nodes, per_rack)):
        high = min(low + per_rack, nodes) - 1
        path, index = [f"rack{rack:04d}"], rack
        for level, children in above:
            index //= children
            path.append(f"{level}{index:03d}")
        name = node_name(low) if low == high else f"n[{low:05d}-{high:05d}]"
        entries.append({"name": name, "path": path[::-1], **fields})
    return entries


def levels(names: Sequence[str], weights: Mapping[str, int] | None) -> Wire:
    """The topology: level names coarse → fine, with given weights or the defaults."""
    if weights is None:
        return {"levels": [{"name": name} for name in names]}
    listed = [{"name": name, "weight": weights[name]} for name in names]
    return {"levels": listed, "node_weight": weights["node"]}


def gang(
    rng: np.random.Generator, name: str, members: int, request: Mapping[str, Any], age: int, **fields: Any
) -> Wire:
    """A gang with a priority of {1, 1, 1, 2, 3} and one of five tenants, submitted `age` seconds ago."""
    return {
        "name": name,
        "tenant": f"tenant{int(rng.integers(TENANTS))}",
        "priority": int(rng.choice([1, 1, 1, 2, 3])),
        "submitted_s": NOW - age,
        "members": members,
        "request": dict(request),
        **fields,
    }


def running(
    rng: np.random.Generator, index: int, placement: Mapping[int, int], request: Mapping[str, Any], **fields: Any
) -> Wire:
    """A gang that runs: node index → members."""
    nodes = {node_name(int(n)): int(c) for n, c in placement.items()}
    wire = gang(rng, f"run{index:05d}", sum(nodes.values()), request, 100_000 - index % 50_000, **fields)
    return {**wire, "placement": nodes, "started_s": wire["submitted_s"]}


def snapshot(
    generator: str,
    arguments: Mapping[str, Any],
    topology: Wire,
    nodes: list[Wire],
    running: list[Wire],
    pending: list[Wire],
) -> Snapshot:
    """The snapshot, with the policy of `PLACEMENT`; `meta` says how to make it again."""
    return Snapshot.model_validate(
        {
            "time_s": NOW,
            "topology": topology,
            "nodes": nodes,
            "tenants": [{"name": f"tenant{i}"} for i in range(TENANTS)],
            "running": running,
            "pending": pending,
            "policy": PLACEMENT,
            "meta": {"generator": generator, **arguments},
        }
    )
