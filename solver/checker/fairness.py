"""What a plan states about the shares of its tenants."""

from __future__ import annotations

from collections.abc import Iterator

from gangfit.models import Fairness
from gangfit.solver.checker.case import Case

TOLERANCE = 1e-9
"""How far a stated share may be off."""


def fairness(case: Case) -> Iterator[tuple[None, str]]:
    """Every tenant in the order of the snapshot, with its dominant resource after the plan and its shares."""
    if not case.plan.fairness:
        return
    tenancy = case.tenancy
    stated = [entry.tenant for entry in case.plan.fairness]
    if stated != list(tenancy.names):
        yield None, f"fairness lists tenants {', '.join(stated)}; it has to be {', '.join(tenancy.names)}"
    before, after = case.held_before, case.held_after
    for entry in case.plan.fairness:
        tenant = tenancy.index.get(entry.tenant)
        if tenant is not None:
            for message in _untrue(case, entry, before.held[tenant], after.held[tenant]):
                yield None, f"fairness of tenant {entry.tenant!r}: {message}"


def _untrue(case: Case, entry: Fairness, before: list[int], after: list[int]) -> Iterator[str]:
    """What is wrong with one entry; of equal shares any resource may be the dominant one."""
    tenancy = case.tenancy
    most, of = tenancy.largest(after)
    rows = zip(tenancy.resources, after, tenancy.capacity, strict=True)
    dominant: set[str | None] = {
        name for name, amount, capacity in rows if capacity and amount > 0 and amount * of == most * capacity
    }
    if entry.dominant_resource not in (dominant or {None}):
        known = " or ".join(sorted(map(str, dominant or {None})))
        yield f"dominant_resource is {entry.dominant_resource!r}, recomputed {known}"
    for name, stated, held in (("before", entry.share_before, before), ("after", entry.share_after, after)):
        most, of = tenancy.largest(held)
        true = most / of
        if abs(stated - true) > TOLERANCE:
            yield f"share_{name} is {stated}, recomputed {true}"
