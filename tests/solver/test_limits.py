"""At the edges: no time, no nodes to speak of, amounts and weights at their limits, and a search that goes wrong."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable

import pytest
from hand_made import Json, gang, node, placed, racks, snapshot
from pydantic import ValidationError
from random_rounds import random_round
from vectors import admissions, vector

from gangfit.models import Policy, Snapshot
from gangfit.solver import check, engine, solve
from gangfit.solver.assignment import rank
from gangfit.solver.engine import Budget, Outcome
from gangfit.solver.greedy import STRATEGIES
from gangfit.solver.plain import optimum
from gangfit.solver.problem import encode


def contended(seed: int) -> Snapshot:
    return random_round(seed, nodes=16, gangs=12, members=6, crowded=True)


def with_policy(snapshot: Snapshot, **policy: object) -> Snapshot:
    return snapshot.model_copy(update={"policy": Policy.model_validate({**snapshot.policy.model_dump(), **policy})})


def greedy(snapshot: Snapshot) -> tuple[int, ...]:
    """The best greedy's vector."""
    problem = encode(snapshot)
    return min(rank(problem, strategy(problem)) for strategy in STRATEGIES.values())


class TestTime:
    @pytest.mark.parametrize("deterministic", [False, True])
    @pytest.mark.parametrize("limit", [1e-9, 0.001])
    def test_out_of_time_is_never_below_greedy(self, limit: float, deterministic: bool) -> None:
        for seed in range(40):
            round = with_policy(contended(seed), time_limit_s=limit, deterministic=deterministic)
            answer = solve(round)
            assert check(round, answer).ok
            assert vector(answer) <= greedy(round)
            closed = all(tier.proof for tier in answer.tiers)
            assert answer.status == ("optimal" if closed else "feasible")

    def test_bounds_hold_when_time_runs_out(self) -> None:
        for seed in range(40):
            hurried = solve(with_policy(contended(seed), time_limit_s=0.001, deterministic=True))
            done = solve(contended(seed))
            assert vector(done) <= vector(hurried)
            for tier, best in zip(hurried.tiers[1:], done.tiers[1:], strict=True):
                if admissions(hurried) != admissions(done):
                    break
                assert tier.bound <= best.value <= tier.value
                if tier.value != best.value:  # later bounds hold among plans equal on this tier
                    break

    def test_without_search(self, monkeypatch: pytest.MonkeyPatch) -> None:
        replace_run(monkeypatch, fail("asked"))
        for seed in range(40):
            answer = solve(contended(seed), search=False)
            assert vector(answer) <= greedy(contended(seed))
            assert {step.decided_by for step in answer.considered} <= {"greedy", "bound", "limit"}
            assert not answer.stats.improved

    def test_time_is_kept_for_the_answer(self) -> None:
        """At most a fifth of the limit, of the wall clock only."""
        for deterministic in (False, True):
            budget = Budget(Policy(time_limit_s=100, deterministic=deterministic))
            budget.kept = 20
            assert 79 < budget.remaining <= 80 if not deterministic else budget.remaining == 100

    def test_every_stage_is_timed(self) -> None:
        seconds = solve(random_round(1)).stats.seconds
        assert seconds is not None
        assert set(seconds) >= {"encode", "admission", "tiers", "check"}


class TestSameAnswer:
    @pytest.mark.parametrize("seed", range(12))
    def test_byte_for_byte(self, seed: int) -> None:
        round = with_policy(contended(seed), deterministic=True)
        first = solve(round).model_dump_json()
        assert solve(Snapshot.model_validate_json(round.model_dump_json())).model_dump_json() == first

    @pytest.mark.parametrize("seed", range(12))
    def test_whatever_the_order_of_the_input(self, seed: int) -> None:
        document = with_policy(contended(seed), deterministic=True).model_dump()
        first = solve(Snapshot.model_validate(document)).model_dump_json()
        for shuffle in range(3):
            rng = random.Random(shuffle)
            shuffled = {**document, **{key: rng.sample(document[key], len(document[key])) for key in LISTS}}
            assert solve(Snapshot.model_validate(shuffled)).model_dump_json() == first

    @pytest.mark.parametrize("seed", range(8))
    def test_same_values_for_any_search(self, seed: int) -> None:
        wanted = vector(solve(contended(seed)))
        for policy in ({"seed": 7}, {"workers": 2}, {"deterministic": True}, {"seed": 2**31 - 1, "workers": 2}):
            answer = solve(with_policy(contended(seed), **policy))
            assert answer.status == "optimal"
            assert vector(answer) == wanted

    def test_no_wall_time_in_a_deterministic_plan(self) -> None:
        assert solve(with_policy(contended(0), deterministic=True)).stats.seconds is None


