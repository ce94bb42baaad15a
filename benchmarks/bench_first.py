"""The first answer, each greedy alone, and the checker."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from gangfit.models import Snapshot
from gangfit.solver import check, solve
from gangfit.solver.greedy import STRATEGIES
from gangfit.solver.problem import encode


def test_first_answer(benchmark: BenchmarkFixture, snapshot: Snapshot) -> None:
    """Snapshot to checked plan without search."""
    plan = benchmark.pedantic(solve, args=(snapshot,), kwargs={"search": False}, rounds=5)
    benchmark.extra_info["admitted"] = len(plan.placements)


@pytest.mark.parametrize("strategy", STRATEGIES)
def test_greedy(benchmark: BenchmarkFixture, snapshot: Snapshot, strategy: str) -> None:
    """Arrays to assignment."""
    problem = encode(snapshot)
    assignment = benchmark.pedantic(STRATEGIES[strategy], args=(problem,), rounds=5)
    benchmark.extra_info["admitted"] = len(assignment)


def test_check(benchmark: BenchmarkFixture, snapshot: Snapshot) -> None:
    """The independent checker on one plan."""
    plan = solve(snapshot, search=False)
    report = benchmark.pedantic(check, args=(snapshot, plan), rounds=5)
    assert report.ok
