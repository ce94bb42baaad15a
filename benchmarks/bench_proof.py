"""Whole solves that end with every tier proven, in deterministic mode: the work is the same every time."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial

import pytest
from pytest_benchmark.fixture import BenchmarkFixture

from benchmarks import generators
from benchmarks.suites import SUITES
from gangfit.models import Snapshot
from gangfit.solver import solve

INSTANCES = SUITES["instances"].settings
PROVABLE: dict[str, Callable[[], Snapshot]] = {
    **{name: partial(INSTANCES[name], 0) for name in ("helios-earth-107n", "kalos-302n", "philly-352n")},
    "field report 34": generators.field_report_34,
    "750 gangs x 4 pods": generators.kube_gangs,
    "3 gangs x 1,000 pods": lambda: generators.kube_gangs(3, 1000),
}
"""Rounds that are proven optimal."""


@pytest.mark.parametrize("name", PROVABLE)
def test_proof(benchmark: BenchmarkFixture, name: str) -> None:
    """Snapshot to checked, proven plan."""
    made = PROVABLE[name]()
    made = made.model_copy(update={"policy": made.policy.model_copy(update={"deterministic": True})})
    plan = benchmark.pedantic(solve, args=(made,), rounds=2)
    assert plan.status == "optimal"
