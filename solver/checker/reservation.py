"""Rule `reservation` of docs/model.md: what is promised to the first gang that waits, and the round at that instant."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cached_property

import numpy as np

from gangfit.models import Gang, PendingGang, RunningGang, Violation
from gangfit.solver.checker.case import Case, Promise
from gangfit.solver.checker.cluster import Occupancy
from gangfit.solver.checker.eligible import protection
from gangfit.solver.checker.room import Room, Wish
from gangfit.solver.checker.tenancy import Holdings
from gangfit.solver.checker.tree import Bools, Ints


def reservation(case: Case) -> Iterator[Violation]:
    """At the promised instant the gang's nodes have room beside all that has not ended, under rules 3–8."""
    stated = [entry for entry in case.plan.blocked if entry.reservation is not None]
    for entry in stated[1:]:
        message = f"gang {entry.gang!r} has a reservation beside {stated[0].gang!r}, one is allowed"
        yield Violation(rule="reservation", gang=entry.gang, message=message)
    for turn in case.plan.considered:
        true = next((e.reservation.start_s for e in stated if e.gang == turn.gang and e.reservation), None)
        if turn.reserved_s != true:
            message = f"considered: gang {turn.gang!r} has reserved_s {turn.reserved_s}, its reservation is for {true}"
            yield Violation(rule="reservation", gang=turn.gang, message=message)
    policy = case.cluster.snapshot.policy
    if stated and not policy.reserves:
        given = (
            f"policy.reservation is {policy.reservation!r}, order {policy.order!r}, moves.mode {policy.moves.mode!r}"
        )
        message = f"gang {stated[0].gang!r} has a reservation; {given}"
        yield Violation(rule="reservation", gang=stated[0].gang, message=message)
    later = Later.of(case)
    if later is None:
        return
    gang = case.cluster.pending[later.promise.rank]
    for node, message in [*_misplaced(case, later, gang), *_mistimed(case, later), *_crowded(case, later)]:
        text = f"gang {gang.name!r}, promised for {later.promise.start_s}: {message}"
        yield Violation(rule="reservation", gang=gang.name, node=node, message=text)


Fault = tuple[str | None, str]
"""Node concerned, message."""


def _misplaced(case: Case, later: Later, gang: PendingGang) -> Iterator[Fault]:
    """Whole, on known nodes that rules 3–7 leave."""
    cluster, promise = case.cluster, later.promise
    wish: Wish = case.wishes[promise.rank]
    for name in promise.unknown:
        yield name, f"node {name!r} is unknown"
    if promise.members != gang.members:
        yield None, f"{promise.members} members are placed, it has {gang.members}"
    allowed = case.masks.allowed(wish.selector, wish.tolerations, wish.gpu_model)
    for node in promise.occupancy.node[~allowed[promise.occupancy.node]].tolist():
        yield cluster.names[node], f"node {cluster.names[node]!r} is none that it may use"
    if wish.level is not None:
        partition = cluster.tree.partitions[wish.level]
        domains = np.unique(partition.domain[promise.occupancy.node])
        if len(domains) > 1 or not partition.known[domains].all():
            yield None, f"its nodes aren't in one known domain of level {gang.topology.required!r}"


def _mistimed(case: Case, later: Later) -> Iterator[Fault]:
    """An instant to come at which something ends; and not for want of a limit."""
    start, now = later.promise.start_s, case.cluster.snapshot.time_s
    if start <= now:
        yield None, f"that isn't after time_s {now}"
    if start not in later.instants:
        yield None, "nothing is known to end then"
    head = next(entry for entry in case.plan.blocked if entry.reservation is not None)
    if head.reason == "limit":
        yield None, "it waits for a limit; only gangs that wait for space have reservations"


def _crowded(case: Case, later: Later) -> Iterator[Fault]:
    """Rule 2 and 8 at the instant."""
    cluster = case.cluster
    asked = np.array(case.wishes[later.promise.rank].ask) > 0
    mine = np.zeros(len(cluster.names), dtype=np.bool_)
    mine[later.promise.occupancy.node] = True
    over = (later.taken > later.free) & asked[:, None] & mine & ~cluster.unlimited
    for node, resource in np.argwhere(over.T).tolist():
        name, most = cluster.names[node], int(later.free[resource, node])
        taken = f"{later.taken[resource, node]} {cluster.resources[resource]} are taken, {most} are free"
        yield name, f"on node {name!r} {taken}"
    tenancy = case.tenancy
    for gang in later.starting:
        for tenant in tenancy.chain(gang):
            for r, limit in tenancy.limit[tenant].items():
                held = later.held.held[tenant][r]
                if held > limit and r in tenancy.total(gang):
                    yield None, f"tenant {tenancy.names[tenant]!r} holds {held} {tenancy.resources[r]} of {limit}"
                    return


