"""One gang before a placement rule: what the space holds for it, and the answer put together."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np

from gangfit.solver.arrays import IntArray
from gangfit.solver.assignment import Assignment, Spread
from gangfit.solver.kernels import kernel
from gangfit.solver.problem import Problem, Tree
from gangfit.solver.space import Space, View

Piece = tuple[IntArray, IntArray]
"""Nodes and the members on each, in any order; no node is in two pieces."""


@dataclass(slots=True)
class Site:
    """A gang that is to be placed, and the space it may use. The members fit, in one domain of the required level."""

    problem: Problem
    space: Space
    gang: int
    members: int
    required: int
    """Required level, −1 for none."""
    view: View
    """What the space holds for it."""

    @property
    def fits(self) -> IntArray:
        """(N,): members that each node holds, at most all."""
        return self.view.fits

    @property
    def sums(self) -> Sequence[IntArray]:
        """Per level (domains,): members that each domain holds, the node last."""
        return self.view.sums

    @property
    def tree(self) -> Tree:
        """The topology."""
        return self.problem.tree


@dataclass(frozen=True)
class Place:
    """A placement rule: where the members go."""

    pieces: Callable[[Site], list[Piece]]
    """The rule, in numpy."""
    number: int
    """The same in kernels/place.py."""


def place_all(problem: Problem, place: Place) -> Assignment:
    """Run a placement rule over all gangs in considered order."""
    space = Space(problem)
    assignment: Assignment = {}
    order = problem.order()
    while (gang := order.next()) is not None:
        spread = place_one(problem, space, place, gang) if order.within_limit(gang) else None
        if spread is not None:
            assignment[gang] = spread
            space.take(gang, spread)
        order.settle(gang, spread is not None)
    return assignment


def place_in_order(problem: Problem, place: Place, gangs: Sequence[int]) -> Assignment | None:
    """Run a placement rule over gangs in a given order; None unless all of them find room."""
    space = Space(problem)
    assignment: Assignment = {}
    for gang in gangs:
        spread = place_one(problem, space, place, gang)
        if spread is None:
            return None
        assignment[gang] = spread
        space.take(gang, spread)
    return assignment


def place_one(problem: Problem, space: Space, place: Place, gang: int) -> Spread | None:
    """Place one gang into the space left, or None if it has no room, whatever the rule."""
    site = site_of(problem, space, gang)
    return None if site is None else place_at(site, place)


def site_of(problem: Problem, space: Space, gang: int) -> Site | None:
    """The gang before the space left, or None if it has no room there."""
    view = space.view(gang)
    members = int(problem.members[gang])
    if view.total < members:
        return None
    required = int(problem.required[gang])
    if required >= 0 and np.maximum.reduce(view.sums[required]) < members:
        return None
    return Site(problem, space, gang, members, required, view)


def place_at(site: Site, place: Place) -> Spread:
    """Where a placement rule puts the gang; the space is left as it is."""
    if not site.space.compiled:
        return spread_of(place.pieces(site))
    tree, view = site.tree, site.view
    nodes, counts = answer = site.space.answer
    topology = tree.named, view.room, *tree.flat, tree.domain
    placed = kernel("place")(
        place.number, site.members, site.required, *topology, view.whole, site.problem.intact, nodes, counts
    )
    found = answer[:, :placed].copy()
    return Spread(found[0], found[1])


def spread_of(pieces: list[Piece]) -> Spread:
    """Pieces put together, by node."""
    if len(pieces) == 1:
        nodes, counts = pieces[0]
    else:
        nodes = np.concatenate([nodes for nodes, _ in pieces])
        counts = np.concatenate([counts for _, counts in pieces])
    if len(nodes) == 1:
        return Spread(nodes, counts)
    order = nodes.argsort()
    return Spread(nodes[order], counts[order])


def one_node(node: int, members: int) -> Piece:
    """All members on one node."""
    return np.array([node], dtype=np.int64), np.array([members], dtype=np.int64)


def whole_domains(site: Site, level: int, domains: IntArray) -> list[Piece]:
    """Every member that these domains hold."""
    if level == site.tree.named:
        domains = domains[site.fits[domains] > 0]
        return [(domains, site.fits[domains])]
    return [whole_range(site, *site.tree.nodes(level, domain)) for domain in domains.tolist()]


def whole_range(site: Site, low: int, high: int) -> Piece:
    """Every member that the nodes `low … high − 1` hold."""
    nodes = site.fits[low:high].nonzero()[0] + low
    return nodes, site.fits[nodes]


def in_order(site: Site, low: int, high: int, members: int) -> Piece:
    """Members on nodes `low … high − 1` in node order, each node filled before the next."""
    total = site.fits[low:high].cumsum()
    last = int(total.searchsorted(members))
    nodes, counts = whole_range(site, low, low + last + 1)
    counts[-1] -= int(total[last]) - members
    return nodes, counts
