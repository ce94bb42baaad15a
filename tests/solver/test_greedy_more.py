"""Best fit and lowest switch on rounds by hand; and the places where the descent takes a short cut."""

from __future__ import annotations

import random

import numpy as np
import pytest
from hand_made import Json, gang, node, plan, racks, snapshot
from hypothesis import event, given, settings
from hypothesis import strategies as st
from random_rounds import random_round

from gangfit.models import Snapshot
from gangfit.solver import check
from gangfit.solver.candidates import Candidates
from gangfit.solver.greedy import STRATEGIES
from gangfit.solver.greedy.descent import fewest, tightest
from gangfit.solver.greedy.site import Site
from gangfit.solver.greedy.strategies import PLACES, place_one
from gangfit.solver.kernels import kernel
from gangfit.solver.problem import Problem, encode
from gangfit.solver.space import Space


def places(strategy: str, round: Snapshot) -> dict[str, dict[str, int]]:
    """Gang → node → members, as the strategy has it; the checker has nothing against it."""
    problem = encode(round)
    placements = {
        problem.gangs[j].name: {
            problem.node_names[n]: c for n, c in zip(spread.nodes.tolist(), spread.counts.tolist(), strict=True)
        }
        for j, spread in STRATEGIES[strategy](problem).items()
    }
    report = check(round, plan(placements))
    assert report.ok, report.violations
    return placements


class TestBestFit:
    def test_of_nodes_the_one_with_least_room(self) -> None:
        assert places("best_fit", snapshot(racks((8, 4), (2, 8)), [gang("a", 1, 2)])) == {"a": {"r1n0": 1}}

    def test_the_tightest_rack(self) -> None:
        round = snapshot(racks((8, 8, 8), (8, 8), (8, 8, 8)), [gang("a", 2)])
        assert set(places("best_fit", round)["a"]) == {"r1n0", "r1n1"}

    def test_a_spine_with_no_room_to_spare_before_a_roomier_rack(self) -> None:
        nodes = [node(f"s0{rack}", "s0", rack) for rack in "abc"]
        nodes += [node(f"s1{n}", "s1", "d") for n in range(4)]
        round = snapshot(nodes, [gang("g", 3)], levels="spine rack")
        assert set(places("best_fit", round)["g"]) == {"s0a", "s0b", "s0c"}
        assert {name[:2] for name in places("bottom_up", round)["g"]} == {"s1"}

    def test_of_equal_domains_the_finest(self) -> None:
        """Spine s1 holds four like its only rack does: the rack, whose boundary the gang doesn't cross."""
        nodes = [node(f"s0{n}", "s0", "ab"[n % 2]) for n in range(4)] + [node(f"s1{n}", "s1", "c") for n in range(4)]
        round = snapshot(nodes, [gang("g", 4)], levels="spine rack")
        assert {name[:2] for name in places("best_fit", round)["g"]} == {"s1"}

    def test_else_fewest_domains(self) -> None:
        round = snapshot(racks((8,), (8, 8), (8, 8, 8)), [gang("a", 5)])
        assert {name[:2] for name in places("best_fit", round)["a"]} == {"r1", "r2"}

    def test_stays_inside_the_required_level(self) -> None:
        nodes = [node(f"s0{rack}", "s0", rack) for rack in "abc"]
        nodes += [node(f"s1{n}", "s1", "d") for n in range(4)]
        round = snapshot(nodes, [gang("g", 3, required="rack")], levels="spine rack")
        assert {name[:2] for name in places("best_fit", round)["g"]} == {"s1"}


