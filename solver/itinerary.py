"""How gangs move: from where to where, when they stop and start, and the steps of the whole plan in order."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from gangfit.models import Move, Transition
from gangfit.solver.assignment import Assignment, Spread
from gangfit.solver.drain import drain
from gangfit.solver.oracle import Preemption
from gangfit.solver.problem import Problem

ROLE = "members"
"""Role of a gang without roles of its own."""


def on_nodes(problem: Problem, spread: Spread) -> dict[str, int]:
    """Node name → members."""
    pairs = zip(spread.nodes.tolist(), spread.counts.tolist(), strict=True)
    return {problem.node_names[n]: count for n, count in pairs}


def moves(
    problem: Problem, assignment: Assignment, preemption: Preemption, waits: Mapping[int, int]
) -> tuple[Move, ...]:
    """One entry per gang moved, by name. `waits`: gang → instant at which the space it waits for is given back."""
    result = []
    for v in sorted(preemption.moved):
        gang, copy = problem.victims.gangs[v], int(problem.copy_of[v])
        leaves = drain(problem.snapshot, gang, int(problem.victims.lost[v]))
        result.append(
            Move(
                gang=gang.name,
                for_gang=problem.gangs[preemption.moved[v]].name if preemption.moved[v] >= 0 else None,
                roles={ROLE: on_nodes(problem, assignment[copy])},
                drain=leaves,
                starts_after_s=max(leaves.kill_s, waits.get(copy, 0)),
            )
        )
    return tuple(result)


def transitions(
    problem: Problem, gangs: Sequence[int], preemption: Preemption, waits: Mapping[int, int]
) -> tuple[Transition, ...]:
    """Every stop and start, by instant, stops first: space is taken only once it has been given back."""
    now = problem.snapshot.time_s
    steps: list[tuple[int, int, str]] = []
    for v in sorted(preemption.leaving):
        gang = problem.victims.gangs[v]
        stop = now + gang.grace_s
        steps.append((stop, 0, gang.name))
        if v in preemption.moved:
            steps.append((max(stop, waits.get(int(problem.copy_of[v]), 0)), 1, gang.name))
    steps += [(waits.get(j, now), 1, problem.gangs[j].name) for j in gangs]
    return tuple(
        Transition(at_s=at, action="start" if start else "stop", gang=name) for at, start, name in sorted(steps)
    )
