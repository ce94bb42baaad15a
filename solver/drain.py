"""How victims leave: for whom, by which right, by when; and when the gangs that need their nodes can start."""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping, Sequence
from typing import Literal

import numpy as np

from gangfit.models import Drain, RunningGang, Snapshot, amounts
from gangfit.models import Preemption as Preempted
from gangfit.solver.arrays import IntArray
from gangfit.solver.assignment import Assignment
from gangfit.solver.oracle import Preemption
from gangfit.solver.problem import Problem
from gangfit.solver.rights import Right, claimable, given_back, rights
from gangfit.solver.victims import saves_in_grace, write_s


def preempted(
    problem: Problem, gangs: Sequence[int], assignment: Assignment, preemption: Preemption
) -> tuple[Preempted, ...]:
    """One entry per victim, by name; `gangs` are the admitted ones in considered order."""
    held = rights(problem, gangs, preemption.preemptors)
    homes = {right.gang: set(assignment[right.gang].nodes.tolist()) for right in held}
    back = given_back(problem, preemption.victims)
    result = []
    for v in sorted(preemption.victims):
        entitled = [right for right in held if right.own[v]]
        if not entitled:
            # Without any right the plan is unlawful; the checker says so.
            entitled = [right for right in held if claimable(problem, right, v, back)] or held
        taker = _nearest(entitled, homes, problem.victims.nodes[v].tolist())
        victim = problem.victims.gangs[v]
        result.append(
            Preempted(
                gang=victim.name,
                for_gang=problem.gangs[taker.gang].name,
                reason=_reason(problem, taker, v),
                drain=drain(problem.snapshot, victim, int(problem.victims.lost[v])),
            )
        )
    return tuple(result)


def _nearest(entitled: Sequence[Right], homes: Mapping[int, set[int]], nodes: list[int]) -> Right:
    """Of the gangs entitled, one that sits where the victim sat, else the first. `homes`: gang → its nodes."""
    return next((right for right in entitled if not homes[right.gang].isdisjoint(nodes)), entitled[0])


def _reason(problem: Problem, taker: Right, v: int) -> Literal["own", "priority", "reclaim"]:
    if not taker.own[v]:
        return "reclaim"
    return "own" if problem.victims.tenant[v] == problem.tenant_of[taker.gang] else "priority"


def drain(snapshot: Snapshot, victim: RunningGang, lost: int) -> Drain:
    """SIGTERM now, a checkpoint if one fits into the grace window, SIGKILL at its end."""
    checkpoint, now = victim.checkpoint, snapshot.time_s
    saved, resume = None, checkpoint.last_s if checkpoint is not None else None
    if checkpoint is not None and saves_in_grace(victim):
        saved, resume = now + math.ceil(write_s(checkpoint)), now
    return Drain(stop_s=now, saved_by_s=saved, kill_s=now + victim.grace_s, resume_from_s=resume, lost_gpu_s=lost)


def starts_after(problem: Problem, assignment: Assignment, victims: Collection[int]) -> dict[int, int]:
    """Gang → instant at which the space it waits for is given back; gangs that start at once are absent."""
    snapshot = problem.snapshot
    leaving = [(g, gone_s(snapshot, g)) for g in snapshot.running if g.phase == "terminating"]
    leaving += [(g, snapshot.time_s + g.grace_s) for g in (problem.victims.gangs[v] for v in victims)]
    if not leaving:
        return {}
    index = {name: n for n, name in enumerate(problem.node_names)}
    now: IntArray = problem.free.copy()
    ends: dict[int, int] = {}
    for gang, end in leaving:
        named = amounts(gang.request)
        asks = np.array([named.get(r) or 0 for r in problem.resources], dtype=np.int64)
        for name, count in gang.placement.items():
            n = index[name]
            if gang.phase == "terminating":
                now[n] -= count * asks
            ends[n] = max(ends.get(n, 0), end)
    taken = np.zeros_like(now)
    for gang_index, spread in assignment.items():
        taken[spread.nodes] += spread.counts[:, None] * problem.request[gang_index]
    short = {n for n in ends if ((taken[n] > np.maximum(now[n], 0)) & (taken[n] > 0)).any()}
    waits = {
        j: max((ends[n] for n in spread.nodes.tolist() if n in short), default=0) for j, spread in assignment.items()
    }
    return {j: end for j, end in waits.items() if end > snapshot.time_s}


def gone_s(snapshot: Snapshot, gang: RunningGang) -> int:
    """When a terminating gang is gone."""
    return snapshot.time_s + gang.grace_s if gang.expected_end_s is None else gang.expected_end_s
