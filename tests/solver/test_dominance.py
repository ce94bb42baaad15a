"""Refusals that spare a question: of gangs that ask as much as a refused one, and by weights. Each is a proof."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import pytest
from brute_force import Round
from hand_made import gang, node, placed, racks, running, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st
from random_rounds import random_round

from gangfit.models import Snapshot
from gangfit.solver import admission, oracle, scales, solve
from gangfit.solver.bounds import intact_by_weight
from gangfit.solver.dominance import Dominance
from gangfit.solver.engine import Budget
from gangfit.solver.oracle import Answer
from gangfit.solver.problem import Problem, encode
from gangfit.solver.scales import Patterns, heaviest

TINY = st.builds(
    random_round, st.integers(0, 10**9), nodes=st.just(4), gangs=st.just(4), members=st.just(3), crowded=st.just(True)
)
ROUNDS = st.builds(
    random_round, st.integers(0, 10**9), nodes=st.just(12), gangs=st.just(9), members=st.just(5), crowded=st.just(True)
)


def subsets(names: tuple[str, ...]) -> list[tuple[str, ...]]:
    return [chosen for size in range(len(names) + 1) for chosen in itertools.combinations(names, size)]


def covers(round: Snapshot, refused: str, other: str) -> bool:
    """Whether the refusal of one gang refuses another."""
    problem = encode(round)
    number = {waiting.name: j for j, waiting in enumerate(problem.gangs)}
    dominance = Dominance(problem)
    dominance.add(number[refused], "search")
    return dominance.cover(number[other]) is not None


class TestRemembered:
    @settings(max_examples=100, deadline=None)
    @given(round=TINY)
    def test_who_is_covered_never_fits(self, round: Snapshot) -> None:
        """Beside whatever gangs the first has no room, the second has none either."""
        problem, brute = encode(round), Round(round)
        names = tuple(waiting.name for waiting in problem.gangs)
        dominance = {name: Dominance(problem) for name in names}
        for j, name in enumerate(names):
            dominance[name].add(j, "bound")
        for first, (j, second) in itertools.product(names, enumerate(names)):
            if first == second or not dominance[first].cover(j):
                continue
            for beside in subsets(tuple(name for name in names if name not in (first, second))):
                if not any(True for _ in brute.plans((*beside, first), brute.free)):
                    assert not any(True for _ in brute.plans((*beside, second), brute.free)), (first, second)

    @pytest.mark.parametrize(
        ("facts", "covered"),
        [
            ({}, True),
            ({"members": 3}, True),
            ({"members": 1}, False),
            ({"gpus": 5}, True),
            ({"gpus": 3}, False),
            ({"request": {"gpus": 4, "cpu_milli": 9}}, False),
            ({"request": {"gpus": 4, "cpu_milli": 11}}, True),
            ({"request": {"gpus": 5, "cpu_milli": 9}}, False),
            ({"required": "spine"}, False),
            ({"required": "node"}, True),
            ({"tolerations": [{"key": "spot", "operator": "Exists"}]}, False),
            ({"selector": {"pool": "a"}}, True),
            ({"selector": {"pool": "b"}}, True),
            ({"gpu_model": "H100"}, True),
        ],
    )
    def test_by_hand(self, facts: dict[str, Any], covered: bool) -> None:
        """Beside a refused gang of 2 × (4 GPUs, 10 CPU) in one rack."""
        nodes = [
            node("a", "s", "r", labels={"pool": "a"}, gpu_model="H100"),
            node("b", "s", "r", labels={"pool": "b"}),
            node("c", "s", "r", taints=[{"key": "spot"}]),
        ]
        facts = {"members": 2, "request": {"gpus": facts.pop("gpus", 4), "cpu_milli": 10}, "required": "rack"} | facts
        old = gang("old", 2, request={"gpus": 4, "cpu_milli": 10}, required="rack", priority=1)
        round = snapshot(nodes, [old, gang("new", **facts)], levels="spine rack")
        assert covers(round, "old", "new") is covered

    def test_a_selector_covers_no_other(self) -> None:
        nodes = [node(name, "r", labels={"pool": name}) for name in ("a", "b")]
        pending = [gang("old", selector={"pool": "a"}), gang("new", selector={"pool": "b"}), gang("any")]
        round = snapshot(nodes, pending)
        assert not covers(round, "old", "new")
        assert not covers(round, "old", "any")
        assert covers(round, "any", "new")

    def test_one_node_may_lie_in_a_rack_that_nobody_knows(self) -> None:
        nodes = [node("in", "r", gpus=4), node("out", None)]
        pending = [gang("rack", 2, 4, required="rack", priority=1), gang("node", 2, 4, required="node")]
        round = snapshot(nodes, pending)
        assert not covers(round, "rack", "node")
        assert list(placed(solve(round))) == ["node"]

    def test_the_least_are_kept(self) -> None:
        """A refusal of less takes the place of one of more."""
        pending = [gang("big", 3, priority=3), gang("least", 1, priority=2), gang("other", 2, priority=1)]
        dominance = Dominance(encode(snapshot(racks((8,)), pending)))
        for j in range(2):
            dominance.add(j, "search" if j else "bound")
        assert dominance.cover(2) == "search"
        assert dominance.cover(0) == "search"


TENANTS = [{"name": "x"}, {"name": "y"}]


def pair(name: str, **facts: Any) -> dict[str, Any]:
    """A gang of two whole nodes in one rack: two racks of three nodes hold two of them."""
    return gang(name, 2, required="rack", **facts)


class TestSparesQuestions:
    def test_equal_gangs_are_asked_about_once(self, monkeypatch: pytest.MonkeyPatch) -> None:
        asked: list[int] = []
        fits = oracle.fits

        def counted(problem: Problem, gangs: Sequence[int], budget: Budget | None) -> Answer:
            asked.append(gangs[-1])
            return fits(problem, gangs, budget)

        monkeypatch.setattr(admission, "fits", counted)
        first = [pair("a", priority=9), pair("b", priority=9), pair("c", priority=8)]
        later = [*(pair(f"g{i}") for i in range(5)), gang("small", priority=-1)]
        policy = {"order": "priority"}
        answer = solve(snapshot(racks((8, 8, 8), (8, 8, 8)), [*first, *later], policy=policy))
        assert asked == [2]
        assert list(placed(answer)) == ["a", "b", "small"]
        assert {step.decided_by for step in answer.considered[2:8]} == {"search"}
        assert answer.tiers[0].proof == "search"

    def test_out_of_time_is_no_refusal(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(oracle, "MODEL_LIMIT", 1)
        answer = solve(snapshot(racks((8, 8, 8), (8, 8, 8)), [pair(name) for name in "abcd"]))
        assert [step.decided_by for step in answer.considered] == ["greedy", "greedy", "limit", "limit"]

    def test_room_that_victims_leave_is_new(self) -> None:
        """c has no room in free space; then three takes a whole gang of its own tenant, five nodes, and d, equal to c,
        starts on the two that are left over. c isn't asked again before the end."""
        nodes = [*racks((8, 8, 8), (8, 8, 8)), *(node(f"v{i}", "r2") for i in range(5))]
        first = [pair(name, tenant="x", priority=9) for name in "abc"]
        three = gang("three", 3, required="rack", tenant="y", priority=8)
        old = [running("old", {f"v{i}": 1 for i in range(5)}, priority=0, preemptible=True, tenant="y")]
        policy = {"order": "priority", "preemption": {"within": "priority", "across": "never"}}
        answer = solve(
            snapshot(nodes, [*first, three, pair("d", tenant="x", priority=7)], old, policy=policy, tenants=TENANTS)
        )
        assert [preempted.gang for preempted in answer.preemptions] == ["old"]
        assert [(step.gang, step.admitted) for step in answer.considered] == [
            ("a", True), ("b", True), ("c", False), ("three", True), ("d", True),
        ]  # fmt: skip

    def test_asked_again_at_the_end(self) -> None:
        """The same without d: what victims leave goes to c, refused before, when it is asked again."""
        nodes = [*racks((8, 8, 8), (8, 8, 8)), *(node(f"v{i}", "r2") for i in range(5))]
        first = [pair(name, tenant="x", priority=9) for name in "abc"]
        three = gang("three", 3, required="rack", tenant="y", priority=8)
        old = [running("old", {f"v{i}": 1 for i in range(5)}, priority=0, preemptible=True, tenant="y")]
        policy = {"order": "priority", "preemption": {"within": "priority", "across": "never"}}
        answer = solve(snapshot(nodes, [*first, three], old, policy=policy, tenants=TENANTS))
        assert [(step.gang, step.admitted) for step in answer.considered] == [
            ("a", True), ("b", True), ("c", False), ("three", True), ("c", True),
        ]  # fmt: skip

    def test_the_snapshot_decides_anew(self) -> None:
        """A second round with one more rack remembers nothing."""
        gangs = [pair(name) for name in "abcd"]
        assert list(placed(solve(snapshot(racks((8, 8, 8), (8, 8, 8)), gangs)))) == ["a", "b"]
        assert list(placed(solve(snapshot(racks((8, 8, 8), (8, 8, 8), (8, 8)), gangs)))) == ["a", "b", "c"]


