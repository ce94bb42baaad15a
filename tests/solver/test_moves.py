"""Running gangs that move for others, exactly: what `solve` says against every set of victims and moves, one by one."""

from __future__ import annotations

import pytest
from brute_moves import MovingRound
from fragmented_rounds import fragmented_round
from hand_made import Json, rules_broken_by
from moving_rounds import halves, tampered

from gangfit.models import Snapshot
from gangfit.solver import check, solve
from gangfit.solver.checker.case import Case
from gangfit.solver.checker.moving import returns

BLOCK = 50


def solver_vector(snapshot: Snapshot, exact: MovingRound) -> tuple[int, ...]:
    """Admissions in considered order (negated), the cost, the other tiers; fails unless proven and clean."""
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


def agree(snapshot: Snapshot, seed: int) -> None:
    exact = MovingRound(snapshot)
    assert solver_vector(snapshot, exact) == exact.best(), seed


class TestExact:
    @pytest.mark.parametrize("block", range(3))
    def test_solve_equals_brute_force(self, block: int) -> None:
        for seed in range(block * BLOCK, (block + 1) * BLOCK):
            agree(fragmented_round(seed), seed)

    @pytest.mark.long
    @pytest.mark.parametrize("block", range(40, 80))
    def test_long(self, block: int) -> None:
        self.test_solve_equals_brute_force(block)


class TestSteps:
    """The order of stops and starts."""

    def test_space_is_taken_once_it_is_given_back(self) -> None:
        answer = solve(halves(grace_s=100))
        assert [(step.at_s, step.action, step.gang) for step in answer.transitions] == [
            (20_100, "stop", "left"),
            (20_100, "start", "left"),
            (20_100, "start", "new"),
        ]

    @pytest.mark.parametrize("order", [(1, 0, 2), (2, 0, 1)])
    def test_checker_flags_another_order(self, order: tuple[int, ...]) -> None:
        round = halves(grace_s=100)
        wanted = solve(round)
        steps = tuple(wanted.transitions[i] for i in order)
        faults = list(returns(Case(round, wanted.model_copy(update={"transitions": steps}))))
        assert any("no room yet" in message for _, message in faults) is (order[0] == 2)

    def test_checker_flags_a_missing_step(self) -> None:
        wanted = solve(halves())
        fewer = wanted.model_copy(update={"transitions": wanted.transitions[1:]})
        assert "claims" in rules_broken_by(halves(), fewer)

    @pytest.mark.parametrize("field", ["starts_after_s", "roles", "drain"])
    def test_checker_flags_false_figures(self, field: str) -> None:
        wanted = solve(halves())
        move = wanted.moves[0]
        false: Json = {
            "starts_after_s": move.starts_after_s + 1,
            "roles": {"members": {"n0": 1}},
            "drain": move.drain.model_copy(update={"lost_gpu_s": 1}),
        }
        assert rules_broken_by(halves(), tampered(wanted, **{field: false[field]}))
