"""The snapshot that a plan leads to."""

from __future__ import annotations

from gangfit.models import Plan, RunningGang, Snapshot


def apply(snapshot: Snapshot, plan: Plan) -> Snapshot:
    """The snapshot after the plan: placed gangs run from `time_s`, the others still wait.

    Raises ValueError if the plan places a gang that isn't pending; pydantic's ValidationError if what it places doesn't
    fit (for example members that overcommit a node).
    """
    pending = {gang.name: gang for gang in snapshot.pending}
    started = []
    for placement in plan.placements:
        gang = pending.pop(placement.gang, None)
        if gang is None:
            raise ValueError(f"the plan places {placement.gang!r}, which isn't pending in the snapshot")
        fields = {name: getattr(gang, name) for name in type(gang).model_fields}
        started.append(RunningGang(**fields, placement=placement.nodes(), started_s=snapshot.time_s))
    waiting = tuple(gang for gang in snapshot.pending if gang.name in pending)
    fields = {name: getattr(snapshot, name) for name in Snapshot.model_fields}
    return Snapshot(**{**fields, "running": (*snapshot.running, *started), "pending": waiting})
