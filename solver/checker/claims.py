"""What a plan states about itself: tiers with bounds and gaps, status, quality, fragmentation."""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction

import numpy as np

from gangfit.models import Quality, Tier, Violation
from gangfit.solver.checker.case import Case
from gangfit.solver.checker.fairness import fairness
from gangfit.solver.checker.leaving import drains, starts
from gangfit.solver.checker.leximin import leximin
from gangfit.solver.checker.moving import returns
from gangfit.solver.checker.tiers import intact_domains, tier_scales, tier_values

TOLERANCE = 1e-9
"""How far a stated gap may be off."""


def claims(case: Case) -> Iterator[Violation]:
    """Every stated figure equals the recomputed one; bounds, gaps, proofs and status agree with each other."""
    for source in (_tiers, _status, _quality, _fragmentation, drains, starts, returns, fairness, leximin):
        for gang, message in source(case):
            yield Violation(rule="claims", gang=gang, message=message)


Fault = tuple[str | None, str]
"""Gang concerned, message."""


def _tiers(case: Case) -> Iterator[Fault]:
    """All tiers in order, each with its true value, a bound, the gap and a proof that fit."""
    if not case.plan.tiers:
        return
    values, scales = tier_values(case), tier_scales(case)
    stated = [tier.name for tier in case.plan.tiers]
    if stated != list(values):
        yield None, f"tiers are {', '.join(stated)}; they have to be {', '.join(values)}"
    for tier in case.plan.tiers:
        if tier.name in values:
            scale = scales.get(tier.name, tier.value)
            for message in _tier(case, tier, values[tier.name], scale):
                yield None, f"tier {tier.name!r}: {message}"


def _tier(case: Case, tier: Tier, value: int, scale: int) -> Iterator[str]:
    """What is wrong with one tier; `value` is the recomputed one, `scale` the divisor of its gap."""
    sense = "max" if tier.name == "admission" else "min"
    if tier.sense != sense:
        yield f"sense is {tier.sense!r}, it is {sense!r}"
    if tier.value != value:
        yield f"value is {tier.value}, recomputed {value}"
    yield from _traded(case, tier)
    best = tier.value - tier.traded
    if (tier.proof is not None and tier.bound != best) or (tier.proof is None and tier.bound == best == tier.value):
        yield f"proof is {tier.proof!r} with value {best} and bound {tier.bound}; given only where they meet"
    if sense == "max":
        yield from _admission_bound(case, tier, value)
        gap = float(len(case.out_of_time))
    elif tier.bound > value - tier.traded or tier.bound < 0:
        yield f"bound is {tier.bound}, it has to be between 0 and the recomputed value {value - tier.traded}"
        return
    else:
        gap = (best - tier.bound) / scale if best != tier.bound and scale else 0.0
    if abs(tier.gap - gap) > TOLERANCE:
        yield f"gap is {tier.gap}, recomputed {gap}"


def _traded(case: Case, tier: Tier) -> Iterator[str]:
    """Only two tiers are exceeded, within the tolerance: the last with lost GPU-seconds, and `distance`."""
    lost = [other.name for other in case.plan.tiers if other.name.startswith("lost.") and other.value > 0]
    allowed = tier.name == "distance" or tier.name in lost[-1:]
    tolerance = case.cluster.snapshot.policy.tolerance if allowed else 0.0
    most = math.floor(Fraction(tolerance) * max(tier.value - tier.traded, 0))
    if not 0 <= tier.traded <= most:
        yield f"traded is {tier.traded}, from 0 to {most} is what policy.tolerance allows here"


def _admission_bound(case: Case, tier: Tier, value: int) -> Iterator[str]:
    """The bound of admission is the number admitted and the gangs whose question ran out of time."""
    undecided = len(case.out_of_time)
    bound = tier.value + undecided
    if tier.bound < value:
        yield f"bound is {tier.bound}, it has to be at least the recomputed value {value}"
    elif tier.bound != bound:
        yield f"bound is {tier.bound}, value {tier.value} and {undecided} undecided gangs make {bound}"


def _status(case: Case) -> Iterator[Fault]:
    """`optimal` only without undecided gangs and with every tier closed."""
    if case.plan.status != "optimal":
        return
    if case.out_of_time:
        yield None, f"status is 'optimal' with {len(case.out_of_time)} undecided gangs, 0 are allowed"
    still_open = [t.name for t in case.plan.tiers if t.proof is None or t.bound != t.value - t.traded]
    if still_open:
        yield None, f"status is 'optimal' with open tiers {', '.join(still_open)}; all have to be closed"
    for entry in case.plan.blocked:
        if entry.reservation is not None and entry.reservation.proof is None:
            yield entry.gang, f"status is 'optimal', but {entry.reservation.start_s} isn't proven the earliest start"
    if not case.plan.tiers:
        yield None, "status is 'optimal' with 0 tiers stated; all have to be stated and closed"


def _quality(case: Case) -> Iterator[Fault]:
    """Every stated quality belongs to one placed gang and equals the recomputed one."""
    if not case.plan.quality:
        return
    weights = np.array(case.cluster.tree.weights, dtype=np.int64)
    distances = (np.maximum(case.touched - 1, 0) * weights).sum(axis=1).tolist()
    touched = case.touched.tolist()
    seen: set[str] = set()
    for quality in case.plan.quality:
        rank = case.cluster.rank.get(quality.gang)
        if quality.gang in seen:
            yield quality.gang, f"quality lists gang {quality.gang!r} more than once, once is allowed"
        elif rank is not None and not case.admitted[rank]:
            yield quality.gang, f"quality lists gang {quality.gang!r}, which is not placed"
        elif rank is not None:
            for message in _one_quality(case, quality, touched[rank], distances[rank]):
                yield quality.gang, f"quality of gang {quality.gang!r}: {message}"
        seen.add(quality.gang)


def _one_quality(case: Case, quality: Quality, touched: list[int], distance: int) -> Iterator[str]:
    """What is wrong with one quality; `touched`: domains per level, coarse → fine, the node last."""
    domains = dict(zip(case.cluster.tree.levels, touched, strict=True))
    if quality.domains != domains:
        yield f"domains are {quality.domains}, recomputed {domains}"
    diameter = next((level for level, count in domains.items() if count > 1), None)
    if quality.diameter != diameter:
        yield f"diameter is {quality.diameter!r}, recomputed {diameter!r}"
    if quality.distance != distance:
        yield f"distance is {quality.distance}, recomputed {distance}"


def _fragmentation(case: Case) -> Iterator[Fault]:
    """Every stated level is stated once, with the recomputed intact domains before and after."""
    if not case.plan.fragmentation:
        return
    counts = dict(zip(case.cluster.tree.levels, intact_domains(case, case.placed), strict=True))
    seen: set[str] = set()
    for stated in case.plan.fragmentation:
        if stated.level in seen:
            yield None, f"fragmentation lists level {stated.level!r} more than once, once is allowed"
        seen.add(stated.level)
        if stated.level in counts and (stated.before, stated.after) != counts[stated.level]:
            before, after = counts[stated.level]
            found = f"{stated.before} before and {stated.after} after"
            yield None, f"intact domains of level {stated.level!r} are {found}, recomputed {before} and {after}"
