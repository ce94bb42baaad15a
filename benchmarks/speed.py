"""Experiments about time and memory."""

from __future__ import annotations

import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks import generators
from benchmarks.machine import ROOT, stamp
from benchmarks.measure import baselines, first_answer, searched
from benchmarks.quality import Say
from benchmarks.records import DISTANCE, Point, Series
from benchmarks.suites import STUDY
from benchmarks.victims import reclaim_rounds
from gangfit.models import Snapshot
from gangfit.solver.problem import encode

Experiment = Callable[[bool], Iterator[Point]]
"""quick → points, as they are measured."""


def pods(quick: bool) -> Iterator[Point]:
    """Pods per second from parsed snapshot to checked plan, on 5,000 nodes in 50 racks."""
    for gangs, members, gpus in ((750, 4, 0), (2250, 4, 0), (3, 1000, 0), (9, 1000, 0), (750, 4, 1), (3, 1000, 1)):
        label = f"{gangs:,} gangs × {members:,} pods" + (", 1 GPU each" if gpus else "")
        for seed in range(2 if quick else 10):
            snapshot = generators.kube_gangs(gangs, members, gpus=gpus, seed=seed)
            _, first = first_answer(snapshot)
            _, full = searched(snapshot, 1.0)
            count = gangs * members
            yield Point(
                label=label,
                x=seed,
                values={
                    "admitted": first.admitted,
                    "first_s": first.wall_s,
                    "first_pods_per_s": count / first.wall_s,
                    "first_gap": first.gap,
                    "full_s": full.wall_s,
                    "full_pods_per_s": count / full.wall_s,
                    "full_gap": full.gap,
                    "optimal": full.optimal,
                    "greedy_s": min(row.wall_s for row in baselines(snapshot)),
                },
            )


def batches(quick: bool) -> Iterator[Point]:
    """Batches of 50 pods on 500 busy nodes: first answer, and a solve with a limit of 20 ms."""
    for seed in range(20 if quick else 100):
        snapshot = generators.batch_50(seed=seed)
        _, first = first_answer(snapshot)
        _, full = searched(snapshot, 0.02)
        yield Point(
            label="50 pods",
            x=seed,
            values={"first_s": first.wall_s, "full_s": full.wall_s, "full_gap": full.gap, "optimal": full.optimal},
        )


def large(quick: bool) -> Iterator[Point]:
    """16,384 nodes: first answer, reading the snapshot, and the peak memory of a process that does nothing else."""
    for pending in (200,) if quick else (200, 500, 1000):
        for seed in range(1 if quick else 3):
            snapshot = generators.contiguous_runs(16_384, 0.8, pending, seed)
            raw = snapshot.model_dump_json(exclude_defaults=True).encode()
            _, first = first_answer(snapshot, 3)
            child = _child(raw, 1.0 if quick else 5.0)
            values = {"first_s": first.wall_s, "greedy_s": min(row.wall_s for row in baselines(snapshot))}
            yield Point(label=f"16,384 nodes, {pending:,} pending", x=seed, values={**values, **_codec(raw), **child})


def _codec(raw: bytes) -> dict[str, float]:
    """Best of three: seconds to parse and validate, and to turn into arrays."""
    parse_s = encode_s = float("inf")
    for _ in range(3):
        started = time.perf_counter()
        snapshot = Snapshot.model_validate_json(raw)
        parsed = time.perf_counter()
        encode(snapshot)
        parse_s, encode_s = min(parse_s, parsed - started), min(encode_s, time.perf_counter() - parsed)
    return {"bytes": len(raw), "parse_s": parse_s, "encode_s": encode_s}


