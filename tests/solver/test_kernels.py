"""Kernels: compiled and interpreted give the same numbers, and each is compiled for one signature."""

from __future__ import annotations

import importlib
import os
import subprocess
import sys
from pathlib import Path

import pytest

from gangfit.solver.kernels import NAMES, kernel, warmup

SCRIPT = """
import warnings
warnings.simplefilter("error")
from gangfit.solver.assignment import tier_values
from gangfit.solver.engine import Budget
from gangfit.solver.gap_model import Reduced
from gangfit.solver.greedy import STRATEGIES
from gangfit.solver.leaves import leaves
from gangfit.solver.local_search import LocalSearch
from gangfit.solver.pattern_bound import PatternBound
from gangfit.solver.problem import encode
from gangfit.solver.rehearsal import made_up
from gangfit.solver.covering import Covering
from gangfit.solver.cuts import exact_sum
from gangfit.solver.linear_form import linear_form
from gangfit.solver.victim_search import VictimSearch
from small_forms import racks, shared
from random_rounds import random_round
for problem in [made_up(), *(encode(random_round(seed, nodes=20)) for seed in (3, 7, 8, 11))]:
    plan = STRATEGIES["rack_first"](problem)
    budget = Budget(problem.snapshot.policy)
    if not plan:
        continue
    view = leaves(problem, sorted(plan), "distance")
    pattern = PatternBound(view)
    pattern.start(plan)
    found = pattern.run(1 << 30, budget, rounds=1)
    reduced = Reduced(pattern, found)
    search = LocalSearch(problem, plan, 1)
    search.search(1, -1, 120, budget)
    cuts = [exact_sum(view, level) for level in range(problem.tree.named)]
    print(found.scaled, found.price.sum(), [int(c.sum() % 1000003) for c in reduced.cost], cuts)
    print(search.values, [s.nodes.tolist() for s in search.record.values()])
for form in [linear_form(racks(5)), linear_form(racks(8)), *(shared(seed) for seed in range(10))]:
    victims = VictimSearch(Covering.of_form(form), 5)
    victims.search(99)
    victims.search(60)
    best = victims.best
    print(best.value, None if best.values is None else best.values.tolist())
"""


def output(**environment: str) -> str:
    generators = str(Path(__file__).parents[1] / "generators")
    done = subprocess.run(
        [sys.executable, "-c", SCRIPT],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "PYTHONPATH": generators, **environment},
    )
    return done.stdout


def test_compiled_equals_interpreted() -> None:
    compiled = output()
    assert compiled.count("\n") >= 16
    assert compiled == output(NUMBA_DISABLE_JIT="1")


@pytest.mark.parametrize("module", NAMES)
def test_one_signature_each(module: str) -> None:
    """A second signature would compile everything again in front of a user."""
    warmup()
    entry = importlib.import_module(f"gangfit.solver.kernels.{module}")
    assert len(kernel(module).signatures) == 1
    assert all(len(f.signatures) <= 1 for f in vars(entry).values() if hasattr(f, "signatures"))


@pytest.mark.long
def test_who_gives_way_is_compiled_once(tmp_path: Path) -> None:
    """Loaded from the cache, inner functions don't tell for how many number literals they were compiled."""
    code = """
from gangfit.solver.covering import Covering
from gangfit.solver.kernels import give_way
from gangfit.solver.rehearsal import made_up_question
from gangfit.solver.victim_search import VictimSearch
search = VictimSearch(Covering.of_form(made_up_question()), 0)
for _ in range(2):
    search.search(16)
print(*(len(f.signatures) for f in vars(give_way).values() if hasattr(f, "signatures")))
"""
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    counts = done.stdout.split()
    assert len(counts) >= 15
    assert set(counts) == {"1"}


def test_warm_kernels_load_quickly() -> None:
    warmup()
    assert warmup() < 1.0


def test_a_read_only_package_needs_no_cache_of_its_own(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", "from gangfit.solver.kernels import kernel; kernel('balanced'); print('ok')"],
        capture_output=True,
        text=True,
        check=True,
        env={**os.environ, "NUMBA_CACHE_DIR": str(tmp_path)},
    )
    assert done.stdout == "ok\n"


def test_nothing_compiled_is_imported_before_it_is_needed() -> None:
    code = "import sys, gangfit.solver; print('numba' in sys.modules)"
    assert subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout == "False\n"


def test_a_cold_cache_keeps_the_time_limit(tmp_path: Path) -> None:
    """Compiling takes longer than any limit: without compiled kernels the merged model does what it can."""
    code = """
import sys, time
from crowded_rounds import crowded
from gangfit.solver import solve
started = time.perf_counter()
plan = solve(crowded(0, time_limit_s=1.0))
print(time.perf_counter() - started < 2.0, "numba" in sys.modules)
"""
    generators = str(Path(__file__).parents[1] / "generators")
    environment = {**os.environ, "NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": generators}
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, env=environment)
    assert done.stdout == "True False\n"
