"""The merged model, the plain model and brute force agree on every tier."""

from __future__ import annotations

from itertools import takewhile

import pytest
from brute_force import Round
from random_rounds import random_round
from vectors import tiers, vector

from gangfit.models import Snapshot
from gangfit.solver import admission as admission_module
from gangfit.solver import check, solve
from gangfit.solver.assignment import admission
from gangfit.solver.plain import optimum
from gangfit.solver.problem import encode

BLOCK = 100


def solver_vector(snapshot: Snapshot) -> tuple[int, ...]:
    """Admissions (negated) and tier values of the checked plan; fails unless every tier is proven."""
    plan = solve(snapshot)
    assert plan.status == "optimal", plan.tiers
    assert all(step.admitted == (step.gang in {p.gang for p in plan.placements}) for step in plan.considered)
    return vector(plan)


def plain_vector(snapshot: Snapshot) -> tuple[int, ...]:
    problem = encode(snapshot)
    placed, values = optimum(problem)
    return (*(-y for y in admission(problem, placed)), *values)


SLOW = {427}
"""Rounds on which the plain model alone takes half a minute: they are for the long run."""


class TestPlain:
    @pytest.mark.parametrize("block", range(3))
    def test_merged_equals_plain(self, block: int) -> None:
        for seed in range(block * BLOCK, (block + 1) * BLOCK):
            if seed not in SLOW:
                self.compare(seed)

    @pytest.mark.long
    @pytest.mark.parametrize("seed", sorted(SLOW))
    def test_slow_rounds(self, seed: int) -> None:
        self.compare(seed)

    @pytest.mark.long
    @pytest.mark.parametrize("block", range(100, 300))
    def test_merged_equals_plain_long(self, block: int) -> None:
        self.test_merged_equals_plain(block)

    def compare(self, seed: int) -> None:
        snapshot = random_round(seed)
        assert solver_vector(snapshot) == plain_vector(snapshot), seed


class TestCrowded:
    """Many gangs for little space: three rounds in four have competing gangs."""

    @pytest.mark.parametrize("block", range(5))
    def test_merged_equals_plain(self, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
        """In every other block nothing is placed anew, so that it is search that says who starts."""
        if block % 2:
            monkeypatch.setattr(admission_module, "PLACINGS", 0)
        for seed in range(block * 30, (block + 1) * 30):
            snapshot = random_round(seed, nodes=16, gangs=14, members=6, crowded=True)
            assert solver_vector(snapshot) == plain_vector(snapshot), seed

    def test_gangs_do_compete(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(admission_module, "PLACINGS", 0)
        plans = [solve(random_round(seed, nodes=16, gangs=14, members=6, crowded=True)) for seed in range(40)]
        assert sum(any(gang.reason == "competing" for gang in plan.blocked) for plan in plans) >= 20
        assert sum(any(step.decided_by == "search" for step in plan.considered) for plan in plans) >= 8
        assert sum(plan.stats.improved for plan in plans) >= 5

    @pytest.mark.long
    @pytest.mark.parametrize("block", range(100, 300))
    def test_merged_equals_plain_long(self, block: int) -> None:
        """About one in a thousand of these is not closed within its limit; as far as it is, it has to agree."""
        for seed in range(block * 30, (block + 1) * 30):
            snapshot = random_round(seed, nodes=16, gangs=14, members=6, crowded=True)
            plan = solve(snapshot)
            closed = [tier.value for tier in takewhile(lambda tier: tier.proof, plan.tiers)]
            assert closed, seed
            vector = (*(-step.admitted for step in plan.considered), *closed[1:])
            assert vector == plain_vector(snapshot)[: len(vector)], seed


class TestBruteForce:
    @pytest.mark.parametrize("block", range(4))
    def test_all_three_agree(self, block: int) -> None:
        for seed in range(block * BLOCK, (block + 1) * BLOCK):
            snapshot = random_round(seed, nodes=5, gangs=3, members=4)
            best = brute_vector(snapshot)
            assert solver_vector(snapshot) == best, seed
            assert plain_vector(snapshot) == best, seed

    @pytest.mark.long
    @pytest.mark.parametrize("block", range(100, 200))
    def test_all_three_agree_long(self, block: int) -> None:
        self.test_all_three_agree(block)


def brute_vector(snapshot: Snapshot) -> tuple[int, ...]:
    """Admissions (negated) and tier values of the best of all plans; nobody has a right over anyone."""
    brute = Round(snapshot)
    (considered, admitted, takers), best = brute.admission(), brute.optimum()
    assert not takers
    asked = len(snapshot.pending)
    starts = tuple(-(name in admitted) for name in considered)
    assert best[:asked] == starts
    tiers_from = len(best) - 4 - len(brute.levels)
    assert not any(best[asked:tiers_from])
    return (*starts, *best[tiers_from:])


def test_checker_tiers_equal_brute_force() -> None:
    """The checker's own figures, too."""
    for seed in range(200):
        snapshot = random_round(seed, nodes=6, gangs=3, members=4)
        plan = solve(snapshot)
        placed = {p.gang: p.nodes() for p in plan.placements}
        report = check(snapshot, plan)
        assert [(t.name, t.value) for t in report.tiers[:2]] == [("admission", len(placed)), ("broken", 0)]
        assert tuple(t.value for t in report.tiers[2:]) == tiers(plan) == Round(snapshot).tiers(placed), seed
