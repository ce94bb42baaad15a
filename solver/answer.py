"""Assignment and tier results → plan."""

from __future__ import annotations

from importlib.metadata import version

import numpy as np

from gangfit.models import (
    Blocked,
    Considered,
    Intact,
    Placement,
    Plan,
    Quality,
    Stats,
    Tier,
)
from gangfit.solver.admission import Decision
from gangfit.solver.assignment import Assignment, intact_domains, touched
from gangfit.solver.explain import Reasons
from gangfit.solver.problem import IntArray, Problem
from gangfit.solver.tiers import TierResult

ROLE = "members"
"""Role of a gang without roles of its own."""


def answer(
    problem: Problem, assignment: Assignment, decided: tuple[Decision, ...], results: list[TierResult], stats: Stats
) -> Plan:
    """The plan of an assignment."""
    counts = touched(problem, assignment)
    reasons = Reasons(problem)
    blocked = tuple(reasons.explain(j, decided[j] == "limit") for j in range(len(problem.gangs)) if j not in assignment)
    tiers = _tiers(problem, assignment, blocked, decided, results, counts)
    return Plan(
        status="optimal" if all(tier.proof for tier in tiers) else "feasible",
        tiers=tiers,
        placements=tuple(_placement(problem, assignment, j) for j in sorted(assignment)),
        blocked=blocked,
        considered=tuple(
            Considered(gang=gang.name, admitted=j in assignment, decided_by=decided[j])
            for j, gang in enumerate(problem.gangs)
        ),
        quality=tuple(_quality(problem, counts, j) for j in sorted(assignment)),
        fragmentation=_fragmentation(problem, assignment),
        warnings=problem.warnings,
        stats=stats.model_copy(update={"versions": {name: version(name) for name in ("gangfit", "ortools")}}),
    )


def _tiers(
    problem: Problem,
    assignment: Assignment,
    blocked: tuple[Blocked, ...],
    decided: tuple[Decision, ...],
    results: list[TierResult],
    counts: IntArray,
) -> tuple[Tier, ...]:
    undecided = sum(gang.reason == "undecided" for gang in blocked)
    searched = "search" in decided
    first = Tier(
        name="admission",
        sense="max",
        value=len(assignment),
        bound=len(assignment) + undecided,
        gap=float(undecided),
        proof=None if undecided else "search" if searched else "bound",
    )
    placed = np.array(sorted(assignment), dtype=np.int64)
    at = problem.preferred[placed]
    weights = np.array(problem.tree.weights, dtype=np.int64)
    touches = {
        "preferred": int(counts[at[at >= 0], placed[at >= 0]].sum()),
        "distance": int((weights[:, None] * counts).sum()),
    }
    return first, *(
        Tier(
            name=result.name,
            sense="min",
            value=result.value,
            bound=result.bound,
            gap=(result.value - result.bound) / max(touches.get(result.name, result.value), 1),
            proof=result.proof,
        )
        for result in results
    )


def _placement(problem: Problem, assignment: Assignment, gang: int) -> Placement:
    spread = assignment[gang]
    nodes = {
        problem.node_names[n]: count for n, count in zip(spread.nodes.tolist(), spread.counts.tolist(), strict=True)
    }
    return Placement(gang=problem.gangs[gang].name, roles={ROLE: nodes})


def _quality(problem: Problem, counts: IntArray, gang: int) -> Quality:
    levels = problem.tree.levels
    domains = dict(zip(levels, counts[:, gang].tolist(), strict=True))
    return Quality(
        gang=problem.gangs[gang].name,
        domains=domains,
        diameter=next((level for level in levels if domains[level] > 1), None),
        distance=sum(w * (domains[level] - 1) for w, level in zip(problem.tree.weights, levels, strict=True)),
    )


def _fragmentation(problem: Problem, assignment: Assignment) -> tuple[Intact, ...]:
    lost = intact_domains(problem, assignment)
    before = [int(intact.sum()) for intact in problem.intact_domains]
    return tuple(
        Intact(level=level, before=now, after=now - gone)
        for level, now, gone in zip(problem.tree.levels, before, lost, strict=True)
    )
