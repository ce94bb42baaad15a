"""All gangs placed anew where the considered order leaves the last no room."""

from __future__ import annotations

from collections.abc import Sequence

import pytest
from hand_made import as_plan, gang, node, racks, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st
from random_rounds import random_round

from gangfit.models import Snapshot
from gangfit.solver import admission as admission_module
from gangfit.solver import check
from gangfit.solver.admission import admit
from gangfit.solver.assignment import Assignment, admission
from gangfit.solver.decided import Admission
from gangfit.solver.engine import Budget
from gangfit.solver.greedy import PLACES, STRATEGIES
from gangfit.solver.greedy.repacking import orders, repacked
from gangfit.solver.problem import Problem, encode

CROWDED = st.builds(
    random_round, st.integers(0, 10**9), nodes=st.just(12), gangs=st.just(9), members=st.just(5), crowded=st.just(True)
)


def ask(snapshot: Snapshot, *, search: bool = True) -> Admission:
    return admit(encode(snapshot), Budget(snapshot.policy) if search else None, lambda line: None)


def starts(problem: Problem, found: Admission) -> set[tuple[int, ...]]:
    """Who starts, by each of the plans."""
    return {admission(problem, plan) for plan in found.plans.values()}


class TestPlacedAnew:
    round = snapshot(racks((8, 8)), [gang("a", 2, 3, priority=2), gang("b", 1, 5, priority=1), gang("c", 1, 5)])
    """Where both of `a` sit on one node, `c` has no room."""

    def test_difficult_ones_first(self) -> None:
        problem = encode(self.round)
        assert all(admission(problem, strategy(problem)) == (1, 1, 0) for strategy in STRATEGIES.values())
        found = ask(self.round)
        assert found.decided == dict.fromkeys(range(3), "greedy")
        assert all(admission(problem, assignment) == (1, 1, 1) for assignment in found.plans.values())

    def test_orders(self) -> None:
        nodes = [*racks((8, 8)), node("x", "r0", gpu_model="x")]
        pending = [
            gang("small", 1, 1), gang("few", 1, 2, gpu_model="x"), gang("large", 1, 5), gang("many", 3, 5),
            gang("rack", 2, 1, required="rack"),
        ]  # fmt: skip
        problem = encode(snapshot(nodes, pending))
        names = [gang.name for gang in problem.gangs]
        assert [[names[j] for j in order] for order in orders(problem, range(5))] == [
            ["rack", "many", "large", "few", "small"],
            ["rack", "few", "many", "large", "small"],
        ]

    def test_each_rule_goes_on_from_its_own(self) -> None:
        """`b` and `c` go where the rule says, also after all were placed anew."""
        problem = encode(self.round)
        plans = repacked(problem, [0, 1, 2])
        assert set(plans) == set(PLACES)
        found = ask(self.round).plans
        assert all(as_plan(problem, found[rule]) == as_plan(problem, plans[rule]) for rule in PLACES)

    @settings(max_examples=100, deadline=None)
    @given(CROWDED, st.integers(1, 9))
    def test_whatever_it_finds_is_a_plan(self, round: Snapshot, size: int) -> None:
        few = round.model_copy(update={"pending": round.pending[:size]})
        problem = encode(few)
        for assignment in repacked(problem, range(size)).values():
            assert sorted(assignment) == list(range(size))
            report = check(few, as_plan(problem, assignment))
            assert report.ok, report.violations

    @settings(max_examples=60, deadline=None)
    @given(CROWDED)
    def test_who_starts_is_what_search_says(self, round: Snapshot) -> None:
        problem = encode(round)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(admission_module, "PLACINGS", 0)
            expected = ask(round)
        assert starts(problem, ask(round)) == starts(problem, expected)

    def test_only_so_often_in_vain(self, monkeypatch: pytest.MonkeyPatch) -> None:
        calls: list[int] = []

        def in_vain(problem: Problem, gangs: Sequence[int]) -> dict[str, Assignment]:
            calls.append(len(gangs))
            return {}

        monkeypatch.setattr(admission_module, "repacked", in_vain)
        monkeypatch.setattr(admission_module, "PLACINGS", 3)
        assert ask(self.round).decided[2] == "search"
        assert calls == [3]
        monkeypatch.setattr(admission_module, "PLACINGS", 0)
        assert ask(self.round).decided[2] == "search"
        assert calls == [3]

    def test_not_without_a_budget(self) -> None:
        assert ask(self.round, search=False).decided[2] == "limit"
