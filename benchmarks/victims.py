"""The victim tier against the greedy preemptor, on the families of `generators.contended`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import product

from benchmarks.generators import FAMILIES, contended, reclaimed
from benchmarks.machine import stamp
from benchmarks.measure import considered, limited, outcomes
from benchmarks.records import Side, VictimRun, VictimTrial
from gangfit.models import Snapshot
from gangfit.solver import solve
from gangfit.solver.assignment import admission
from gangfit.solver.greedy.preemptor import preempt_greedily
from gangfit.solver.problem import encode

Say = Callable[[str], None]

NODES = (128, 512, 2048, 8192)
PENDING = (1, 8, 20, 40)
LARGE = 8192
"""From so many nodes on the limit is the longer one, and one seed in five is measured."""
LIMITS = (2.0, 10.0)
"""Time limit of the whole solve below `LARGE` and from there on, in seconds."""
SEEDS = 5
QUICK = ((128, 512, 2048), (8, 40), 1)
"""Nodes, pending gangs and seeds with `--quick`."""


def run(
    say: Say,
    *,
    families: Sequence[str] = (),
    nodes: Sequence[int] = (),
    pending: Sequence[int] = (),
    seeds: int | None = None,
    limit: float | None = None,
    quick: bool = False,
    command: str,
) -> VictimRun:
    """Every family × nodes × pending × seed."""
    usual = QUICK if quick else (NODES, PENDING, SEEDS)
    families, nodes, pending = families or list(FAMILIES), nodes or usual[0], pending or usual[1]
    seeds = seeds or usual[2]
    mark = stamp(command)
    say(f"victims: {', '.join(families)} × {list(nodes)} nodes × {list(pending)} pending × {seeds} seeds")
    trials = []
    for size, family, count in product(nodes, families, pending):
        for seed in range(max(1, seeds // 5) if size >= LARGE else seeds):
            one = measure(
                contended(family, size, count, seed),
                family=family,
                seed=seed,
                limit_s=limit or LIMITS[size >= LARGE],
            )
            say(_line(one))
            trials.append(one)
    return VictimRun(stamp=mark, trials=trials)


def measure(snapshot: Snapshot, *, family: str, seed: int, limit_s: float) -> VictimTrial:
    """Solver and greedy preemptor on one snapshot, encoding included in both times."""
    started = time.perf_counter()
    problem = encode(snapshot)
    preempted = preempt_greedily(problem)
    greedy_s = time.perf_counter() - started
    started = time.perf_counter()
    plan = solve(limited(snapshot, limit_s))
    wall_s = time.perf_counter() - started
    priority_of = {gang.name: gang.priority for gang in snapshot.running}
    lost: dict[int, int] = {}
    for victim in plan.preemptions:
        priority = priority_of[victim.gang]
        lost[priority] = lost.get(priority, 0) + victim.drain.lost_gpu_s
    greedy_lost: dict[int, int] = {}
    for v in preempted.victims:
        priority = int(problem.victims.priority[v])
        greedy_lost[priority] = greedy_lost.get(priority, 0) + int(problem.victims.lost[v])
    return VictimTrial(
        family=family,
        seed=seed,
        nodes=len(problem.node_names),
        pending=len(snapshot.pending),
        running=len(snapshot.running),
        candidates=len(problem.victims.gangs),
        limit_s=limit_s,
        wall_s=wall_s,
        seconds=dict(plan.stats.seconds or {}),
        tiers=outcomes(plan),
        undecided=sum(step.decided_by == "limit" for step in plan.considered),
        solver=Side(
            admitted=sorted(placement.gang for placement in plan.placements),
            vector=considered(plan)[: len(snapshot.pending)],
            lost=lost,
            evicted=len(plan.preemptions),
        ),
        greedy=Side(
            admitted=sorted(problem.gangs[j].name for j in preempted.assignment),
            vector=list(admission(problem, preempted.assignment)),
            lost=greedy_lost,
            evicted=len(preempted.victims),
        ),
        greedy_s=greedy_s,
    )


def reclaim_rounds(seeds: Iterable[int], limit_s: float) -> Iterable[VictimTrial]:
    """50 gangs of one tenant that reclaim its half of 500 nodes."""
    for seed in seeds:
        yield measure(reclaimed(seed), family="reclaim", seed=seed, limit_s=limit_s)


def _line(one: VictimTrial) -> str:
    state = "proven" if one.proven else f"gap {one.gap:.1%}"
    worse = "; WORSE THAN GREEDY" if not one.never_worse else ""
    return (
        f"  {one.family} {one.nodes}/{one.pending} seed {one.seed}: {one.running} run, "
        f"{len(one.solver.admitted)} admitted (greedy {len(one.greedy.admitted)}), "
        f"lost {one.solver.total:,} ({one.greedy.total:,}), {state}, "
        f"victims {one.victim_s:.2f} s of {one.wall_s:.2f} s, greedy {one.greedy_s:.2f} s{worse}"
    )
