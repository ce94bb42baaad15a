"""pytest collects `bench_*.py` here: `python -m pytest benchmarks/`."""

from __future__ import annotations

import pytest

from benchmarks import generators
from benchmarks.measure import warm_up
from benchmarks.suites import SUITES
from gangfit.models import Snapshot

ROUNDS = {
    "2,048 nodes 0.8/40": lambda: generators.contiguous_runs(2048, 0.8, 40),
    "512 nodes trace": lambda: generators.trace_like(512),
    "256 nodes odd": lambda: generators.odd_sizes(256),
    "100 equal gangs": generators.equal_gangs,
    "lingjun-847n": lambda: SUITES["instances"].settings["lingjun-847n"](0),
    "16,384 nodes 0.8/200": lambda: generators.contiguous_runs(16_384, 0.8, 200),
}
"""Name → the round that a benchmark works on."""


def pytest_configure(config: pytest.Config) -> None:
    """Benchmarks are files of their own name, so that `make test` never meets them."""
    config.addinivalue_line("python_files", "bench_*.py")


@pytest.fixture(scope="session", autouse=True)
def warm() -> None:
    """Pay imports and kernels before the first measurement."""
    warm_up()


@pytest.fixture(scope="session", params=ROUNDS)
def snapshot(request: pytest.FixtureRequest) -> Snapshot:
    """One round after the other; same counts of work in every run."""
    made: Snapshot = ROUNDS[request.param]()
    return made.model_copy(update={"policy": made.policy.model_copy(update={"deterministic": True})})
