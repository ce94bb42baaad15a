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


@dataclass(frozen=True)
class _Pairs:
    """Distinct (gang, domain) pairs of one level."""

    gangs: IntArray
    domains: IntArray


def _pairs(problem: Problem, gangs: IntArray, nodes: IntArray, level: int) -> _Pairs:
    domains = problem.tree.domain[level][nodes]
    if not len(gangs):
        return _Pairs(gangs, domains)
    first = np.ones(len(gangs), dtype=np.bool_)
    first[1:] = (gangs[1:] != gangs[:-1]) | (domains[1:] != domains[:-1])
    return _Pairs(gangs[first], domains[first])


def touched(problem: Problem, assignment: Assignment) -> IntArray:
    """(L + 1, J): domains touched per level and gang; 0 for gangs that wait."""
    gangs, nodes = _flat(assignment)
    levels = len(problem.tree.levels)
    count = len(problem.gangs)
    result = np.zeros((levels, count), dtype=np.int64)
    for level in range(levels):
        result[level] = np.bincount(_pairs(problem, gangs, nodes, level).gangs, minlength=count)
    return result


def _flat(assignment: Assignment) -> tuple[IntArray, IntArray]:
    """(gang, node) pairs, by gang, then node."""
    empty = np.zeros(0, dtype=np.int64)
    order = sorted(assignment)
    nodes = [assignment[j].nodes for j in order]
    gangs = np.repeat(np.array(order, dtype=np.int64), [len(n) for n in nodes]) if order else empty
    return gangs, np.concatenate(nodes) if nodes else empty


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
    gangs, nodes = _flat(assignment)
    total = 0
    for level in range(problem.tree.named):
        pairs = _pairs(problem, gangs, nodes, level)
        spread = np.bincount(pairs.gangs, minlength=1)[pairs.gangs] > 1
        crossing = problem.crossing[level] + np.bincount(pairs.domains[spread], minlength=problem.tree.domains(level))
        for v in victims:
            crossing[list(problem.victims.crossing[v][level])] -= 1
        total += int(np.maximum(crossing - 1, 0).sum())
    return total


def intact_domains(problem: Problem, assignment: Assignment) -> tuple[int, ...]:
    """Tiers 6: intact domains lost per level, coarse → fine, node last."""
    _, nodes = _flat(assignment)
    hosts = nodes[problem.intact[nodes]]
    lost = []
    for level, intact in enumerate(problem.intact_domains):
        hit = np.zeros(len(intact), dtype=np.bool_)
        hit[problem.tree.domain[level][hosts]] = True
        lost.append(int(np.count_nonzero(hit & intact)))
    return tuple(lost)


def tier_names(problem: Problem) -> tuple[str, ...]:
    """Names of the tiers after admission, in order."""
    return ("preferred", "distance", "uplinks", *(f"intact.{level}" for level in problem.tree.levels))


def tier_values(problem: Problem, assignment: Assignment, victims: Collection[int] = ()) -> tuple[int, ...]:
    """Values of the tiers after admission, in the order of `tier_names`."""
    counts = touched(problem, assignment)
    return (
        preferred_level(problem, counts),
        tree_distance(problem, counts),
        shared_uplinks(problem, assignment, victims),
        *intact_domains(problem, assignment),
    )


def rank(problem: Problem, assignment: Assignment) -> tuple[int, ...]:
    """Sort key of the lexicographic objective: smaller is better."""
    return (*(-y for y in admission(problem, assignment)), *tier_values(problem, assignment))
