"""`policy.order: leximin`: equal to brute force, what holds on every round, and the example of docs/model.md."""

from __future__ import annotations

import pytest
from hand_made import gang, placed, racks, rules_broken_by, running, snapshot
from leximin_force import LEXIMIN, Sets, leximin_round, shared_round, shares
from pydantic import ValidationError

import gangfit.solver.leximin
from gangfit.models import LeximinShare, Plan, Policy, Snapshot
from gangfit.solver import InvalidPlanError, check, solve
from gangfit.solver.choice import Choice
from gangfit.solver.round import compare


class TestByHand:
    """The example of docs/model.md."""

    pending = [
        gang("a1", 2, tenant="a"),
        gang("a2", 3, tenant="a", submitted_s=1),
        gang("b1", 1, tenant="b"),
        gang("b2", 3, tenant="b", submitted_s=1),
    ]

    def test_the_vector_is_the_largest(self) -> None:
        answer = solve(leximin_round(6, self.pending))
        assert answer.status == "optimal"
        assert shares(answer) == [("a", 0.5), ("b", 0.5)]
        assert list(placed(answer)) == ["a2", "b2"]
        assert [(entry.gang, entry.reason) for entry in answer.blocked] == [("a1", "competing"), ("b1", "competing")]

    def test_with_a_higher_priority_for_the_first(self) -> None:
        answer = solve(leximin_round(6, [{**self.pending[0], "priority": 1}, *self.pending[1:]]))
        assert list(placed(answer)) == ["a1", "b1", "b2"]
        assert shares(answer) == [("a", 2 / 6), ("b", 4 / 6)]

    def test_drf_starts_others(self) -> None:
        other = leximin_round(6, self.pending).model_copy(
            update={"policy": Policy.model_validate({**LEXIMIN, "order": "drf"})}
        )
        answer = solve(other)
        assert list(placed(answer)) == ["a1", "b1", "b2"]
        assert [fair.share_after for fair in answer.fairness] == [2 / 6, 4 / 6]
        assert not answer.leximin


class TestRows:
    """Every row of the model is needed."""

    def test_tenant_limit(self, monkeypatch: pytest.MonkeyPatch) -> None:
        pending = [gang("a1", 1, tenant="a"), gang("a2", 1, tenant="a", submitted_s=1), gang("b1", 2, tenant="b")]
        limited = leximin_round(4, pending, a={"limit": {"gpus": 8}})
        assert shares(solve(limited)) == [("a", 0.25), ("b", 0.5)]
        monkeypatch.setattr(Choice, "tenant_limit", lambda self: None)
        with pytest.raises(InvalidPlanError, match="its limit is 8"):
            solve(limited)

    def test_a_required_level_is_that_of_a_gang_that_starts(self) -> None:
        nodes = racks((8, 8), (8,), (8, 8))
        pending = [gang(f"{t}{i}", 2, tenant=t, required="rack", submitted_s=i) for t in "ab" for i in range(2)]
        answer = solve(snapshot(nodes, pending, tenants=[{"name": "a"}, {"name": "b"}], policy=LEXIMIN))
        assert answer.status == "optimal"
        assert list(placed(answer)) == ["a0", "b0"]

    def test_one_node(self) -> None:
        pending = [gang(f"{t}{i}", 2, 4, tenant=t, required="node", submitted_s=i) for t in "ab" for i in range(2)]
        answer = solve(leximin_round(3, pending))
        assert answer.status == "optimal"
        assert list(placed(answer)) == ["a0", "b0", "a1"]

    def test_weight_0_comes_after_all_others(self) -> None:
        pending = [gang("a1", 4, tenant="a"), gang("b1", 1, tenant="b")]
        answer = solve(leximin_round(4, pending, b={"weight": 0}))
        assert shares(answer) == [("a", 1.0), ("b", 0.0)]

    def test_weights_divide_the_share(self) -> None:
        pending = [gang(f"{t}{i}", 1, tenant=t, submitted_s=i) for t in "ab" for i in range(8)]
        answer = solve(leximin_round(8, pending, b={"weight": 3}))
        assert shares(answer) == [("a", 0.25), ("b", 0.25)]
        assert len(placed(answer)) == 8

    def test_running_gangs_count(self) -> None:
        pending = [gang(f"{t}{i}", 1, tenant=t, submitted_s=i) for t in "ab" for i in range(3)]
        answer = solve(leximin_round(4, pending, [running("a-old", {"r0n0": 1}, tenant="a")]))
        assert sorted(placed(answer)) == ["a0", "b0", "b1"]
        assert shares(answer) == [("a", 0.5), ("b", 0.5)]


