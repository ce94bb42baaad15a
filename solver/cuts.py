"""Cuts: when space is nearly full, how many gangs have to be split over domains, whatever else happens.

Space is pooled per spine (the vertices one level above the leaves); only whole and split gangs are told apart. An
exact-sum question that no fractional bound sees (docs/model.md, "The fast path").
"""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
from ortools.sat.python import cp_model

from gangfit.solver.engine import Budget, run
from gangfit.solver.kernels import kernel
from gangfit.solver.leaves import Leaves

Sum = cp_model.LinearExpr.sum

LIMIT = 4_000
"""Most (spine, type) pairs."""
STATES = 4_000_000
"""Most sub-multisets of the exact-sum recursion."""


def exact_sum(view: Leaves, level: int) -> int:
    """Lower bound of Σ over gangs of domains touched of a level, from counting parts that balance; 0 if out of reach.

    Gangs and domains with the pairs that touch form a graph; in each of its connected parts the gangs' demand fits the
    domains' room, and a part of n gangs and domains has n − 1 pairs or more. Unused slots are dummy gangs of one slot.
    So the pairs are at least gangs + domains − the most parts that sum to zero.
    """
    domains, of = np.unique(view.forest.above[level], return_inverse=True)
    gangs = sum(len(kind.gangs) for kind in view.types)
    best = 0
    for row, slots in enumerate(view.slots):
        room = np.bincount(of.ravel(), weights=slots, minlength=len(domains)).astype(np.int64)
        room = room[room > 0]
        takes = [(int(view.coefficient[row, k.cell]) * k.members, len(k.gangs)) for k in view.types]
        numbers: dict[int, int] = {}
        for size, copies in takes:
            if size:
                numbers[-size] = numbers.get(-size, 0) + copies
        for size in room.tolist():
            numbers[size] = numbers.get(size, 0) + 1
        slack = int(room.sum()) - sum(size * copies for size, copies in takes)
        if slack < 0:
            continue
        takers = sum(copies for size, copies in takes if size)
        if slack:
            numbers[-1] = numbers.get(-1, 0) + slack
        count = np.array(list(numbers.values()), dtype=np.int64)
        # A part has at least one member; the kernel counts parts in 16 bits.
        if int(count.sum()) >= 2**16:
            continue
        # The product in Python integers: it may be astronomical.
        if math.prod(int(c) + 1 for c in count) > STATES:
            continue
        stride = np.concatenate([[1], np.cumprod(count + 1)]).astype(np.int64)
        parts = np.zeros(int(stride[-1]), dtype=np.uint16)
        value = np.array(list(numbers), dtype=np.int64)
        most = int(kernel("balanced")(count, value, stride[:-1].copy(), np.zeros(len(count), dtype=np.int64), parts))
        best = max(best, takers + len(room) - most + gangs - takers)
    return best


def spine_split(view: Leaves, budget: Budget, share: float, least: int = 0) -> int:
    """Lower bound of Σ over gangs of spines touched; the trivial one (a spine per gang) where nothing else is known."""
    gangs = sum(len(kind.gangs) for kind in view.types)
    spines = view.forest.spines
    if len(spines) < 2 or len(spines) * len(view.types) > LIMIT:
        return gangs
    level = int(view.forest.level[spines[0]])
    model = cp_model.CpModel()
    of = np.searchsorted(spines, view.forest.parent[: view.forest.leaves])
    used: list[list[tuple[int, cp_model.LinearExprT]]] = [[] for _ in spines]
    parts = []
    for kind in view.types:
        cell, copies, members = view.cells[kind.cell], len(kind.gangs), kind.members
        holds = np.bincount(of, weights=np.minimum(cell.capacity, members), minlength=len(spines)).astype(np.int64)
        whole = {}
        for p in np.flatnonzero(holds >= members).tolist():
            whole[p] = model.new_int_var(0, copies, "")
            used[p].append((kind.cell, members * whole[p]))
        if members == 1 or 0 <= level <= cell.required:
            model.add(Sum(list(whole.values())) == copies)
            continue
        # Split gangs one by one where that is affordable, else the copies of a type in one.
        single = len(spines) * gangs <= LIMIT
        splits = [model.new_int_var(0, 1 if single else copies, "") for _ in range(copies if single else 1)]
        model.add(Sum([*whole.values(), *splits]) == copies)
        for split, after in pairwise(splits):
            model.add(split >= after)
        for split in splits:
            pieces, amounts = [], []
            for p in np.flatnonzero(holds).tolist():
                most = min(int(holds[p]), members - 1)
                piece = model.new_int_var(0, 1 if single else copies, "")
                amount = model.new_int_var(0, most if single else most * copies, "")
                model.add(amount <= most * piece)
                model.add(amount >= piece)
                model.add(piece <= split)
                pieces.append(piece)
                amounts.append(amount)
                used[p].append((kind.cell, amount))
            model.add(Sum(amounts) == members * split)
            model.add(Sum(pieces) >= 2 * split)
            parts += [*pieces, -1 * split]
    for row in range(len(view.coefficient)):
        room = np.bincount(of, weights=view.slots[row], minlength=len(spines)).astype(np.int64)
        for p in range(len(spines)):
            terms = [int(view.coefficient[row, c]) * x for c, x in used[p] if view.coefficient[row, c]]
            model.add(Sum(terms) <= int(room[p]))
    extra = Sum(parts)
    model.add(extra >= max(least - gangs, 0))
    model.minimize(extra)
    outcome = run(model, budget, share)
    return gangs + max(0, outcome.bound or 0)
