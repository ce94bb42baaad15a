"""Assignment and tier results → plan."""

from __future__ import annotations

from functools import cache
from importlib.metadata import version

import numpy as np

from gangfit.models import (
    Considered,
    Fairness,
    Intact,
    LeximinShare,
    Placement,
    Plan,
    Quality,
    Stats,
    Tier,
    Turn,
)
from gangfit.solver.arrays import IntArray
from gangfit.solver.assignment import Assignment, considered, intact_domains, starting, touched
from gangfit.solver.decided import Admission
from gangfit.solver.drain import preempted, starts_after
from gangfit.solver.explain import Reasons
from gangfit.solver.itinerary import ROLE, moves, on_nodes, transitions
from gangfit.solver.leximin import vector
from gangfit.solver.movers import moved_members
from gangfit.solver.oracle import Preemption
from gangfit.solver.problem import Problem
from gangfit.solver.reservation import overdue, promised
from gangfit.solver.rights import given_back, started
from gangfit.solver.tenants import Step
from gangfit.solver.tiers import TierResult
from gangfit.solver.turns import starts_in_turn


def answer(
    problem: Problem, assignment: Assignment, admitted: Admission, results: list[TierResult], stats: Stats
) -> Plan:
    """The plan of an assignment, in which a gang with a promise is placed, too."""
    counts, everyone = touched(problem, assignment), assignment
    assignment = admitted.starts(everyone)
    steps = considered(problem, assignment, admitted.late) if admitted.late else list(admitted.steps)
    order = [step.gang for step in steps[: problem.waiting]]
    at_once = [j for j in order if j in assignment and j not in admitted.late]
    gangs = [*at_once, *(step.gang for step in steps[len(order) :])]
    begins = set(at_once)
    preemption = admitted.preemption
    undecided = {j for j, how in admitted.decided.items() if how == "limit"}
    if preemption.moved:
        waits = starts_after(problem, assignment, preemption.leaving)
    else:
        waits = starts_in_turn(problem, gangs, assignment, preemption.victims)
    tiers = _tiers(problem, everyone, admitted, results, counts)
    head = admitted.reservation
    reasons = Reasons(problem, head)
    promise = {} if head is None else {head.gang: promised(problem, head, everyone)}
    proven = all(tier.proof for tier in tiers) and (head is None or head.proof is not None)
    return Plan(
        status="optimal" if proven else "feasible",
        tiers=tiers,
        placements=tuple(_placement(problem, assignment, j, waits.get(j)) for j in gangs),
        preemptions=preempted(problem, gangs, assignment, preemption) if preemption.victims else (),
        moves=moves(problem, assignment, preemption, waits),
        transitions=transitions(problem, gangs, preemption, waits) if preemption.moved else (),
        blocked=tuple(reasons.explain(j, j in undecided, promise.get(j)) for j in order if j not in assignment),
        considered=tuple(
            _step(problem, step, i >= len(order) or step.gang in begins, admitted) for i, step in enumerate(steps)
        ),
        fairness=_fairness(problem, gangs, preemption),
        leximin=_leximin(problem, [j for j in gangs if j not in admitted.late]),
        quality=_qualities(problem, counts, gangs),
        fragmentation=_fragmentation(problem, assignment),
        warnings=(*problem.warnings, *overdue(problem.snapshot)),
        stats=stats.model_copy(update={"versions": _versions()}),
    )


@cache
def _versions() -> dict[str, str]:
    """Read once: that takes milliseconds."""
    return {name: version(name) for name in ("gangfit", "ortools")}


def _step(problem: Problem, step: Step, starts: bool, admitted: Admission) -> Considered:
    head = admitted.reservation
    *above, own = step.turns
    return Considered.trusted(
        gang=problem.gangs[step.gang].name,
        admitted=starts,
        group=own.group,
        share=float(own.share),
        above=tuple(
            Turn(tenant=problem.tenants.names[turn.tenant], group=turn.group, share=float(turn.share)) for turn in above
        ),
        decided_by=admitted.decided[step.gang],
        reserved_s=head.start_s if head is not None and head.gang == step.gang else None,
    )


