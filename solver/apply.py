"""The snapshot that a plan leads to."""

from __future__ import annotations

from typing import Any

from gangfit.models import Gang, PendingGang, Plan, RunningGang, Snapshot
from gangfit.solver.victims import saves_in_grace


def apply(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """The snapshot after the plan: placed gangs run from `time_s`, victims wait again, the others still wait.

    Terminating gangs are gone where a placed gang sits on a node of theirs, as victims are: their space is free.
    A victim keeps its submission and may not preempt for `policy.preemption.settle_s`. Raises ValueError if the plan
    places a gang that isn't pending or preempts one that isn't running; pydantic's ValidationError if what it places
    doesn't fit (for example members that overcommit a node).
    """
    pending = {gang.name: gang for gang in snapshot.pending}
    running = {gang.name: gang for gang in snapshot.running}
    victims, started = [], []
    for preemption in plan.preemptions:
        victim = running.pop(preemption.gang, None)
        if victim is None:
            raise ValueError(f"the plan preempts {preemption.gang!r}, which isn't running in the snapshot")
        victims.append(victim)
    for placement in plan.placements:
        gang = pending.pop(placement.gang, None)
        if gang is None:
            raise ValueError(f"the plan places {placement.gang!r}, which isn't pending in the snapshot")
        started.append(RunningGang(**_fields(gang), placement=placement.nodes(), started_s=snapshot.time_s))
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


def _back(snapshot: Snapshot, victim: RunningGang) -> PendingGang:
    """A preempted gang as it waits again; set back once more unless it completed a checkpoint since its start."""
    fields = _fields(victim)
    checkpoint = victim.checkpoint
    saved = saves_in_grace(victim)
    if checkpoint is not None and saved:
        fields["checkpoint"] = checkpoint.model_copy(update={"last_s": snapshot.time_s})
    elif checkpoint is not None and checkpoint.last_s is not None:
        saved = checkpoint.last_s > victim.started_s
    fields["preemptions"] = 0 if saved else victim.preemptions + 1
    return PendingGang(**fields, preempted_s=snapshot.time_s)
