"""Free space while gangs are placed one after the other."""

from __future__ import annotations

import numpy as np

from gangfit.solver.arrays import IntArray
from gangfit.solver.assignment import Assignment, Spread
from gangfit.solver.problem import Problem


def members_per_node(problem: Problem, free: IntArray, gang: int, *, ignoring: str = "") -> IntArray:
    """(N,): members of a gang that each node's free amounts hold, 0 where a rule keeps it off. Not capped by size.

    `ignoring` leaves out one rule of node_selector, node_taints, gpu_model.
    """
    asks = np.flatnonzero(problem.request[gang])
    fits = free[:, asks[0]] // problem.request[gang, asks[0]]
    for r in asks[1:]:
        fits = np.minimum(fits, free[:, r] // problem.request[gang, r])
    eligible = problem.eligible[problem.eligible_of[gang]]
    return np.where(eligible.without(ignoring) & problem.ready if ignoring else eligible.allowed, fits, 0)


class Alone:
    """How many members of each gang the cluster's free space holds with no other pending gang beside it."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self._most: dict[tuple[int, int, str], int] = {}

    def fits(self, gang: int, *, ignoring: str = "") -> bool:
        """Whether the gang fits: exact, by counting.

        `ignoring` leaves one rule out: required_level, node_selector, node_taints or gpu_model.
        """
        required = -1 if ignoring == "required_level" else int(self.problem.required[gang])
        rule = "" if ignoring == "required_level" else ignoring
        alike = int(self.problem.shape_of[gang]), required, rule
        if alike not in self._most:
            fits = members_per_node(self.problem, self.problem.free, gang, ignoring=rule)
            self._most[alike] = self._in_one_domain(required, fits) if required >= 0 else int(fits.sum())
        return self._most[alike] >= int(self.problem.members[gang])

    def _in_one_domain(self, level: int, fits: IntArray) -> int:
        tree = self.problem.tree
        return int(tree.sums(level, np.where(tree.known[level], fits, 0)).max())


class Space:
    """Free amounts of every node, and per gang shape the members that each node still holds."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.free: IntArray = problem.free.copy()
        """(N, R)"""
        self._fits: dict[int, IntArray] = {}
        self._first = np.unique(problem.shape_of, return_index=True)[1]

    def copy(self) -> Space:
        """An independent copy."""
        other = Space(self.problem)
        other.free = self.free.copy()
        other._fits = {shape: fits.copy() for shape, fits in self._fits.items()}
        return other

    @classmethod
    def after(cls, problem: Problem, assignment: Assignment) -> Space:
        """The space an assignment leaves."""
        space = cls(problem)
        for gang, spread in assignment.items():
            space.take(gang, spread)
        return space

    def fits(self, gang: int) -> IntArray:
        """(N,): members of the gang that each node holds now, capped by its size. Read only."""
        shape = int(self.problem.shape_of[gang])
        if shape not in self._fits:
            self._fits[shape] = members_per_node(self.problem, self.free, gang)
        capped: IntArray = np.minimum(self._fits[shape], self.problem.members[gang])
        return capped

    def take(self, gang: int, spread: Spread, sign: int = 1) -> None:
        """Place a gang's members (sign −1: take them away again)."""
        nodes = spread.nodes
        self.free[nodes] -= sign * spread.counts[:, None] * self.problem.request[gang]
        for shape, fits in self._fits.items():
            other = int(self._first[shape])
            asks = np.flatnonzero(self.problem.request[other])
            now = (self.free[np.ix_(nodes, asks)] // self.problem.request[other, asks]).min(axis=1)
            fits[nodes] = np.where(self.problem.eligible[self.problem.eligible_of[other]].allowed[nodes], now, 0)
