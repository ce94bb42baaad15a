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


@dataclass(frozen=True)
class Grouping:
    """Nodes sorted into classes, before anything is made per gang."""

    problem: Problem
    nodes: list[IntArray]
    """Per class (n,): node indices, ascending."""
    row: dict[int, int]
    """Gang → row of `room`; gangs that no node tells apart share one."""
    room: IntArray
    """(rows, classes): members that one node of the class holds."""

    @property
    def pairs(self) -> int:
        """(class, gang) pairs with room: the member counts of a model."""
        holding = np.count_nonzero(self.room, axis=1)
        return sum(int(holding[row]) for row in self.row.values())

    def classes(self) -> list[NodeClass]:
        """The classes, leaf by leaf."""
        free, intact = self.problem.free, self.problem.intact
        result = []
        for nodes, room in zip(self.nodes, self.room.T.tolist(), strict=True):
            holds = {j: room[row] for j, row in self.row.items() if room[row]}
            result.append(NodeClass(nodes, free[nodes[0]], bool(intact[nodes[0]]), holds))
        return result


def node_classes(
    problem: Problem,
    gangs: Sequence[int],
    single: Collection[int] = (),
    free: IntArray | None = None,
    marks: IntArray | None = None,
    levels: int | None = None,
) -> list[NodeClass]:
    """Classes of the nodes that can hold a member of any of the gangs; nodes in `single` stay alone.

    Nodes are of one class when they share the finest named domain, the free amounts that the gangs ask, intactness
    and the gangs that may use them. A node outside every gang's required level holds nothing of that gang.
    `free` (N, R) is the most that could be free, where victims may leave; nodes with different `marks` (N,), the
    victims on them, are of different classes. With `levels` only domains of the first few levels tell nodes apart, and
    intactness doesn't.
    """
    return grouping(problem, gangs, single, free, marks, levels).classes()


def grouping(
    problem: Problem,
    gangs: Sequence[int],
    single: Collection[int] = (),
    free: IntArray | None = None,
    marks: IntArray | None = None,
    levels: int | None = None,
) -> Grouping:
    """As `node_classes`, up to the sorting of the nodes."""
    tree = problem.tree
    most = problem.free if free is None else free
    numbers: dict[tuple[int, int, int], int] = {}
    row: dict[int, int] = {}
    rows: list[IntArray] = []
    for j in gangs:
        alike = int(problem.shape_of[j]), int(problem.members[j]), int(problem.required[j])
        if alike not in numbers:
            numbers[alike] = len(rows)
            rows.append(_room(problem, most, j))
        row[j] = numbers[alike]
    room = np.stack(rows) if rows else np.zeros((0, len(problem.node_names)), dtype=np.int64)
    useful = np.flatnonzero(room.any(axis=0))
    if not len(useful):
        return Grouping(problem, [], row, room[:, :0])
    # Rows that are equal tell no nodes apart.
    first = {line.tobytes(): i for i, line in reversed(list(enumerate(room)))}
    kept = sorted(first.values())
    same = [kept.index(first[line.tobytes()]) for line in room]
    room, row = room[kept], {j: same[number] for j, number in row.items()}
    asked = np.flatnonzero(problem.request[list(gangs)].any(axis=0))
    named = tree.named if levels is None else levels
    same_leaf = np.zeros(len(useful), dtype=np.int64)
    leaf = tree.domain[named - 1][useful] if named else same_leaf
    alone = np.zeros(len(problem.node_names), dtype=np.int64)
    alone[list(single)] = np.array(list(single), dtype=np.int64) + 1
    keys = np.column_stack(
        [
            leaf,
            alone[useful],
            problem.intact[useful] if levels is None else same_leaf,
            same_leaf if marks is None else marks[useful],
            problem.free[np.ix_(useful, asked)] - problem.debt[np.ix_(useful, asked)],
            room[:, useful].T,
        ]
    )
    inverse = ranks(keys)
    order = np.argsort(inverse, kind="stable")
    nodes = np.split(useful[order], np.cumsum(np.bincount(inverse))[:-1])
    return Grouping(problem, nodes, row, room[:, [int(group[0]) for group in nodes]])


def ranks(rows: IntArray) -> IntArray:
    """(n,): place of each row (n, k) among the distinct rows in lexicographic order, as `np.unique` by rows gives it.

    Column by column: sorting numbers is many times faster than sorting rows.
    """
    result = np.zeros(len(rows), dtype=np.int64)
    for column in rows.T:
        _, place = np.unique(column, return_inverse=True)
        _, result = np.unique(result * (int(place.max(initial=0)) + 1) + place, return_inverse=True)
    return result


def _room(problem: Problem, free: IntArray, gang: int) -> IntArray:
    """(N,): members per node, capped by the gang's size; 0 where its required level is unknown."""
    room = np.minimum(members_per_node(problem, free, gang), problem.members[gang])
    required = int(problem.required[gang])
    result: IntArray = np.where(problem.tree.known[required], room, 0) if required >= 0 else room
    return result
