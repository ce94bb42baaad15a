"""Full clusters in which pending gangs start only if running ones give way: the stress test of the victim tier."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from benchmarks.generators.fabric import NOTES, NOW, Ints, Wire, levels, node_name, racks
from gangfit.models import Snapshot

RACK, SPINE, GPUS = 32, 8, 8
"""Nodes per rack, racks per spine, GPUs per node."""
RUNS = (1, 2, 4, 8, 16)
"""Members of the gangs that run, each on a node of its own."""
AGES = (300, 36_000)
"""Seconds that a gang has run, uniform: what a preemption loses per GPU, for restarts are free here."""


@dataclass(frozen=True)
class Family:
    """How gangs run."""

    scattered: bool
    """Half of the gangs of two members or more sit on random nodes, not side by side."""
    sizes: tuple[int, ...]
    """GPUs per member, uniform: below 8 several gangs share a node."""
    preemptible: float
    """Share of gangs."""


FAMILIES = {
    "run": Family(False, (8,), 0.7),
    "scat": Family(True, (8,), 0.7),
    "share": Family(True, (1, 2, 4, 8), 0.7),
    "hard": Family(True, (1, 2, 4, 8), 1.0),
}
"""Name → family, from mild to hard."""


def contended(family: str = "share", nodes: int = 2048, pending: int = 20, seed: int = 0) -> Snapshot:
    """One tenant; gangs of priority 0 hold a share of U(0.9, 1) of the GPUs, gangs of priority 10 wait.

    A gang that runs takes 1, 2, 4, 8 or 16 nodes: a random one with room for a member and those next to it that have
    room, or random ones with room (`Family.scattered`). So stretches shrink where the cluster fills up. Pending gangs
    ask ⌊2^U(1, 5)⌋ whole nodes, a third of them in one rack, a third in one spine, a third anywhere.
    """
    rng = np.random.default_rng([seed, nodes, pending, list(FAMILIES).index(family), 3])
    kind = FAMILIES[family]
    free = np.full(nodes, GPUS, dtype=np.int64)
    holds: list[Wire] = []
    left = round(rng.uniform(0, 0.1) * nodes * GPUS)
    while free.sum() > left:
        size = int(rng.choice([size for size in kind.sizes if size <= free.max()]))
        spots = _spots(rng, free, size, int(rng.choice(RUNS)), kind.scattered)
        free[spots] -= size
        preemptible = bool(rng.random() < kind.preemptible)
        holds.append(_running(rng, len(holds), spots, size, tenant="team", preemptible=preemptible))
    waits = [
        _pending(i, int(2 ** rng.uniform(1, 5)), [None, "rack", "spine"][int(rng.integers(3))], tenant="team")
        for i in range(pending)
    ]
    arguments = {"family": family, "nodes": nodes, "pending": pending, "seed": seed}
    entries = racks(nodes, RACK, [("spine", SPINE)], gpus=GPUS)
    return _snapshot("contended", arguments, entries, [{"name": "team"}], holds, waits)


def reclaimed(seed: int = 0, *, nodes: int = 500, gangs: int = 50) -> Snapshot:
    """Two tenants whose quotas are half the GPUs each; one holds everything, the other submits 50 gangs.

    The holder's gangs are preemptible runs of 1 to 16 adjacent whole nodes, of the same priority as those that wait.
    Racks of 20 nodes, 5 racks a spine. Pending gangs ask 2 to 8 whole nodes, about half the cluster in sum, a third of
    them in one rack, a third in one spine, a third anywhere; those past the quota can't reclaim and wait.
    """
    rng = np.random.default_rng([seed, nodes, gangs, 4])
    free = np.full(nodes, GPUS, dtype=np.int64)
    holds: list[Wire] = []
    while free.any():
        spots = _spots(rng, free, GPUS, int(rng.choice(RUNS)), False)
        free[spots] = 0
        holds.append(_running(rng, len(holds), spots, GPUS, tenant="holder", preemptible=True))
    waits = [
        _pending(i, int(rng.integers(2, 9)), [None, "rack", "spine"][int(rng.integers(3))], tenant="owner")
        for i in range(gangs)
    ]
    for wait in waits:
        wait["priority"] = 0
    quota = {"gpus": nodes * GPUS // 2}
    tenants = [{"name": name, "quota": quota} for name in ("holder", "owner")]
    arguments = {"seed": seed, "nodes": nodes, "gangs": gangs}
    return _snapshot("reclaimed", arguments, racks(nodes, 20, [("spine", 5)], gpus=GPUS), tenants, holds, waits)


def _spots(rng: np.random.Generator, free: Ints, size: int, count: int, scattered: bool) -> Ints:
    """Up to `count` nodes with room for a member: adjacent ones or, if `scattered` and by even chance, random ones."""
    room = np.flatnonzero(free >= size)
    if scattered and count > 1 and rng.random() < 0.5:
        return np.sort(rng.choice(room, min(count, len(room)), replace=False))
    low = int(rng.choice(room))
    return room[(room >= low) & (room < low + count)]


def _running(rng: np.random.Generator, index: int, spots: Ints, size: int, *, tenant: str, preemptible: bool) -> Wire:
    started = NOW - int(rng.integers(AGES[0], AGES[1] + 1))
    return {
        "name": f"run{index:05d}",
        "tenant": tenant,
        "priority": 0,
        "members": len(spots),
        "request": {"gpus": size},
        "placement": {node_name(n): 1 for n in spots.tolist()},
        "submitted_s": started,
        "started_s": started,
        "restart_s": 0,
        "preemptible": preemptible,
    }


def _pending(index: int, members: int, required: str | None, *, tenant: str) -> Wire:
    return {
        "name": f"wait{index:04d}",
        "tenant": tenant,
        "priority": 10,
        "submitted_s": NOW - 100 + index,
        "members": members,
        "request": {"gpus": GPUS},
        "topology": {"required": required} if required else {},
    }


def _snapshot(
    generator: str,
    arguments: dict[str, str | int],
    entries: list[Wire],
    tenants: list[Wire],
    holds: list[Wire],
    waits: list[Wire],
) -> Snapshot:
    return Snapshot.model_validate(
        {
            "time_s": NOW,
            "topology": levels(["spine", "rack"], NOTES),
            "nodes": entries,
            "tenants": tenants,
            "running": holds,
            "pending": waits,
            "meta": {"generator": generator, **arguments},
        }
    )