def _fairness(problem: Problem, gangs: list[int], preemption: Preemption) -> tuple[Fairness, ...]:
    tenants = problem.tenants
    after = tenants.use + started(problem, gangs) - given_back(problem, preemption.victims)
    result = []
    for t, name in enumerate(tenants.names):
        resource, share = tenants.dominant(t, after)
        result.append(
            Fairness(
                tenant=name,
                dominant_resource=None if resource < 0 else problem.resources[resource],
                share_before=float(tenants.dominant(t, tenants.use)[1]),
                share_after=float(share),
            )
        )
    return tuple(result)


def _leximin(problem: Problem, started: list[int]) -> tuple[LeximinShare, ...]:
    if problem.snapshot.policy.order != "leximin":
        return ()
    names = problem.tenants.names
    return tuple(LeximinShare(tenant=names[t], share=float(share)) for t, share in vector(problem, started))


def _lost_tiers(problem: Problem, preemption: Preemption) -> list[Tier]:
    """Tier 2: losses of the priorities that have victims, then gangs broken."""
    priorities = sorted({int(problem.victims.priority[v]) for v in preemption.victims}, reverse=True)
    lost = []
    for p in priorities:
        traded = preemption.traded(p)
        tier = cost_tier(f"lost.p{p}", preemption.lost[p], preemption.bounds[p], traded)
        lost.append(tier.model_copy(update={"proof": None}) if traded and not preemption.least else tier)
    rows = [("broken", preemption.broken, preemption.broken_bound)]
    if problem.snapshot.policy.moves.mode == "allowed":
        rows.append(("moved", len(preemption.moved), preemption.moved_bound))
        rows.append(("moved_members", moved_members(problem, preemption.moved), preemption.members_bound))
    return [*lost, *(cost_tier(*row) for row in rows)]


def cost_tier(name: str, value: int, bound: int, traded: int = 0) -> Tier:
    """A figure of the cost as a tier: what search closed unless nothing is lost at all."""
    best = value - traded
    return Tier(
        name=name,
        sense="min",
        value=value,
        bound=bound,
        gap=(best - bound) / max(value, 1),
        proof=None if bound < best else "search" if value else "bound",
        traded=traded,
    )


def _tiers(
    problem: Problem,
    assignment: Assignment,
    admitted: Admission,
    results: list[TierResult],
    counts: IntArray,
) -> tuple[Tier, ...]:
    undecided = sum(how == "limit" for how in admitted.decided.values())
    started = len(starting(problem, admitted.starts(assignment)))
    searched = "search" in admitted.decided.values()
    first = Tier(
        name="admission",
        sense="max",
        value=started,
        bound=started + undecided,
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
    return (first, *_lost_tiers(problem, admitted.preemption), *_later_tiers(results, touches))


def _later_tiers(results: list[TierResult], touches: dict[str, int]) -> tuple[Tier, ...]:
    return tuple(
        Tier(
            name=result.name,
            sense="min",
            value=result.value,
            bound=result.bound,
            gap=(result.value - result.traded - result.bound) / max(touches.get(result.name, result.value), 1),
            proof=result.proof,
            traded=result.traded,
        )
        for result in results
    )


def _placement(problem: Problem, assignment: Assignment, gang: int, starts_after_s: int | None) -> Placement:
    nodes = on_nodes(problem, assignment[gang])
    return Placement.trusted(gang=problem.gangs[gang].name, roles={ROLE: nodes}, starts_after_s=starts_after_s)


def _qualities(problem: Problem, counts: IntArray, gangs: list[int]) -> tuple[Quality, ...]:
    """`counts` (L + 1, J): domains touched per level and gang."""
    levels = problem.tree.levels
    distances = (np.array(problem.tree.weights, dtype=np.int64)[:, None] * (counts[:, gangs] - 1)).sum(axis=0)
    return tuple(
        Quality.trusted(
            gang=problem.gangs[j].name,
            domains=dict(zip(levels, touched, strict=True)),
            diameter=next((level for level, count in zip(levels, touched, strict=True) if count > 1), None),
            distance=distance,
        )
        for j, touched, distance in zip(gangs, counts[:, gangs].T.tolist(), distances.tolist(), strict=True)
    )


def _fragmentation(problem: Problem, assignment: Assignment) -> tuple[Intact, ...]:
    lost = intact_domains(problem, assignment)
    before = [int(intact.sum()) for intact in problem.intact_domains]
    return tuple(
        Intact(level=level, before=now, after=now - gone)
        for level, now, gone in zip(problem.tree.levels, before, lost, strict=True)
    )
