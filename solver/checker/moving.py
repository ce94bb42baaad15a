"""Rules 14 to 16 of docs/model.md, and what a plan states about gangs that go on elsewhere."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from gangfit.models import PendingGang, RunningGang, Violation
from gangfit.solver.checker.case import Case
from gangfit.solver.checker.eligible import protection
from gangfit.solver.checker.giving_way import settle_fault
from gangfit.solver.checker.leaving import end_of, gpus_of, waits_at
from gangfit.solver.checker.order import considered
from gangfit.solver.checker.tenancy import Holdings
from gangfit.solver.checker.tree import Ints

Fault = tuple[str | None, str]
"""Gang concerned, message."""


def moves(case: Case) -> dict[str, int]:
    """Tier name → value: gangs moved and their members; nothing where moves aren't allowed."""
    if case.cluster.snapshot.policy.moves.mode != "allowed":
        return {}
    return {"moved": len(case.moves), "moved_members": sum(gang.members for _, gang in case.moves)}


def move_eligible(case: Case) -> Iterator[Violation]:
    """Moves are allowed and few enough; whoever moves could also give way, and didn't start only now."""
    policy, now = case.cluster.snapshot.policy.moves, case.cluster.snapshot.time_s
    if case.plan.moves and policy.mode != "allowed":
        message = f"the plan moves {len(case.plan.moves)} gangs, policy.moves.mode is {policy.mode!r}"
        yield Violation(rule="move_eligible", message=message)
    if len(case.plan.moves) > policy.max_gangs:
        message = f"the plan moves {len(case.plan.moves)} gangs, policy.moves.max_gangs is {policy.max_gangs}"
        yield Violation(rule="move_eligible", message=message)
    leaving = Counter(entry.gang for entry in case.plan.moves) + Counter(entry.gang for entry in case.plan.preemptions)
    for _, gang in case.moves:
        faults = list(protection(case.cluster.snapshot, gang))
        if gang.started_s >= now:
            faults.append(f"it started at {gang.started_s}, not before time_s {now}")
        if leaving[gang.name] > 1:
            faults.append(f"it leaves {leaving[gang.name]} times, once is allowed")
        for fault in faults:
            message = f"gang {gang.name!r} can't move: {fault}"
            yield Violation(rule="move_eligible", gang=gang.name, message=message)


def move_right(case: Case) -> Iterator[Violation]:
    """Every gang moves for one that starts and has a right to it, and not more moves for it than the policy allows."""
    held = _holdings_at_start(case)
    weight: Counter[str] = Counter()
    for entry, gang in case.moves:
        rank = case.cluster.rank.get(entry.for_gang or "")
        if rank is None:
            continue
        mover = case.cluster.pending[rank]
        weight[mover.name] += gpus_of(case, gang)
        fault = "it doesn't start" if not case.admitted[rank] else settle_fault(case, mover)
        fault = fault or _no_right(case, mover, gang, held.get(mover.name))
        if fault is not None:
            message = f"gang {gang.name!r} moves for {mover.name!r}: {fault}"
            yield Violation(rule="move_right", gang=gang.name, message=message)
    ratio = case.cluster.snapshot.policy.moves.max_ratio
    for name, gpus in weight.items():
        asks = gpus_of(case, case.cluster.pending[case.cluster.rank[name]])
        if gpus > Fraction(repr(ratio)) * asks:
            message = f"{gpus} GPUs move for gang {name!r} that asks {asks}; policy.moves.max_ratio is {ratio}"
            yield Violation(rule="move_right", gang=name, message=message)


def _no_right(case: Case, mover: PendingGang, gang: RunningGang, held: Holdings | None) -> str | None:
    """Why a gang that starts may not have another moved; None: it may."""
    if mover.tenant == gang.tenant:
        lower = gang.priority <= mover.priority
        return None if lower else f"its priority {gang.priority} is above {mover.priority}"
    tenancy = case.tenancy
    if held is None:
        return None
    for tenant in tenancy.apart(mover.tenant, gang.tenant):
        for r, most in tenancy.quota[tenant].items():
            if held.held[tenant][r] > most:
                figure = f"{held.held[tenant][r]} {tenancy.resources[r]}, its quota is {most}"
                return f"tenant {tenancy.names[tenant]!r} would hold {figure}"
    return None


def _holdings_at_start(case: Case) -> dict[str, Holdings]:
    """Gang that others move for → what tenants hold once it and all admitted before it start; victims counted."""
    wanted = {entry.for_gang for entry, _ in case.moves}
    result: dict[str, Holdings] = {}
    if not wanted:
        return result
    holdings = case.held_before.copy()
    for turn in considered(case):
        gang = case.cluster.pending[turn.rank]
        if case.admitted[turn.rank] and turn.rank not in case.late:
            holdings.add(gang)
            if gang.name in wanted:
                result[gang.name] = holdings.copy()
    return result


