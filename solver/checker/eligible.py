"""Rule 9 of docs/model.md: why a running gang may not be preempted."""

from __future__ import annotations

from collections.abc import Iterator

from gangfit.models import RunningGang, Snapshot

GUARD_S = 3_600
"""Least time that the guard protects a gang without a checkpoint interval."""


def protection(snapshot: Snapshot, gang: RunningGang) -> Iterator[str]:
    """Every reason, with its figures; none: it may be asked to give way."""
    age = snapshot.time_s - gang.started_s
    if not gang.preemptible:
        yield "it is not preemptible"
    if gang.phase == "terminating":
        yield "it is terminating already"
    if age < gang.min_runtime_s:
        yield f"it runs for {age} s, min_runtime_s is {gang.min_runtime_s}"
    guard = snapshot.policy.preemption.guard
    point = gang.checkpoint
    interval = max(gang.min_runtime_s, GUARD_S) if point is None or point.interval_s is None else point.interval_s
    if gang.preemptions >= guard and age < interval:
        yield f"it was preempted {gang.preemptions} times (guard {guard}) and runs for {age} s of {interval} s"
