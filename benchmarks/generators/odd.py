"""Odd member sizes, several GPU models and three levels: where nothing divides anything."""

from __future__ import annotations

import numpy as np

from benchmarks.generators.fabric import Ints, Wire, gang, levels, racks, running, snapshot
from gangfit.models import Snapshot

RACK, SPINE, POD = 16, 4, 2
"""Nodes per rack, racks per spine, spines per pod."""
MODELS = ("A100", "H100", "H200")
SIZES = (3, 5, 6, 7)
"""GPUs per member."""
GPUS = 8


def odd_sizes(nodes: int = 256, occ: float = 0.6, pending: int = 40, seed: int = 0) -> Snapshot:
    """Members of 3, 5, 6 or 7 GPUs on 8-GPU nodes, so that 1 to 5 GPUs of a node stay over; three levels.

    Every rack has one of three GPU models; half of the pending gangs name the one they need. Running gangs hold random
    nodes, several of them partly, until the share `occ` of the GPUs is taken. Default weights.
    """
    rng = np.random.default_rng([seed, nodes, pending, round(occ * 1000), 3])
    model = rng.choice(len(MODELS), size=-(-nodes // RACK), p=[0.4, 0.4, 0.2])
    free: Ints = np.full(nodes, GPUS, dtype=np.int64)
    holds: list[Wire] = []
    while GPUS * nodes - int(free.sum()) < occ * GPUS * nodes:
        size, members = int(rng.choice(SIZES)), int(rng.integers(1, 9))
        low = int(rng.integers(nodes))
        usable = np.flatnonzero(np.roll(free, -low) >= size)[:members]
        if not len(usable):
            break
        spread = (usable + low) % nodes
        free[spread] -= size
        holds.append(running(rng, len(holds), dict.fromkeys(spread.tolist(), 1), {"gpus": size}))
    waits: list[Wire] = []
    for i in range(pending):
        wanted = {"gpu_model": str(rng.choice(MODELS))} if rng.random() < 0.5 else {}
        members = int(2 ** rng.uniform(0, 4))
        waits.append(gang(rng, f"wait{i:04d}", members, {"gpus": int(rng.choice(SIZES))}, pending - i, **wanted))
    entries = racks(nodes, RACK, [("spine", SPINE), ("pod", POD)], gpus=GPUS)
    entries = [{**entry, "gpu_model": MODELS[int(m)]} for entry, m in zip(entries, model, strict=True)]
    arguments = {"nodes": nodes, "occ": occ, "pending": pending, "seed": seed}
    return snapshot("odd_sizes", arguments, levels(["pod", "spine", "rack"], None), entries, holds, waits)