class TestWeights:
    @settings(max_examples=60, deadline=None)
    @given(round=TINY)
    def test_never_refuses_what_fits(self, round: Snapshot) -> None:
        problem, brute = encode(round), Round(round)
        names = [waiting.name for waiting in problem.gangs]
        for chosen in subsets(tuple(names)):
            if chosen and Patterns(problem, [names.index(name) for name in chosen]).full() is not None:
                assert not any(True for _ in brute.plans(chosen, brute.free)), chosen

    @settings(max_examples=40, deadline=None)
    @given(round=TINY)
    def test_intact_domains_below_every_plan(self, round: Snapshot) -> None:
        problem, brute = encode(round), Round(round)
        names = [waiting.name for waiting in problem.gangs]
        levels = range(len(problem.tree.levels))
        for chosen in subsets(tuple(names)):
            bounds = [intact_by_weight(problem, [names.index(name) for name in chosen], level) for level in levels]
            for plan in itertools.islice(brute.plans(chosen, brute.free), 200):
                values = brute.tiers(plan)[3:]
                assert all(low <= value for low, value in zip(bounds, values, strict=True)), (chosen, plan)

    @settings(max_examples=40, deadline=None)
    @given(round=ROUNDS)
    def test_says_nothing_else_than_search(self, round: Snapshot) -> None:
        """A set of gangs that CP-SAT places is refused by no scale."""
        problem = encode(round)
        starts = placed(solve(round))
        chosen = [j for j, waiting in enumerate(problem.gangs) if waiting.name in starts]
        for size in range(1, len(chosen) + 1):
            assert Patterns(problem, chosen[:size]).full() is None

    def test_two_reasons_not_to_share_a_node(self) -> None:
        """docs/model.md: one gang takes a node's memory, the other its GPUs; by each resource alone all would fit."""
        nodes = [node(f"n{i}", "r", gpus=4, memory_mib=100) for i in range(3)]
        pending = [
            gang("gpus", 2, request={"gpus": 4, "memory_mib": 10}, priority=1),
            gang("memory", 2, request={"gpus": 1, "memory_mib": 95}),
        ]
        answer = solve(snapshot(nodes, pending))
        assert [(step.gang, step.decided_by) for step in answer.considered] == [("gpus", "greedy"), ("memory", "bound")]
        assert answer.status == "optimal"

    def test_intact_nodes_by_hand(self) -> None:
        """The same on three nodes: each gang breaks one of its own."""
        nodes = [node(f"n{i}", "r", gpus=4, memory_mib=100) for i in range(3)]
        pending = [
            gang("gpus", 2, request={"gpus": 4, "memory_mib": 10}, priority=1),
            gang("memory", 1, request={"gpus": 1, "memory_mib": 95}),
        ]
        assert intact_by_weight(encode(snapshot(nodes, pending)), [0, 1], 1) == 3