def move_needed(case: Case) -> Iterator[Violation]:
    """No moved gang could stay with every other placement as it is. (Placing others elsewhere isn't tried.)"""
    cluster = case.cluster
    for _, gang in case.moves:
        index = cluster.running_index[gang.name]
        if not case.moved[index]:
            continue
        nodes = np.unique(cluster.running.node[cluster.running.gang == index])
        staying = cluster.counted & ~case.victims & ~case.moved
        staying[index] = True
        own = case.arrivals.only(np.arange(len(cluster.running_gangs)) == index)
        taken = (case.taken - own.taken(cluster.running_asks, len(cluster.names)))[:, nodes]
        beside = cluster.free_beside(staying)[:, nodes]
        if not ((taken > beside) & (taken > 0) & ~cluster.unlimited[:, nodes]).any():
            message = f"gang {gang.name!r} moves although all placements fit beside it where it is"
            yield Violation(rule="move_needed", gang=gang.name, message=message)


def returns(case: Case) -> Iterator[Fault]:
    """Every moved gang says truly when it starts again, and the steps of the plan are all there and fit in order."""
    if not case.moves:
        if case.plan.transitions:
            yield None, f"the plan lists {len(case.plan.transitions)} transitions, none without moves"
        return
    waits, starts = waits_at(case), {p.gang: p.starts_after_s for p in case.plan.placements}
    steps: list[tuple[int, str, str]] = []
    now = case.cluster.snapshot.time_s
    for entry, gang in case.moves:
        nodes = (case.cluster.index[name] for name in entry.nodes() if name in case.cluster.index)
        true = max(now + gang.grace_s, *(waits.get(node, 0) for node in nodes), 0)
        if entry.starts_after_s != true:
            yield gang.name, f"move of gang {gang.name!r}: starts_after_s is {entry.starts_after_s}, recomputed {true}"
        steps += [(now + gang.grace_s, "stop", gang.name), (true, "start", gang.name)]
    steps += [(now + gang.grace_s, "stop", gang.name) for _, gang in case.preempted]
    steps += [(at if at is not None else now, "start", name) for name, at in starts.items()]
    if not case.full and not case.plan.transitions:
        return
    stated = [(step.at_s, step.action, step.gang) for step in case.plan.transitions]
    if sorted(stated) != sorted(steps):
        yield None, f"transitions list {len(stated)} steps that aren't the {len(steps)} of the plan"
    yield from _misfits(case)


def _misfits(case: Case) -> Iterator[Fault]:
    """Steps that, carried out in order, come too early or don't find their space free."""
    cluster = case.cluster
    replay = _Replay(case)
    where = {entry.gang: entry.nodes() for entry in case.plan.placements}
    where |= {entry.gang: entry.nodes() for entry in case.plan.moves}
    ends = sorted((end_of(case, gang), gang.name) for gang in cluster.running_gangs if gang.phase == "terminating")
    last = 0
    stopped: set[str] = set()
    for step in case.plan.transitions:
        if step.at_s < last:
            yield step.gang, f"transitions: {step.action} of {step.gang!r} at {step.at_s} comes after a step at {last}"
        last = max(last, step.at_s)
        while ends and ends[0][0] <= step.at_s:
            replay.stop(ends.pop(0)[1])
        if step.action == "stop":
            stopped.add(step.gang)
            replay.stop(step.gang)
        elif step.gang in cluster.running_index and step.gang not in stopped:
            yield step.gang, f"transitions: gang {step.gang!r} starts at {step.at_s} before it has stopped"
        elif not replay.start(step.gang, where.get(step.gang, {})):
            yield step.gang, f"transitions: gang {step.gang!r} starts at {step.at_s} where there is no room yet"


class _Replay:
    """Free space while gangs stop and start."""

    def __init__(self, case: Case) -> None:
        self._cluster = case.cluster
        held = case.cluster.running.taken(case.cluster.running_asks, len(case.cluster.names))
        self._free = case.cluster.unclaimed - held

    def stop(self, name: str) -> None:
        """A running gang is gone from its nodes."""
        index = self._cluster.running_index.get(name)
        if index is not None:
            self._take(self._cluster.running_asks[index], self._cluster.running_gangs[index].placement, -1)

    def start(self, name: str, nodes: dict[str, int]) -> bool:
        """A gang takes its nodes; whether there is room."""
        rank = self._cluster.rank.get(name)
        index = self._cluster.running_index.get(name)
        if rank is None and index is None:
            return True
        asks = self._cluster.asks[rank] if rank is not None else self._cluster.running_asks[index]
        return self._take(asks, nodes, 1)

    def _take(self, asks: Ints, nodes: dict[str, int], sign: int) -> bool:
        fits = True
        for name, count in nodes.items():
            node = self._cluster.index.get(name)
            if node is not None:
                self._free[:, node] -= sign * count * asks
                over = (self._free[:, node] < 0) & (asks > 0) & ~self._cluster.unlimited[:, node]
                fits = fits and not over.any()
        return fits
