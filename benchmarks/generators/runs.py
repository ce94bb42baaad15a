"""Whole-node gangs on a two-level tree: the stress test of the topology tier."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from benchmarks.generators.fabric import NOTES, Ints, Wire, gang, levels, racks, running, snapshot
from gangfit.models import Snapshot

RACK, SPINE, GPUS = 32, 8, 8
"""Nodes per rack, racks per spine, GPUs per node."""
RUNS = (1, 2, 4, 8, 16)
"""Lengths of the runs of nodes that running gangs hold."""
MOST = 64
"""Most nodes that a pending gang asks."""


def contiguous_runs(
    nodes: int = 2048,
    occ: float = 0.8,
    pending: int = 40,
    seed: int = 0,
    weights: Mapping[str, int] | None = NOTES,
) -> Snapshot:
    """Runs of 1, 2, 4, 8 or 16 adjacent nodes at uniform offsets are taken until the share `occ` is.

    A run holds the nodes of its stretch that were free when it came. Pending gangs ask ⌊2^U(0, 6.2)⌋ whole nodes, at
    most 64. `weights=None` takes the product's default weights.
    """
    rng = np.random.default_rng([seed, nodes, pending, round(occ * 1000)])
    taken = np.zeros(nodes, dtype=np.bool_)
    owners: list[Ints] = []
    while taken.sum() < occ * nodes:
        length = int(rng.choice(RUNS))
        low = int(rng.integers(nodes - length + 1))
        fresh = low + np.flatnonzero(~taken[low : low + length])
        if len(fresh):
            taken[fresh] = True
            owners.append(fresh)
    arguments = {"nodes": nodes, "occ": occ, "pending": pending, "seed": seed}
    return _whole_nodes("contiguous_runs", arguments, rng, nodes, owners, pending, weights)


def scattered_free(
    nodes: int = 2048,
    occ: float = 0.8,
    pending: int = 40,
    seed: int = 0,
    weights: Mapping[str, int] | None = None,
) -> Snapshot:
    """A full cluster of adjacent runs of which random single nodes fell free until the share `occ` is left.

    The opposite of `contiguous_runs`: hardly two free nodes are adjacent, and all racks look alike.
    """
    rng = np.random.default_rng([seed, nodes, pending, round(occ * 1000), 1])
    free = rng.permutation(nodes)[: nodes - round(occ * nodes)]
    held = np.ones(nodes, dtype=np.bool_)
    held[free] = False
    owners, low = [], 0
    while low < nodes:
        length = int(rng.choice(RUNS))
        fresh = low + np.flatnonzero(held[low : low + length])
        if len(fresh):
            owners.append(fresh)
        low += length
    arguments = {"nodes": nodes, "occ": occ, "pending": pending, "seed": seed}
    return _whole_nodes("scattered_free", arguments, rng, nodes, owners, pending, weights)


def _whole_nodes(
    generator: str,
    arguments: dict[str, int | float],
    rng: np.random.Generator,
    nodes: int,
    owners: list[Ints],
    pending: int,
    weights: Mapping[str, int] | None,
) -> Snapshot:
    request = {"gpus": GPUS}
    holds = [running(rng, i, dict.fromkeys(owner.tolist(), 1), request) for i, owner in enumerate(owners)]
    waits: list[Wire] = []
    for i in range(pending):
        members = min(MOST, int(2 ** rng.uniform(0, 6.2)))
        waits.append(gang(rng, f"wait{i:04d}", members, request, pending - i))
    entries = racks(nodes, RACK, [("spine", SPINE)], gpus=GPUS)
    return snapshot(generator, arguments, levels(["spine", "rack"], weights), entries, holds, waits)
