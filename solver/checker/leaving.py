"""How gangs leave: what victims lose, when they stop and end, and until when a placement waits for space."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from gangfit.models import Drain, Gang, RunningGang
from gangfit.solver.checker.case import Case
from gangfit.solver.checker.cluster import CEILING
from gangfit.solver.checker.tree import Bools

GB = 10**9
"""Bytes of a GB in `write_gbps`."""
Fault = tuple[str | None, str]
"""Gang concerned, message."""


def lost_progress(case: Case) -> dict[str, int]:
    """Tier name → value: GPU-seconds lost by priority of the victims, descending, then the gangs preempted."""
    lost: defaultdict[int, int] = defaultdict(int)
    for _, gang in case.preempted:
        lost[gang.priority] += true_drain(case, gang).lost_gpu_s
    tiers = {f"lost.p{priority}": lost[priority] for priority in sorted(lost, reverse=True)}
    return {**tiers, "broken": len(case.preempted)}


def true_drain(case: Case, gang: RunningGang) -> Drain:
    """How a running gang would leave."""
    now, point = case.cluster.snapshot.time_s, gang.checkpoint
    write_s = _write_s(gang)
    saved = write_s is not None and write_s <= gang.grace_s
    last = None if point is None else point.last_s
    lost_s = 0 if saved else max(0, now - max(gang.started_s, last or 0))
    return Drain(
        stop_s=now,
        saved_by_s=now + math.ceil(write_s) if saved and write_s is not None else None,
        kill_s=now + gang.grace_s,
        resume_from_s=now if saved else last,
        lost_gpu_s=min(gpus_of(case, gang) * (lost_s + gang.restart_s), 2**46),
    )


def _write_s(gang: RunningGang) -> Fraction | None:
    """Seconds that a checkpoint takes, exact in decimals as written; None: unknown."""
    point = gang.checkpoint
    if point is None or point.bytes is None or point.write_gbps is None:
        return None
    return Fraction(point.bytes, GB) / Fraction(repr(point.write_gbps))


def gpus_of(case: Case, gang: Gang) -> int:
    """GPUs that a gang holds; without any, what its CPU is worth in the cluster, at least 1."""
    if gang.request.gpus:
        return gang.members * gang.request.gpus
    gpus, cpu = case.tenancy.capacity[:2]
    return max(1, gang.members * gang.request.cpu_milli * gpus // cpu) if cpu else 1


def drains(case: Case) -> Iterator[Fault]:
    """Every stated figure of a victim's leaving is the recomputed one."""
    preempted = [(entry.drain, gang) for entry, gang in case.preempted]
    for drain, gang in (*preempted, *((entry.drain, gang) for entry, gang in case.moves)):
        true = true_drain(case, gang)
        for name in Drain.model_fields:
            stated, recomputed = getattr(drain, name), getattr(true, name)
            if stated != recomputed:
                yield gang.name, f"drain of gang {gang.name!r}: {name} is {stated}, recomputed {recomputed}"


def starts(case: Case) -> Iterator[Fault]:
    """Every placement says truly until when it waits for gangs that leave; a caller's own plan may leave it out."""
    if not case.full and all(placement.starts_after_s is None for placement in case.plan.placements):
        return
    waits = _waits_on_nodes(case) if case.moved.any() else _waits_in_turn(case)
    for placement in case.plan.placements:
        rank = case.cluster.rank.get(placement.gang)
        if rank is None:
            continue
        true = waits.get(rank)
        if placement.starts_after_s != true:
            message = f"gang {placement.gang!r}: starts_after_s is {placement.starts_after_s}, recomputed {true}"
            yield placement.gang, message


def end_of(case: Case, gang: RunningGang) -> int:
    """When a gang that leaves is gone."""
    if gang.phase == "terminating" and gang.expected_end_s is not None:
        return gang.expected_end_s
    return case.cluster.snapshot.time_s + gang.grace_s


