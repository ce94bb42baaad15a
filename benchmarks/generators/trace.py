"""Gang sizes as in public traces: most gangs small, most GPUs in large ones, nodes shared, CPU and memory binding.

The sizes are a mix between clusters whose snapshots lie in instances/ (counted there, running and pending gangs):

| snapshot | gangs of ≤ 8 GPUs | gangs of ≥ 64 GPUs | GPUs asked by gangs of ≥ 64 |
|---|---|---|---|
| `kalos-302n` (AcmeTrace, Hu et al., NSDI 2024) | 80 % | 16 % | 89 % |
| `lingjun-847n` (sizes of AcmeTrace's Seren) | 93 % | 1.8 % | 34 % |
| `helios-earth-107n` (HeliosArtifact, Hu et al., SC 2021) | 82 % | 1.0 % | 11 % |
| `philly-352n` (Jeon et al., ATC 2019) | 99 % | 0 % | 0 % |
| `SIZES` below | 86 % | 6 % | 59 % |
"""

from __future__ import annotations

import numpy as np

from benchmarks.generators.fabric import Ints, Wire, gang, levels, racks, running, snapshot
from gangfit.models import Snapshot

SIZES = {1: 0.42, 2: 0.08, 4: 0.08, 8: 0.28, 16: 0.05, 32: 0.03, 64: 0.03, 128: 0.02, 256: 0.01}
"""GPUs of a gang → share of gangs."""
NODE = (8, 128_000, 1_048_576)
"""GPUs, millicores, MiB of a node."""
PER_GPU = (12_000, 98_304)
"""Millicores and MiB that a GPU's share of a member asks: 8 GPUs take 3/4 of a node's CPU and memory."""
GREEDY_SHARE = 0.15
"""Share of gangs with members of ≤ 4 GPUs that ask double CPU or double memory: on their nodes those bind, not GPUs."""
CPU_SHARE = 0.1
"""Share of gangs without GPUs."""
RACK, SPINE = 32, 8


def trace_like(nodes: int = 512, occ: float = 0.85, pending: int = 60, seed: int = 0) -> Snapshot:
    """Gangs of a heavy-tailed mix run until the share `occ` of the GPUs is taken; default weights.

    Small gangs land on random nodes that hold them, half of them best fit; large ones on the first free nodes after a
    random offset, as a scheduler without topology leaves them.
    """
    rng = np.random.default_rng([seed, nodes, pending, round(occ * 1000), 2])
    free: Ints = np.tile(np.array(NODE, dtype=np.int64), (nodes, 1))
    shapes, asked = [], 0
    while asked < occ * nodes * NODE[0]:
        members, ask = _shape(rng, nodes)
        shapes.append((members, ask))
        asked += members * int(ask[0])
    # Large gangs first: they started when there still was room.
    shapes.sort(key=lambda shape: -shape[0] * int(shape[1][0]))
    holds: list[Wire] = []
    for members, ask in shapes:
        placement = _place(rng, free, members, ask)
        if placement:
            holds.append(running(rng, len(holds), placement, _request(ask)))
    waits: list[Wire] = []
    for i in range(pending):
        members, ask = _shape(rng, nodes)
        waits.append(gang(rng, f"wait{i:04d}", members, _request(ask), pending - i))
    fields = dict(zip(("gpus", "cpu_milli", "memory_mib"), NODE, strict=True))
    entries = racks(nodes, RACK, [("spine", SPINE)], **fields)
    arguments = {"nodes": nodes, "occ": occ, "pending": pending, "seed": seed}
    return snapshot("trace_like", arguments, levels(["spine", "rack"], None), entries, holds, waits)


def _shape(rng: np.random.Generator, nodes: int) -> tuple[int, Ints]:
    """Members, and (3,) GPUs, millicores and MiB of each. No gang asks more than a quarter of the cluster."""
    if rng.random() < CPU_SHARE:
        return int(rng.choice([1, 2, 4, 8])), np.array([0, int(rng.choice([4, 8, 16])) * 1000, 32_768], dtype=np.int64)
    gpus = min(int(rng.choice(list(SIZES), p=list(SIZES.values()))), max(8, 2 * nodes))
    whole = gpus >= 16 or rng.random() < 0.7
    size = min(gpus, 8) if whole else int(rng.choice([s for s in (1, 2, 4, 8) if s <= gpus]))
    ask = np.array([size, size * PER_GPU[0], size * PER_GPU[1]], dtype=np.int64)
    if size <= 4 and rng.random() < GREEDY_SHARE:
        ask[1 + int(rng.integers(2))] *= 2
    return gpus // size, ask


def _request(ask: Ints) -> dict[str, int]:
    return {"gpus": int(ask[0]), "cpu_milli": int(ask[1]), "memory_mib": int(ask[2])}


def _place(rng: np.random.Generator, free: Ints, members: int, ask: Ints) -> dict[int, int]:
    """Node → members, taken from `free` (N, 3); empty if they don't fit."""
    asked = ask > 0
    room = (free[:, asked] // ask[asked]).min(axis=1)
    nodes = np.flatnonzero(room)
    if int(room.sum()) < members:
        return {}
    if members * int(ask[0]) > 8:
        nodes = np.roll(nodes, -int(rng.integers(len(nodes))))
    elif rng.random() < 0.5:
        nodes = nodes[np.argsort(room[nodes] + rng.random(len(nodes)))]
    else:
        nodes = rng.permutation(nodes)
    placement: dict[int, int] = {}
    for n in nodes:
        count = min(members, int(room[n]))
        placement[int(n)] = count
        free[n] -= count * ask
        members -= count
        if not members:
            break
    return placement
