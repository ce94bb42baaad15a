"""Questions with victims that were answered no, or not in time, and what else they answer while little has changed."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass, field

import numpy as np

from gangfit.solver.lending import Ground, ground
from gangfit.solver.problem import Problem
from gangfit.solver.rights import Right
from gangfit.solver.tenants import UNBOUNDED


@dataclass
class Grounds:
    """On what ground each right reclaims from each tenant, worked out once."""

    problem: Problem
    _known: dict[tuple[int, int], Ground] = field(default_factory=dict)
    _rights: list[Right] = field(default_factory=list)
    """Keeps the rights alive whose identity is a key."""

    def of(self, right: Right, owner: int) -> Ground:
        """The ground on which a right reclaims gangs of a tenant."""
        key = id(right), owner
        if key not in self._known:
            self._rights.append(right)
            self._known[key] = ground(self.problem, right, 0, owner)
        return self._known[key]

    def owners(self, right: Right) -> list[int]:
        """Tenants of the victims that a right reclaims."""
        tenants: list[int] = np.unique(self.problem.victims.tenant[right.reclaim]).tolist()
        return tenants

    def plain(self, right: Right) -> bool:
        """Whether the right's tenant is within quota whoever leaves: then any part of a lawful set is lawful."""
        return all(self.of(right, owner).entitled for owner in self.owners(right))

    def alike(self, held: Collection[Right], mine: Right) -> bool:
        """Whether `mine` covers every victim that any right covers, on the same grounds and whoever leaves."""
        for right in held:
            if (right.own != mine.own).any() or (right.reclaim != mine.reclaim).any() or not self.plain(right):
                return False
            if any(self.of(right, owner) != self.of(mine, owner) for owner in self.owners(mine)):
                return False
        return True


@dataclass(frozen=True)
class _Refusal:
    gang: int
    mine: bool
    """With victims of its own; else beside those of others."""
    settled: bool
    """Answered no; else time ran out."""
    plain: bool
    """All rights in the question hold whoever leaves."""
    lenders: frozenset[int]
    """Tenants, with all above them, that its own right reclaims from."""


class Refusals:
    """Gangs refused since victims last changed.

    A no covers gangs that ask no less in the same place with no wider right. It outlives gangs that start in free space
    where all rights are plain: without such a gang, a plan for both is one for the other with fewer victims; unless it
    belongs to a tenant that lends, for then it widens the right.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._known: list[_Refusal] = []

    def add(self, gang: int, mine: bool, settled: bool, plain: bool, lenders: Collection[int]) -> None:
        """A question was answered no or (`settled` false) not in time."""
        chain = self._problem.tenants.chain
        above = frozenset(t for lender in lenders for t in chain(lender))
        self._known.append(_Refusal(gang, mine, settled, plain, above))

    def covers(self, gang: int, mine: bool) -> bool | None:
        """Whether what is known answers this question no; false: one like it was not settled in time; None: neither."""
        return max((known.settled for known in self._known if self._answers(known, gang, mine)), default=None)

    def started(self, gang: int, plain: bool) -> None:
        """The gang starts in free space; `plain`: the rights of all preemptors hold whoever leaves."""
        chain = set(self._problem.tenants.chain(int(self._problem.tenant_of[gang])))
        self._known = [one for one in self._known if plain and one.plain and not chain & one.lenders]

    def clear(self) -> None:
        """Victims changed."""
        self._known.clear()

    def _answers(self, known: _Refusal, gang: int, mine: bool) -> bool:
        problem, other = self._problem, known.gang
        if mine != known.mine or problem.shape_of[gang] != problem.shape_of[other]:
            return False
        if problem.required[other] not in (-1, problem.required[gang]):
            return False
        if problem.members[gang] != problem.members[other] and not (
            known.plain and problem.members[gang] > problem.members[other]
        ):
            return False
        if problem.tenant_of[gang] != problem.tenant_of[other]:
            limit = problem.tenants.limit[list(problem.tenants.chain(int(problem.tenant_of[other])))]
            return not mine and bool((limit >= UNBOUNDED).all())
        wider = problem.gangs[gang].priority > problem.gangs[other].priority
        return not mine or not (wider or problem.may_preempt[gang] > problem.may_preempt[other])
