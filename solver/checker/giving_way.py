"""Rules 8 to 11 of docs/model.md: limits of tenants, and who may be asked to give way to whom."""

from __future__ import annotations

from collections.abc import Iterator
from functools import partial

import numpy as np

from gangfit.models import PendingGang, Preemption, RunningGang, Violation
from gangfit.solver.checker.case import Case
from gangfit.solver.checker.eligible import protection
from gangfit.solver.checker.order import considered
from gangfit.solver.checker.reservation import Later
from gangfit.solver.checker.tenancy import Holdings


def tenant_limit(case: Case) -> Iterator[Violation]:
    """A tenant with a limit, of which a gang starts that asks a limited resource, stays within it."""
    tenancy = case.tenancy
    starting: set[tuple[int, int]] = set()
    if not any(tenancy.limit):
        return
    for rank in np.flatnonzero(case.admitted).tolist():
        gang = case.cluster.pending[rank]
        total = tenancy.total(gang)
        starting.update((tenant, r) for tenant in tenancy.chain(gang) for r in tenancy.limit[tenant] if r in total)
    for tenant, r in sorted(starting):
        held, most = case.held_after.held[tenant][r], tenancy.limit[tenant][r]
        if held > most:
            message = f"tenant {tenancy.names[tenant]!r} holds {held} {tenancy.resources[r]}, its limit is {most}"
            yield Violation(rule="tenant_limit", message=message)


def victim_eligible(case: Case) -> Iterator[Violation]:
    """A victim leaves once; it is preemptible, running, old enough and not guarded."""
    seen: set[str] = set()
    for entry in case.plan.preemptions:
        if entry.gang in seen:
            message = f"gang {entry.gang!r} gives way more than once, once is allowed"
            yield Violation(rule="victim_eligible", gang=entry.gang, message=message)
        seen.add(entry.gang)
    for _, gang in case.preempted:
        for fault in protection(case.cluster.snapshot, gang):
            message = f"gang {gang.name!r} can't give way: {fault}"
            yield Violation(rule="victim_eligible", gang=gang.name, message=message)


def victim_right(case: Case) -> Iterator[Violation]:
    """The gang that a victim gives way to starts, and has the stated right over it."""
    rights = _Rights(case)
    for entry, victim in case.preempted:
        rank = case.cluster.rank.get(entry.for_gang)
        if rank is None:
            continue
        taker = case.cluster.pending[rank]
        if not case.admitted[rank]:
            fault: str | None = f"gang {taker.name!r} doesn't start"
        else:
            fault = settle_fault(case, taker) or rights.fault(entry, taker, victim)
        if fault is not None:
            message = f"gang {victim.name!r} gives way to {taker.name!r} by {entry.reason!r}: {fault}"
            yield Violation(rule="victim_right", gang=victim.name, message=message)


def settle_fault(case: Case, taker: PendingGang) -> str | None:
    """What keeps a gang from taking from anyone, whatever its reason."""
    snapshot = case.cluster.snapshot
    since = None if taker.preempted_s is None else snapshot.time_s - taker.preempted_s
    settle_s = snapshot.policy.preemption.settle_s
    if since is not None and since < settle_s:
        return f"that was preempted {since} s ago itself, settle_s is {settle_s}"
    return None


