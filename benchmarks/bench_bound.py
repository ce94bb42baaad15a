"""Bounds: by counting, and by patterns with a fixed number of rounds of column generation."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from gangfit.models import Policy, Snapshot
from gangfit.solver.bounds import tier_bounds
from gangfit.solver.engine import Budget
from gangfit.solver.greedy import STRATEGIES
from gangfit.solver.problem import encode

UNREACHABLE = 10**9
"""A bound at which column generation would stop early."""


def test_counting(benchmark: BenchmarkFixture, snapshot: Snapshot) -> None:
    """Bounds of every tier from counts alone."""
    problem = encode(snapshot)
    gangs = sorted(STRATEGIES["lexicographic"](problem))
    bounds = benchmark.pedantic(tier_bounds, args=(problem, gangs), rounds=5)
    benchmark.extra_info["distance"] = int(bounds[1])


def test_patterns(benchmark: BenchmarkFixture, snapshot: Snapshot) -> None:
    """Column generation to its end, with the integer certificate."""
    patterns = pytest.importorskip("gangfit.solver.pattern_bound")
    views = pytest.importorskip("gangfit.solver.leaves")
    problem = encode(snapshot)
    assignment = STRATEGIES["lexicographic"](problem)

    def run() -> int:
        bound = patterns.PatternBound(views.leaves(problem, sorted(assignment), "distance"))
        bound.start(assignment)
        certificate = bound.run(UNREACHABLE, Budget(Policy(deterministic=True)))
        return int(certificate.bound) if certificate else 0

    benchmark.extra_info["distance"] = benchmark.pedantic(run, rounds=2)