AMOUNTS = st.integers(0, 9)
KNAPSACKS = st.integers(1, 4).flatmap(
    lambda shapes: st.tuples(
        st.lists(AMOUNTS, min_size=shapes, max_size=shapes),
        st.lists(st.lists(st.integers(0, 4), min_size=2, max_size=2), min_size=shapes, max_size=shapes),
        st.lists(st.integers(0, 3), min_size=shapes, max_size=shapes),
        st.lists(AMOUNTS, min_size=2, max_size=2),
    )
)


class TestHeaviest:
    @settings(max_examples=400, deadline=None)
    @given(sack=KNAPSACKS)
    def test_equals_brute_force(self, sack: tuple[list[int], list[list[int]], list[int], list[int]]) -> None:
        weight, asks, caps, free = sack

        def fits(mix: tuple[int, ...]) -> bool:
            return all(sum(c * ask[r] for c, ask in zip(mix, asks, strict=True)) <= free[r] for r in range(2))

        mixes = [mix for mix in itertools.product(*(range(cap + 1) for cap in caps)) if fits(mix)]
        best, found = heaviest(weight, asks, caps, free)
        assert best == max(sum(c * w for c, w in zip(mix, weight, strict=True)) for mix in mixes)
        assert fits(tuple(found))
        assert sum(c * w for c, w in zip(found, weight, strict=True)) == best

    @settings(max_examples=200, deadline=None)
    @given(sack=KNAPSACKS)
    def test_cut_short_it_is_a_bound(self, sack: tuple[list[int], list[list[int]], list[int], list[int]]) -> None:
        exact, _ = heaviest(*sack)
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(scales, "STEPS", 2)
            assert heaviest(*sack)[0] >= exact
