"""Rules of moves, a test class each, as in `test_rules.py`: who may move, for whom, and nobody needlessly."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from hand_made import Json, gang, node, placed, rules_broken_by, running, snapshot
from moving_rounds import halves, moved, tampered

from gangfit.models import Snapshot
from gangfit.solver import InvalidPlanError, check, solve
from gangfit.solver import problem as problem_module
from gangfit.solver import relocation as relocation_module
from gangfit.solver.movers import Mover


class TestMoveEligible:
    """`left` may move onto `right`'s node, unless something protects it."""

    PROTECTED: ClassVar[dict[str, Json]] = {
        "not preemptible": {"preemptible": False},
        "young": {"min_runtime_s": 10_001},
        "guard": {"preemptions": 3, "checkpoint": {"interval_s": 10_500}},
    }

    def test_it_moves(self) -> None:
        answer = solve(halves())
        assert placed(answer) == {"new": {"n0": 1}}
        assert moved(answer) == {"left": {"n1": 1}}
        assert answer.status == "optimal"
        values = {tier.name: tier.value for tier in answer.tiers}
        assert (values["broken"], values["moved"], values["moved_members"]) == (0, 1, 1)

    @pytest.mark.parametrize("case", PROTECTED)
    def test_solve_keeps_it(self, case: str) -> None:
        assert not solve(halves(**self.PROTECTED[case])).moves

    def test_never_is_the_default(self) -> None:
        assert not solve(halves({"mode": "never"})).moves
        assert not solve(halves().model_copy(update={"policy": type(halves().policy)()})).moves

    def test_a_gang_that_started_now_stays(self) -> None:
        now = halves().model_copy(update={"time_s": 10_000})
        assert not solve(now).moves
        assert "move_eligible" in rules_broken_by(now, solve(halves()))

    def test_so_many_and_no_more(self) -> None:
        nodes = [node(f"n{n}", gpus=4) for n in range(4)]
        held = [running(f"r{n}", {f"n{n}": 1}, 2, started_s=10_000) for n in range(4)]
        facts: Json = {"levels": "", "time_s": 20_000}
        for most, starts in ((1, {"a"}), (2, {"a", "b"})):
            policy = {"moves": {"mode": "allowed", "max_gangs": most}}
            round = snapshot(nodes, [gang("a", 1, 4), gang("b", 1, 4)], held, policy=policy, **facts)
            assert set(placed(solve(round))) == starts
        policy = {"moves": {"mode": "allowed", "max_gangs": 1}}
        assert "move_eligible" in rules_broken_by(
            snapshot(nodes, [gang("a", 1, 4), gang("b", 1, 4)], held, policy=policy, **facts), solve(round)
        )

    @pytest.mark.parametrize("case", PROTECTED)
    def test_checker_flags_it(self, case: str) -> None:
        wanted = solve(halves())
        assert check(halves(), wanted).ok
        assert "move_eligible" in rules_broken_by(halves(**self.PROTECTED[case]), wanted)
        assert "move_eligible" in rules_broken_by(halves({"mode": "never"}), wanted)

    def test_checker_flags_a_gang_that_leaves_twice(self) -> None:
        wanted = solve(halves())
        twice = wanted.model_copy(update={"moves": wanted.moves * 2})
        assert "move_eligible" in rules_broken_by(halves(), twice)

    def test_the_model_has_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(problem_module, "move_eligible", lambda *_: True)
        with pytest.raises(InvalidPlanError, match="started at"):
            solve(halves().model_copy(update={"time_s": 10_000}))


