"""Node classes: nodes of one finest domain that no rule tells apart for the admitted gangs."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np

from gangfit.solver.arrays import IntArray
from gangfit.solver.problem import Problem
from gangfit.solver.space import members_per_node


@dataclass(frozen=True)
class NodeClass:
    """Interchangeable nodes."""

    nodes: IntArray
    """(n,): node indices, ascending."""
    free: IntArray
    """(R,): free amounts of each node."""
    intact: bool
    """Whether each node is intact."""
    room: dict[int, int]
    """Gang → members that one node holds (≥ 1); gangs without room are absent."""

    @property
    def size(self) -> int:
        """Number of nodes."""
        return len(self.nodes)


def node_classes(
    problem: Problem,
    gangs: Sequence[int],
    single: Collection[int] = (),
    free: IntArray | None = None,
    marks: IntArray | None = None,
) -> list[NodeClass]:
    """Classes of the nodes that can hold a member of any of the gangs; nodes in `single` stay alone.

    Nodes are of one class when they share the finest named domain, the free amounts that the gangs ask, intactness
    and the gangs that may use them. A node outside every gang's required level holds nothing of that gang.
    `free` (N, R) is the most that could be free, where victims may leave; nodes with different `marks` (N,), the
    victims on them, are of different classes.
    """
    if not gangs:
        return []
    tree = problem.tree
    asked = np.flatnonzero(problem.request[list(gangs)].any(axis=0))
    most = problem.free if free is None else free
    room = np.stack([_room(problem, most, j) for j in gangs])
    useful = np.flatnonzero(room.any(axis=0))
    if not len(useful):
        return []
    leaf = tree.domain[tree.named - 1][useful] if tree.named else np.zeros(len(useful), dtype=np.int64)
    alone = np.zeros(len(problem.node_names), dtype=np.int64)
    alone[list(single)] = np.array(list(single), dtype=np.int64) + 1
    keys = np.column_stack(
        [
            leaf,
            alone[useful],
            problem.intact[useful],
            np.zeros(len(useful), dtype=np.int64) if marks is None else marks[useful],
            problem.free[np.ix_(useful, asked)] - problem.debt[np.ix_(useful, asked)],
            room[:, useful].T,
        ]
    )
    _, inverse = np.unique(keys, axis=0, return_inverse=True)
    order = np.argsort(inverse.ravel(), kind="stable")
    groups = np.split(useful[order], np.cumsum(np.bincount(inverse.ravel()))[:-1])
    return [
        NodeClass(
            nodes=nodes,
            free=problem.free[nodes[0]],
            intact=bool(problem.intact[nodes[0]]),
            room={j: int(room[i, nodes[0]]) for i, j in enumerate(gangs) if room[i, nodes[0]]},
        )
        for nodes in groups
    ]


def _room(problem: Problem, free: IntArray, gang: int) -> IntArray:
    """(N,): members per node, capped by the gang's size; 0 where its required level is unknown."""
    room = np.minimum(members_per_node(problem, free, gang), problem.members[gang])
    required = int(problem.required[gang])
    result: IntArray = np.where(problem.tree.known[required], room, 0) if required >= 0 else room
    return result
