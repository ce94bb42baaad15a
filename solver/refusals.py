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
    right: Right | None
    """The gang's right to victims of its own; None: beside those of others."""
    settled: bool
    """Answered no; else time ran out."""
    lasting: bool
    """Answered without rule 11: no lawful set leaves room, whether all of it is needed or not."""


class Refusals:
    """Gangs refused since victims last changed.

    A no covers gangs that ask no less in the same place with no wider right. Where it doesn't rest on rule 11 it also
    covers gangs with more members, and outlives gangs that start in free space: a lawful set that leaves room for them,
    too, would leave room without them, and they come after all who may take victims.
    """

    def __init__(self, problem: Problem) -> None:
        self._problem = problem
        self._known: list[_Refusal] = []

    def add(self, gang: int, right: Right | None, settled: bool, lasting: bool) -> None:
        """A question was answered no or (`settled` false) not in time. Arguments as the fields of a refusal."""
        self._known.append(_Refusal(gang, right, settled, lasting))

    def covers(self, gang: int, right: Right | None) -> bool | None:
        """Whether what is known answers this question no; false: one like it was not settled in time; None: neither."""
        return max((known.settled for known in self._known if self._answers(known, gang, right)), default=None)

    def started(self) -> None:
        """A gang starts in free space."""
        self._known = [one for one in self._known if one.lasting]

    def clear(self) -> None:
        """Victims changed."""
        self._known.clear()

    def _answers(self, known: _Refusal, gang: int, right: Right | None) -> bool:
        problem, other = self._problem, known.gang
        if (right is None) != (known.right is None) or problem.shape_of[gang] != problem.shape_of[other]:
            return False
        if problem.required[other] not in (-1, problem.required[gang]):
            return False
        members, refused = problem.members[gang], problem.members[other]
        if members < refused or (members > refused and not known.lasting):
            return False
        if problem.tenant_of[gang] != problem.tenant_of[other]:
            limit = problem.tenants.limit[list(problem.tenants.chain(int(problem.tenant_of[other])))]
            return right is None and bool((limit >= UNBOUNDED).all())
        return right is None or known.right is None or no_wider(problem, right, known.right)


def no_wider(problem: Problem, right: Right, other: Right) -> bool:
    """Whether all that a right may take, whoever else leaves, another of the same tenant may take, too."""
    if (right.own & ~other.own).any() or (right.reclaim & ~other.reclaim).any():
        return False
    tenants, tenant = problem.tenants, int(problem.tenant_of[right.gang])
    more = right.started - other.started
    for owner in np.unique(problem.victims.tenant[right.reclaim]).tolist():
        lends, within = list(tenants.below_ancestor(owner, tenant)), list(tenants.below_ancestor(tenant, owner))
        if (more[lends] > 0).any() or (more[within] < 0).any():
            return False
    return True
