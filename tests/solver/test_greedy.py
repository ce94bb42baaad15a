"""The greedy baselines: what each says it does, on rounds by hand; and that none ever breaks a rule."""

from __future__ import annotations

import numpy as np
import pytest
from hand_made import as_plan, gang, node, racks, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st
from random_rounds import random_round

from gangfit.models import Snapshot
from gangfit.solver import check
from gangfit.solver.assignment import Spread
from gangfit.solver.greedy import PLACES, STRATEGIES
from gangfit.solver.greedy.descent import fewest
from gangfit.solver.problem import encode
from gangfit.solver.space import Space, members_per_node

ROUNDS = st.builds(
    random_round, st.integers(0, 10**9), nodes=st.just(24), gangs=st.just(8), members=st.just(8), crowded=st.booleans()
)


def places(strategy: str, snapshot: Snapshot) -> dict[str, dict[str, int]]:
    """Gang → node → members, as the strategy has it; the checker has nothing against it."""
    problem = encode(snapshot)
    answer = as_plan(problem, STRATEGIES[strategy](problem))
    report = check(snapshot, answer)
    assert report.ok, report.violations
    return {placement.gang: placement.nodes() for placement in answer.placements}


class TestRackFirst:
    def test_first_rack_that_holds_the_whole_gang(self) -> None:
        assert places("rack_first", snapshot(racks((4,), (8, 8), (8,)), [gang("a")])) == {"a": {"r1n0": 1}}

    def test_nodes_of_a_rack_in_order_even_if_a_later_one_fits_better(self) -> None:
        assert places("rack_first", snapshot(racks((8, 4)), [gang("a", 1, 4)])) == {"a": {"r0n0": 1}}

    def test_else_the_roomiest_racks(self) -> None:
        round = snapshot(racks((8,), (8, 8), (8, 8, 8)), [gang("a", 5)])
        assert set(places("rack_first", round)["a"]) == {"r2n0", "r2n1", "r2n2", "r1n0", "r1n1"}

    def test_finest_named_level_is_the_rack(self) -> None:
        nodes = [node("x", "s0", "r0"), node("y", "s0", "r1"), node("z", "s1", "r2"), node("w", "s1", "r2")]
        assert set(places("rack_first", snapshot(nodes, [gang("a", 2)], levels="spine rack"))["a"]) == {"z", "w"}

    def test_without_levels_the_first_nodes(self) -> None:
        round = snapshot([node("x"), node("y"), node("z")], [gang("a", 2)], levels="")
        assert set(places("rack_first", round)["a"]) == {"x", "y"}

    def test_stays_inside_the_first_required_domain_with_room(self) -> None:
        nodes = [node("x", "s0", "r0"), node("y", "s1", "r1"), node("z", "s1", "r2")]
        round = snapshot(nodes, [gang("a", 2, required="spine")], levels="spine rack")
        assert set(places("rack_first", round)["a"]) == {"y", "z"}


class TestBottomUp:
    def test_one_node_if_one_holds_all(self) -> None:
        assert places("bottom_up", snapshot(racks((4, 4), (8,)), [gang("a", 2, 4)])) == {"a": {"r1n0": 2}}

    def test_lowest_level_best_fit(self) -> None:
        round = snapshot(racks((8, 8, 8), (8, 8), (8, 8, 8)), [gang("a", 2)])
        assert set(places("bottom_up", round)["a"]) == {"r1n0", "r1n1"}

    def test_broken_nodes_before_intact_ones(self) -> None:
        assert places("bottom_up", snapshot(racks((8, 4)), [gang("a", 1, 4)])) == {"a": {"r0n1": 1}}

    def test_fewest_children_inside(self) -> None:
        nodes = [node(f"{rack}{n}", "s", rack) for rack, count in (("a", 1), ("b", 3), ("c", 2)) for n in range(count)]
        round = snapshot(nodes, [gang("g", 5)], levels="spine rack")
        assert {name[0] for name in places("bottom_up", round)["g"]} == {"b", "c"}

    def test_takes_a_tight_spine_where_lexicographic_asks_for_fewest_racks(self) -> None:
        """Best fit looks at room alone: spine s0 is tighter, though its members sit in three racks."""
        nodes = [node(f"s0{rack}", "s0", rack) for rack in "abc"]
        nodes += [node(f"s1{rack}{n}", "s1", rack) for rack in "ab" for n in range(2)]
        round = snapshot(nodes, [gang("g", 3)], levels="spine rack")
        assert {name[:2] for name in places("bottom_up", round)["g"]} == {"s0"}
        assert {name[:2] for name in places("lexicographic", round)["g"]} == {"s1"}


