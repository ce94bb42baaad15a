"""The suites of `quality`: which snapshots, how many seeds, which time limits."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from dataclasses import dataclass, field

from benchmarks import generators
from benchmarks.machine import ROOT
from gangfit.models import Policy, Snapshot

Make = Callable[[int], Snapshot]
"""Seed → snapshot."""


@dataclass(frozen=True)
class Suite:
    """Settings that are shown in one table."""

    title: str
    settings: dict[str, Make]
    """Name → snapshot of a seed."""
    limits: tuple[float, ...]
    """Time limits in seconds, ascending."""
    seeds: int = 10
    quick: int = 2
    """Seeds with `--quick`, which also stops at the first limit."""
    repeats: int = 3
    """Repeats of the first answer and the greedies; the quickest counts."""
    all_tiers: bool = False
    """Whether a longer limit is tried for the sake of the later tiers too."""
    fixed: bool = field(default=False)
    """Whether there is only one snapshot per setting."""


STUDY = ((0.5, 20), (0.8, 10), (0.9, 10), (0.95, 40), (0.9, 40), (0.8, 40))
"""Share of nodes taken, pending gangs: the six settings on 2,048 nodes."""
LARGE = ((0.5, 200), (0.8, 200), (0.95, 200), (0.9, 1000))
"""The same on 16,384 nodes."""


def _runs(nodes: int, occ: float, pending: int, notes: bool) -> Make:
    weights = generators.fabric.NOTES if notes else None
    return lambda seed: generators.contiguous_runs(nodes, occ, pending, seed, weights)


def _scattered(occ: float, pending: int) -> Make:
    return lambda seed: generators.scattered_free(2048, occ, pending, seed)


def _trace(nodes: int, occ: float, pending: int) -> Make:
    return lambda seed: generators.trace_like(nodes, occ, pending, seed)


def _odd(nodes: int, pending: int) -> Make:
    return lambda seed: generators.odd_sizes(nodes, 0.6, pending, seed)


def _instance(name: str, policy: Policy) -> Make:
    path = ROOT / "instances" / f"{name}.json.gz"

    def make(seed: int) -> Snapshot:
        snapshot = Snapshot.model_validate_json(gzip.decompress(path.read_bytes()))
        return snapshot.model_copy(update={"policy": policy})

    return make


def instances() -> list[str]:
    """Names of the snapshots in instances/."""
    return sorted(path.name.removesuffix(".json.gz") for path in (ROOT / "instances").glob("*.json.gz"))


SUITES: dict[str, Suite] = {
    "instances": Suite(
        "Snapshots of instances/, all resources and levels",
        {name: _instance(name, Policy.model_validate(generators.fabric.PLACEMENT)) for name in instances()},
        (0.3, 5.0),
        all_tiers=True,
        fixed=True,
    ),
    "instances-preempt": Suite(
        "Snapshots of instances/ under the default policy: fair order, tenants reclaim",
        {name: _instance(name, Policy()) for name in instances()},
        (5.0,),
        all_tiers=True,
        fixed=True,
    ),
    "runs": Suite(
        "2,048 nodes, contiguous runs, weights rack 1, spine 3",
        {f"{occ}/{pending}": _runs(2048, occ, pending, True) for occ, pending in STUDY},
        (1.0, 10.0),
    ),
    "runs-default": Suite(
        "2,048 nodes, contiguous runs, default weights (node 1, rack 4, spine 16)",
        {f"{occ}/{pending}": _runs(2048, occ, pending, False) for occ, pending in STUDY},
        (1.0,),
        seeds=3,
        quick=1,
    ),
    "scattered": Suite(
        "2,048 nodes, single nodes freed at random",
        {f"{occ}/{pending}": _scattered(occ, pending) for occ, pending in ((0.8, 40), (0.95, 20))},
        (1.0,),
    ),
    "trace": Suite(
        "Trace-like: shared nodes, 1 to 256 GPUs, CPU and memory binding",
        {"512 nodes, 60": _trace(512, 0.85, 60), "2048 nodes, 100": _trace(2048, 0.85, 100)},
        (1.0,),
    ),
    "odd": Suite(
        "Members of 3, 5, 6, 7 GPUs, three GPU models, three levels",
        {"256 nodes, 40": _odd(256, 40), "1024 nodes, 60": _odd(1024, 60)},
        (1.0,),
    ),
    "copies": Suite(
        "100 jobs of one shape, several members a node; field report 34",
        {
            "100 × 10 × 2 GPUs": lambda seed: generators.equal_gangs(seed=seed),
            "100 × 10 × 3 GPUs": lambda seed: generators.equal_gangs(gpus=3, seed=seed),
            "field report 34": lambda seed: generators.field_report_34(seed=seed),
        },
        (1.0,),
    ),
    "large": Suite(
        "16,384 nodes (131,072 GPUs), weights rack 1, spine 3; trace-like with default weights",
        {
            **{f"{occ}/{pending}": _runs(16_384, occ, pending, True) for occ, pending in LARGE},
            "trace/200": _trace(16_384, 0.85, 200),
        },
        (5.0,),
        seeds=2,
        quick=1,
        repeats=1,
    ),
}
"""Name → suite."""