class TestLowestSwitch:
    def test_the_leaf_with_fewest_free_nodes(self) -> None:
        round = snapshot(racks((8, 8, 8), (8, 8), (8, 8, 8)), [gang("a", 2)])
        assert set(places("lowest_switch", round)["a"]) == {"r1n0", "r1n1"}

    def test_counts_nodes_not_room(self) -> None:
        """Two free nodes hold eight, three hold three: Slurm looks at nodes."""
        round = snapshot(racks((1, 1, 1), (4, 4)), [gang("a", 2, 1)])
        assert places("lowest_switch", round)["a"] == {"r1n0": 2}

    def test_nodes_of_a_leaf_in_order(self) -> None:
        assert places("lowest_switch", snapshot(racks((8, 4)), [gang("a", 1, 4)])) == {"a": {"r0n0": 1}}

    def test_a_lower_switch_before_a_higher_one(self) -> None:
        nodes = [node(f"s0{rack}", "s0", rack) for rack in "abc"]
        nodes += [node(f"s1{n}", "s1", "d") for n in range(9)]
        round = snapshot(nodes, [gang("g", 3)], levels="spine rack")
        assert {name[:2] for name in places("lowest_switch", round)["g"]} == {"s1"}

    def test_inside_a_switch_the_leaf_with_most_free_nodes_then_the_smallest_that_holds_the_rest(self) -> None:
        sizes = {"a": 2, "b": 4, "c": 1, "d": 3}
        nodes = [node(f"{rack}{n}", "s", rack) for rack, count in sizes.items() for n in range(count)]
        round = snapshot(nodes, [gang("g", 5)], levels="spine rack")
        assert set(places("lowest_switch", round)["g"]) == {"b0", "b1", "b2", "b3", "c0"}

    def test_over_all_leaves_if_no_switch_holds_it(self) -> None:
        round = snapshot(racks((8,), (8, 8), (8, 8, 8)), [gang("a", 5)])
        assert {name[:2] for name in places("lowest_switch", round)["a"]} == {"r1", "r2"}

    def test_without_levels_one_switch(self) -> None:
        round = snapshot([node("x"), node("y"), node("z")], [gang("a", 2)], levels="")
        assert set(places("lowest_switch", round)["a"]) == {"x", "y"}

    def test_required_node(self) -> None:
        round = snapshot(racks((4, 8)), [gang("a", 2, 4, required="node")])
        assert places("lowest_switch", round) == {"a": {"r0n1": 2}}

    def test_stays_inside_the_required_level(self) -> None:
        nodes = [node("x", "s0", "r0"), node("y", "s1", "r1"), node("z", "s1", "r2")]
        round = snapshot(nodes, [gang("a", 2, required="spine")], levels="spine rack")
        assert set(places("lowest_switch", round)["a"]) == {"y", "z"}


@settings(max_examples=300, deadline=None)
@given(
    racks_of=st.lists(st.lists(st.integers(0, 8), min_size=1, max_size=6), min_size=1, max_size=6),
    members=st.integers(1, 40),
)
def test_tightest_is_what_counting_every_domain_gives(racks_of: list[list[int]], members: int) -> None:
    """The lower bound spares counting, and changes nothing."""
    round = snapshot(racks(*map(tuple, racks_of)), [gang("a", members, 1)])
    problem = encode(round)
    space = Space(problem)
    view = space.view(0)
    rooms = view.sums[0]
    holding = [d for d in range(len(rooms)) if rooms[d] >= members]
    if holding:
        site = Site(problem, space, 0, members, -1, view)
        starts = problem.tree.starts[0]
        by_hand = min(holding, key=lambda d: (fewest(view.fits[starts[d] : starts[d + 1]], members), int(rooms[d]), d))
        assert tightest(site, 0, 0, rooms, members) == by_hand


ROUNDS = st.builds(random_round, st.integers(0, 10**9), nodes=st.just(24), gangs=st.just(8), members=st.just(8))


class TestCompiled:
    """The kernels are the rules in numpy, number for number."""

    @staticmethod
    def both(problem: Problem) -> tuple[Space, Space]:
        in_numpy, compiled = Space(problem), Space(problem)
        in_numpy.compiled, compiled.compiled = False, True
        return in_numpy, compiled

    @pytest.mark.parametrize("name", PLACES)
    @settings(max_examples=150, deadline=None)
    @given(round=ROUNDS)
    def test_places_are_the_same(self, name: str, round: Snapshot) -> None:
        problem = encode(round)
        in_numpy, compiled = self.both(problem)
        placed = 0
        for j in range(len(problem.gangs)):
            known, found = (place_one(problem, space, PLACES[name], j) for space in (in_numpy, compiled))
            if known is None:
                assert found is None
                continue
            assert found is not None
            placed += 1
            assert found.nodes.tolist() == known.nodes.tolist()
            assert found.counts.tolist() == known.counts.tolist()
            for space in (in_numpy, compiled):
                space.take(j, known)
        assert np.array_equal(in_numpy.free, compiled.free)
        event(f"{placed} placed")

    @settings(max_examples=150, deadline=None)
    @given(sizes=st.lists(st.integers(1, 60), min_size=1, max_size=6), seed=st.integers(0, 10**6))
    def test_places_of_gangs_over_many_domains_are_the_same(self, sizes: list[int], seed: int) -> None:
        """Three levels, holes of every size, gangs larger than spines."""
        rng = random.Random(seed)
        nodes = [
            node(
                f"n{i:02d}",
                f"z{i // 24}",
                f"s{i // 8}",
                f"r{i // rng.choice((2, 4))}",
                used={"gpus": rng.randint(0, 8)},
            )
            for i in range(48)
        ]
        pending = [gang(f"g{j}", size, rng.choice((1, 1, 2, 3))) for j, size in enumerate(sizes)]
        problem = encode(snapshot(nodes, pending, levels="zone spine rack"))
        for place in PLACES.values():
            for j in range(len(problem.gangs)):
                known, found = (place_one(problem, space, place, j) for space in self.both(problem))
                assert (known is None) == (found is None)
                if known is not None and found is not None:
                    assert dict(zip(known.nodes.tolist(), known.counts.tolist(), strict=True)) == dict(
                        zip(found.nodes.tolist(), found.counts.tolist(), strict=True)
                    )

    @settings(max_examples=100, deadline=None)
    @given(round=ROUNDS)
    def test_views_are_the_same(self, round: Snapshot) -> None:
        problem = encode(round)
        spaces = self.both(problem)
        for j, spread in STRATEGIES["best_fit"](problem).items():
            for space in spaces:
                space.take(j, spread)
            for k in range(j % 2, len(problem.gangs), 2):  # the others catch up over several takes
                one, other = (space.view(k) for space in spaces)
                assert np.array_equal(one.room, other.room)
                assert np.array_equal(one.whole, other.whole)


