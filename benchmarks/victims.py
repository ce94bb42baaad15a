"""The victim tier against the greedy preemptor, on the families of `generators.contended`."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Sequence
from itertools import product

from benchmarks.generators import FAMILIES, contended, reclaimed
from benchmarks.machine import stamp
from benchmarks.measure import considered, limited, outcomes
from benchmarks.records import Side, VictimRun, VictimTrial
from gangfit.models import Plan, Snapshot
from gangfit.solver import solve
from gangfit.solver.assignment import admission
from gangfit.solver.greedy.preemptor import Preempted, preempt_greedily
from gangfit.solver.problem import Problem, encode

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
    known: VictimRun | None = None,
    keep: Callable[[VictimRun], object] = lambda run: None,
) -> VictimRun:
    """Every family × nodes × pending × seed.

    `keep` gets what there is after every round; rounds of `known`, if it is of the same commit and command, stand.
    """
    usual = QUICK if quick else (NODES, PENDING, SEEDS)
    families, nodes, pending = families or list(FAMILIES), nodes or usual[0], pending or usual[1]
    seeds = seeds or usual[2]
    mark = stamp(command)
    say(f"victims: {', '.join(families)} × {list(nodes)} nodes × {list(pending)} pending × {seeds} seeds")
    trials: list[VictimTrial] = []
    done: dict[tuple[object, ...], VictimTrial] = {}
    if known is not None and (known.stamp.commit, known.stamp.command) == (mark.commit, mark.command):
        done = {(one.family, one.nodes, one.pending, one.seed): one for one in known.trials}
        mark = known.stamp
    for size, family, count in product(nodes, families, pending):
        for seed in range(max(1, seeds // 5) if size >= LARGE else seeds):
            one = done.get((family, size, count, seed))
            if one is None:
                one = measure(
                    contended(family, size, count, seed),
                    family=family,
                    seed=seed,
                    limit_s=limit or LIMITS[size >= LARGE],
                )
                say(_line(one))
            trials.append(one)
            keep(VictimRun(stamp=mark, trials=trials))
    return VictimRun(stamp=mark, trials=trials)


def measure(snapshot: Snapshot, *, family: str, seed: int, limit_s: float) -> VictimTrial:
    """Solver and greedy preemptor on one snapshot, encoding included in both times."""
    started = time.perf_counter()
    problem = encode(snapshot)
    preempted = preempt_greedily(problem)
    greedy_s = time.perf_counter() - started
    started, worked = time.perf_counter(), time.process_time()
    plan = solve(limited(snapshot, limit_s))
    wall_s, cpu_s = time.perf_counter() - started, time.process_time() - worked
    priority_of = {gang.name: gang.priority for gang in snapshot.running}
    greedy, matched = _side(problem, preempted), None
    admitted = {placement.gang for placement in plan.placements}
    if set(greedy.admitted) != admitted:
        # The solver can start what the greedy starts, not the other way round.
        wanted = tuple(gang for gang in snapshot.pending if gang.name in greedy.admitted)
        again = solve(limited(snapshot.model_copy(update={"pending": wanted}), limit_s))
        matched = _solved(again, priority_of, [1] * len(again.placements))
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
        solver=_solved(plan, priority_of, considered(plan)[: len(snapshot.pending)]),
        greedy=greedy,
        greedy_s=greedy_s,
        matched=matched,
        cpu_s=cpu_s,
    )


def _solved(plan: Plan, priority_of: dict[str, int], vector: list[int]) -> Side:
    """What the solver decided."""
    lost: dict[int, int] = {}
    for victim in plan.preemptions:
        priority = priority_of[victim.gang]
        lost[priority] = lost.get(priority, 0) + victim.drain.lost_gpu_s
    admitted = sorted(placement.gang for placement in plan.placements)
    return Side(admitted=admitted, vector=vector, lost=lost, evicted=len(plan.preemptions))


def _side(problem: Problem, found: Preempted) -> Side:
    """What the greedy preemptor decided."""
    lost: dict[int, int] = {}
    for v in found.victims:
        priority = int(problem.victims.priority[v])
        lost[priority] = lost.get(priority, 0) + int(problem.victims.lost[v])
    return Side(
        admitted=sorted(problem.gangs[j].name for j in found.assignment),
        vector=list(admission(problem, found.assignment)),
        lost=lost,
        evicted=len(found.victims),
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
        f"victims {one.victim_s:.2f} s of {one.wall_s:.2f} s ({one.cpu_s:.2f} CPU), greedy {one.greedy_s:.2f} s{worse}"
    )
