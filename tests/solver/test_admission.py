"""Which gangs start: the order, the oracle and its three ways to an answer, and never worse than greedy."""

from __future__ import annotations

import itertools

import pytest
from brute_force import Round
from hand_made import gang, node, placed, racks, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st
from random_rounds import random_round
from vectors import vector

from gangfit.models import Snapshot
from gangfit.solver import admission as admission_module
from gangfit.solver import oracle, solve
from gangfit.solver.admission import admit
from gangfit.solver.assignment import admission, rank
from gangfit.solver.assignment import considered as considered_steps
from gangfit.solver.bounds import Headroom
from gangfit.solver.decided import Admission, Decision
from gangfit.solver.engine import Budget
from gangfit.solver.floor import fill_leftover
from gangfit.solver.greedy import STRATEGIES
from gangfit.solver.merged import Merged
from gangfit.solver.oracle import Preemption
from gangfit.solver.problem import encode
from gangfit.solver.space import Space

CROWDED = st.builds(
    random_round, st.integers(0, 10**9), nodes=st.just(12), gangs=st.just(9), members=st.just(5), crowded=st.just(True)
)
TINY = st.builds(
    random_round, st.integers(0, 10**9), nodes=st.just(4), gangs=st.just(4), members=st.just(3), crowded=st.just(True)
)


def considered(snapshot: Snapshot) -> list[str]:
    return [step.gang for step in solve(snapshot).considered]


def ask(snapshot: Snapshot, *, search: bool = True) -> Admission:
    return admit(encode(snapshot), Budget(snapshot.policy) if search else None, lambda line: None)


class TestOrder:
    def test_priority_then_submission_then_name(self) -> None:
        pending = [
            gang("late", submitted_s=9), gang("b", submitted_s=1), gang("a", submitted_s=1), gang("low", priority=-1),
            gang("high", priority=1, submitted_s=99), gang("higher", priority=2, submitted_s=100),
        ]  # fmt: skip
        for order in itertools.islice(itertools.permutations(pending), 0, 720, 37):
            round = snapshot(racks((8, 8, 8)), list(order))
            assert considered(round) == ["higher", "high", "a", "b", "late", "low"]
            assert list(placed(solve(round))) == ["higher", "high", "a"]

    def test_names_compare_by_code_point(self) -> None:
        round = snapshot(racks((8,)), [gang(name) for name in ("g2", "g10", "G3", "ä")])
        assert considered(round) == ["G3", "g10", "g2", "ä"]

    def test_one_that_waits_does_not_hold_up_the_rest(self) -> None:
        round = snapshot(racks((8,)), [gang("huge", 9, priority=1), gang("small")])
        assert list(placed(solve(round))) == ["small"]

    def test_a_later_gang_never_costs_an_earlier_one(self) -> None:
        round = snapshot(racks((8, 8)), [gang("first", 2, 5, priority=9), *(gang(f"g{i}", 1, 4) for i in range(4))])
        assert list(placed(solve(round))) == ["first"]