def rows_of_equal_gangs(rng: random.Random) -> Snapshot:
    """Two spines, gangs of three types in rows; often more than there is room for."""
    nodes = [
        node(
            f"n{i:02d}",
            f"{i // 8}",
            f"{i // rng.choice((2, 4))}",
            used={"gpus": rng.choice((0, 0, 0, rng.randint(1, 8)))},
        )
        for i in range(16)
    ]
    types: list[Json] = [{"members": rng.randint(1, 5), "gpus": rng.choice((1, 2, 3, 4, 8))} for _ in range(3)]
    for kind in types:
        kind |= rng.choice(({}, {}, {"required": "rack"}, {"required": "spine"}))
    rows = [rng.choice(types) for _ in range(rng.randint(1, 6)) for _ in range(rng.randint(1, 12))]
    return snapshot(nodes, [gang(f"g{j:02d}", **kind) for j, kind in enumerate(rows)], levels="spine rack")


class TestRows:
    """Equal gangs placed ahead end where they would have ended one by one."""

    @pytest.mark.parametrize("block", range(4))
    def test_plans_are_the_same(self, block: int, monkeypatch: pytest.MonkeyPatch) -> None:
        placed = refused = 0
        for seed in range(block * 100, block * 100 + 100):
            rng = random.Random(seed)
            problem = encode(rows_of_equal_gangs(rng))
            pair = []
            for compiled in (False, True):
                monkeypatch.setattr("gangfit.solver.space.at_hand", lambda compiled=compiled: compiled)
                pair.append(Candidates(problem))
            in_numpy, compiled_ones = pair
            for j in range(len(problem.gangs)):
                if rng.random() < 0.1:
                    continue  # passed over, as beyond its tenant's limit
                took = in_numpy.take(j)
                assert compiled_ones.take(j) == took
                placed, refused = placed + took, refused + (not took)
            known, found = in_numpy.plans(), compiled_ones.plans()
            for rule in PLACES:
                assert list(known[rule]) == list(found[rule])
                for j, spread in known[rule].items():
                    assert (spread.nodes == found[rule][j].nodes).all()
                    assert (spread.counts == found[rule][j].counts).all()
        assert placed > 500
        assert refused > 100
        # A second signature would be compiled in the middle of a solve.
        assert all(len(kernel("place", name).signatures) == 1 for name in ("place", "row", "take", "follow"))

    def test_what_is_ahead_is_given_back(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Two of the small gangs leave the large one a whole node; a third, only ahead, must not stand in its way."""
        monkeypatch.setattr("gangfit.solver.space.at_hand", lambda: True)
        pending = [gang("a", 1, 4), gang("b", 1, 4), gang("c", 1, 8)]
        problem = encode(snapshot(racks((8, 8)), pending))
        candidates = Candidates(problem)
        assert [candidates.take(j) for j in range(3)] == [True, True, True]


class TestViews:
    @settings(max_examples=100, deadline=None)
    @given(round=ROUNDS)
    def test_sums_follow_what_is_taken(self, round: Snapshot) -> None:
        problem = encode(round)
        space = Space(problem)
        for j in range(len(problem.gangs)):
            space.view(j)
        for j, spread in STRATEGIES["bottom_up"](problem).items():
            space.take(j, spread)
            for k in range(j % 2, len(problem.gangs), 2):  # the others catch up over several takes
                view, required = space.view(k), int(problem.required[k])
                known = problem.tree.known[required] if required >= 0 else True
                assert np.array_equal(view.fits, np.where(known, space.fits(k), 0))
                assert view.total == view.fits.sum()
                for level, sums in enumerate(view.sums):
                    assert np.array_equal(sums, problem.tree.sums(level, view.fits))
