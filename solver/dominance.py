"""Dominance between gangs: who asks at least as much as a gang without room has none either."""

from __future__ import annotations

from typing import Literal

import numpy as np

from gangfit.solver.arrays import IntArray
from gangfit.solver.problem import Problem

Proof = Literal["bound", "search"]


class Dominance:
    """Refusals in the snapshot's free space. They hold while nobody gives way: more gangs beside only take room."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._refused: IntArray = np.zeros(0, dtype=np.int64)
        """Gangs without room, none of which asks more than another."""
        self._proof: dict[int, Proof] = {}
        """Refused gang → what proved it."""
        self._inside: dict[tuple[int, int], bool] = {}
        """(eligibility, another) → whether all nodes of the first are among the other's."""
        self._known = [bool(known.all()) for known in problem.tree.known]
        """Per level: every domain is known."""

    def add(self, gang: int, proof: Proof) -> None:
        """The gang is proven to have no room beside the gangs admitted so far."""
        self._proof[gang] = proof
        problem = self.problem
        asks_more = (problem.request[self._refused] >= problem.request[gang]).all(axis=1)
        asks_more &= problem.members[self._refused] >= problem.members[gang]
        more = [int(other) for other in self._refused[asks_more] if self._asks_as_much(int(other), gang)]
        self._refused = np.append(self._refused[~np.isin(self._refused, more)], gang)

    def cover(self, gang: int) -> Proof | None:
        """How a gang that asks no more was refused, if one was: a place for this one would be a place for that one."""
        problem, refused = self.problem, self._refused
        if not len(refused):
            return None
        less = (problem.request[refused] <= problem.request[gang]).all(axis=1)
        less &= problem.members[refused] <= problem.members[gang]
        return next((self._proof[int(o)] for o in refused[less] if self._asks_as_much(gang, int(o))), None)

    def _asks_as_much(self, gang: int, other: int) -> bool:
        """Whether the rules 3–7 leave the gang no place that they don't leave the other."""
        problem = self.problem
        narrow, wide = int(problem.required[gang]), int(problem.required[other])
        if wide > narrow:
            return False
        # Every node counts as known, even in a domain of a coarser level that isn't.
        if narrow == problem.tree.named and 0 <= wide < narrow and not self._known[wide]:
            return False
        pair = int(problem.eligible_of[gang]), int(problem.eligible_of[other])
        if pair not in self._inside:
            few, many = (problem.eligible[number].allowed for number in pair)
            self._inside[pair] = pair[0] == pair[1] or not (few & ~many).any()
        return self._inside[pair]
