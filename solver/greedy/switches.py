"""Slurm's topology/tree as a placement rule: the lowest switch that holds the gang, inside it leaf by leaf."""

from __future__ import annotations

import numpy as np

from gangfit.solver.arrays import IntArray
from gangfit.solver.greedy.site import Piece, Site, in_order

NEVER = 2**62


def by_switches(site: Site) -> list[Piece]:
    """See `lowest_switch`."""
    tree, members = site.tree, site.members
    leaf = tree.named - 1
    if site.required == tree.named:
        node = int(np.argmax(site.fits >= members))
        return [in_order(site, node, node + 1, members)]
    for level in range(leaf, max(site.required, 0) - 1, -1):
        holds = site.sums[level] >= members
        if holds.any():
            switch = int(np.argmin(np.where(holds, _free_nodes(site, level, 0, tree.domains(level)), NEVER)))
            if level == leaf:
                return [in_order(site, *tree.nodes(leaf, switch), members)]
            start, end = tree.nodes(level, switch)
            return _leaf_by_leaf(site, int(tree.domain[leaf][start]), int(tree.domain[leaf][end - 1]) + 1)
    return _leaf_by_leaf(site, 0, tree.domains(leaf)) if leaf >= 0 else [in_order(site, 0, len(site.fits), members)]


def _leaf_by_leaf(site: Site, low: int, high: int) -> list[Piece]:
    """Over the leaves `low … high − 1`."""
    leaf = site.tree.named - 1
    free = _free_nodes(site, leaf, low, high)
    room = site.sums[leaf][low:high].copy()
    most = np.argsort(-free, kind="stable").tolist()
    rest = site.members
    pieces: list[Piece] = []
    for roomiest in most:
        if not room[roomiest]:
            continue
        holds = room >= rest
        if holds.any():
            last = int(np.argmin(np.where(holds, free, NEVER)))
            return [*pieces, in_order(site, *site.tree.nodes(leaf, low + last), rest)]
        pieces.append(in_order(site, *site.tree.nodes(leaf, low + roomiest), int(room[roomiest])))
        rest -= int(room[roomiest])
        room[roomiest] = 0
    raise AssertionError("the leaves hold the gang")


def _free_nodes(site: Site, level: int, low: int, high: int) -> IntArray:
    """Nodes that hold a member, per domain `low … high − 1` of a level."""
    starts = site.tree.starts[level]
    first, last = int(starts[low]), int(starts[high])
    some = (site.fits[first:last] > 0).astype(np.int64)
    return np.add.reduceat(some, starts[low:high] - first)
