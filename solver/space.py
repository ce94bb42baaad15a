"""Free space while gangs are placed one after the other."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from gangfit.solver.arrays import BoolArray, IntArray
from gangfit.solver.assignment import Assignment, Spread
from gangfit.solver.problem import Problem, Tree

KEPT = 64
"""Most views that a space keeps."""


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


class View:
    """What a space holds for gangs of one shape: members per node, each node capped, and their sums per domain."""

    def __init__(self, tree: Tree, fits: IntArray) -> None:
        self.fits = fits
        """(N,)"""
        self.sums: list[IntArray] = [*(tree.sums(level, fits) for level in range(tree.named)), fits]
        """Per level (domains,), the node last."""
        self.total = int(fits.sum())
        """Members the whole cluster holds."""
        self.seen = 0
        """How many takes of its space are worked in."""

    def update(self, tree: Tree, nodes: IntArray, fits: IntArray) -> None:
        """Work in the members that these nodes, all different, hold now."""
        less = self.fits[nodes] - fits
        if not np.count_nonzero(less):
            return
        self.fits[nodes] = fits
        self.total -= int(np.add.reduce(less))
        for level in range(tree.named):
            np.subtract.at(self.sums[level], tree.domain[level][nodes], less)


@dataclass(frozen=True)
class _Shape:
    """What gangs of one shape ask, read once."""

    asks: IntArray
    """Resources asked."""
    request: IntArray
    """Amount of each."""
    allowed: BoolArray | None
    """(N,): nodes the rules leave; None: all."""
    top: int
    """Most members that one node holds while no gang is placed."""

    def fits(self, free: IntArray, nodes: IntArray) -> IntArray:
        """Members that the free amounts (N, R) of these nodes hold."""
        if len(self.asks) == 1:
            fits: IntArray = free[nodes, self.asks[0]] // self.request[0]
        else:
            fits = (free[nodes[:, None], self.asks] // self.request).min(axis=1)
        if self.allowed is not None:
            fits *= self.allowed[nodes]
        return fits


class Space:
    """Free amounts of every node, and views of them that follow what is taken, each when it is asked for."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.free: IntArray = problem.free.copy()
        """(N, R)"""
        self._taken: list[IntArray] = []
        """Nodes of every take so far."""
        self._scratch = np.empty(len(self.free), dtype=np.int64)
        self._gangs: list[tuple[int, int, int]] = list(
            zip(problem.shape_of.tolist(), problem.members.tolist(), problem.required.tolist(), strict=True)
        )
        """Per gang: shape, members, required level."""
        self._strict = [not known.all() for known in problem.tree.known]
        """Per level: some domain is unknown."""
        self._shapes: dict[int, _Shape] = {}
        self._views: dict[tuple[int, int, int], View] = {}
        """(shape, cap, level whose unknown domains are left out or −1) → view, the last used last."""

    def copy(self) -> Space:
        """An independent copy."""
        other = Space.__new__(Space)
        other.problem, other.free = self.problem, self.free.copy()
        other._gangs, other._shapes = self._gangs, self._shapes
        other._scratch, other._strict = self._scratch, self._strict
        other._taken, other._views = [], {}
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
        return self._view(gang, self._gangs[gang][1], -1).fits

    def view(self, gang: int) -> View:
        """The view for a gang: capped by its size, with no room in domains that its required level doesn't know."""
        _, members, required = self._gangs[gang]
        return self._view(gang, members, required if required >= 0 and self._strict[required] else -1)

    def uncapped(self, gang: int) -> IntArray:
        """(N,): members of the gang that each node holds now, whatever its size. Read only."""
        return self._view(gang, 2**62, -1).fits

    def take(self, gang: int, spread: Spread, sign: int = 1) -> None:
        """Place a gang's members (sign −1: take them away again)."""
        self.free[spread.nodes] -= sign * spread.counts[:, None] * self.problem.request[gang]
        self._taken.append(spread.nodes)

    def _shape(self, gang: int) -> _Shape:
        number = self._gangs[gang][0]
        if number not in self._shapes:
            problem = self.problem
            asks = np.flatnonzero(problem.request[gang])
            allowed = problem.eligible[problem.eligible_of[gang]].allowed
            top = int(members_per_node(problem, problem.free, gang).max())
            self._shapes[number] = _Shape(asks, problem.request[gang, asks], None if allowed.all() else allowed, top)
        return self._shapes[number]

    def _view(self, gang: int, cap: int, strict: int) -> View:
        shape = self._shape(gang)
        cap = min(cap, shape.top)
        key = self._gangs[gang][0], cap, strict
        view = self._views.pop(key, None)
        if view is None:
            view = self._fresh(gang, cap, strict, shape)
            if len(self._views) >= KEPT:
                del self._views[next(iter(self._views))]
        elif view.seen < len(self._taken):
            tree = self.problem.tree
            nodes = self._taken[-1] if view.seen == len(self._taken) - 1 else self._union(view.seen)
            fits = np.minimum(shape.fits(self.free, nodes), cap)
            if strict >= 0:
                fits *= tree.known[strict][nodes]
            view.update(tree, nodes, fits)
            view.seen = len(self._taken)
        self._views[key] = view
        return view

    def _union(self, seen: int) -> IntArray:
        """Distinct nodes of all takes but the first `seen`."""
        nodes = np.concatenate(self._taken[seen:])
        place = np.arange(len(nodes))
        self._scratch[nodes] = place
        last: IntArray = nodes[self._scratch[nodes] == place]
        return last

    def _fresh(self, gang: int, cap: int, strict: int, shape: _Shape) -> View:
        if cap < shape.top or strict >= 0:
            fits = np.minimum(self.uncapped(gang), cap)
        else:
            fits = members_per_node(self.problem, self.free, gang)
        if strict >= 0:
            fits *= self.problem.tree.known[strict]
        view = View(self.problem.tree, fits)
        view.seen = len(self._taken)
        return view