def waits_at(case: Case) -> dict[int, int]:
    """Node index → instant until which new members wait there; nodes where they don't have to are left out."""
    cluster, now = case.cluster, case.cluster.snapshot.time_s
    leaving: Bools = ~cluster.counted | case.victims | case.moved
    if not leaving.any():
        return {}
    without = cluster.free_beside(np.ones_like(leaving))
    over: Bools = np.any((case.taken > without) & (case.taken > 0) & ~cluster.unlimited, axis=0)
    ends: dict[int, int] = {}
    left = cluster.running.only(leaving)
    for index, node in zip(left.gang.tolist(), left.node.tolist(), strict=True):
        gang = cluster.running_gangs[index]
        end = end_of(case, gang)
        if over[node]:
            ends[node] = max(ends.get(node, end), end)
    return {node: end for node, end in ends.items() if end > now}


def _waits_on_nodes(case: Case) -> dict[int, int]:
    """Rank → instant until which a placed gang waits where running gangs move, too."""
    waits = waits_at(case)
    pairs = zip(*(part.tolist() for part in case.pairs), strict=True)
    result: dict[int, int] = {}
    for rank, node in pairs:
        if node in waits:
            result[rank] = max(result.get(rank, 0), waits[node])
    return result


def _turns(case: Case) -> list[int]:
    """Ranks of the placed gangs in considered order, those asked again at the end; else as the plan lists them."""
    rank = case.cluster.rank
    last = {entry.gang: i for i, entry in enumerate(case.plan.considered)}
    listed = [placement.gang for placement in case.plan.placements if placement.gang in rank]
    return [rank[name] for name in sorted(dict.fromkeys(listed), key=lambda name: last.get(name, -1))]


def _waits_in_turn(case: Case) -> dict[int, int]:
    """Rank → instant until which a placed gang waits; gangs that start at once are left out."""
    cluster, now = case.cluster, case.cluster.snapshot.time_s
    leaving: Bools = ~cluster.counted | case.victims
    if not leaving.any():
        return {}
    ends = {index: end_of(case, cluster.running_gangs[index]) for index in np.flatnonzero(leaving).tolist()}
    instants = sorted({now, *ends.values()})
    waits: dict[int, int] = {}
    turns = _turns(case)
    for instant in reversed(instants):
        # A gang that doesn't fit just before an instant waits for it.
        staying = np.array(
            [not gone or ends[index] >= instant for index, gone in enumerate(leaving.tolist())], dtype=np.bool_
        )
        if instant > now:
            for rank in _kept_out(case, turns, staying):
                waits[rank] = max(waits.get(rank, 0), instant)
    return waits


def _kept_out(case: Case, turns: list[int], staying: Bools) -> Iterator[int]:
    """Ranks that don't fit beside running gangs that stay, or not within their tenants' limits, in their turn."""
    cluster = case.cluster
    free = np.maximum(cluster.free_beside(staying), 0)
    taken = np.zeros_like(free)
    holdings, final = case.held_before.copy(), case.held_before.copy()
    for index in np.flatnonzero(cluster.counted & case.victims).tolist():
        final.add(cluster.running_gangs[index], -1)
        if not staying[index]:
            holdings.add(cluster.running_gangs[index], -1)
    for rank in turns:
        gang = cluster.pending[rank]
        mine = case.placed.gang == rank
        nodes, asks = case.placed.node[mine], cluster.asks[rank]
        members = np.minimum(case.placed.members[mine][:, None], CEILING // np.maximum(asks, 1) + 1)
        np.add.at(taken.T, nodes, members * asks)
        asked = asks > 0
        full = (taken > free) & ~cluster.unlimited
        # A limit that is passed for good is no matter of time: tenant_limit says so.
        beyond = holdings.over_limit(gang) is not None and final.over_limit(gang) is None
        late = beyond or bool(full[asked][:, nodes].any())
        holdings.add(gang)
        final.add(gang)
        if late:
            yield rank
