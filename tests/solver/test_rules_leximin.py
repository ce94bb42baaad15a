"""The rule of leximin, as in `test_rules.py`: who starts before whom inside a tenant."""

from __future__ import annotations

import pytest
from hand_made import gang, placed, rules_broken_by
from leximin_force import leximin_round, shares

from gangfit.models import Plan
from gangfit.solver import InvalidPlanError, check, solve
from gangfit.solver.choice import Choice


class TestClosedUpward:
    """Rule 12."""

    held = leximin_round(
        4, [gang("a1", 3, tenant="a", priority=1), gang("a2", 1, tenant="a"), gang("b1", 2, tenant="b")]
    )

    def test_a_lower_gang_buys_no_share(self) -> None:
        """a2 and b1 would make 1/4 and 2/4; a1 could start alone, so a2 starts only after it."""
        answer = solve(self.held)
        assert shares(answer) == [("b", 0.0), ("a", 1.0)]
        assert list(placed(answer)) == ["a1", "a2"]

    def test_taken_out_the_vector_is_another(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(Choice, "closed_upward", lambda self: None)
        with pytest.raises(InvalidPlanError, match="'a2' of priority 0 starts"):
            solve(self.held)

    def test_checker_flags_it(self) -> None:
        answer = solve(self.held)
        low = Plan.model_validate(
            {
                "placements": [
                    {"gang": "a2", "roles": {"members": {"r0n0": 1}}},
                    {"gang": "b1", "roles": {"members": {"r0n1": 1, "r0n2": 1}}},
                ],
                "considered": [
                    {"gang": name, "admitted": name != "a1", "group": group, "share": share, "decided_by": "search"}
                    for name, group, share in (("b1", "within", 0), ("a1", "below", 0), ("a2", "within", 0))
                ],
            }
        )
        assert "closed_upward" in rules_broken_by(self.held, low)
        assert check(self.held, answer).ok

    def test_one_that_could_not_start_alone_holds_nobody_back(self) -> None:
        answer = solve(leximin_round(4, [gang("a1", 5, tenant="a", priority=1), gang("a2", 1, tenant="a")]))
        assert list(placed(answer)) == ["a2"]
        limited = leximin_round(
            4, [gang("a1", 3, tenant="a", priority=1), gang("a2", 1, tenant="a")], a={"limit": {"gpus": 16}}
        )
        assert list(placed(solve(limited))) == ["a2"]

    def test_what_is_left_over_goes_to_those_asked_again(self) -> None:
        """b holds the room that a1 would need; a2 takes what nobody else can use, once all have been asked."""
        answer = solve(
            leximin_round(
                4,
                [
                    gang("a1", 4, tenant="a", priority=1),
                    gang("a2", 1, tenant="a"),
                    gang("b1", 3, tenant="b"),
                    gang("b2", 3, tenant="b"),
                ],
                a={"weight": 9},
            )
        )
        assert shares(answer) == [("a", 0.0), ("b", 0.75)]
        assert sorted(placed(answer)) == ["a2", "b1"]
        assert [step.gang for step in answer.considered][-1] == "a2"
