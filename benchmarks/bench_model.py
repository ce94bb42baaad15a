"""Building the merged model for the gangs that the lexicographic greedy admits."""

from __future__ import annotations

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from gangfit.models import Snapshot
from gangfit.solver.greedy import STRATEGIES
from gangfit.solver.merged import merged
from gangfit.solver.problem import encode

MOST = 20_000
"""Gangs × nodes / 32 beyond which the model is too large to be built again and again."""


@pytest.mark.parametrize("spread", [False, True], ids=["admission", "tiers"])
def test_build(benchmark: BenchmarkFixture, snapshot: Snapshot, spread: bool) -> None:
    """Arrays and gangs to CP-SAT model, without and with the variables of the topology tiers."""
    problem = encode(snapshot)
    gangs = sorted(STRATEGIES["lexicographic"](problem))
    if len(gangs) * len(problem.node_names) > 32 * MOST:
        pytest.skip(f"{len(gangs)} gangs on {len(problem.node_names)} nodes: search doesn't build this model")
    model = benchmark.pedantic(merged, args=(problem, gangs, set(), spread), rounds=3)
    benchmark.extra_info["counts"] = len(model.members)