def _child(raw: bytes, limit_s: float) -> dict[str, float]:
    """Footprint of a fresh process that reads and solves the snapshot."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "snapshot.json"
        path.write_bytes(raw)
        words = [sys.executable, "-m", "benchmarks.footprint", str(path), str(limit_s)]
        done = subprocess.run(words, cwd=ROOT, capture_output=True, text=True, check=True)
    result: dict[str, float] = json.loads(done.stdout.splitlines()[-1])
    return result


def start(quick: bool) -> Iterator[Point]:
    """A fresh process: import, first round, second round. What compiled kernels cost shows in the first round."""
    raw = generators.contiguous_runs(512, 0.8, 20).model_dump_json(exclude_defaults=True).encode()
    for repeat in range(1 if quick else 3):
        yield Point(label="fresh process, 512 nodes", x=repeat, values=_child(raw, 1.0))


def growth(quick: bool) -> Iterator[Point]:
    """Time to first answer and to bound against nodes (100 gangs) and against gangs (16,384 nodes)."""
    seeds, limit = (1, 0.5) if quick else (3, 2.0)
    for seed in range(seeds):
        for nodes in (512, 1024, 2048, 4096, 8192, 16_384):
            yield _growth("nodes", nodes, generators.contiguous_runs(nodes, 0.8, 100, seed), limit)
        for gangs in (10, 30, 100, 300, 1000):
            yield _growth("gangs", gangs, generators.contiguous_runs(16_384, 0.5, gangs, seed), limit)


def _growth(label: str, x: int, snapshot: Snapshot, limit: float) -> Point:
    _, first = first_answer(snapshot, 3)
    _, full = searched(snapshot, limit)
    values = {
        "first_s": first.wall_s,
        "bound_s": full.bound_s or full.wall_s,
        "greedy_s": min(row.wall_s for row in baselines(snapshot, 2)),
        "gap": full.gap,
    }
    return Point(label=label, x=x, values=values)


def copies(quick: bool) -> Iterator[Point]:
    """Cost against the number of equal gangs: several members a node, one shape."""
    for count in (10, 50, 100, 200) if quick else (10, 25, 50, 100, 200, 400):
        for seed in range(1 if quick else 3):
            snapshot = generators.equal_gangs(count, nodes=4096, seed=seed)
            _, first = first_answer(snapshot, 3)
            _, full = searched(snapshot, 1.0)
            tier = full.tier(DISTANCE)
            yield Point(
                label="10 members × 2 GPUs",
                x=count,
                values={
                    "first_s": first.wall_s,
                    "settled_s": full.settled_s or full.wall_s,
                    "full_s": full.wall_s,
                    "variables": full.sizes.get("counts", 0),
                    "gap": full.gap,
                    "distance": tier.value,
                },
            )


def curves(quick: bool) -> Iterator[Point]:
    """Gap of the topology tier at several time limits, on the six settings of 2,048 nodes."""
    limits = (0.1, 0.3, 1.0) if quick else (0.03, 0.1, 0.3, 1.0, 3.0, 10.0)
    for occ, pending in STUDY:
        for seed in range(1 if quick else 2):
            snapshot = generators.contiguous_runs(2048, occ, pending, seed)
            proven = False
            for limit in limits:
                if not proven:
                    _, answer = searched(snapshot, limit)
                    proven = answer.proven
                values = {"wall_s": answer.wall_s, "gap": answer.gap, "proven": answer.proven}
                # A proof stays one at longer limits.
                yield Point(label=f"{occ}/{pending}", x=limit, values=values)


def reclaim(quick: bool) -> Iterator[Point]:
    """50 gangs of one tenant reclaim its half of 500 nodes from another that holds everything."""
    for one in reclaim_rounds(range(2 if quick else 10), 5.0):
        yield Point(
            label="50 gangs on 500 nodes",
            x=one.seed,
            values={
                "running": one.running,
                "admitted": len(one.solver.admitted),
                "greedy_admitted": len(one.greedy.admitted),
                "evicted": one.solver.evicted,
                "greedy_evicted": one.greedy.evicted,
                "lost": one.solver.total,
                "greedy_lost": one.greedy.total,
                "never_worse": one.never_worse,
                "proven": one.proven,
                "gap": one.gap,
                "undecided": one.undecided,
                "victims_s": one.victim_s,
                "full_s": one.wall_s,
                "greedy_s": one.greedy_s,
            },
        )


EXPERIMENTS: dict[str, tuple[str, Experiment]] = {
    "pods": ("Throughput: 5,000 nodes in 50 racks", pods),
    "batches": ("Batches of 50 pods on 500 nodes", batches),
    "large": ("16,384 nodes: first answer, codec, memory", large),
    "start": ("Fresh process", start),
    "growth": ("Growth", growth),
    "copies": ("Copies of one shape on 4,096 nodes", copies),
    "curves": ("Gap over time", curves),
    "reclaim": ("50 gangs reclaim half of 500 nodes, limit 5 s", reclaim),
}
"""Name → title and experiment."""


def run(name: str, say: Say, *, quick: bool, command: str) -> Series:
    """One experiment."""
    title, experiment = EXPERIMENTS[name]
    mark = stamp(command)
    say(f"{name}: {title}")
    points = []
    for point in experiment(quick):
        figures = ", ".join(f"{key} {value:.4g}" for key, value in point.values.items())
        say(f"  {point.label}, {point.x:g}: {figures}")
        points.append(point)
    return Series(stamp=mark, name=name, title=title, points=points)


def medians(series: Series, label: str, key: str) -> dict[float, float]:
    """x → median of one figure over the points of a label."""
    found: dict[float, list[float]] = {}
    for point in series.points:
        if point.label == label and key in point.values:
            found.setdefault(point.x, []).append(point.values[key])
    return {x: statistics.median(values) for x, values in sorted(found.items())}
