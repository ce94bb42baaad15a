"""What keeps a gang from taking the room of running gangs: counted, and put into words."""

from __future__ import annotations

from collections import Counter

import numpy as np

from gangfit.models import Gang, PendingGang, RunningGang, Snapshot
from gangfit.solver.arrays import BoolArray
from gangfit.solver.problem import Problem
from gangfit.solver.victims import guard_interval, protected_until

_ALWAYS = ("", "not preemptible", "younger than its minimum run", "guarded after preemptions")
"""What protects a running gang from everyone; its place is the code, 0: nothing."""


class Protection:
    """The running gangs of a round, those that leave anyway not counted, as arrays of shape (gangs,)."""

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        snapshot = problem.snapshot
        running = [gang for gang in snapshot.running if gang.phase != "terminating"]
        number = {name: t for t, name in enumerate(problem.tenants.names)}
        position = {gang.name: i for i, gang in enumerate(running)}
        self._tenant = np.array([number[gang.tenant] for gang in running], dtype=np.int64)
        self._priority = np.array([gang.priority for gang in running], dtype=np.int64)
        self._always = np.array([_always(snapshot, gang) for gang in running], dtype=np.int64)
        self._preemptible = np.array([gang.preemptible for gang in running], dtype=np.bool_)
        self._until = np.array([protected_until(snapshot, gang) for gang in running], dtype=np.int64)
        self._victim = np.array([position[gang.name] for gang in problem.victims.gangs], dtype=np.int64)
        """Position of each eligible gang."""

    def retry_at(self, gang: int) -> int | None:
        """When age no longer protects the first gang of lower priority in the tenant, or of another tenant.

        Not before the gang has settled that was preempted itself.
        """
        snapshot, (own, lower) = self._problem.snapshot, self._towards(gang)
        policy = snapshot.policy.preemption
        modes = (own, policy.within), (~own, policy.across)
        claim = np.zeros_like(own)
        for of, mode in modes:
            claim |= of if mode == "reclaim" else of & lower if mode == "priority" else False
        ends = np.maximum(self._until[claim & self._preemptible], settled_at(snapshot, self._problem.gangs[gang]))
        ends = ends[ends > snapshot.time_s]
        return int(ends.min()) if len(ends) else None

    def held_by(self, gang: int, reach: BoolArray) -> str:
        """Running gangs that a gang may not preempt, by what protects them; `reach` (V,): those it may."""
        snapshot, (own, lower) = self._problem.snapshot, self._towards(gang)
        beyond = np.ones_like(own)
        beyond[self._victim[reach]] = False
        counts: Counter[str] = Counter()
        for code, why in enumerate(_ALWAYS[1:], start=1):
            counts[why] += int(np.count_nonzero(beyond & (self._always == code)))
        beyond &= self._always == 0
        policy = snapshot.policy.preemption
        for of, field, mode in ((own, "within", policy.within), (~own, "across", policy.across)):
            for below in (False, True):
                here = beyond & of & (lower == below)
                counts[_by_policy(field, mode, below)] += int(np.count_nonzero(here))
        ranked = sorted(counts.items(), key=lambda item: (-item[1], item[0]))
        said = [f"{number} {why}" for why, number in ranked if number]
        left = settled_at(snapshot, self._problem.gangs[gang]) - snapshot.time_s
        if left > 0:
            said.append(f"it was preempted itself and may not preempt for {left} s more")
        return ", ".join(said)

    def _towards(self, gang: int) -> tuple[BoolArray, BoolArray]:
        """Which running gangs are of the gang's tenant, and which of lower priority."""
        own: BoolArray = self._tenant == self._problem.tenant_of[gang]
        lower: BoolArray = self._priority < self._problem.gangs[gang].priority
        return own, lower


def settled_at(snapshot: Snapshot, wanted: Gang) -> int:
    """Instant from which a gang that was preempted may preempt; 0 if it never was."""
    last = wanted.preempted_s if isinstance(wanted, PendingGang) else None
    return 0 if last is None else last + snapshot.policy.preemption.settle_s


def _always(snapshot: Snapshot, running: RunningGang) -> int:
    """Code of what protects a gang from everyone."""
    age = snapshot.time_s - running.started_s
    if not running.preemptible:
        return 1
    if age < running.min_runtime_s:
        return 2
    return 3 if running.preemptions >= snapshot.policy.preemption.guard and age < guard_interval(running) else 0


def _by_policy(field: str, mode: str, lower: bool) -> str:
    """What protects a gang from those of its tenant (`within`) or of others (`across`)."""
    if mode == "never":
        return f"by preemption.{field} 'never'"
    if mode == "reclaim":
        return "not to be reclaimed (quotas)"
    return "within its reach, but for settling" if lower else "of no lower priority"
