"""Rule 10: who may be preempted for whom."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np

from gangfit.solver.arrays import BoolArray, IntArray
from gangfit.solver.problem import Problem
from gangfit.solver.tenants import UNBOUNDED


@dataclass(frozen=True)
class Right:
    """What one admitted gang may take."""

    gang: int
    own: BoolArray
    """(V,): victims of lower priority, inside the tenant or, with `across: priority`, anywhere."""
    reclaim: BoolArray
    """(V,): gangs of other tenants that hold more than their quota before anyone leaves; the rows of rule 10 decide."""
    started: IntArray
    """(T, R): pending gangs admitted up to and including this one."""

    @property
    def any(self) -> BoolArray:
        """(V,): victims that may come into question."""
        return self.own | self.reclaim


def rights(problem: Problem, admitted: Sequence[int], preemptors: Collection[int]) -> list[Right]:
    """The rights of the preemptors among the admitted gangs, which come in considered order."""
    result: list[Right] = []
    if not preemptors:
        return result
    so_far = np.zeros_like(problem.tenants.use)
    missing = len(preemptors)
    for gang in admitted:
        if not missing:
            break
        if gang < problem.waiting:
            so_far[list(problem.tenants.chain(int(problem.tenant_of[gang])))] += problem.total[gang]
        if gang not in preemptors:
            continue
        missing -= 1
        # Asked again with every question; the key is all it depends on.
        key = gang, so_far.tobytes()
        if key not in problem.rights_known:
            problem.rights_known[key] = _right(problem, gang, so_far.copy())
        result.append(problem.rights_known[key])
    return result


def may_take(problem: Problem, gang: int) -> bool:
    """Whether the gang could have a right over anyone at all: a quick look before `rights`."""
    policy = problem.snapshot.policy.preemption
    allowed = policy.within != "never" or policy.across != "never"
    return allowed and bool(problem.may_preempt[gang]) and len(problem.victims.gangs) > 0


def _right(problem: Problem, gang: int, so_far: IntArray) -> Right:
    victims, tenants = problem.victims, problem.tenants
    policy = problem.snapshot.policy.preemption
    tenant = int(problem.tenant_of[gang])
    own = np.zeros(len(victims.gangs), dtype=np.bool_)
    reclaim = own.copy()
    if problem.may_preempt[gang] and len(victims.gangs):
        lower = victims.priority < problem.gangs[gang].priority
        same = victims.tenant == tenant
        if policy.within == "priority":
            own |= same & lower
        if policy.across == "priority":
            own |= ~same & lower
        if policy.across == "reclaim":
            asks = problem.request[gang] > 0
            lends = np.zeros(len(tenants.names), dtype=np.bool_)
            for t in np.unique(victims.tenant).tolist():
                entitled = t != tenant and _may_be_within(problem, tenant, t, so_far)
                lends[t] = entitled and _may_lend(problem, tenant, t, asks, so_far)
            reclaim = lends[victims.tenant]
    return Right(gang, own, reclaim, so_far)


def attainable(problem: Problem, held: Sequence[Right], broken: int) -> Right:
    """The last right without what it can't reclaim however it goes, for its tenant never comes within quota.

    What the tenant gets back is at most all that this right takes itself and, of what the others take, the `broken`
    largest gangs.
    """
    mine, tenants, victims = held[-1], problem.tenants, problem.victims
    if not mine.reclaim.any():
        return mine
    others = np.zeros_like(mine.reclaim)
    for right in held[:-1]:
        others |= right.any
    others &= ~mine.any
    owners, start = range(len(tenants.names)), int(problem.tenant_of[mine.gang])
    below = {t: np.array([t in tenants.chain(owner) for owner in owners]) for t in tenants.chain(start)}
    reclaim = mine.reclaim.copy()
    for owner in np.unique(victims.tenant[reclaim]).tolist():
        for t in tenants.below_ancestor(start, owner):
            inside = below[t][victims.tenant]
            back = victims.total[inside & mine.any].sum(axis=0)
            largest = -np.sort(-victims.total[inside & others], axis=0)[:broken].sum(axis=0)
            if (tenants.use[t] + mine.started[t] - back - largest > tenants.quota[t]).any():
                reclaim &= victims.tenant != owner
    return replace(mine, reclaim=reclaim)


def _may_be_within(problem: Problem, tenant: int, other: int, started: IntArray) -> bool:
    """Whether the tenant, up to below the common ancestor, is within quota if every eligible gang of it left."""
    tenants = problem.tenants
    chain = list(tenants.below_ancestor(tenant, other))
    return bool((tenants.use[chain] + started[chain] - problem.evictable[chain] <= tenants.quota[chain]).all())


def _may_lend(problem: Problem, tenant: int, other: int, asks: BoolArray, started: IntArray) -> bool:
    """Whether the other tenant is above quota, up to below the common ancestor, in something that is asked.

    Victims only lower what it holds, so this can only turn false.
    """
    tenants = problem.tenants
    for t in tenants.below_ancestor(other, tenant):
        guarded = asks & (tenants.quota[t] < UNBOUNDED)
        if not ((tenants.use[t] + started[t]) > tenants.quota[t])[guarded].any():
            return False
    return True


def started(problem: Problem, gangs: Sequence[int]) -> IntArray:
    """(T, R): what the pending ones among the given gangs take, per tenant and all above."""
    pending = [j for j in gangs if j < problem.waiting]
    own = np.zeros_like(problem.tenants.use)
    np.add.at(own, problem.tenant_of[pending], problem.total[pending])
    result = np.zeros_like(own)
    for t in np.flatnonzero(own.any(axis=1)).tolist():
        result[list(problem.tenants.chain(t))] += own[t]
    return result


def given_back(problem: Problem, victims: Iterable[int]) -> IntArray:
    """(T, R): what victims hold, per tenant and all above."""
    own, result = np.zeros_like(problem.tenants.use), np.zeros_like(problem.tenants.use)
    everyone = list(victims)
    np.add.at(own, problem.victims.tenant[everyone], problem.victims.total[everyone])
    for t in np.flatnonzero(own.any(axis=1)).tolist():
        result[list(problem.tenants.chain(t))] += own[t]
    return result


def claims(problem: Problem, held: Sequence[Right], victims: Collection[int]) -> dict[int, list[int]]:
    """Victim → rights (by position) that may reclaim it, with all victims gone."""
    back = given_back(problem, victims)
    return {v: [i for i, r in enumerate(held) if claimable(problem, r, v, back)] for v in victims}


def claimable(problem: Problem, right: Right, v: int, back: IntArray) -> bool:
    """Whether a right may reclaim a victim once `back` (T, R), the victim's own included, is given back."""
    if not right.reclaim[v]:
        return False
    return _within(problem, right, v, back) and _above(problem, right, v, right.started - back)


def _within(problem: Problem, right: Right, v: int, back: IntArray) -> bool:
    tenants = problem.tenants
    chain = list(tenants.below_ancestor(int(problem.tenant_of[right.gang]), int(problem.victims.tenant[v])))
    return bool((tenants.use[chain] + right.started[chain] - back[chain] <= tenants.quota[chain]).all())


def _above(problem: Problem, right: Right, v: int, change: IntArray) -> bool:
    tenants, asks = problem.tenants, problem.request[right.gang] > 0
    chain = tenants.below_ancestor(int(problem.victims.tenant[v]), int(problem.tenant_of[right.gang]))
    return all(
        bool(((tenants.use[t] + change[t] + problem.victims.total[v]) > tenants.quota[t])[asks].any()) for t in chain
    )
