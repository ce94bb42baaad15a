"""Slots of several resources at once: what a node holds of a whole request, as its victims leave.

A *bundle* b is an amount per resource. On a node with room f, a member that asks q takes k = min_r ⌊q_r / b_r⌋ bundles,
and the node has min_r ⌊f_r / b_r⌋ of them; so Σ k·x ≤ slots holds for every node, whatever shares it. The empty bundle
counts members of any request, at most so many as some mix of requests that fits.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import TYPE_CHECKING

import numpy as np
from ortools.sat.python import cp_model

from gangfit.solver.arrays import IntArray
from gangfit.solver.linear_form import IMPLIED
from gangfit.solver.merged import Sum
from gangfit.solver.problem import UNLIMITED, Problem

if TYPE_CHECKING:
    from gangfit.solver.joint import Joint

Bundle = tuple[tuple[int, int], ...]
"""(resource, amount): one slot; GPUs alone, or a whole request."""


MEMBERS: Bundle = ()
"""Slots for a member each, whatever it asks."""
SHAPES = 6
"""Most distinct requests whose mixes are searched."""
MANY = 16
"""Members from which on a node's mixes aren't searched: what it holds of the least demanding is a bound, too."""


def gpus(size: int) -> Bundle:
    """Slots of GPUs alone."""
    return ((0, size),)


def taken(request: IntArray, bundle: Bundle) -> int:
    """Slots that a member of a request takes."""
    return min((int(request[r]) // amount for r, amount in bundle), default=1)


def binding(problem: Problem, gangs: Sequence[int], free: IntArray) -> list[Bundle]:
    """Whole requests of which some node, with `free` (N, R) at the most, holds fewer than GPUs alone would say."""
    result: list[Bundle] = []
    for request in np.unique(problem.request[list(gangs)], axis=0).tolist():
        bundle = tuple((r, amount) for r, amount in enumerate(request) if amount)
        if len(bundle) == 1 and bundle[0][0] == 0:
            continue
        narrow = [(r, amount) for r, amount in bundle if (free[:, r] < UNLIMITED).any()]
        by_gpus = free[:, 0] // request[0] if request[0] else np.full(len(free), UNLIMITED)
        if any((free[:, r] // amount < by_gpus).any() for r, amount in narrow if r):
            result.append(bundle)
    return [*result, MEMBERS] if result and len(np.unique(problem.request[list(gangs)], axis=0)) <= SHAPES else result


def most_members(room: tuple[int, ...], shapes: Sequence[tuple[int, ...]]) -> int:
    """Most members that fit into a room together, each of some shape: exact up to `MANY`, else a bound."""
    least = [min(shape[r] for shape in shapes) for r in range(len(room))]
    bound = min((free // amount for free, amount in zip(room, least, strict=True) if amount), default=UNLIMITED)
    if bound > MANY or len(shapes) == 1:
        return bound
    best = 0
    first, rest = shapes[0], shapes[1:]
    count = 0
    while all(free >= 0 for free in room):
        best = max(best, count + most_members(room, rest))
        room = tuple(free - amount for free, amount in zip(room, first, strict=True))
        count += 1
    return best


class Offers:
    """Slots that the nodes of each class of a model offer, as expressions in who leaves."""

    def __init__(self, model: Joint, problem: Problem, gangs: Sequence[int]) -> None:
        self._joint = model
        self._known: dict[tuple[int, Bundle], cp_model.LinearExprT] = {}
        self._rooms: dict[int, tuple[list[int], list[tuple[int, list[int]]]]] = {}
        requests = problem.request[list(gangs)]
        self._shapes: list[tuple[int, ...]] = [tuple(q) for q in np.unique(requests, axis=0).tolist()]
        self._mixes = cache(lambda room: most_members(room, self._shapes))

    def of(self, k: int, bundle: Bundle) -> cp_model.LinearExprT:
        """Slots of a class; an upper bound where victims share nodes."""
        if (k, bundle) not in self._known:
            self._known[k, bundle] = self._new(k, bundle)
        return self._known[k, bundle]

    def _class(self, k: int) -> tuple[list[int], list[tuple[int, list[int]]]]:
        """What each node of a class has free, and (victim, amounts) of who sits there."""
        if k not in self._rooms:
            node = int(self._joint.classes[k].nodes[0])
            request = self._joint.problem.victims.request
            holders = [(v, (members * request[v]).tolist()) for v, members in self._joint.members_on(node)]
            self._rooms[k] = self._joint.problem.free[node].tolist(), holders
        return self._rooms[k]

    def _new(self, k: int, bundle: Bundle) -> cp_model.LinearExprT:
        joint, group = self._joint, self._joint.classes[k]
        count = group.size
        room, holders = self._class(k)
        asked_of = bundle or tuple((r, 1) for r in range(len(room)))
        limited = [(r, amount) for r, amount in asked_of if room[r] < UNLIMITED]
        free = {r: room[r] for r, _ in limited}
        held: dict[int, dict[int, int]] = {}
        for v, amounts in holders:
            here = {r: amounts[r] for r in free if amounts[r]}
            if here:
                held[v] = here
        full = {r: free[r] + sum(amounts.get(r, 0) for amounts in held.values()) for r in free}

        if not limited:
            # As many as are asked for.
            asked = joint.problem.request[list(joint.gangs)], joint.problem.members[list(joint.gangs)].tolist()
            return Sum([sum(taken(request, bundle) * members for request, members in zip(*asked, strict=True))])

        def slots(room: dict[int, int]) -> int:
            if not bundle:
                return self._mixes(tuple(room.get(r, UNLIMITED) for r in range(len(joint.problem.resources))))
            return min(room[r] // amount for r, amount in limited)

        base, most = slots(free), slots(full)
        if base == most:
            return Sum([count * base])
        if len(held) == 1:
            (v,) = held
            return count * base + count * (most - base) * joint.leaves(v)
        if bundle and len(limited) == 1:
            ((r, size),) = limited
            if all(amounts[r] % size == 0 for amounts in held.values()):
                parts = [count * (amounts[r] // size) * joint.leaves(v) for v, amounts in held.items()]
                start = count * free[r] if size == 1 else count * base
                return start + Sum(parts)
        without = {v: slots({r: full[r] - amounts.get(r, 0) for r in full}) for v, amounts in held.items()}
        # All victims together free one slot more, fewer of them none.
        whole = most == base + 1 and all(less == base for less in without.values())
        offered = joint.model.new_int_var(count * base, count * most, IMPLIED if whole else "")
        # Rows of one victim each imply those of all together where none but all frees anything.
        for r, size in limited if bundle and not whole else ():
            if slots({**full, r: free[r]}) < most:
                parts = [count * amounts[r] * joint.leaves(v) for v, amounts in held.items() if r in amounts]
                joint.model.add(size * offered <= count * free[r] + Sum(parts))
        for v, less in without.items():
            if less < most:
                joint.model.add(offered <= count * less + count * (most - less) * joint.leaves(v))
        return offered
