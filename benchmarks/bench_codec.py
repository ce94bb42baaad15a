"""Parse, validate, encode and write: what a round costs before and after solving."""

from __future__ import annotations

from pytest_benchmark.fixture import BenchmarkFixture

from gangfit.models import Plan, Snapshot
from gangfit.solver import solve
from gangfit.solver.problem import encode


def test_parse(benchmark: BenchmarkFixture, snapshot: Snapshot) -> None:
    """JSON to validated snapshot."""
    raw = snapshot.model_dump_json(exclude_defaults=True)
    benchmark.pedantic(Snapshot.model_validate_json, args=(raw,), rounds=10)


def test_encode(benchmark: BenchmarkFixture, snapshot: Snapshot) -> None:
    """Snapshot to arrays."""
    benchmark.pedantic(encode, args=(snapshot,), rounds=10)


def test_write(benchmark: BenchmarkFixture, snapshot: Snapshot) -> None:
    """Plan to JSON."""
    plan = solve(snapshot, search=False)
    benchmark.pedantic(Plan.model_dump_json, args=(plan,), rounds=10)
