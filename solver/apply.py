"""The snapshot that a plan leads to."""

from __future__ import annotations

from typing import Any

from gangfit.models import Gang, Move, PendingGang, Placement, Plan, RunningGang, Snapshot
from gangfit.solver.checker import check
from gangfit.solver.reservation import known_end_s
from gangfit.solver.victims import saves_in_grace


def apply(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """The snapshot after the plan: placed gangs run from `time_s`, victims wait again, the others still wait.

    A gang of known duration gets its end. Moved gangs run where they went, from `time_s`. Promised starts aren't
    carried over: the next round makes its own.

    Terminating gangs are gone where a placed gang sits on a node of theirs, as victims are: their space is free.
    A victim keeps its submission and may not preempt for `policy.preemption.settle_s`. Raises ValueError, with the
    first violation, for a plan that `check` refuses: applying costs a check.
    """
    pending = {gang.name: gang for gang in snapshot.pending}
    running = {gang.name: gang for gang in snapshot.running}
    victims, moving, starting = [], [], []
    for preemption in plan.preemptions:
        victim = running.pop(preemption.gang, None)
        if victim is None:
            raise ValueError(f"the plan preempts {preemption.gang!r}, which isn't running in the snapshot")
        victims.append(victim)
    for move in plan.moves:
        moved = running.pop(move.gang, None)
        if moved is None:
            raise ValueError(f"the plan moves {move.gang!r}, which isn't running in the snapshot")
        moving.append((moved, move))
    for placement in plan.placements:
        gang = pending.pop(placement.gang, None)
        if gang is None:
            raise ValueError(f"the plan places {placement.gang!r}, which isn't pending in the snapshot")
        starting.append((gang, placement))
    report = check(snapshot, plan)
    if not report.ok:
        raise ValueError(f"the plan can't be applied, {report.violations[0].rule}: {report.violations[0].message}")
    started = [_moved(snapshot, moved, move) for moved, move in moving]
    started += [_starts(snapshot, gang, placement) for gang, placement in starting]
    taken = {node for gang in started for node in gang.placement}
    for leaving in snapshot.running:
        if leaving.phase == "terminating" and not taken.isdisjoint(leaving.placement):
            running.pop(leaving.name, None)
    waiting = tuple(gang for gang in snapshot.pending if gang.name in pending)
    fields = {name: getattr(snapshot, name) for name in Snapshot.model_fields}
    fields["running"] = (*running.values(), *started)
    fields["pending"] = (*waiting, *(_back(snapshot, victim) for victim in victims))
    return Snapshot(**fields)


def _fields(gang: Gang) -> dict[str, Any]:
    return {name: getattr(gang, name) for name in Gang.model_fields}


def _moved(snapshot: Snapshot, gang: RunningGang, move: Move) -> RunningGang:
    """A moved gang as it runs; it ends so much later as it waits for space."""
    left = _left_s(snapshot, gang)
    fields = {**_set_back(snapshot, gang), "placement": move.nodes(), "started_s": snapshot.time_s}
    return RunningGang(**fields, expected_end_s=None if left is None else move.starts_after_s + left)


def _starts(snapshot: Snapshot, gang: PendingGang, placement: Placement) -> RunningGang:
    """A placed gang as it runs; one that waits for space ends so much later."""
    end = gang.expected_duration_s
    if end is not None:
        end += placement.starts_after_s or snapshot.time_s
    fields = _fields(gang)
    return RunningGang(**fields, placement=placement.nodes(), started_s=snapshot.time_s, expected_end_s=end)


def _back(snapshot: Snapshot, victim: RunningGang) -> PendingGang:
    """A preempted gang as it waits again."""
    fields = _set_back(snapshot, victim)
    return PendingGang(**fields, preempted_s=snapshot.time_s, expected_duration_s=_left_s(snapshot, victim))


def _set_back(snapshot: Snapshot, victim: RunningGang) -> dict[str, Any]:
    """A gang that left its place; set back once more unless it completed a checkpoint since its start."""
    fields = _fields(victim)
    checkpoint = victim.checkpoint
    saved = saves_in_grace(victim)
    if checkpoint is not None and saved:
        fields["checkpoint"] = checkpoint.model_copy(update={"last_s": snapshot.time_s})
    elif checkpoint is not None and checkpoint.last_s is not None:
        saved = checkpoint.last_s > victim.started_s
    fields["preemptions"] = 0 if saved else victim.preemptions + 1
    return fields


def _left_s(snapshot: Snapshot, victim: RunningGang) -> int | None:
    """How long a preempted gang runs when it starts again: what it hasn't saved, and the restart."""
    end = known_end_s(snapshot, victim)
    if end is None:
        return None
    last = victim.checkpoint.last_s if victim.checkpoint is not None else None
    saved = snapshot.time_s if saves_in_grace(victim) else max(victim.started_s, last or 0)
    return min(max(1, end - saved + victim.restart_s), 10**9)