LISTS = ("nodes", "pending", "running")


class TestSmallest:
    def test_one_node_no_gang(self) -> None:
        answer = solve(Snapshot.model_validate({"nodes": [{"name": "n", "gpus": 0}]}))
        assert answer.status == "optimal"
        assert [tier.name for tier in answer.tiers] == [
            "admission", "broken", "preferred", "distance", "uplinks", "intact.node",
        ]  # fmt: skip
        assert {tier.value for tier in answer.tiers} == {0}

    def test_no_levels(self) -> None:
        round = snapshot([node("a"), node("b")], [gang("g", 2, required=None, preferred="node")], levels="")
        assert [tier.value for tier in solve(round).tiers] == [1, 0, 1, 1, 0, 2]

    def test_sixteen_levels(self) -> None:
        levels = " ".join(f"l{i}" for i in range(14))
        path = [f"d{i}" for i in range(14)]
        nodes = [node("a", *path), node("b", *path[:-1], "other")]
        assert vector(solve(snapshot(nodes, [gang("g", 2)], levels=levels)))[2] == 4 + 1

    def test_no_node_is_ready(self) -> None:
        answer = solve(snapshot([node("n", "r", state="down")], [gang("g")]))
        assert answer.blocked[0].reason == "capacity"
        assert answer.blocked[0].counters["not_ready"] == 1

    def test_every_domain_unknown(self) -> None:
        nodes = [node(f"n{i}", None, None) for i in range(4)]
        answer = solve(snapshot(nodes, [gang("g", 3), gang("h", required="rack")], levels="spine rack"))
        assert list(placed(answer)) == ["g"]
        assert answer.blocked[0].reason == "topology"


HUGE = [
    ({}, {"memory_mib": 10**10}, 1),
    ({}, {"memory_mib": 10**10}, 54),
    ({}, {"cpu_milli": 10**9}, 549),
    ({}, {"memory_mib": 2**19 - 1}, 1_000_000),
    ({"memory_mib": 10**10}, {"memory_mib": 10**10}, 2),
    ({"memory_mib": 10**10, "cpu_milli": 10**9}, {"memory_mib": 2 * 10**4, "cpu_milli": 1000}, 500_000),
    ({"resources": {"x": 10**10}}, {"resources": {"x": 1}}, 1_000_000),
]
"""Node facts, request, members."""