class _Rights:
    """Rule 10 over one plan."""

    def __init__(self, case: Case) -> None:
        self._case = case
        self._policy = case.cluster.snapshot.policy.preemption
        self._up_to = _holdings_at_start(case)

    def fault(self, entry: Preemption, taker: PendingGang, victim: RunningGang) -> str | None:
        """Why the taker hasn't the stated right; None: it has."""
        same = taker.tenant == victim.tenant
        if same != (entry.reason == "own"):
            return f"they are of {'the same tenant' if same else 'different tenants'}"
        if entry.reason == "own" and self._policy.within != "priority":
            return f"policy.preemption.within is {self._policy.within!r}"
        if entry.reason != "own" and self._policy.across != entry.reason:
            return f"policy.preemption.across is {self._policy.across!r}"
        if entry.reason != "reclaim":
            lower = victim.priority < taker.priority
            return None if lower else f"its priority {victim.priority} is not below {taker.priority}"
        return self._not_within(taker, victim) or self._not_above(taker, victim)

    def _not_within(self, taker: PendingGang, victim: RunningGang) -> str | None:
        """Where the taker's tenants are beyond quota after its start."""
        tenancy, held = self._case.tenancy, self._up_to[taker.name].held
        for tenant in tenancy.apart(taker.tenant, victim.tenant):
            for r, most in tenancy.quota[tenant].items():
                if held[tenant][r] > most:
                    figure = f"{held[tenant][r]} {tenancy.resources[r]}, its quota is {most}"
                    return f"tenant {tenancy.names[tenant]!r} would hold {figure}"
        return None

    def _not_above(self, taker: PendingGang, victim: RunningGang) -> str | None:
        """Which of the victim's tenants would be within quota with this one victim left running."""
        tenancy, held = self._case.tenancy, self._up_to[taker.name].held
        asked, own = tenancy.total(taker), tenancy.total(victim)
        for tenant in tenancy.apart(victim.tenant, taker.tenant):
            guarded = {r: most for r, most in tenancy.quota[tenant].items() if r in asked}
            if not any(held[tenant][r] + own.get(r, 0) > most for r, most in guarded.items()):
                return f"tenant {tenancy.names[tenant]!r} isn't above its quota in anything that {taker.name!r} asks"
        return None


def entangled(case: Case) -> bool:
    """Whether a gang that reclaims may be within its quota only because others of its tenants leave, too.

    Then a smaller set of victims may be enough for everyone and yet unlawful, and a gang that fits may have to wait.
    """
    chains = [case.tenancy.chain(gang) for _, gang in case.preempted]
    for entry, victim in case.preempted:
        rank = case.cluster.rank.get(entry.for_gang)
        if entry.reason == "reclaim" and rank is not None:
            ours = set(case.tenancy.apart(case.cluster.pending[rank].tenant, victim.tenant))
            if any(ours.intersection(chain) for chain in chains):
                return True
    return False


def _holdings_at_start(case: Case) -> dict[str, Holdings]:
    """Gang that reclaims → what tenants hold with the victims gone and the gangs admitted up to it started."""
    takers = {entry.for_gang for entry, _ in case.preempted if entry.reason == "reclaim"}
    result: dict[str, Holdings] = {}
    if not takers:
        return result
    holdings = case.held_before.copy()
    for index in np.flatnonzero(case.victims).tolist():
        holdings.add(case.cluster.running_gangs[index], -1)
    for turn in considered(case):
        gang = case.cluster.pending[turn.rank]
        if case.admitted[turn.rank] and turn.rank not in case.late:
            holdings.add(gang)
            if gang.name in takers:
                result[gang.name] = holdings.copy()
    return result


def victim_needed(case: Case) -> Iterator[Violation]:
    """No victim could stay with every placement as it is. (Placing others elsewhere for its sake isn't tried.)"""
    space, later = case.space, Later.of(case)
    for entry, gang in case.preempted:
        index = case.cluster.running_index[entry.gang]
        nodes = np.unique(case.cluster.running.node[case.cluster.running.gang == index])
        staying = case.cluster.counted & ~case.victims & ~case.moved
        staying[index] = True
        beside = space if not case.victims[index] else case.cluster.free_beside(staying)
        taken = case.taken[:, nodes]
        over = (taken > beside[:, nodes]) & (taken > 0) & ~case.cluster.unlimited[:, nodes]
        if not over.any() and not any(_passes_limit(case, gang)) and not (later and later.needs_gone(index, nodes)):
            message = f"gang {gang.name!r} gives way although all placements fit beside it, too"
            yield Violation(rule="victim_needed", gang=gang.name, message=message)


def _passes_limit(case: Case, victim: RunningGang) -> Iterator[bool]:
    """Whether a limit would be passed with this one victim left running, by tenant and resource."""
    tenancy, total = case.tenancy, case.tenancy.total(victim)
    starting = [case.cluster.pending[rank] for rank in np.flatnonzero(case.admitted).tolist()]
    for tenant in tenancy.chain(victim):
        for r, most in tenancy.limit[tenant].items():
            asks = partial(_asks, case, tenant, r)
            yield case.held_after.held[tenant][r] + total.get(r, 0) > most and any(map(asks, starting))


def _asks(case: Case, tenant: int, r: int, gang: PendingGang) -> bool:
    return r in case.tenancy.total(gang) and tenant in case.tenancy.chain(gang)