class TestMoveRight:
    """For whom `left` may move: `new` of its own tenant, or of an entitled one."""

    @staticmethod
    def owned(mine: str, theirs: str, quota: int, **facts: Any) -> Snapshot:
        tenants = [{"name": "a", "quota": {"gpus": quota}}, {"name": "b", "quota": {"gpus": 0}}]
        held = [
            running("left", {"n0": 1}, 2, started_s=10_000, tenant=theirs, **facts),
            running("right", {"n1": 1}, 2, started_s=10_000, preemptible=False, tenant="b"),
        ]
        round = halves(held=held, tenants=tenants)
        pending = tuple(gang.model_copy(update={"tenant": mine}) for gang in round.pending)
        return round.model_copy(update={"pending": pending})

    @pytest.mark.parametrize(
        ("mine", "theirs", "quota", "priority", "moves"),
        [
            ("a", "a", 0, 0, True),
            ("a", "a", 9, 1, False),
            ("a", "b", 3, 5, True),
            ("a", "b", 2, 0, False),
            ("b", "a", 9, 0, False),
        ],
    )
    def test_it_decides(self, mine: str, theirs: str, quota: int, priority: int, moves: bool) -> None:
        round = self.owned(mine, theirs, quota, priority=priority)
        assert bool(solve(round).moves) is moves
        wanted = solve(self.owned("a", "a", 9))
        assert ("move_right" in rules_broken_by(round, wanted)) is not moves

    @pytest.mark.parametrize(("ratio", "moves"), [(0.5, False), (0.66, False), (0.67, True), (1.0, True)])
    def test_the_ratio_bounds_it(self, ratio: float, moves: bool) -> None:
        round = halves({"max_ratio": ratio})
        assert bool(solve(round).moves) is moves
        assert ("move_right" in rules_broken_by(round, solve(halves()))) is not moves

    def test_a_gang_just_preempted_moves_nobody(self) -> None:
        round = halves()
        pending = tuple(gang.model_copy(update={"preempted_s": 19_500}) for gang in round.pending)
        hurt = round.model_copy(update={"pending": pending})
        assert not solve(hurt).moves
        assert "move_right" in rules_broken_by(hurt, solve(round))

    def test_for_a_gang_that_waits(self) -> None:
        round = halves()
        two = round.model_copy(update={"pending": (*round.pending, round.pending[0].model_copy(update={"name": "z"}))})
        wanted = solve(two)
        assert check(two, wanted).ok
        assert "move_right" in rules_broken_by(two, tampered(wanted, for_gang="z"))

    def test_the_model_has_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def anybody(problem: Any, admitted: list[int], wanted: set[int]) -> list[Mover]:
            return [Mover(j, np.ones(len(problem.victims.gangs), dtype=np.bool_), 99) for j in admitted if j in wanted]

        for module in ("relocation", "moving_oracle", "moving_tiers"):
            monkeypatch.setattr(f"gangfit.solver.{module}.movers", anybody)
        with pytest.raises(InvalidPlanError, match="quota"):
            solve(self.owned("a", "b", 2))


class TestMoveNeeded:
    """Nobody moves for a gang that starts without."""

    def test_nobody_moves_without_need(self) -> None:
        round = halves()
        small = round.model_copy(
            update={
                "pending": (round.pending[0].model_copy(update={"request": type(round.pending[0].request)(gpus=2)}),)
            }
        )
        assert not solve(small).moves

    def test_one_is_enough(self) -> None:
        held = [running(f"{name}", {f"n{n}": 1}, 1, started_s=10_000) for n, name in ((0, "a"), (0, "b"), (1, "c"))]
        round = halves(held=held)
        assert moved(solve(round)).keys() < {"a", "b", "c"}
        assert len(solve(round).moves) == 0
        tight = halves(held=[*held, running("d", {"n1": 1}, 1, started_s=10_000)])
        assert len(solve(tight).moves) == 1

    def test_checker_flags_it(self) -> None:
        wanted = solve(halves())
        lonely = wanted.model_copy(update={"placements": (), "tiers": (), "considered": ()})
        assert "move_needed" in rules_broken_by(halves(), lonely)

    def test_moved_before_anybody_is_preempted(self) -> None:
        round = halves(priority=-1)
        policy = round.policy.model_copy(update={"preemption": type(round.policy.preemption)()})
        answer = solve(round.model_copy(update={"policy": policy}))
        assert moved(answer) == {"left": {"n1": 1}}
        assert not answer.preemptions


def test_the_question_knows_when_nobody_may_move() -> None:
    round = halves(preemptible=False)
    assert not relocation_module.movable(problem_module.encode(round))
