"""Certificates without search: what they claim is true on every plan of tiny rounds, and tight where it should be."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from brute_force import Round
from hand_made import gang, node, racks, running, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st
from random_rounds import random_round

from gangfit.models import Snapshot
from gangfit.solver import solve
from gangfit.solver.bounds import fewest_domains, tier_bounds
from gangfit.solver.problem import encode
from gangfit.solver.space import Alone

TINY = st.builds(
    random_round, st.integers(0, 10**9), nodes=st.just(5), gangs=st.just(3), members=st.just(4), crowded=st.booleans()
)
RULES = ("", "required_level", "node_selector", "node_taints", "gpu_model")


def without(snapshot: Snapshot, rule: str) -> Snapshot:
    """The round with one rule taken out of its input."""
    fields = {
        "": {},
        "required_level": {},
        "node_selector": {"selector": {}},
        "node_taints": {"tolerations": ({"operator": "Exists"},)},
        "gpu_model": {"gpu_model": None},
    }[rule]
    document = snapshot.model_dump()
    for waiting in document["pending"]:
        waiting.update(fields)
        if rule == "required_level":
            waiting["topology"]["required"] = None
    return Snapshot.model_validate(document)


class TestFitsAlone:
    @settings(max_examples=400, deadline=None)
    @given(round=TINY, rule=st.sampled_from(RULES))
    def test_exact(self, round: Snapshot, rule: str) -> None:
        problem = encode(round)
        brute = Round(without(round, rule))
        for j, waiting in enumerate(problem.gangs):
            assert Alone(problem).fits(j, ignoring=rule) is any(
                True for _ in brute.spreads(brute.pending[waiting.name], brute.free)
            )

    def test_ignoring_a_rule_leaves_node_state(self) -> None:
        problem = encode(snapshot([node("n", "r", state="down")], [gang("a", selector={"k": "v"})]))
        assert not any(Alone(problem).fits(0, ignoring=rule) for rule in RULES)


class TestFewestDomains:
    @settings(max_examples=400, deadline=None)
    @given(round=TINY)
    def test_exact_for_one_gang_alone(self, round: Snapshot) -> None:
        problem, brute = encode(round), Round(round)
        for j, waiting in enumerate(problem.gangs):
            spreads = list(brute.spreads(waiting, brute.free))
            if not spreads:
                continue
            fewest = fewest_domains(problem, j)
            for level, name in enumerate(problem.tree.levels):
                best = min(len({brute.domain(on, name) for on in spread}) for spread in spreads)
                # Below a required level the fewest may lie in different domains of it: a bound, no more.
                assert fewest[level] == best if problem.required[j] < 0 else fewest[level] <= best

    @pytest.mark.parametrize(("members", "fewest"), [(1, [1, 1]), (2, [1, 2]), (3, [2, 3]), (4, [3, 4])])
    def test_by_hand(self, members: int, fewest: list[int]) -> None:
        assert fewest_domains(encode(snapshot(racks((8, 8), (8,), (8,)), [gang("a", members)])), 0) == fewest


class TestTierBounds:
    @settings(max_examples=400, deadline=None)
    @given(round=TINY)
    def test_below_every_plan(self, round: Snapshot) -> None:
        problem, brute = encode(round), Round(round)
        names = [waiting.name for waiting in problem.gangs]
        chosen = [c for size in range(len(names), -1, -1) for c in itertools.combinations(names, size)]
        plans = ((c, plan) for c in chosen for plan in brute.plans(c, brute.free))
        bounds: dict[tuple[str, ...], tuple[int, ...]] = {}
        for admitted, plan in itertools.islice(plans, 2000):
            if admitted not in bounds:
                bounds[admitted] = tier_bounds(problem, [names.index(name) for name in admitted])
            values = brute.tiers(plan)
            assert all(low <= value for low, value in zip(bounds[admitted], values, strict=True)), (plan, values)

    def test_distance_of_unlike_levels(self) -> None:
        """5 members of a node each: 2 racks of the 3, 5 nodes: 4 · 1 + 1 · 4."""
        problem = encode(snapshot(racks((8, 8, 8), (8, 8), (8,)), [gang("a", 5)]))
        assert tier_bounds(problem, [0])[:2] == (0, 8)

    def test_uplinks_of_running_gangs_are_there_anyway(self) -> None:
        old = [running(f"old{i}", {"r0n0": 1, "r1n0": 1}, 2) for i in range(3)]
        problem = encode(snapshot(racks((8,), (8,)), [], old))
        assert tier_bounds(problem, [])[2] == 4

    def test_intact_domains_that_have_to_go(self) -> None:
        """4 GPUs are free on the broken node; 20 asked leave 16 for intact ones: 2 nodes, 1 rack."""
        problem = encode(snapshot(racks((8, 8), (8, 4)), [gang("a", 5, 4)]))
        assert tier_bounds(problem, [0])[3:] == (1, 2)

    def test_nothing_admitted(self) -> None:
        assert tier_bounds(encode(snapshot(racks((8,)), [gang("a", 9)])), []) == (0, 0, 0, 0, 0)

    @pytest.mark.parametrize("asks", [{"memory_mib": 2**33}, {"cpu_milli": 10**9}])
    def test_amounts_without_limit(self, asks: dict[str, int]) -> None:
        """Nodes that limit nothing lose nothing to a count."""
        round = snapshot(racks((4, 4)), [gang("a", 2, request=asks)])
        assert tier_bounds(encode(round), [0]) == (0, 0, 0, 0, 0)
        assert solve(round).status == "optimal"


def test_bounds_close_easy_rounds_without_search() -> None:
    """A tenth of random rounds at least are proven by counting alone."""
    proven = [solve(random_round(seed), search=False).status == "optimal" for seed in range(100)]
    assert np.mean(proven) > 0.1
