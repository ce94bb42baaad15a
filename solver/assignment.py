"""Assignment: which admitted gang has how many members on which node, and what that is worth."""

from __future__ import annotations

from collections.abc import Collection, Container, Iterable, Mapping
from dataclasses import dataclass

import numpy as np

from gangfit.solver.arrays import IntArray
from gangfit.solver.problem import Problem
from gangfit.solver.tenants import Step


@dataclass(frozen=True)
class Spread:
    """One gang's members: `counts[i]` on node `nodes[i]`, nodes ascending, counts ≥ 1."""

    nodes: IntArray
    counts: IntArray

    @staticmethod
    def of(counts: Mapping[int, int] | Iterable[tuple[int, int]]) -> Spread:
        """From node → members; zero counts are left out."""
        pairs = sorted((n, c) for n, c in dict(counts).items() if c)
        return Spread(np.array([n for n, _ in pairs], dtype=np.int64), np.array([c for _, c in pairs], dtype=np.int64))


Assignment = dict[int, Spread]
"""Gang index → spread; gangs that wait are absent. Gangs from `problem.waiting` on are running ones that move."""


def starting(problem: Problem, assignment: Iterable[int]) -> list[int]:
    """The pending gangs of an assignment."""
    return [j for j in assignment if j < problem.waiting]


def considered(problem: Problem, admitted: Container[int], late: Collection[int] = ()) -> list[Step]:
    """Whose turn it was, gang by gang, given which gangs were admitted; then those that start when asked again."""
    order = problem.order()
    steps = []
    while (gang := order.next()) is not None:
        steps.append(order.step(gang))
        order.settle(gang, gang in admitted and gang not in late)
    for gang in sorted(late, key=[step.gang for step in steps].index):
        steps.append(order.step(gang))
        order.add(gang)
    return steps


def admission(problem: Problem, assignment: Container[int]) -> tuple[int, ...]:
    """The 0/1 vector of admissions in considered order."""
    return tuple(int(step.gang in assignment) for step in considered(problem, assignment))


class _Flat:
    """An assignment as (gang, node) pairs, by gang, then node."""

    def __init__(self, problem: Problem, assignment: Assignment) -> None:
        self._problem = problem
        order = sorted(assignment)
        nodes = [assignment[j].nodes for j in order]
        empty = np.zeros(0, dtype=np.int64)
        self.nodes: IntArray = np.concatenate(nodes) if nodes else empty
        self._gangs: IntArray = np.repeat(np.array(order, dtype=np.int64), [len(n) for n in nodes]) if order else empty
        self._pairs: dict[int, tuple[IntArray, IntArray]] = {}

    def pairs(self, level: int) -> tuple[IntArray, IntArray]:
        """Distinct (gang, domain) pairs of one level."""
        if level not in self._pairs:
            gangs, domains = self._gangs, self._problem.tree.domain[level][self.nodes]
            first = np.ones(len(gangs), dtype=np.bool_)
            first[1:] = (gangs[1:] != gangs[:-1]) | (domains[1:] != domains[:-1])
            self._pairs[level] = gangs[first], domains[first]
        return self._pairs[level]

    def touched(self) -> IntArray:
        """As the function."""
        count = len(self._problem.gangs)
        levels = range(len(self._problem.tree.levels))
        return np.stack([np.bincount(self.pairs(level)[0], minlength=count) for level in levels])

    def shared_uplinks(self, victims: Collection[int]) -> int:
        """As the function."""
        problem, total = self._problem, 0
        for level in range(problem.tree.named):
            gangs, domains = self.pairs(level)
            spread = np.bincount(gangs, minlength=1)[gangs] > 1
            crossing = problem.crossing[level] + np.bincount(domains[spread], minlength=problem.tree.domains(level))
            for v in victims:
                crossing[list(problem.victims.crossing[v][level])] -= 1
            total += int(np.maximum(crossing - 1, 0).sum())
        return total

    def intact_domains(self) -> tuple[int, ...]:
        """As the function."""
        problem = self._problem
        hosts = self.nodes[problem.intact[self.nodes]]
        lost = []
        for level, intact in enumerate(problem.intact_domains):
            hit = np.zeros(len(intact), dtype=np.bool_)
            hit[problem.tree.domain[level][hosts]] = True
            lost.append(int(np.count_nonzero(hit & intact)))
        return tuple(lost)


def touched(problem: Problem, assignment: Assignment) -> IntArray:
    """(L + 1, J): domains touched per level and gang; 0 for gangs that wait."""
    return _Flat(problem, assignment).touched()


def preferred_level(problem: Problem, counts: IntArray) -> int:
    """Tier 3 from `touched`: Σ (domains touched at the preferred level − 1)."""
    placed = (counts[-1] > 0) & (problem.preferred >= 0)
    j = np.flatnonzero(placed)
    return int((counts[problem.preferred[j], j] - 1).sum())


def tree_distance(problem: Problem, counts: IntArray) -> int:
    """Tier 4 from `touched`: Σ weight × (domains touched − 1)."""
    extra = np.maximum(counts - 1, 0).sum(axis=1)
    return sum(int(weight) * int(value) for weight, value in zip(problem.tree.weights, extra, strict=True))


def shared_uplinks(problem: Problem, assignment: Assignment, victims: Collection[int] = ()) -> int:
    """Tier 5: Σ over domains of the named levels of max(0, gangs crossing the boundary − 1), victims not counted."""
    return _Flat(problem, assignment).shared_uplinks(victims)


def intact_domains(problem: Problem, assignment: Assignment) -> tuple[int, ...]:
    """Tiers 6: intact domains lost per level, coarse → fine, node last."""
    return _Flat(problem, assignment).intact_domains()


def tier_names(problem: Problem) -> tuple[str, ...]:
    """Names of the tiers after admission, in order."""
    return ("preferred", "distance", "uplinks", *(f"intact.{level}" for level in problem.tree.levels))


def tier_values(problem: Problem, assignment: Assignment, victims: Collection[int] = ()) -> tuple[int, ...]:
    """Values of the tiers after admission, in the order of `tier_names`."""
    flat = _Flat(problem, assignment)
    counts = flat.touched()
    return (
        preferred_level(problem, counts),
        tree_distance(problem, counts),
        flat.shared_uplinks(victims),
        *flat.intact_domains(),
    )


def rank(problem: Problem, assignment: Assignment) -> tuple[int, ...]:
    """Sort key of the lexicographic objective: smaller is better."""
    return (*(-y for y in admission(problem, assignment)), *tier_values(problem, assignment))