class TestLargest:
    @pytest.mark.parametrize(("facts", "asks", "members"), HUGE)
    def test_amounts(self, facts: Json, asks: Json, members: int) -> None:
        nodes = [node(f"n{i}", f"r{i}", **facts) for i in range(2)]
        round = snapshot(nodes, [gang("a", members, request=asks), gang("b", members, request=asks, required="rack")])
        answer = solve(round)
        assert check(round, answer).ok
        problem = encode(round)
        assert sorted(placed(answer)) == sorted(problem.gangs[j].name for j in optimum(problem)[0])

    def test_many_gangs_without_limits(self) -> None:
        """What a node doesn't limit never runs out, however much is taken."""
        pending = [gang(f"g{i}", 5_000, request={"memory_mib": 2**35 // 1000}) for i in range(6)]
        assert len(placed(solve(snapshot([node("n", "r")], pending)))) == 6

    @pytest.mark.parametrize(
        ("asks", "members"), [({"memory_mib": 10**10}, 55), ({"cpu_milli": 10**9}, 550), ({"memory_mib": 2**20}, 2**19)]
    )
    def test_what_would_pass_for_no_limit_is_refused(self, asks: Json, members: int) -> None:
        with pytest.raises(ValidationError, match=r"the gangs ask .* in all; the limit is 1099511627775"):
            snapshot([node("n", "r")], [gang("a", members, request=asks), gang("b", members, request=asks)])

    @pytest.mark.parametrize("levels", [1, 3, 16])
    def test_weights(self, levels: int) -> None:
        """The weights' limit on every level, gangs by the dozen across the whole tree."""
        weighty = [{"name": f"l{i}", "weight": 1_000_000} for i in range(levels)]
        nodes = [node(f"n{i:02d}", *(f"d{i}" for _ in range(levels)), used={"gpus": i % 4}) for i in range(12)]
        pending = [gang(f"g{i:02d}", 4, 2 + i % 3) for i in range(8)]
        round = snapshot(nodes, pending, topology={"levels": weighty, "node_weight": 1_000_000})
        answer = solve(with_policy(round, time_limit_s=1, deterministic=False))
        assert check(round, answer).ok
        assert vector(answer) <= greedy(round)

    def test_all_weights_zero(self) -> None:
        topology = {"levels": [{"name": "rack", "weight": 0}], "node_weight": 0}
        answer = solve(snapshot(racks((8, 4), (8,)), [gang("a", 2, 8)], topology=topology))
        assert answer.status == "optimal"
        assert vector(answer)[2] == 0

    def test_a_gang_larger_than_the_cluster(self) -> None:
        answer = solve(snapshot(racks((8, 8)), [gang("g", 1_000_000, 4_096)]))
        assert answer.blocked[0].reason == "capacity"


def replace_run(monkeypatch: pytest.MonkeyPatch, substitute: Callable[..., Outcome]) -> None:
    """Put something else in the place of CP-SAT, wherever it is called."""
    run = engine.run
    for name, module in list(sys.modules.items()):
        if name.startswith("gangfit.solver") and getattr(module, "run", None) is run:
            monkeypatch.setattr(module, "run", substitute)


def fail(message: str) -> Callable[..., Outcome]:
    def run(*_: object, **__: object) -> Outcome:
        raise RuntimeError(message)

    return run


def says(status: str, bound: int | None = None) -> Callable[..., Outcome]:
    return lambda *_, **__: Outcome(status, None, bound)  # type: ignore[arg-type]


SEEDS = range(20)


def hurried(seed: int) -> Snapshot:
    """Other searches than CP-SAT's may use all the time there is."""
    return with_policy(contended(seed), time_limit_s=0.5)


class TestSearchGoesWrong:
    """A search that gives up, lies or dies costs proofs, never a gang that greedy has placed."""

    @pytest.mark.parametrize(
        "substitute",
        [
            pytest.param(says("unknown"), id="unknown"),
            pytest.param(says("unknown", 0), id="unknown-bound"),
            pytest.param(says("unknown", -(10**12)), id="unknown-low-bound"),
            pytest.param(says("infeasible"), id="infeasible"),
            pytest.param(fail("out of memory"), id="raises"),
        ],
    )
    def test_never_below_greedy(self, monkeypatch: pytest.MonkeyPatch, substitute: Callable[..., Outcome]) -> None:
        wanted = [greedy(contended(seed)) for seed in SEEDS]
        replace_run(monkeypatch, substitute)
        for seed in SEEDS:
            answer = solve(hurried(seed))
            assert check(contended(seed), answer).ok
            assert vector(answer) <= wanted[seed]

    @pytest.mark.parametrize("bound", [None, 0])
    def test_a_wrong_no_proves_nothing(self, monkeypatch: pytest.MonkeyPatch, bound: int | None) -> None:
        """Every model called infeasible, the plan at hand included: no tier's bound rests on that."""
        honest = [solve(contended(seed)) for seed in SEEDS]
        replace_run(monkeypatch, says("infeasible", bound))
        compared = 0
        for seed in SEEDS:
            lied = solve(hurried(seed))
            if admissions(lied) != admissions(honest[seed]):
                continue
            for tier, best in zip(lied.tiers[1:], honest[seed].tiers[1:], strict=True):
                compared += 1
                assert tier.bound <= best.value, (seed, tier, best)
                if tier.value != best.value:  # later bounds hold among plans equal on this tier
                    break
        assert compared > 30

    def test_dead_search_says_so(self, monkeypatch: pytest.MonkeyPatch) -> None:
        replace_run(monkeypatch, fail("out of memory"))
        answer = solve(snapshot(racks((8,), (4, 4)), [gang("a", 2, 4, priority=1), gang("b")]))
        assert answer.status == "feasible"
        assert any("out of memory" in warning for warning in answer.warnings)
        assert answer.blocked[0].reason == "undecided"

    def test_search_that_dies_half_way(self, monkeypatch: pytest.MonkeyPatch) -> None:
        run, calls = engine.run, [0]

        def sometimes(*given: object, **named: object) -> Outcome:
            calls[0] += 1
            if calls[0] % 2:
                return run(*given, **named)  # type: ignore[arg-type]
            raise RuntimeError("out of memory")

        wanted = [greedy(contended(seed)) for seed in SEEDS]
        replace_run(monkeypatch, sometimes)
        for seed in SEEDS:
            assert vector(solve(hurried(seed))) <= wanted[seed]
        assert calls[0] > 10
