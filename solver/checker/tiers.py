"""Tier values, recomputed from the placements: one function per tier of docs/model.md."""

from __future__ import annotations

import numpy as np

from gangfit.solver.checker.case import Case
from gangfit.solver.checker.cluster import Occupancy
from gangfit.solver.checker.leaving import lost_progress
from gangfit.solver.checker.moving import moves
from gangfit.solver.checker.tree import Bools, Ints, Partition


def tier_values(case: Case) -> dict[str, int]:
    """Tier name → value, in lexicographic order."""
    if not case.tiers:
        lost = zip(case.cluster.tree.levels, intact_domains(case, case.hosted), strict=True)
        case.tiers = {
            "admission": int(np.count_nonzero(case.admitted)),
            **lost_progress(case),
            **moves(case),
            "preferred": preferred_level(case),
            "distance": tree_distance(case),
            "uplinks": shared_uplinks(case),
            **{f"intact.{level}": before - after for level, (before, after) in lost},
        }
    return case.tiers


def tier_scales(case: Case) -> dict[str, int]:
    """What (value − bound) is divided by for the gap, for the tiers where that isn't the value."""
    touched = case.laid.touched
    weights = case.cluster.tree.weights
    distance = sum(weight * int(touched[:, level].sum()) for level, weight in enumerate(weights))
    return {"preferred": sum(int(touched[rank, level]) for rank, level in _preferring(case)), "distance": distance}


def preferred_level(case: Case) -> int:
    """Σ over admitted gangs with a preferred level of (domains of that level touched − 1)."""
    touched = case.laid.touched
    return sum(max(0, int(touched[rank, level]) - 1) for rank, level in _preferring(case))


def tree_distance(case: Case) -> int:
    """Σ over admitted gangs and levels, node included, of weight × (domains touched − 1)."""
    further = np.maximum(case.laid.touched - 1, 0)
    return sum(weight * int(further[:, level].sum()) for level, weight in enumerate(case.cluster.tree.weights))


def shared_uplinks(case: Case) -> int:
    """Σ over domains of the named levels of max(0, c − 1), c: staying and admitted gangs that cross the boundary."""
    total = 0
    staying = case.cluster.running.only(case.cluster.counted & ~case.victims & ~case.moved)
    for partition in case.cluster.tree.partitions[:-1]:
        crossing = _crossing(partition, staying) + _crossing(partition, case.hosted)
        crossing += _crossing(partition, case.arrivals)
        total += int(np.maximum(crossing - 1, 0).sum())
    return total


def intact_domains(case: Case, hosted: Occupancy) -> list[tuple[int, int]]:
    """Intact domains per level, coarse → fine, the node last: (before the plan, with these members hosted).

    Gangs that leave still host: what becomes intact once they are gone is not counted.
    """
    cluster = case.cluster
    with_gpus = cluster.ready & (cluster.gpus > 0)
    touched = cluster.gpus_used > 0
    touched[cluster.running.node] = True
    touched_after = touched.copy()
    touched_after[hosted.node] = True
    touched_after[case.arrivals.node] = True
    return [
        (_intact(partition, with_gpus, touched), _intact(partition, with_gpus, touched_after))
        for partition in cluster.tree.partitions
    ]


def _preferring(case: Case) -> list[tuple[int, int]]:
    """(rank, level index) of the gangs with a preferred level that start or have a promise."""
    case = case.laid
    levels, promised = case.cluster.tree.levels, -1 if case.promise is None else case.promise.rank
    return [
        (rank, levels.index(gang.topology.preferred))
        for rank, gang in enumerate(case.cluster.pending)
        if gang.topology.preferred is not None and (case.admitted[rank] or rank == promised)
    ]


def _crossing(partition: Partition, occupancy: Occupancy) -> Ints:
    """Gangs with a member inside and a member outside, per domain."""
    if not len(occupancy.gang):
        return np.zeros(len(partition.known), dtype=np.int64)
    gang, domain = occupancy.pairs(partition)
    spread = np.bincount(gang)[gang] > 1
    return np.bincount(domain[spread], minlength=len(partition.known))


def _intact(partition: Partition, with_gpus: Bools, touched: Bools) -> int:
    """Domains that have a ready node with GPUs, and no touched one among these."""
    present, lost = partition.count(with_gpus), partition.count(with_gpus & touched)
    return int(np.count_nonzero((present > 0) & (lost == 0)))
