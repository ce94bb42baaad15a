"""Whole domains emptied by the fewest moves, against every set of moves one by one."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import pytest
from brute_moves import MovingRound
from fragmented_rounds import fragmented_round
from hand_made import gang, node, running, snapshot

from gangfit.models import Defragmentation, Snapshot
from gangfit.solver import defragment, solve
from gangfit.solver.checker.defragmentation import check_defragmentation

BLOCK = 15


def fewest(round: Snapshot, level: str, wanted: int) -> tuple[int, int] | None:
    """(gangs, members) of the cheapest set of moves, or None."""
    exact = MovingRound(round)
    needing = {name for name, n in exact.nodes.items() if n.state == "ready" and n.gpus}
    domains = {exact.domain(name, level) for name in needing if exact.known(name, level)}
    inside = {d: {name for name in needing if exact.domain(name, level) == d} for d in domains}
    best = None
    for size in range(len(exact.eligible) + 1):
        for moved in combinations(exact.eligible, size):
            if any(exact.running[name].started_s >= round.time_s for name in moved):
                continue
            cost = size, sum(exact.running[name].members for name in moved)
            if best is not None and cost >= best:
                continue
            staying = {n for name, g in exact.running.items() if name not in moved for n in g.placement}
            clear = [
                d for d, names in inside.items()
                if not names & staying and not any(exact.nodes[name].used.gpus for name in names)
            ]  # fmt: skip
            space = exact.space(frozenset(moved))
            for chosen in combinations(clear, wanted):
                shut = set().union(*(inside[d] for d in chosen))
                left = {n: dict.fromkeys(free, 0) if n in shut else free for n, free in space.items()}
                if any(True for _ in exact.plans(tuple(moved), left)):
                    best = cost
                    break
    return best


def stated(answer: Defragmentation) -> tuple[int, int] | None:
    if answer.status == "impossible":
        return None
    assert answer.status == "optimal"
    return answer.tiers[0].value, answer.tiers[1].value


class TestExact:
    @pytest.mark.parametrize("block", range(2))
    def test_equals_brute_force(self, block: int) -> None:
        for seed in range(block * BLOCK, (block + 1) * BLOCK):
            round = fragmented_round(seed, nodes=4, running=5)
            for level in [*(one.name for one in round.topology.levels), "node"]:
                for wanted in (1, 2):
                    answer = defragment(round, level, wanted)
                    assert check_defragmentation(round, answer) == []
                    assert stated(answer) == fewest(round, level, wanted), (seed, level, wanted)

    @pytest.mark.long
    @pytest.mark.parametrize("block", range(10, 60))
    def test_long(self, block: int) -> None:
        self.test_equals_brute_force(block)


def racks(*held: dict[str, int], **facts: Any) -> Snapshot:
    """Three racks of two nodes of 8 GPUs; gangs `g0`, `g1`, … of 2 GPUs a member hold some."""
    nodes = [node(f"r{r}n{n}", f"r{r}") for r in range(3) for n in range(2)]
    gangs = [running(f"g{i}", on, 2, started_s=1_000, **facts) for i, on in enumerate(held)]
    return snapshot(nodes, [gang("waits", 9)], gangs, time_s=9_000)


class TestByHand:
    def test_one_gang_of_three_moves(self) -> None:
        """r0 holds two gangs, r1 one, r2 one of two members: emptying r1 is cheapest, two racks take r1 and r2."""
        round = racks({"r0n0": 1}, {"r0n1": 1}, {"r1n0": 1}, {"r2n0": 1, "r2n1": 1})
        one = defragment(round, "rack", 1)
        assert one.status == "optimal"
        assert one.domains == (("r1",),)
        assert [move.gang for move in one.moves] == ["g2"]
        assert all(move.for_gang is None for move in one.moves)
        two = defragment(round, "rack", 2)
        assert (stated(two), len(two.domains)) == ((2, 3), 2)

    def test_what_is_empty_counts(self) -> None:
        round = racks({"r0n0": 1}, {"r1n0": 1})
        assert defragment(round, "rack", 1).moves == ()
        assert defragment(round, "rack", 1).intact_before == 1

    def test_nobody_that_may_not_move(self) -> None:
        round = racks({"r0n0": 1}, {"r1n0": 1}, {"r2n0": 1}, preemptible=False)
        answer = defragment(round, "rack", 1)
        assert (answer.status, answer.candidates, answer.moves) == ("impossible", 0, ())
        assert defragment(round, "node", 3).status == "optimal"
        assert defragment(round, "node", 4).status == "impossible"

    def test_pending_gangs_and_the_policy_of_the_round_play_no_part(self) -> None:
        round = racks({"r0n0": 1}, {"r1n0": 1}, {"r2n0": 1})
        assert not solve(round).moves
        assert stated(defragment(round, "rack", 1)) == (1, 1)

    @pytest.mark.parametrize(
        ("level", "domains", "message"), [("row", 1, "unknown level 'row'"), ("rack", 0, "domains is 0")]
    )
    def test_a_wrong_request_is_refused(self, level: str, domains: int, message: str) -> None:
        with pytest.raises(ValueError, match=message):
            defragment(racks(), level, domains)

    @pytest.mark.parametrize("field", ["domains", "moves", "tiers", "transitions"])
    def test_the_checker_finds_what_is_wrong(self, field: str) -> None:
        round = racks({"r0n0": 1}, {"r0n1": 1}, {"r1n0": 1}, {"r2n0": 1, "r2n1": 1})
        answer = defragment(round, "rack", 1)
        wrong: dict[str, Any] = {
            "domains": (("r0",),),
            "moves": (),
            "tiers": (answer.tiers[0].model_copy(update={"value": 0}),),
            "transitions": answer.transitions[::-1],
        }
        assert check_defragmentation(round, answer.model_copy(update={field: wrong[field]}))