@pytest.fixture
def searched(monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing is placed anew: CP-SAT answers."""
    monkeypatch.setattr(admission_module, "PLACINGS", 0)


@pytest.mark.usefixtures("searched")
class TestJointly:
    round = snapshot(racks((8,), (4, 4)), [gang("a", 2, 4, priority=1), gang("b")])

    def test_an_admitted_gang_is_placed_again_for_a_later_one(self) -> None:
        problem = encode(self.round)
        assert all(admission(problem, strategy(problem)) == (1, 0) for strategy in STRATEGIES.values())
        found = ask(self.round)
        assert found.decided == {0: "greedy", 1: "search"}
        assert all(admission(problem, assignment) == (1, 1) for assignment in found.plans.values())

    def test_a_chain_of_them(self) -> None:
        """Each next gang needs the very space where greedy put the last."""
        nodes = racks((8,), (4, 4), (2, 2, 2, 2))
        pending = [gang("a", 4, 2, priority=3), gang("b", 2, 4, priority=2), gang("c", 1, 8, priority=1)]
        answer = placed(solve(snapshot(nodes, pending)))
        assert {name: {on[:2] for on in nodes} for name, nodes in answer.items()} == {
            "a": {"r2"},
            "b": {"r1"},
            "c": {"r0"},
        }

    def test_proven_no(self) -> None:
        """7 + 7 GPUs free and 14 asked, but 4 + 4 don't go into 7."""
        round = snapshot(racks((7, 7)), [gang("a", 1, 6, priority=1), gang("b", 2, 4)])
        blocked = solve(round).blocked[0]
        assert (blocked.gang, blocked.reason) == ("b", "competing")

    @pytest.mark.parametrize("search", [True, False])
    def test_without_budget_it_stays_undecided(self, search: bool) -> None:
        answer = solve(self.round, search=search)
        assert list(placed(answer)) == (["a", "b"] if search else ["a"])
        assert answer.status == ("optimal" if search else "feasible")
        if not search:
            assert answer.blocked[0].reason == "undecided"
            assert (answer.tiers[0].value, answer.tiers[0].bound, answer.tiers[0].gap) == (1, 2, 1.0)
            assert answer.tiers[0].proof is None

    def test_a_model_too_large_stays_undecided(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(oracle, "MODEL_LIMIT", 1)
        assert solve(self.round).blocked[0].reason == "undecided"

    def test_its_size_is_judged_before_it_is_built(self, monkeypatch: pytest.MonkeyPatch) -> None:
        def never(*_: object) -> None:
            raise AssertionError("built")

        monkeypatch.setattr(oracle, "MODEL_LIMIT", 1)
        monkeypatch.setattr(Merged, "__init__", never)
        assert ask(self.round).decided == {0: "greedy", 1: "limit"}

    def test_later_gangs_still_start_after_an_undecided_one(self) -> None:
        round = snapshot(racks((8,), (4, 4)), [*map(dict, JOINT), gang("c", 1, 2)])
        answer = solve(round, search=False)
        assert [(step.gang, step.decided_by) for step in answer.considered] == [
            ("a", "greedy"), ("b", "limit"), ("c", "greedy"),
        ]  # fmt: skip


JOINT = (gang("a", 2, 4, priority=2), gang("b", priority=1))


class TestFillLeftover:
    @staticmethod
    def found(snapshot: Snapshot, *decided: Decision) -> Admission:
        """What admission would have found, had it settled the gangs' questions like this."""
        problem = encode(snapshot)
        steps = considered_steps(problem, ())
        return Admission({}, Preemption(), tuple(steps), dict(enumerate(decided)))

    def test_undecided_gangs_take_what_a_plan_leaves(self) -> None:
        problem = encode(TestJointly.round)
        space = Space(problem)
        moved = {0: next(iter(ask(TestJointly.round).plans.values()))[0]}
        assert space.fits(1).sum() >= 1
        filled, found = fill_leftover(problem, moved, self.found(TestJointly.round, "greedy", "limit"))
        assert admission(problem, filled) == (1, 1)
        assert found.decided == {0: "greedy", 1: "limit"}, "it starts, and its question is still open"
        assert found.late == {1}

    def test_decided_ones_stay(self) -> None:
        problem = encode(TestJointly.round)
        for how in ("bound", "search"):
            filled, found = fill_leftover(problem, {}, self.found(TestJointly.round, "limit", how))
            assert admission(problem, filled) == (1, 0)
            assert found.decided == {0: "limit", 1: how}
            assert found.late == {0}

    def test_in_considered_order(self) -> None:
        round = snapshot(racks((8,)), [gang("b"), gang("a", priority=-1), gang("c", priority=1)])
        problem = encode(round)
        filled, _ = fill_leftover(problem, {}, self.found(round, "limit", "limit", "limit"))
        assert [problem.gangs[j].name for j in filled] == ["c"]

    def test_not_past_a_limit(self) -> None:
        tenants = [{"name": "t", "limit": {"gpus": 8}}, {"name": "u"}]
        pending = [gang("a", tenant="t"), gang("b", tenant="t"), gang("c", tenant="u")]
        round = snapshot(racks((8, 8, 8)), pending, tenants=tenants)
        problem = encode(round)
        filled, _ = fill_leftover(problem, {}, self.found(round, "limit", "limit", "limit"))
        assert [problem.gangs[j].name for j in filled] == ["a", "c"]

    def test_the_answer_lists_them_again_at_the_end(self) -> None:
        """Nobody asks CP-SAT, so `b` is undecided where it is `a` that sits on its node; without `a` it would start."""
        answer = solve(TestJointly.round, search=False)
        assert [(step.gang, step.admitted, step.decided_by) for step in answer.considered] == [
            ("a", True, "greedy"), ("b", False, "limit"),
        ]  # fmt: skip


class TestNeverWorseThanGreedy:
    @settings(max_examples=60, deadline=None)
    @given(round=CROWDED, search=st.booleans())
    def test_admissions_and_plan(self, round: Snapshot, search: bool) -> None:
        problem = encode(round)
        found = ask(round, search=search)
        greedy = [strategy(problem) for strategy in STRATEGIES.values()]
        vectors = {admission(problem, assignment) for assignment in found.plans.values()}
        assert len(vectors) == 1
        assert vectors.pop() >= max(admission(problem, assignment) for assignment in greedy)
        best = min(rank(problem, assignment) for assignment in found.plans.values())
        assert best <= min(rank(problem, assignment) for assignment in greedy)

    @settings(max_examples=60, deadline=None)
    @given(round=CROWDED, search=st.booleans())
    def test_the_answer(self, round: Snapshot, search: bool) -> None:
        problem = encode(round)
        answer = solve(round, search=search)
        assert vector(answer) <= min(rank(problem, strategy(problem)) for strategy in STRATEGIES.values())


class TestHeadroom:
    @settings(max_examples=150, deadline=None)
    @given(round=TINY)
    def test_never_rules_out_what_can_start(self, round: Snapshot) -> None:
        """Taken along a plan that exists, no count may forbid the next gang of that plan."""
        problem = encode(round)
        brute = Round(round)
        names = tuple(brute.pending)
        chosen = [c for size in range(len(names) + 1) for c in itertools.combinations(names, size)]
        for names in (frozenset(c) for c in chosen if any(True for _ in brute.plans(c, brute.free))):
            headroom = Headroom(problem)
            for j, wanted in enumerate(problem.gangs):
                if wanted.name in names:
                    assert not headroom.rules_out(j), (sorted(names), wanted.name)
                    headroom.take(j)

    def test_counts_slots_not_sums(self) -> None:
        """7 + 7 + 7 GPUs hold three members of 4, not five."""
        problem = encode(snapshot(racks((7, 7, 7)), [gang("a", 2, 4), gang("b", 2, 4)]))
        headroom = Headroom(problem)
        assert not headroom.rules_out(0)
        headroom.take(0)
        assert headroom.rules_out(1)

    def test_counts_only_the_nodes_a_gang_may_use(self) -> None:
        nodes = [node("in", "r", labels={"pool": "a"}), node("out", "r")]
        pending = [gang("a", priority=1, selector={"pool": "a"}), gang("b", selector={"pool": "a"})]
        problem = encode(snapshot(nodes, pending))
        headroom = Headroom(problem)
        headroom.take(0)
        assert headroom.rules_out(1)

    def test_gangs_that_may_sit_elsewhere_take_nothing_from_a_pool(self) -> None:
        nodes = [node("in", "r", labels={"pool": "a"}), node("out", "r")]
        problem = encode(snapshot(nodes, [gang("a", priority=1), gang("b", selector={"pool": "a"})]))
        headroom = Headroom(problem)
        headroom.take(0)
        assert not headroom.rules_out(1)


class TestCandidates:
    def test_rules_that_agree_share_a_plan_until_they_differ(self) -> None:
        """One node holds a: every rule takes it. b may go to the tightest rack or to the first."""
        round = snapshot(racks((8, 8, 8), (8, 8)), [gang("a", 1, 8, priority=1), gang("b", 2, 8)])
        plans = ask(round).plans
        problem = encode(round)
        for name, strategy in STRATEGIES.items():
            alone = strategy(problem)
            assert {j: dict(zip(s.nodes.tolist(), s.counts.tolist(), strict=True)) for j, s in plans[name].items()} == {
                j: dict(zip(s.nodes.tolist(), s.counts.tolist(), strict=True)) for j, s in alone.items()
            }
        assert len({id(plan) for plan in plans.values()}) < len(plans)


class TestDecidedBy:
    @settings(max_examples=40, deadline=None)
    @given(round=CROWDED)
    def test_agrees_with_the_reason(self, round: Snapshot) -> None:
        answer = solve(round)
        reasons = {blocked.gang: blocked.reason for blocked in answer.blocked}
        for step in answer.considered:
            assert step.admitted is (step.gang not in reasons)
            if step.admitted:
                assert step.decided_by in ("greedy", "search")
            else:
                assert step.decided_by in ("bound", "search")
            if reasons.get(step.gang) not in (None, "competing"):
                assert step.decided_by == "bound"
