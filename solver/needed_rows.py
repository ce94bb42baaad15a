"""Rule 11 as counting: how much room there may be at the most if everybody who leaves is needed."""

from __future__ import annotations

from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np

from gangfit.solver.arrays import BoolArray, IntArray
from gangfit.solver.merged import Sum
from gangfit.solver.problem import UNLIMITED, Problem
from gangfit.solver.tenants import UNBOUNDED

if TYPE_CHECKING:
    from gangfit.solver.joint import Joint

SHARED = 4
"""Most victims on one node whose leaving together is counted."""


def victim_needed(model: Joint) -> None:
    """Rule 11 where gangs ask for room alone, no domain and no tenant's limit; else no row: cuts say the rest.

    Let a slot be the most that any member asks of each resource. In some number D of slots everybody has room. If v is
    needed, fewer than D are left without it; so with o_v the slots that v's leaving adds at the most

        slots  ≤  D − 1 + min o_v    over all who leave

    With sizes o_1 < … < o_k and literals z_i, "somebody leaves who adds no more than o_i", that is one row:

        slots  ≤  D − 1 + o_k − Σ (o_{i+1} − o_i) · z_i,        e[v] ≤ z_i,    z_i ≤ z_{i+1}

    Slots are counted too low where victims share nodes, and D is too high where requests differ: the rows hold for
    every set of which all are needed.
    """
    problem, gangs = model.problem, list(model.gangs)
    slot: IntArray = problem.request[gangs].max(axis=0)
    limited = bool(((problem.tenants.limit < UNBOUNDED) & (model.starts > 0)).any())
    if limited or not slot.any() or (problem.required[gangs] >= 0).any():
        return
    allowed: BoolArray = np.ones(len(problem.node_names), dtype=np.bool_)
    for e in {int(problem.eligible_of[j]) for j in gangs}:
        allowed &= problem.eligible[e].allowed
    now, most = _slots(_room(problem), slot), _slots(model.most, slot)
    base, terms = 0, []
    adds = dict.fromkeys(model.evicted, 0)
    aside = allowed.copy()
    for group in model.classes:
        first = int(group.nodes[0])
        holders = [v for v, _ in model.members_on(first)]
        aside[group.nodes] &= not holders
        if not allowed[first]:
            continue
        base += group.size * int(now[first])
        gain = group.size * int(most[first] - now[first])
        if not gain or len(holders) > SHARED:
            continue
        leaving = [model.evicted[v] for v in holders]
        gone = leaving[0]
        if len(leaving) > 1:
            gone = model.model.new_bool_var("")
            model.model.add(gone >= Sum(leaving) - (len(leaving) - 1))
        terms.append(gain * gone)
        for v in holders:
            adds[v] += gain
    room = _enough(model, slot, np.flatnonzero(aside))
    if base >= room or not adds:
        return
    steps = sorted(set(adds.values()))
    literals = [model.model.new_bool_var("") for _ in steps[:-1]]
    for lower, higher in pairwise(literals):
        model.model.add_implication(lower, higher)
    narrower = [width * z for width, z in zip(np.diff(steps).tolist(), literals, strict=True)]
    model.model.add(Sum([*terms, *narrower]) <= room - 1 - base + steps[-1])
    for v, most_added in adds.items():
        if most_added < steps[-1]:
            model.model.add_implication(model.evicted[v], literals[steps.index(most_added)])


def _room(problem: Problem) -> IntArray:
    """(N, R): free before anybody leaves."""
    free: IntArray = np.maximum(problem.free - problem.debt, 0)
    free[problem.free == UNLIMITED] = UNLIMITED
    return free


def _slots(free: IntArray, slot: IntArray) -> IntArray:
    """(N,): slots on each node."""
    asked = np.flatnonzero(slot)
    result: IntArray = (free[:, asked] // slot[asked]).min(axis=1)
    return result


def _enough(model: Joint, slot: IntArray, aside: IntArray) -> int:
    """Slots in which all members have room, those that fit beside slots on nodes where nobody leaves not counted."""
    problem = model.problem
    asked = np.flatnonzero(slot)
    free = _room(problem)[aside]
    rest = free[:, asked] - _slots(free, slot)[:, None] * slot[asked]
    members: dict[tuple[int, ...], int] = {}
    for j in model.gangs:
        request = tuple(problem.request[j, asked].tolist())
        members[request] = members.get(request, 0) + int(problem.members[j])
    result = 0
    for request in sorted(members, reverse=True):
        count, ask = members[request], np.array(request, dtype=np.int64)
        needs = np.flatnonzero(ask)
        if not len(needs):
            continue
        holds = np.minimum((rest[:, needs] // ask[needs]).min(axis=1), count)
        before = np.cumsum(holds) - holds
        taken = np.clip(count - before, 0, holds)
        rest -= taken[:, None] * ask
        count -= int(taken.sum())
        result += -(-count // int((slot[asked][needs] // ask[needs]).min()))
    return result
