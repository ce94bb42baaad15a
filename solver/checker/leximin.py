"""`policy.order: leximin`: who may start before whom inside a tenant, and the vector of shares that a plan states."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction

from gangfit.models import Violation
from gangfit.solver.checker.case import Case

TOLERANCE = 1e-9
"""How far a stated share may be off."""


def closed_upward(case: Case) -> Iterator[Violation]:
    """With `leximin`, a gang starts only if those of its tenant of strictly higher priority do that could alone.

    Gangs asked again, and higher ones that are undecided, don't count: `considered` tells which they are.
    """
    cluster = case.cluster
    if cluster.snapshot.policy.order != "leximin" or not case.plan.considered:
        return
    waits: dict[str, str] = {}
    """Tenant → its first gang that could start alone and waits."""
    priority = {gang.name: gang.priority for gang in cluster.pending}
    for rank, gang in enumerate(cluster.pending):
        if case.admitted[rank] and rank not in case.late:
            before = waits.get(gang.tenant)
            if before is not None and priority[before] > gang.priority:
                message = (
                    f"gang {gang.name!r} of priority {gang.priority} starts, {before!r} of priority "
                    f"{priority[before]} of the same tenant {gang.tenant!r} could alone and has to start first"
                )
                yield Violation(rule="closed_upward", gang=gang.name, message=message)
        elif gang.name not in case.out_of_time and _could_alone(case, rank):
            waits.setdefault(gang.tenant, gang.name)


def _could_alone(case: Case, rank: int) -> bool:
    gang = case.cluster.pending[rank]
    return case.alone.most(case.wishes[rank]) >= gang.members and case.held_before.over_limit(gang) is None


def leximin(case: Case) -> Iterator[tuple[None, str]]:
    """Every leaf tenant with gangs, once, with its weighted share, ascending; those of weight 0 after all others."""
    if not case.plan.leximin:
        return
    order = case.cluster.snapshot.policy.order
    if order != "leximin":
        yield None, f"leximin is stated, policy.order is {order!r}"
    true = _shares(case)
    stated = [entry.tenant for entry in case.plan.leximin]
    if sorted(stated) != sorted(true):
        yield None, f"leximin lists tenants {', '.join(stated)}; it has to list {', '.join(sorted(true))}, each once"
    listed = [true[name] for name in stated if name in true]
    if listed != sorted(listed):
        yield None, f"leximin lists tenants {', '.join(stated)}, which isn't ascending by share, weight 0 last"
    for entry in case.plan.leximin:
        share = float(true[entry.tenant][1]) if entry.tenant in true else entry.share
        if abs(entry.share - share) > TOLERANCE:
            yield None, f"leximin of tenant {entry.tenant!r} is {entry.share}, recomputed {share}"


def _shares(case: Case) -> dict[str, tuple[bool, Fraction]]:
    """Name of a leaf tenant with gangs → (weight is 0, weighted dominant share with those started when first asked)."""
    tenancy, cluster = case.tenancy, case.cluster
    holdings = case.held_before.copy()
    active = {gang.tenant for gang in cluster.running_gangs if gang.phase == "running"}
    for rank, gang in enumerate(cluster.pending):
        active.add(gang.tenant)
        if case.admitted[rank] and rank not in case.late:
            holdings.add(gang)
    shares = {}
    for name in active:
        tenant = tenancy.index[name]
        weight = tenancy.weights[tenant]
        shares[name] = weight == 0, tenancy.dominant(holdings.held[tenant]) / (weight or 1)
    return shares