class TestUnsettled:
    """Where leximin isn't settled the answer is drf's, and says so."""

    hard = TestByHand.pending

    @staticmethod
    def drf(round: Snapshot) -> Snapshot:
        return round.model_copy(update={"policy": round.policy.model_copy(update={"order": "drf"})})

    def test_too_large(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(gangfit.solver.leximin, "LIMIT", 0)
        answer = solve(leximin_round(6, self.hard))
        self.is_open(answer)

    def test_without_search(self) -> None:
        self.is_open(solve(leximin_round(6, self.hard), search=False))

    def test_no_time(self) -> None:
        hurried = leximin_round(6, self.hard)
        hurried = hurried.model_copy(update={"policy": hurried.policy.model_copy(update={"time_limit_s": 1e-9})})
        self.is_open(solve(hurried))

    @staticmethod
    def is_open(answer: Plan) -> None:
        assert list(placed(answer)) == ["a1", "b1", "b2"]
        assert answer.status == "feasible"
        assert (answer.tiers[0].value, answer.tiers[0].bound, answer.tiers[0].gap) == (3, 7, 4.0)
        assert answer.tiers[0].proof is None
        assert [(entry.gang, entry.reason) for entry in answer.blocked] == [("a2", "undecided")]
        assert shares(answer) == [("a", 2 / 6), ("b", 4 / 6)]

    def test_never_less_than_greedy(self) -> None:
        for seed in range(60):
            hurried = shared_round(seed)
            hurried = hurried.model_copy(update={"policy": hurried.policy.model_copy(update={"time_limit_s": 1e-9})})
            answer, drf = solve(hurried), solve(self.drf(hurried))
            settled = all(step.decided_by != "limit" for step in answer.considered)
            assert settled or placed(answer) == placed(drf), seed
            assert check(hurried, answer).ok

    def test_all_fit_without_search(self) -> None:
        answer = solve(leximin_round(9, self.hard), search=False)
        assert len(placed(answer)) == 4
        assert answer.tiers[0].proof == "bound"


class TestPolicy:
    @pytest.mark.parametrize(("within", "across"), [("priority", "never"), ("never", "reclaim"), ("never", "priority")])
    def test_victims_are_refused(self, within: str, across: str) -> None:
        policy = {"order": "leximin", "preemption": {"within": within, "across": across}}
        with pytest.raises(ValidationError, match=f"'never', not '{within}' and '{across}'"):
            Policy.model_validate(policy)
        with pytest.raises(ValidationError, match="order 'leximin' takes no victims"):
            Policy.model_validate({"order": "leximin"})


class TestStated:
    """The checker recomputes the vector that a plan states."""

    held = leximin_round(6, TestByHand.pending)

    @pytest.mark.parametrize(
        "leximin",
        [
            [("a", 0.5)],
            [("a", 0.5), ("a", 0.5)],
            [("a", 0.5), ("b", 0.4)],
            [("a", 0.5), ("b", 0.5), ("c", 0.5)],
        ],
    )
    def test_wrong_vectors_are_found(self, leximin: list[tuple[str, float]]) -> None:
        entries = tuple(LeximinShare(tenant=tenant, share=share) for tenant, share in leximin)
        answer = solve(self.held).model_copy(update={"leximin": entries})
        assert rules_broken_by(self.held, answer) == {"claims"}

    def test_not_ascending(self) -> None:
        pending = [gang("a1", 1, tenant="a"), gang("b1", 2, tenant="b")]
        answer = solve(leximin_round(4, pending))
        assert check(leximin_round(4, pending), answer).ok
        turned = answer.model_copy(update={"leximin": answer.leximin[::-1]})
        assert rules_broken_by(leximin_round(4, pending), turned) == {"claims"}

    def test_another_order(self) -> None:
        drf = TestUnsettled.drf(self.held)
        answer = solve(drf).model_copy(update={"leximin": solve(self.held).leximin})
        assert rules_broken_by(drf, answer) == {"claims"}


class TestCompare:
    def test_the_solver_is_best(self) -> None:
        rows = compare(leximin_round(6, TestByHand.pending))
        assert [row.name for row in rows if row.vector == min(row.vector for row in rows)] == ["solver"]
        for seed in range(40):
            rows = compare(shared_round(seed))
            assert rows[0].vector == min(row.vector for row in rows), seed


class TestEqualsBruteForce:
    @pytest.mark.parametrize("block", range(4))
    def test_vector_admissions_and_tiers(self, block: int) -> None:
        for seed in range(block * 50, block * 50 + 50):
            round = shared_round(seed)
            answer, exact = solve(round), Sets(round)
            most, first, late = exact.outcome()
            assert answer.status == "optimal", seed
            assert sorted(p.gang for p in answer.placements) == sorted((*first, *late)), seed
            assert [p.gang for p in answer.placements][len(first) :] == list(late), seed
            shares = [*most[0], *most[1]]
            assert [entry.share for entry in answer.leximin] == pytest.approx([float(share) for share in shares]), seed
            values = {tier.name: tier.value for tier in answer.tiers}
            after = [value for name, value in values.items() if name not in ("admission", "broken")]
            assert tuple(after) == exact.best_tiers((*first, *late)), seed
