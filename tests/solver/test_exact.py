"""The merged model, the plain model and brute force agree on every tier."""

from __future__ import annotations

from itertools import takewhile

import pytest
from brute_force import Round
from random_rounds import random_round

from gangfit.models import Snapshot
from gangfit.solver import check, solve
from gangfit.solver.assignment import admission
from gangfit.solver.plain import optimum
from gangfit.solver.problem import encode

BLOCK = 100


def solver_vector(snapshot: Snapshot) -> tuple[int, ...]:
    """Admissions (negated) and tier values of the checked plan; fails unless every tier is proven."""
    plan = solve(snapshot)
    assert plan.status == "optimal", plan.tiers
    return (*(-step.admitted for step in plan.considered), *(tier.value for tier in plan.tiers[1:]))


def plain_vector(snapshot: Snapshot) -> tuple[int, ...]:
    problem = encode(snapshot)
    placed, values = optimum(problem)
    return (*(-y for y in admission(problem, placed)), *values)


class TestPlain:
    @pytest.mark.parametrize("block", range(6))
    def test_merged_equals_plain(self, block: int) -> None:
        for seed in range(block * BLOCK, (block + 1) * BLOCK):
            snapshot = random_round(seed)
            assert solver_vector(snapshot) == plain_vector(snapshot), seed

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


class TestCrowded:
    """Many gangs for little space: three rounds in four have competing gangs."""

    @pytest.mark.parametrize("block", range(10))
    def test_merged_equals_plain(self, block: int) -> None:
        for seed in range(block * 30, (block + 1) * 30):
            snapshot = random_round(seed, nodes=16, gangs=14, members=6, crowded=True)
            assert solver_vector(snapshot) == plain_vector(snapshot), seed

    def test_gangs_do_compete(self) -> None:
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
            best = Round(snapshot).optimum()
            assert solver_vector(snapshot) == best, seed
            assert plain_vector(snapshot) == best, seed

    @pytest.mark.long
    @pytest.mark.parametrize("block", range(100, 200))
    def test_all_three_agree_long(self, block: int) -> None:
        self.test_all_three_agree(block)


def test_checker_tiers_equal_brute_force() -> None:
    """The checker's own figures, too."""
    for seed in range(200):
        snapshot = random_round(seed, nodes=6, gangs=3, members=4)
        plan = solve(snapshot)
        placed = {p.gang: p.nodes() for p in plan.placements}
        values = Round(snapshot).values(placed)
        assert [t.value for t in check(snapshot, plan).tiers[1:]] == list(values[len(snapshot.pending) :]), seed
