"""Free space while gangs are placed one after the other."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import pairwise

import numpy as np

from gangfit.solver.arrays import BoolArray, IntArray
from gangfit.solver.assignment import Assignment, Spread
from gangfit.solver.kernels import at_hand, kernel
from gangfit.solver.problem import Problem, Tree

KEPT = 64
"""Most views that a space keeps."""
ROW = 1 << 16
"""Most members that are placed at once."""


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

    def __init__(self, tree: Tree, whole: IntArray, cap: int, known: BoolArray | None) -> None:
        self.whole = whole
        """(N,): members per node, not capped."""
        self.cap = cap
        self.known = known
        """(N,): nodes that the required level knows; None: all."""
        self.room: IntArray = np.empty(int(tree.offset[-1]), dtype=np.int64)
        """As in kernels/place.py: the cluster, the domains of every named level, the nodes."""
        self.sums: list[IntArray] = [self.room[low:high] for low, high in tree.parts]
        """Per level (domains,), the node last."""
        self.fits = self.sums[-1]
        """(N,)"""
        np.minimum(whole, cap, out=self.fits)
        if known is not None:
            self.fits *= known
        for level in range(tree.named):
            np.add.reduceat(self.fits, tree.starts[level][:-1], out=self.sums[level])
        self.room[0] = np.add.reduce(self.fits)
        self.seen = 0
        """How many takes of its space are worked in."""

    @property
    def total(self) -> int:
        """Members the whole cluster holds."""
        return int(self.room[0])

    def update(self, tree: Tree, nodes: IntArray, whole: IntArray) -> None:
        """Work in the members that these nodes, all different, hold now."""
        self.whole[nodes] = whole
        fits = np.minimum(whole, self.cap)
        if self.known is not None:
            fits *= self.known[nodes]
        less = self.fits[nodes] - fits
        if not np.count_nonzero(less):
            return
        self.fits[nodes] = fits
        self.room[0] -= np.add.reduce(less)
        for level in range(tree.named):
            np.subtract.at(self.sums[level], tree.domain[level][nodes], less)


@dataclass(frozen=True)
class _Shape:
    """What gangs of one shape ask, read once."""

    asks: IntArray
    """Resources asked."""
    request: IntArray
    """Amount of each."""
    allowed: BoolArray
    """(N,): nodes the rules leave."""
    whole: IntArray
    """(N,): members that each node holds while no gang is placed."""
    top: int
    """The most of them."""

    def fits(self, free: IntArray, nodes: IntArray) -> IntArray:
        """Members that the free amounts (N, R) of these nodes hold."""
        if len(self.asks) == 1:
            fits: IntArray = free[nodes, self.asks[0]] // self.request[0]
        else:
            fits = (free[nodes[:, None], self.asks] // self.request).min(axis=1)
        return fits * self.allowed[nodes]


class Space:
    """Free amounts of every node, and views of them that follow what is taken, each when it is asked for."""

    def __init__(self, problem: Problem) -> None:
        self.problem = problem
        self.free: IntArray = problem.free.copy()
        """(N, R)"""
        self.compiled = at_hand()
        """Whether the kernels are used; numpy otherwise, to the same end."""
        self.answer: IntArray = np.empty((2, len(self.free)), dtype=np.int64)
        """Where the kernels put an answer: nodes and counts."""
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
        other.problem, other.free, other.compiled = self.problem, self.free.copy(), self.compiled
        other._gangs, other._shapes = self._gangs, self._shapes
        other.answer, other._scratch, other._strict = self.answer, self._scratch, self._strict
        other._taken, other._views = list(self._taken), {}
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
        return self._view(gang, -1).fits

    def view(self, gang: int) -> View:
        """The view for a gang: capped by its size, with no room in domains that its required level doesn't know."""
        required = self._gangs[gang][2]
        return self._view(gang, required if required >= 0 and self._strict[required] else -1)

    def take(self, gang: int, spread: Spread, sign: int = 1) -> None:
        """Place a gang's members (sign −1: take them away again)."""
        if self.compiled:
            kernel("place", "take")(spread.nodes, sign * spread.counts, self.problem.request[gang], self.free)
        else:
            self.free[spread.nodes] -= sign * spread.counts[:, None] * self.problem.request[gang]
        self._taken.append(spread.nodes)

    def row(self, rules: Sequence[int], gang: int, copies: int) -> list[Spread]:
        """Place and take up to so many gangs equal to this one, in a row, where greedy rules of these numbers agree.

        Empty without kernels, and where the first has no room or the rules differ about it.
        """
        if not self.compiled:
            return []
        tree, view, shape = self.problem.tree, self.view(gang), self._shape(gang)
        _, members, required = self._gangs[gang]
        most = min(members, len(self.free))
        copies = max(1, min(copies, ROW // most))
        nodes, counts = np.empty((2, copies * most), dtype=np.int64)
        ends = np.empty(copies, dtype=np.int64)
        placed = kernel("place", "row")(
            np.array(rules, dtype=np.int64),
            copies,
            members,
            required,
            self.problem.request[gang],
            self.free,
            *self._asked(view, shape),
            view.whole,
            view.room,
            *tree.flat,
            tree.domain,
            self.problem.intact,
            nodes,
            counts,
            ends,
        )
        if not placed:
            return []
        limits = [0, *ends[:placed].tolist()]
        self._taken.append(nodes[: limits[-1]])
        view.seen = len(self._taken)
        return [Spread(nodes[low:high], counts[low:high]) for low, high in pairwise(limits)]

    def _asked(self, view: View, shape: _Shape) -> tuple[IntArray, IntArray, BoolArray, BoolArray, int, int]:
        """A shape and a view of it as the kernels want them, up to the number of named levels."""
        tree = self.problem.tree
        known = tree.all_nodes if view.known is None else view.known
        return shape.asks, shape.request, shape.allowed, known, view.cap, tree.named

    def _shape(self, gang: int) -> _Shape:
        number = self._gangs[gang][0]
        if number not in self._shapes:
            problem = self.problem
            asks = np.flatnonzero(problem.request[gang])
            allowed = problem.eligible[problem.eligible_of[gang]].allowed
            whole = members_per_node(problem, problem.free, gang)
            self._shapes[number] = _Shape(asks, problem.request[gang, asks], allowed, whole, int(whole.max()))
        return self._shapes[number]

    def _view(self, gang: int, strict: int) -> View:
        shape = self._shape(gang)
        cap = min(self._gangs[gang][1], shape.top)
        key = self._gangs[gang][0], cap, strict
        view = self._views.pop(key, None)
        if view is None:
            known = self.problem.tree.known[strict] if strict >= 0 else None
            view = View(self.problem.tree, shape.whole.copy(), cap, known)
            if len(self._views) >= KEPT:
                del self._views[next(iter(self._views))]
        if view.seen < len(self._taken):
            self._follow(view, shape)
        self._views[key] = view
        return view

    def _follow(self, view: View, shape: _Shape) -> None:
        """Work in what has been taken since the view was last asked for."""
        tree, behind = self.problem.tree, len(self._taken) - view.seen
        nodes = self._taken[-1] if behind == 1 else np.concatenate(self._taken[view.seen :])
        view.seen = len(self._taken)
        if self.compiled:
            asked = self._asked(view, shape)
            kernel("place", "follow")(nodes, self.free, *asked, view.whole, view.room, tree.offset, tree.domain)
            return
        if behind > 1:
            nodes = self._distinct(nodes)
        view.update(tree, nodes, shape.fits(self.free, nodes))

    def _distinct(self, nodes: IntArray) -> IntArray:
        place = np.arange(len(nodes))
        self._scratch[nodes] = place
        last: IntArray = nodes[self._scratch[nodes] == place]
        return last
