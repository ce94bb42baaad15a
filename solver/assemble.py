"""Plans out of configurations: an integer program over the columns generated, its choice laid out on the leaves.

Only a heuristic: the program knows the columns at hand, and the pieces of one spine by their number and sum.
"""

from __future__ import annotations

import threading
import time

import numpy as np
from highspy import _core

from gangfit.solver.arrays import IntArray
from gangfit.solver.assignment import Assignment
from gangfit.solver.configurations import ConfigurationBound, Fill, Split
from gangfit.solver.engine import Budget
from gangfit.solver.hand_out import hand_out
from gangfit.solver.master import Column

COLUMNS = 3_000
"""Most columns of an integer program."""
NODES = 200
"""Most branches in deterministic mode."""
CHARGE = 5e-4
"""Deterministic seconds of an integer program, per column."""


def choose(
    bound: ConfigurationBound, value: int, budget: Budget, until: float, idle: threading.Event
) -> list[Fill | Split] | None:
    """Columns of a plan better than `value`, as HiGHS finds them in time; None where it doesn't, or once `idle`."""
    if len(bound.columns) > COLUMNS:
        return None
    solver = _core._Highs()
    options: list[tuple[str, bool | int | float]] = [("output_flag", False), ("threads", 1), ("mip_abs_gap", 0.999)]
    if budget.policy.deterministic:
        options.append(("mip_max_nodes", NODES))
    else:
        options.append(("time_limit", max(0.001, min(until - time.monotonic(), budget.remaining))))
    for option, setting in options:
        solver.setOptionValue(option, setting)
    solver.setCallback(lambda kind, text, out, into, of: setattr(into, "user_interrupt", idle.is_set()), None)
    solver.startCallback(_core.cb.HighsCallbackType.kCallbackMipInterrupt)
    rows = bound.rows
    none, infinite = np.zeros(0, dtype=np.int32), np.full(len(rows) + 1, np.inf)
    lower = np.append(rows, -np.inf)
    infinite[-1] = value - 1 - bound.constant
    solver.addRows(len(lower), lower, infinite, 0, np.zeros(len(lower), dtype=np.int32), none, np.zeros(0))
    columns: list[Column] = [(c, (*at, len(rows)), (*v, c)) for c, at, v in bound.priced]
    count = len(columns)
    index = np.array([row for _, at, _ in columns for row in at], dtype=np.int32)
    values = np.array([v for _, _, given in columns for v in given], dtype=np.float64)
    starts = np.cumsum([0, *(len(at) for _, at, _ in columns)], dtype=np.int32)[:-1]
    cost = np.array([c for c, _, _ in columns], dtype=np.float64)
    most = np.array([1 if isinstance(column, Fill) else bound.copies[column.kind] for column in bound.columns])
    solver.addCols(count, cost, np.zeros(count), most.astype(np.float64), len(index), starts, index, values)
    solver.changeColsIntegrality(count, np.arange(count, dtype=np.int32), np.ones(count, dtype=np.uint8))
    solver.run()
    budget.charge(CHARGE * count)
    taken = np.array(solver.getSolution().col_value)
    if solver.getInfo().primal_solution_status != _core.SolutionStatus.kSolutionStatusFeasible or not len(taken):
        return None
    times = np.rint(taken).astype(np.int64).tolist()
    return [column for column, n in zip(bound.columns, times, strict=True) for _ in range(n)]


def lay_out(bound: ConfigurationBound, chosen: list[Fill | Split]) -> Assignment | None:
    """The chosen columns as a plan: block by block, item after item on leaf after leaf; None where that fails."""
    waiting = [list(gangs) for gangs in bound.gangs]
    pieces: list[list[tuple[int, int]]] = [[] for _ in bound.leaves]
    for column in chosen:
        if isinstance(column, Split) and waiting[column.kind]:
            gang = waiting[column.kind].pop()
            for p in np.flatnonzero(column.amount).tolist():
                pieces[p].append((gang, int(column.amount[p])))
    counts: dict[int, dict[int, int]] = {}
    left = bound.view.slots[bound.row].copy()
    late: list[tuple[int, int, int]] = []
    for column in chosen:
        if not isinstance(column, Fill):
            continue
        p = column.spine
        for block in np.unique(column.items[:, 0]).tolist():
            items = []
            for _, kind, slots in column.items[column.items[:, 0] == block].tolist():
                if kind >= 0 and waiting[kind]:
                    items.append((waiting[kind].pop(), slots))
                exact = next((piece for piece in pieces[p] if kind < 0 and piece[1] == slots), None)
                if exact is not None:
                    pieces[p].remove(exact)
                    items.append(exact)
            where = bound.leaves[p][column.block == block]
            if not all(_put(bound, gang, slots, where, left, counts) for gang, slots in items):
                return None
    for p, rest in enumerate(pieces):
        late += [(p, gang, slots) for gang, slots in rest]
    for p, gang, slots in late:
        # Pieces whose sum the program knew, but not each: where there is room.
        where = bound.leaves[p][np.argsort(-left[bound.leaves[p]], kind="stable")]
        if not _put(bound, gang, slots, where, left, counts):
            return None
    if any(waiting) or not _lawful(bound, counts):
        return None
    return hand_out(bound.view.problem, counts)


def _lawful(bound: ConfigurationBound, counts: dict[int, dict[int, int]]) -> bool:
    """Whether every gang is there, within its own rooms and its required level; slots of one row don't say so."""
    view, named = bound.view, bound.view.problem.tree.named
    for kind in view.types:
        cell = view.cells[kind.cell]
        for gang in kind.gangs:
            leaves = list(counts.get(gang, {}))
            if not leaves or any(members > cell.capacity[leaf] for leaf, members in counts[gang].items()):
                return False
            level = min(cell.required, named - 1)
            if level >= 0 and len(set(view.forest.above[level][leaves].tolist())) > 1:
                return False
    return True


def _put(
    bound: ConfigurationBound,
    gang: int,
    slots: int,
    leaves: IntArray,
    left: IntArray,
    counts: dict[int, dict[int, int]],
) -> bool:
    """So many slots of a gang on these leaves in turn; false if there is no room."""
    each = bound.each[gang]
    for leaf in leaves.tolist():
        members = min(int(left[leaf]) // each, slots // each)
        if members:
            counts.setdefault(gang, {})
            counts[gang][leaf] = counts[gang].get(leaf, 0) + members
            left[leaf] -= members * each
            slots -= members * each
    return slots == 0
