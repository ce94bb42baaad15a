"""What keeps a gang from taking the room of running gangs: counted, and put into words."""

from __future__ import annotations

from collections import Counter

import numpy as np

from gangfit.models import Gang, PendingGang, RunningGang, Snapshot
from gangfit.solver.problem import Problem
from gangfit.solver.rights import rights
from gangfit.solver.victims import guard_interval, protected_until


def retry_at(snapshot: Snapshot, wanted: Gang) -> int | None:
    """When age no longer protects the first gang of lower priority in the tenant, or of another tenant.

    Not before the gang has settled that was preempted itself.
    """
    policy = snapshot.policy.preemption
    ends = []
    for running in snapshot.running:
        mode = policy.within if running.tenant == wanted.tenant else policy.across
        claim = mode == "reclaim" or (mode == "priority" and running.priority < wanted.priority)
        if claim and running.preemptible and running.phase != "terminating":
            ends.append(max(protected_until(snapshot, running), settled_at(snapshot, wanted)))
    return min((end for end in ends if end > snapshot.time_s), default=None)


def settled_at(snapshot: Snapshot, wanted: Gang) -> int:
    """Instant from which a gang that was preempted may preempt; 0 if it never was."""
    last = wanted.preempted_s if isinstance(wanted, PendingGang) else None
    return 0 if last is None else last + snapshot.policy.preemption.settle_s


def held_by(problem: Problem, gang: int) -> str:
    """Running gangs that a gang may not preempt, by what protects them."""
    snapshot, wanted = problem.snapshot, problem.gangs[gang]
    reach = rights(problem, [gang], {gang})[0].any
    mine = {problem.victims.gangs[v].name for v in np.flatnonzero(reach).tolist()}
    counts = Counter(
        _protected_by(snapshot, wanted, running)
        for running in snapshot.running
        if running.phase != "terminating" and running.name not in mine
    )
    said = [f"{number} {why}" for why, number in sorted(counts.items(), key=lambda item: (-item[1], item[0]))]
    left = settled_at(snapshot, wanted) - snapshot.time_s
    if left > 0:
        said.append(f"it was preempted itself and may not preempt for {left} s more")
    return ", ".join(said)


def _protected_by(snapshot: Snapshot, wanted: Gang, running: RunningGang) -> str:
    policy = snapshot.policy.preemption
    age = snapshot.time_s - running.started_s
    if not running.preemptible:
        return "not preemptible"
    if age < running.min_runtime_s:
        return "younger than its minimum run"
    if running.preemptions >= policy.guard and age < guard_interval(running):
        return "guarded after preemptions"
    own = running.tenant == wanted.tenant
    mode = policy.within if own else policy.across
    if mode == "never":
        return f"by preemption.{'within' if own else 'across'} 'never'"
    if mode == "reclaim":
        return "not to be reclaimed (quotas)"
    return "of no lower priority" if running.priority >= wanted.priority else "within its reach, but for settling"
