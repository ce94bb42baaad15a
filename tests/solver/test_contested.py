"""Tenants that contend, exactly: what `solve` says against every plan and every set of victims, one by one."""

from __future__ import annotations

import pytest
from brute_force import Round
from random_rounds import contested_round

from gangfit.models import Snapshot
from gangfit.solver import check, solve

BLOCK = 50


def solver_vector(snapshot: Snapshot, exact: Round) -> tuple[int, ...]:
    """Admissions in considered order (negated), losses per priority, the other tiers; fails unless proven and clean."""
    plan = solve(snapshot)
    assert plan.status == "optimal", plan.tiers
    report = check(snapshot, plan)
    assert report.ok, report.violations
    values = {tier.name: tier.value for tier in plan.tiers[1:]}
    lost = [values.pop(f"lost.p{priority}", 0) for priority in exact.priorities]
    turns, again = plan.considered[: len(snapshot.pending)], plan.considered[len(snapshot.pending) :]
    started = {step.gang for step in again}
    refused = [step.gang for step in turns if not step.admitted]
    return (*(-step.admitted for step in turns), *(-(name in started) for name in refused), *lost, *values.values())


class TestExact:
    @pytest.mark.parametrize("block", range(12))
    def test_solve_equals_brute_force(self, block: int) -> None:
        for seed in range(block * BLOCK, (block + 1) * BLOCK):
            snapshot = contested_round(seed)
            exact = Round(snapshot)
            assert solver_vector(snapshot, exact) == exact.optimum(), seed

    @pytest.mark.long
    @pytest.mark.parametrize("block", range(100, 500))
    def test_solve_equals_brute_force_long(self, block: int) -> None:
        self.test_solve_equals_brute_force(block)
