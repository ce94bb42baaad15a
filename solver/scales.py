"""Conservative scales: integer weights of members, and per node the most weight that any mix of them reaches there.

Whatever nodes the members sit on, their weights sum to no more than the nodes' rooms, over any set of nodes. Weights
come from a linear program over patterns (Gilmore and Gomory 1961: mixes of members on one node, priced by a knapsack);
they only steer: every room is counted again in integers, so every count rests on integers alone. Unlike slots of one
resource a scale sees that two gangs can't share a node for different reasons.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from gangfit.solver.arrays import IntArray
from gangfit.solver.master import Column, FloatArray, Master
from gangfit.solver.problem import Problem
from gangfit.solver.space import members_per_node

UNIT = 10**9
"""A weight of 1."""
MEMBERS = 10**8
"""Most members, asked or held, whose weights are summed: the sums fit 64 bits."""
SHAPES = 16
KINDS = 128
"""Most shapes of gangs and kinds of nodes for which scales are looked for: 20 ms."""
ROUNDS = 40
"""Most linear programs."""
STEPS = 2000
"""Most steps of one knapsack; beyond, its bound is taken."""
UNMET = 1000
"""Intact nodes that a member without a place costs, where as few as possible are to be used."""


@dataclass(frozen=True)
class Scale:
    """Weights and rooms, for plans that start no gang but those it was made for."""

    weight: IntArray
    """(J,): weight of one member; 0 for gangs that the scale doesn't know."""
    room: IntArray
    """(N,): most weight that the node holds."""


class Patterns:
    """What the nodes hold for the shapes of some gangs, each node for itself; required levels are left out."""

    def __init__(self, problem: Problem, gangs: Sequence[int]) -> None:
        self._problem = problem
        shapes = problem.shape_of[list(gangs)]
        numbers, first, self._row = np.unique(shapes, return_index=True, return_inverse=True)
        self._gangs = list(gangs)
        self._of = [gangs[int(i)] for i in first]
        """One gang of every shape."""
        self.small = 0 < len(numbers) <= SHAPES
        if not self.small:
            return
        self._demand: IntArray = np.zeros(len(numbers), dtype=np.int64)
        np.add.at(self._demand, self._row, problem.members[self._gangs])
        asked = np.flatnonzero(problem.request[self._of].any(axis=0))
        requests = problem.request[self._of][:, asked]
        self._asks: list[list[int]] = requests.tolist()
        room = np.stack([members_per_node(problem, problem.free, j) for j in self._of], axis=1)
        self._caps: IntArray = np.minimum(room, self._demand)
        held = int(self._caps.sum())
        # What no mix of the members could use makes no difference.
        asks: IntArray = (self._demand[:, None] * requests).sum(axis=0)
        most = np.minimum(problem.free[:, asked], asks)
        keys = np.column_stack([most * room.any(axis=1, keepdims=True), self._caps, problem.intact])
        _, node, kind = np.unique(keys, axis=0, return_index=True, return_inverse=True)
        self._kind: IntArray = kind.ravel()
        """(N,)"""
        self._free: list[list[int]] = most[node].tolist()
        """(kinds, resources asked)"""
        self._caps = self._caps[node]
        """(kinds, shapes)"""
        self._intact = problem.intact[node]
        self.small = len(node) <= KINDS and max(self._demand.sum(), held) <= MEMBERS

    def full(self) -> Scale | None:
        """A scale by which the gangs weigh more than all nodes hold; None: there is none, or none was found."""
        for weight, best in self._priced(np.zeros(len(self._free))) if self.small else ():
            scale = self._scale(weight, best)
            if int(weight @ self._demand) > int(scale.room.sum()):
                return scale
        return None

    def opened(self) -> Scale | None:
        """A scale by which the gangs need many intact nodes: the last one, which is the best if all went well."""
        found = list(self._priced(self._intact.astype(np.float64) / UNMET)) if self.small else []
        return self._scale(*found[-1]) if found else None

    def _scale(self, weight: IntArray, best: IntArray) -> Scale:
        weights = np.zeros(len(self._problem.gangs), dtype=np.int64)
        weights[self._gangs] = weight[self._row]
        return Scale(weights, best[self._kind])

    def _priced(self, cost: FloatArray) -> Iterator[tuple[IntArray, IntArray]]:
        """(shapes,) weights and (kinds,) rooms from column generation, as it goes.

        The linear program: mixes of members on nodes, at most as many as there are nodes of a kind; `cost` (kinds,) is
        that of a node that is used, 1 that of a member without a place. Its duals are the weights.
        """
        shapes, kinds = len(self._demand), len(self._free)
        size = np.bincount(self._kind, minlength=kinds)
        lower = np.append(self._demand, np.full(kinds, -np.inf))
        master = Master(lower, np.append(np.full(shapes, np.inf), size), 1.0)
        for _ in range(ROUNDS):
            dual = master.solve(None)
            if dual is None:
                return
            weight = np.maximum(np.rint(dual[:shapes] * UNIT), 0).astype(np.int64)
            best = np.zeros(kinds, dtype=np.int64)
            fresh: list[Column] = []
            for k in range(kinds):
                best[k], mix = heaviest(weight.tolist(), self._asks, self._caps[k].tolist(), self._free[k])
                if dual[:shapes] @ mix > cost[k] - dual[shapes + k] + 1e-7:
                    used = [s for s in range(shapes) if mix[s]]
                    rows = (*used, shapes + k)
                    fresh.append((float(cost[k]), rows, (*(float(mix[s]) for s in used), 1.0)))
            yield weight, best
            if not fresh:
                return
            master.add(fresh)


def heaviest(weight: list[int], asks: list[list[int]], caps: list[int], free: list[int]) -> tuple[int, list[int]]:
    """The most weight that one node's free amounts hold, and members by shape that reach it.

    `asks` (shapes, resources), `caps` (shapes,): most members. Depth first, exact; after `STEPS` steps a bound.
    """
    order = sorted((s for s in range(len(caps)) if caps[s] and weight[s]), key=lambda s: -weight[s])
    best, found, steps = 0, [0] * len(caps), 0
    mix = found.copy()

    def bound(depth: int, left: list[int]) -> int:
        """What the shapes from here on can weigh at most, by each resource apart."""
        most = sum(weight[s] * caps[s] for s in order[depth:])
        for r, amount in enumerate(left):
            rest, densest, per = 0, 0, 1
            for s in order[depth:]:
                ask = asks[s][r]
                if not ask:
                    rest += weight[s] * caps[s]
                elif weight[s] * per > densest * ask:
                    densest, per = weight[s], ask
            most = min(most, rest + amount * densest // per)
        return most

    def walk(depth: int, left: list[int], value: int) -> None:
        nonlocal best, found, steps
        steps += 1
        if value > best:
            best, found = value, mix.copy()
        if depth == len(order) or steps > STEPS or value + bound(depth, left) <= best:
            return
        s = order[depth]
        most = min([caps[s], *(left[r] // ask for r, ask in enumerate(asks[s]) if ask)])
        for count in range(most, -1, -1):
            mix[s] = count
            walk(
                depth + 1,
                [have - count * ask for have, ask in zip(left, asks[s], strict=True)],
                value + count * weight[s],
            )
        mix[s] = 0

    walk(0, free, 0)
    return (max(best, bound(0, free)) if steps > STEPS else best), found
