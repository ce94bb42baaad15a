"""Local search over whole plans: arrays for the ruin-and-recreate kernel, its schedule, and the plan back."""

from __future__ import annotations

import math
import threading
import time

import numpy as np

from gangfit.solver.arrays import IntArray
from gangfit.solver.assignment import Assignment, Spread, tier_values
from gangfit.solver.engine import Budget
from gangfit.solver.kernels import kernel
from gangfit.solver.leaves import forest
from gangfit.solver.problem import Problem
from gangfit.solver.space import members_per_node

BATCH = 256
"""Iterations of one temperature; most between two looks at the clock."""
SLICE = 0.01
"""Seconds between two looks at the clock, about."""
CHARGE = 2e-5
"""Deterministic seconds per iteration."""
TABLE = 1 << 16
"""Cells of the insertion's recursion tables."""


class LocalSearch:
    """A plan that ruin and recreate works on. Every plan on the way keeps all rules; the record never gets worse."""

    def __init__(self, problem: Problem, assignment: Assignment, seed: int) -> None:
        self.problem = problem
        self.gangs = sorted(assignment)
        named = problem.tree.named
        tree = forest(problem)
        nodes, vertices, count = len(problem.node_names), len(tree.level), len(self.gangs)
        shapes, shape = np.unique(problem.shape_of[self.gangs], return_inverse=True)
        first = [self.gangs[int(np.argmax(shape == s))] for s in range(len(shapes))]
        binding = binding_resources(problem, first)
        self._request: IntArray = np.ascontiguousarray(problem.request[first][:, binding])
        """(S, R'): per member and shape, resources that can bind."""
        self._node: IntArray = np.zeros((nodes, 4 + len(binding)), dtype=np.int64)
        """(N, 4 + R'): leaf, intact, members hosted, a gang on it (−1 none), free amounts."""
        self._node[:, 0] = tree.leaf_of
        self._node[:, 1] = problem.intact
        self._node[:, 3] = -1
        self._node[:, 4:] = problem.free[:, binding]
        allowed = [problem.eligible[problem.eligible_of[j]].allowed for j in first]
        self._allowed: IntArray = np.array(allowed, dtype=np.int64).reshape(len(first), nodes)
        self._room: IntArray = np.stack([members_per_node(problem, problem.free, j) for j in first])
        """(S, N): members a node holds now."""
        self._vertex: IntArray = np.zeros((vertices, 13), dtype=np.int64)
        """(V, 13): first child, last, parent, level, known, nodes from, to, leaves from, to, gangs crossing, intact
        nodes lost, stamp, intact."""
        self._vertices(tree.first, tree.last, tree.parent, tree.level, tree.leaves)
        self._capacity: IntArray = np.zeros((len(first), vertices), dtype=np.int64)
        """(S, V): members a vertex holds now."""
        for s in range(len(first)):
            held = np.add.reduceat(self._room[s], self._vertex[: tree.leaves, 5])
            total = np.concatenate([[0], np.cumsum(held)])
            self._capacity[s] = total[self._vertex[:, 8]] - total[self._vertex[:, 7]]
        self._gang: IntArray = np.zeros((count, 8), dtype=np.int64)
        """(J, 8): shape, members, required, preferred, slots from, slots used now, in the record, before the ruin."""
        members = problem.members[self.gangs]
        self._gang[:, 0] = shape
        self._gang[:, 1] = members
        self._gang[:, 2] = problem.required[self.gangs]
        self._gang[:, 3] = problem.preferred[self.gangs]
        self._gang[:, 4] = np.cumsum(members) - members
        self._slot: IntArray = np.zeros((6, int(members.sum())), dtype=np.int64)
        """(6, members): node and count now, in the record, before the ruin."""
        wide = max(vertices, count, named + 1, len(first), int(np.diff(self._vertex[:, [5, 6]], axis=1).max())) + 1
        self._scratch: IntArray = np.zeros((8, wide), dtype=np.int64)
        self._table: IntArray = np.zeros((3, max(TABLE, vertices + 1)), dtype=np.int64)
        self._state: IntArray = np.zeros((5, max(8, 4 + named)), dtype=np.int64)
        """Rows: control (random state, stamp, –, step of the focus), values, record, weights, values before."""
        self._state[0, 0] = 1 + (seed * 7919 + 12345) % 2147483000
        self._state[3, : named + 1] = problem.tree.weights
        self.rounds = 0
        """Iterations done."""
        self._pace = 1
        """Iterations that a slice of time allows: gangs of thousands of members take a hundred times as long."""
        self._enter(assignment)
        self._best: Assignment = dict(assignment)

    def _vertices(self, first: IntArray, last: IntArray, parent: IntArray, level: IntArray, leaves: int) -> None:
        vertex, tree = self._vertex, self.problem.tree
        vertex[:, 0], vertex[:, 1], vertex[:, 2], vertex[:, 3] = first, last, parent, level
        starts = tree.starts[tree.named - 1] if tree.named else np.array([0, len(self.problem.node_names)])
        vertex[:leaves, 5], vertex[:leaves, 6] = starts[:-1], starts[1:]
        vertex[:leaves, 7], vertex[:leaves, 8] = np.arange(leaves), np.arange(1, leaves + 1)
        for v in range(leaves, len(level)):
            for low, high in ((5, 6), (7, 8)):
                vertex[v, low], vertex[v, high] = vertex[first[v], low], vertex[last[v] - 1, high]
        for at in range(tree.named):
            here = level == at
            vertex[here, 4] = tree.known_domains(at)
            vertex[here, 9] = self.problem.crossing[at]
            vertex[here, 12] = self.problem.intact_domains[at]

    def _enter(self, assignment: Assignment) -> None:
        """Book every gang of the assignment in numpy, as the kernel would one by one."""
        values = tier_values(self.problem, assignment)
        tree, offset = self.problem.tree, forest(self.problem).offset
        spots = []
        for i, j in enumerate(self.gangs):
            spread = assignment[j]
            at = int(self._gang[i, 4])
            self._slot[0, at : at + len(spread.nodes)] = spread.nodes
            self._slot[1, at : at + len(spread.nodes)] = spread.counts
            self._gang[i, 5] = len(spread.nodes)
            self._node[spread.nodes, 2] += spread.counts
            self._node[spread.nodes, 3] = i
            self._node[spread.nodes, 4:] -= spread.counts[:, None] * self._request[self._gang[i, 0]]
            spots.append(spread.nodes)
            for level in range(tree.named):
                touched = np.unique(tree.domain[level][spread.nodes])
                if len(touched) > 1:
                    self._vertex[touched + offset[level], 9] += 1
        used = np.unique(np.concatenate(spots)) if spots else np.zeros(0, dtype=np.int64)
        for level in range(tree.named):
            gone = used[self.problem.intact[used]]
            np.add.at(self._vertex[:, 10], tree.domain[level][gone] + offset[level], 1)
        for s, request in enumerate(self._request):
            asks = np.flatnonzero(request)
            now = (self._node[np.ix_(used, 4 + asks)] // request[asks]).min(axis=1)
            change = np.where(self._allowed[s, used] > 0, now, 0) - self._room[s, used]
            self._room[s, used] += change
            leaf = np.bincount(self._node[used, 0], weights=change, minlength=int(self._vertex[-1, 8])).astype(np.int64)
            total = np.concatenate([[0], np.cumsum(leaf)])
            self._capacity[s] += total[self._vertex[:, 8]] - total[self._vertex[:, 7]]
        self._gang[:, 6] = self._gang[:, 5]
        self._slot[2:4] = self._slot[:2]
        self._state[1, : len(values)] = values
        self._state[2, : len(values)] = values

    @property
    def values(self) -> tuple[int, ...]:
        """Tier values of the record."""
        return tuple(self._state[2, : 4 + self.problem.tree.named].tolist())

    @property
    def record(self) -> Assignment:
        """The best plan so far; another thread may ask for it while this one searches."""
        return self._best

    def _copy(self) -> Assignment:
        result = {}
        for i, j in enumerate(self.gangs):
            at = slice(int(self._gang[i, 4]), int(self._gang[i, 4] + self._gang[i, 6]))
            result[j] = Spread.of(zip(self._slot[2, at].tolist(), self._slot[3, at].tolist(), strict=True))
        return result

    def search(
        self,
        tier: int,
        target: int,
        rounds: int,
        budget: Budget,
        until: float = math.inf,
        done: threading.Event | None = None,
    ) -> bool:
        """Improve tier `tier` and those before it until the record reaches `target`; ends by rounds, time or event.

        Returns whether it got there.
        """
        step = math.gcd(*self.problem.tree.weights) if tier == 1 else 1
        self._state[0, 3] = max(step, 1)
        if not self.gangs:
            return True
        most = min(len(self.gangs), 9)
        while rounds > 0 and self.values[tier] > target and budget.remaining and not budget.past(until):
            if done is not None and done.is_set():
                break
            batch = min(BATCH - self.rounds % BATCH, rounds)
            if not budget.policy.deterministic:
                batch = min(batch, self._pace)
            heat = (0, 64 if tier <= 1 else 16)[self.rounds // BATCH % 2]
            before, started = self.values, time.monotonic()
            worked = kernel("ruin_recreate")(
                batch, tier, heat, most, target, self.problem.tree.named, self._node, self._vertex, self._gang,
                self._slot, self._room, self._capacity, self._allowed, self._request, self._scratch, self._table,
                self._state,
            )  # fmt: skip
            took = time.monotonic() - started
            self._pace = max(1, self._pace // 2) if took > SLICE else min(BATCH, self._pace * 2)
            if self.values != before:
                self._best = self._copy()
            self.rounds += int(worked)
            rounds -= batch
            budget.charge(batch * CHARGE)
        return self.values[tier] <= target


def binding_resources(problem: Problem, gangs: list[int]) -> IntArray:
    """Resources that can keep a member off: asked, and not implied by the GPUs on every node that may be used."""
    asks = problem.request[gangs]
    useful = np.any([problem.eligible[problem.eligible_of[j]].allowed for j in gangs], axis=0)
    free = problem.free[useful]
    keep = []
    for r in np.flatnonzero(asks.any(axis=0)).tolist():
        if r and len(free):
            takers = asks[:, r] > 0
            if (asks[takers, 0] > 0).all() and all(
                (ask[r] * free[:, 0] <= ask[0] * free[:, r]).all() for ask in asks[takers]
            ):
                continue
        keep.append(r)
    return np.array(keep, dtype=np.int64)