class Later:
    """The plan at the promised instant. Terminating gangs and victims are gone, and what has ended."""

    def __init__(self, case: Case, promise: Promise) -> None:
        self._case = case
        self.promise = promise
        cluster, now = case.cluster, case.cluster.snapshot.time_s
        wait = _longest_wait(case)
        starts = [
            None if g.expected_duration_s is None else now + wait + g.expected_duration_s for g in cluster.pending
        ]
        runs = [g.expected_end_s if g.phase == "running" else None for g in cluster.running_gangs]
        runs = [None if end is None or end <= now else end for end in runs]
        self.instants: set[int | None] = {*runs, *(e for e, y in zip(starts, case.admitted.tolist(), strict=True) if y)}
        """When something ends."""
        self.ended: Bools = np.array([end is not None and end <= promise.start_s for end in starts], dtype=np.bool_)
        """Pending gangs, by rank, that would have ended if they start now."""
        gone: Bools = np.array([end is not None and end <= promise.start_s for end in runs], dtype=np.bool_)
        self.staying: Bools = cluster.counted & ~case.victims & ~gone
        """Running gangs that are still there."""
        self.free: Ints = cluster.free_beside(self.staying)
        """Shape (resources, nodes)."""
        kept = case.placed.only(~self.ended)
        self.taken: Ints = Occupancy.both(kept, promise.occupancy).taken(cluster.asks, len(cluster.names))
        """What the gang and those that start now and haven't ended take, shape (resources, nodes)."""
        starting = np.flatnonzero(case.admitted & ~self.ended).tolist()
        self.starting: list[Gang] = [*(cluster.pending[rank] for rank in starting), cluster.pending[promise.rank]]

    @staticmethod
    def of(case: Case) -> Later | None:
        """The round at the stated instant; None: nothing is promised to a gang that waits."""
        return None if case.promise is None else Later(case, case.promise)

    @cached_property
    def held(self) -> Holdings:
        """What tenants hold."""
        case = self._case
        holdings = Holdings(case.tenancy, [[0] * len(row) for row in case.held_before.held])
        for index in np.flatnonzero(self.staying).tolist():
            holdings.add(case.cluster.running_gangs[index])
        for gang in self.starting:
            holdings.add(gang)
        return holdings

    @cached_property
    def _left(self) -> Room:
        cluster = self._case.cluster
        return Room(cluster, self._case.masks, np.maximum(self.free - self.taken, 0))

    def hinders(self, rank: int) -> bool:
        """Whether a gang that waits would, if it started now, leave the promised gang no room or pass a limit then."""
        if rank == self.promise.rank or self.ended[rank]:
            return False
        case, wish, gang = self._case, self._case.wishes[rank], self._case.cluster.pending[rank]
        both = np.minimum(case.left.held(wish), self._left.held(wish))
        return case.left.largest(both, wish.level) < gang.members or self.held.over_limit(gang) is not None

    def needs_gone(self, index: int, nodes: Ints) -> bool:
        """Whether a victim that stayed would leave too little room at the instant, or pass a limit then."""
        case, cluster, victim = self._case, self._case.cluster, self._case.cluster.running_gangs[index]
        end = victim.expected_end_s
        if end is not None and cluster.snapshot.time_s < end <= self.promise.start_s:
            return False
        staying = self.staying.copy()
        staying[index] = True
        taken = self.taken[:, nodes]
        over = (taken > cluster.free_beside(staying)[:, nodes]) & (taken > 0) & ~cluster.unlimited[:, nodes]
        held = self.held.copy()
        if not self.staying[index]:
            held.add(victim)
        limits = case.tenancy.limit
        passed = (
            held.held[tenant][r] > limits[tenant].get(r, held.held[tenant][r])
            for gang in self.starting
            for tenant in case.tenancy.chain(gang)
            for r in case.tenancy.total(gang)
        )
        return bool(over.any()) or any(passed)


def _longest_wait(case: Case) -> int:
    """The longest that a start may wait for a gang to leave: terminating, or one that some pending gang may take."""
    snapshot, takers = case.cluster.snapshot, _takers(case)
    waits = [0]
    for gang in snapshot.running:
        if gang.phase == "terminating":
            waits.append(gang.grace_s if gang.expected_end_s is None else gang.expected_end_s - snapshot.time_s)
        elif _could_be_taken(case, gang, takers) and not any(protection(snapshot, gang)):
            waits.append(gang.grace_s)
    return max(waits)


def _takers(case: Case) -> dict[str, int]:
    """Tenant → highest priority of its pending gangs that have settled."""
    settle, now = case.cluster.snapshot.policy.preemption.settle_s, case.cluster.snapshot.time_s
    highest: dict[str, int] = {}
    for gang in reversed(case.cluster.pending):
        if gang.preempted_s is None or now - gang.preempted_s >= settle:
            highest[gang.tenant] = gang.priority
    return highest


def _could_be_taken(case: Case, victim: RunningGang, takers: dict[str, int]) -> bool:
    """Whether rule 10 could give a pending gang a right over it, whatever the quotas."""
    policy = case.cluster.snapshot.policy.preemption
    if policy.within == "priority" and takers.get(victim.tenant, victim.priority) > victim.priority:
        return True
    others = [priority for tenant, priority in takers.items() if tenant != victim.tenant]
    if policy.across == "priority":
        return any(priority > victim.priority for priority in others)
    return policy.across == "reclaim" and bool(others)
