"""Rule 10, *above*: how much a tenant may lend, as rows that the linear relaxation feels."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
from ortools.sat.python import cp_model

from gangfit.solver.arrays import IntArray
from gangfit.solver.merged import Sum
from gangfit.solver.problem import Problem
from gangfit.solver.rights import Right
from gangfit.solver.tenants import UNBOUNDED

if TYPE_CHECKING:
    from gangfit.solver.joint import Joint

Surplus = tuple[tuple[int, int], ...]
"""(guarded resource that is asked, what the tenant holds beyond its quota before anyone leaves)."""


@dataclass(frozen=True)
class Ground:
    """What has to hold for a victim to be reclaimed; rights of equal grounds are one claim."""

    entitled: bool
    """The reclaiming tenant is within quota whoever leaves."""
    right: int
    """Position of the right whose tenant has to come within its quota; −1: none has to."""
    above: tuple[tuple[int, Surplus], ...]
    """Tenants of the victim up to below the common ancestor, and their surplus."""


def ground(problem: Problem, right: Right, position: int, owner: int) -> Ground:
    """On what ground a right reclaims victims of a tenant; `position` of the right among those of the model."""
    tenants, tenant = problem.tenants, int(problem.tenant_of[right.gang])
    chain = list(tenants.below_ancestor(tenant, owner))
    entitled = bool((tenants.use[chain] + right.started[chain] <= tenants.quota[chain]).all())
    asks = problem.request[right.gang] > 0
    above = []
    for t in tenants.below_ancestor(owner, tenant):
        held = (tenants.use[t] + right.started[t] - tenants.quota[t]).tolist()
        guarded = np.flatnonzero(asks & (tenants.quota[t] < UNBOUNDED)).tolist()
        above.append((t, tuple((r, held[r]) for r in guarded)))
    # Within quota whoever leaves: whose right it is makes no difference.
    return Ground(entitled, -1 if entitled else position, tuple(above))


class Lending:
    """Literals "tenant t gets back no more than m of resource r", and what they mean.

    A victim of size s may be claimed if its tenant gives back at most surplus + s − 1. With the sizes of a tenant in
    ascending order, s₁ < … < s_k, and literals z₁ ≤ … ≤ z_k the meaning is one row:

        back ≤ most − Σ (m_{i+1} − m_i) · z_i,        m_{k+1} = most

    so the smallest victim that is claimed decides. Where every victim of the tenant needs such a literal, `most` is
    m_k. Of several guarded resources one is enough; where all victims ask them in one proportion that is the loosest.
    """

    def __init__(self, model: Joint) -> None:
        self._joint = model
        self._clauses: list[tuple[cp_model.IntVar, int, list[tuple[int, int]]]] = []
        """claim ⇒ some (resource, most) of the tenant."""
        self._bound: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
        """(tenant, resource) → victims that can't leave without a literal of it."""
        self._below: dict[int, list[int]] = {}
        self._most = cache(self._most_of)
        self._loosest = cache(self._loosest_of)

    def require(self, v: int, claim: cp_model.IntVar, tenant: int, surplus: Surplus) -> None:
        """The claim holds only if the tenant would be above quota with this one victim left running."""
        size = self._joint.problem.victims.total[v].tolist()
        options = [(r, held + size[r] - 1) for r, held in self._loosest(tenant, surplus) if held + size[r] > 0]
        if any(most >= self._most(tenant, r) for r, most in options):
            return
        self._clauses.append((claim, tenant, options))
        if len(options) == 1 and claim is self._joint.evicted[v]:
            self._bound[tenant, options[0][0]].add(v)

    def close(self) -> None:
        """Add the clauses and the meaning of their literals."""
        model = self._joint.model
        sizes: defaultdict[tuple[int, int], set[int]] = defaultdict(set)
        for _, tenant, options in self._clauses:
            for r, most in options:
                sizes[tenant, r].add(most)
        literals: dict[tuple[int, int, int], cp_model.IntVar | None] = {}
        for (tenant, r), mosts in sizes.items():
            steps = sorted(mosts)
            if self._bound[tenant, r].issuperset(self._holders(tenant, r)):
                literals[tenant, r, steps.pop()] = None
                most = max(mosts)
            else:
                most = self._most(tenant, r)
            z = [model.new_bool_var("") for _ in steps]
            literals.update({(tenant, r, step): literal for step, literal in zip(steps, z, strict=True)})
            for lower, higher in pairwise(z):
                model.add_implication(lower, higher)
            widths = np.diff([*steps, most]).tolist()
            given = self._joint.back(tenant, r)
            model.add(Sum([given, *(width * literal for width, literal in zip(widths, z, strict=True))]) <= most)
        for claim, tenant, options in self._clauses:
            named = [x for r, most in options if (x := literals[tenant, r, most]) is not None]
            if len(named) == len(options):
                model.add_bool_or([claim.negated(), *named])

    def _victims(self, tenant: int) -> list[int]:
        """Victims of the model that belong to a tenant or below."""
        if tenant not in self._below:
            self._below[tenant] = [v for v in self._joint.evicted if tenant in self._joint.chains[v]]
        return self._below[tenant]

    def _holders(self, tenant: int, r: int) -> list[int]:
        total = self._joint.problem.victims.total
        return [v for v in self._victims(tenant) if total[v, r]]

    def _most_of(self, tenant: int, r: int) -> int:
        """All that the tenant could get back."""
        return int(self._joint.problem.victims.total[self._victims(tenant), r].sum())

    def _loosest_of(self, tenant: int, surplus: Surplus) -> Surplus:
        """The resources among which one is enough: the loosest alone, if all victims ask them in one proportion."""
        asked = [r for r, _ in surplus]
        total: IntArray = self._joint.problem.victims.total[self._victims(tenant)][:, asked]
        if len(surplus) < 2 or not len(total) or (total == 0).any():
            return surplus
        units = total // np.gcd.reduce(total, axis=1)[:, None]
        if (units != units[0]).any():
            return surplus
        # With k units given back beside the victim: k · unit < surplus, so as far as ⌈surplus / unit⌉ units.
        return (max(surplus, key=lambda one: -(-one[1] // int(units[0, asked.index(one[0])]))),)