class TestLexicographic:
    def test_fewest_domains_of_the_coarsest_level_first(self) -> None:
        """One spine with three racks, not two spines with a rack each."""
        nodes = [node(f"s0{rack}", "s0", rack) for rack in "abc"]
        nodes += [node(f"s{s}{n}", f"s{s}", "r") for s in (1, 2) for n in range(2)]
        round = snapshot(nodes, [gang("g", 3)], levels="spine rack")
        assert {name[:2] for name in places("lexicographic", round)["g"]} == {"s0"}

    def test_best_fit_among_equals(self) -> None:
        round = snapshot(racks((8, 8, 8), (8, 8)), [gang("a", 2)])
        assert set(places("lexicographic", round)["a"]) == {"r1n0", "r1n1"}

    def test_fewest_nodes_inside_the_required_domain(self) -> None:
        round = snapshot(racks((4, 4), (8, 8)), [gang("a", 2, 4, required="rack")])
        assert places("lexicographic", round) == {"a": {"r1n0": 2}}

    def test_required_node(self) -> None:
        assert places("lexicographic", snapshot(racks((8, 4)), [gang("a", 1, 4, required="node")])) == {
            "a": {"r0n1": 1}
        }


@pytest.mark.parametrize("strategy", STRATEGIES)
class TestEvery:
    def test_skips_what_has_no_room_and_goes_on(self, strategy: str) -> None:
        pending = [gang("a", 1, 8, priority=2), gang("b", 2, 8, priority=1), gang("c", 1, 8)]
        assert list(places(strategy, snapshot(racks((8, 8)), pending))) == ["a", "c"]

    def test_never_places_again_for_a_later_gang(self, strategy: str) -> None:
        """The gap that search closes: `a` takes the one node that `b` needs."""
        round = snapshot(racks((8,), (4, 4)), [gang("a", 2, 4, priority=1), gang("b")])
        assert list(places(strategy, round)) == ["a"]

    def test_nothing_pending(self, strategy: str) -> None:
        assert places(strategy, snapshot(racks((8,)), [])) == {}

    def test_nothing_known_of_the_required_level(self, strategy: str) -> None:
        assert places(strategy, snapshot([node("n", None)], [gang("a", required="rack")])) == {}

    @settings(max_examples=150, deadline=None)
    @given(round=ROUNDS)
    def test_keeps_every_rule(self, strategy: str, round: Snapshot) -> None:
        """Also `admission`: counting is exact for one gang, and room never grows, so what it skips fits nowhere."""
        places(strategy, round)

    @settings(max_examples=50, deadline=None)
    @given(round=ROUNDS)
    def test_same_answer_whatever_the_order_of_the_input(self, strategy: str, round: Snapshot) -> None:
        other = round.model_copy(update={"nodes": round.nodes[::-1], "pending": round.pending[::-1]})
        assert places(strategy, Snapshot.model_validate(other.model_dump())) == places(strategy, round)


def test_strategies_and_places_are_the_same_rules() -> None:
    assert sorted(STRATEGIES) == sorted(PLACES)


@given(st.lists(st.integers(0, 9), min_size=1, max_size=12), st.integers(1, 60))
def test_fewest(room: list[int], members: int) -> None:
    by_hand = next((k for k in range(1, len(room) + 1) if sum(sorted(room)[-k:]) >= members), len(room) + 1)
    assert fewest(np.array(room, dtype=np.int64), members) == by_hand


class TestSpace:
    @settings(max_examples=100, deadline=None)
    @given(round=ROUNDS, chooser=st.randoms(use_true_random=False))
    def test_fits_stays_equal_to_counting_afresh(self, round: Snapshot, chooser: object) -> None:
        problem = encode(round)
        space, taken = Space(problem), []
        for _ in range(20):
            for j in range(len(problem.gangs)):
                afresh = np.minimum(members_per_node(problem, space.free, j), problem.members[j])
                assert np.array_equal(space.fits(j), afresh)
            j = chooser.randrange(len(problem.gangs))  # type: ignore[attr-defined]
            hosts = np.flatnonzero(space.fits(j))
            if taken and chooser.random() < 0.3:  # type: ignore[attr-defined]
                space.take(*taken.pop(), sign=-1)
            elif len(hosts):
                chosen = hosts[:3]
                spread = Spread.of({int(n): 1 for n in chosen})
                space.take(j, spread)
                taken.append((j, spread))
        for entry in taken:
            space.take(*entry, sign=-1)
        assert np.array_equal(space.free, problem.free)

    def test_a_copy_is_independent(self) -> None:
        problem = encode(snapshot(racks((8, 8)), [gang("a")]))
        space = Space(problem)
        assert space.fits(0).tolist() == [1, 1]
        other = space.copy()
        other.take(0, Spread.of({0: 1}))
        assert space.fits(0).tolist() == [1, 1]
        assert other.fits(0).tolist() == [0, 1]
        assert Space.after(problem, {0: Spread.of({0: 1})}).fits(0).tolist() == [0, 1]
