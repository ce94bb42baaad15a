"""`policy.tolerance`: what is traded, exactly, against every plan and every set of victims; and what never is."""

from __future__ import annotations

import random

import pytest
from brute_force import Round
from hand_made import PLACEMENT_ONLY, Json, gang, node, running, snapshot
from random_rounds import contested_round

from gangfit.models import Plan, Snapshot
from gangfit.solver import check, solve

BLOCK = 40
DISTANCE, UPLINKS = 1, 2


def tolerant(round: Snapshot, tolerance: float) -> Snapshot:
    """The same round with a tolerance."""
    return round.model_copy(update={"policy": round.policy.model_copy(update={"tolerance": tolerance})})


def allowed(tolerance: float, value: int) -> int:
    """What a value may grow to. Tolerances of these rounds are exact in binary."""
    return value + int(tolerance * value)


class Expected:
    """What a tolerance makes of a tiny round, one by one."""

    def __init__(self, round: Snapshot) -> None:
        self.exact, self.tolerance = Round(round), round.policy.tolerance
        self.considered, self.admitted, self.takers = self.exact.admission()
        exact = self.exact
        lawful = [v for v in exact.victim_sets() if exact.lawful(self.admitted, self.takers, v)]
        cheapest = min(exact.cost(v) for v in lawful if exact.affordable(v))
        self.lost, self.broken, self.sets = self.losses(lawful, *cheapest)
        self.given = sum(self.lost) - sum(cheapest[0])
        self.plans = [exact.tiers(plan, v) for v in self.sets for plan in exact.whole(self.admitted, v)]
        best = min(self.plans)
        self.later = self.distances(best)
        self.further = self.later[DISTANCE] - best[DISTANCE]

    def losses(
        self, lawful: list[frozenset[str]], lost: tuple[int, ...], broken: int
    ) -> tuple[tuple[int, ...], int, list[frozenset[str]]]:
        """Losses per priority, gangs broken, and the sets of victims that are worth that."""
        cost = self.exact.cost
        limits = list(lost)
        payer = max((i for i, value in enumerate(lost) if value), default=None)
        if payer is not None:
            limits[payer] = allowed(self.tolerance, lost[payer])
        within = [v for v in lawful if all(a <= b for a, b in zip(cost(v)[0], limits, strict=True))]
        fewest = min(len(v) for v in within)
        if fewest < broken:
            lost, broken = min(cost(v) for v in within if len(v) == fewest)
        return lost, broken, [v for v in lawful if cost(v) == (lost, broken)]

    def distances(self, best: tuple[int, ...]) -> tuple[int, ...]:
        """The tiers after the victims'."""
        within = [p for p in self.plans if p[:DISTANCE] <= best[:DISTANCE]]
        within = [p for p in within if p[DISTANCE] <= allowed(self.tolerance, best[DISTANCE])]
        fewest = min(p[UPLINKS] for p in within)
        if fewest >= best[UPLINKS]:
            return best
        return min(p for p in within if p[UPLINKS] == fewest)

    @property
    def room_for_more(self) -> bool:
        """Whether someone refused would fit beside traded victims, too."""
        refused = [name for name in self.considered if name not in self.admitted]
        return any(self.exact.fits((*self.admitted, name), v) for name in refused for v in self.sets)


def values(plan: Plan, exact: Round) -> tuple[int, ...]:
    """Losses per priority, gangs broken, the later tiers; fails unless proven and clean."""
    assert plan.status == "optimal", plan.tiers
    tiers = {tier.name: tier.value for tier in plan.tiers[1:]}
    return (*(tiers.pop(f"lost.p{priority}", 0) for priority in exact.priorities), *tiers.values())


def agree(round: Snapshot, seed: int) -> tuple[int, int]:
    """GPU-seconds and distance given."""
    expected = Expected(round)
    if expected.given and expected.room_for_more:
        return 0, 0
    plan = solve(round)
    assert check(round, plan).ok
    assert {p.gang for p in plan.placements} == set(expected.admitted)
    assert values(plan, expected.exact) == (*expected.lost, expected.broken, *expected.later), seed
    traded = {tier.name: tier.traded for tier in plan.tiers if tier.traded}
    assert traded.pop("distance", 0) == expected.further, seed
    assert sum(traded.values()) == expected.given, seed
    return expected.given, expected.further


def losing(seed: int) -> Snapshot:
    """Full nodes, and on each of them another number of gangs that lose about as much together."""
    rng = random.Random(seed)
    names = [f"n{n}" for n in range(rng.randint(2, 4))]
    holders = []
    for name in names:
        for part in rng.choice([[4], [2, 2], [2, 1, 1], [1, 1, 1, 1], [3, 1]]):
            facts: Json = {"restart_s": rng.randint(10, 20), "priority": rng.choice([0, 0, 0, 1])}
            holders.append(running(f"r{len(holders)}", {name: 1}, part, **facts))
    pending = [gang(f"g{j}", rng.randint(1, 2), rng.choice([1, 2, 3, 4]), priority=2) for j in range(rng.randint(1, 3))]
    return snapshot([node(name, gpus=4) for name in names], pending, holders, levels="")


def sharing(seed: int) -> Snapshot:
    """Racks of one node in two spines; gangs that fill most of a rack and look for a place for the rest."""
    rng = random.Random(seed)
    racks = [(0, 4), (0, 4), (0, rng.choice([1, 2, 3])), *((1, rng.choice([1, 2])) for _ in range(rng.randint(1, 2)))]
    nodes = [node(f"n{n}", f"s{spine}", f"r{n}", gpus=gpus) for n, (spine, gpus) in enumerate(racks)]
    levels = [{"name": "spine", "weight": rng.choice([1, 2])}, {"name": "rack", "weight": rng.choice([1, 2])}]
    pending = [gang(f"g{j}", rng.choice([2, 5, 5, 5, 6]), 1) for j in range(rng.randint(2, 3))]
    topology = {"levels": levels, "node_weight": 0}
    return snapshot(nodes, pending, topology=topology, policy=PLACEMENT_ONLY)


def traded_round() -> tuple[Snapshot, Json]:
    """A round whose plan trades GPU-seconds, and that plan."""
    round = tolerant(losing(next(s for s in range(BLOCK) if agree(tolerant(losing(s), 0.5), s)[0])), 0.5)
    return round, solve(round).model_dump(by_alias=True)


class TestExact:
    @pytest.mark.parametrize("tolerance", [0.5, 1.0, pytest.param(0.125, marks=pytest.mark.long)])
    def test_losses(self, tolerance: float) -> None:
        given = [agree(tolerant(losing(seed), tolerance), seed)[0] for seed in range(BLOCK)]
        assert sum(lost > 0 for lost in given) >= 2, given

    @pytest.mark.parametrize("tolerance", [0.5, 1.0, pytest.param(0.25, marks=pytest.mark.long)])
    def test_distance(self, tolerance: float) -> None:
        given = [agree(tolerant(sharing(seed), tolerance), seed)[1] for seed in range(BLOCK)]
        assert sum(further > 0 for further in given) >= 2, given

    def test_contested(self) -> None:
        for seed in range(BLOCK):
            agree(tolerant(contested_round(seed, running=9, pending=6), 0.5), seed)


class TestByHand:
    """The example of docs/model.md: two gangs that lose 100 each against one that loses 208."""

    holders = (
        running("a1", {"a": 1}, 4, restart_s=25), running("a2", {"a": 1}, 4, restart_s=25),
        running("b1", {"b": 1}, 8, restart_s=26),
    )  # fmt: skip

    def answer(self, tolerance: float) -> Plan:
        nodes = [node("a"), node("b")]
        holders = [dict(holder) for holder in self.holders]
        return solve(
            snapshot(nodes, [gang("g", priority=1)], holders, levels="", policy={"tolerance": tolerance}, time_s=0)
        )

    @pytest.mark.parametrize(
        ("tolerance", "victims", "lost"),
        [
            (0.0, {"a1", "a2"}, (200, 0)),
            (0.039, {"a1", "a2"}, (200, 0)),
            (0.04, {"b1"}, (208, 8)),
            (1.0, {"b1"}, (208, 8)),
        ],
    )  # fmt: skip
    def test_fewer_gangs_for_more_seconds(self, tolerance: float, victims: set[str], lost: tuple[int, int]) -> None:
        plan = self.answer(tolerance)
        assert {entry.gang for entry in plan.preemptions} == victims
        tier = plan.tiers[1]
        assert (tier.name, tier.value, tier.traded, tier.bound, tier.gap) == ("lost.p0", *lost, 200, 0.0)
        assert (plan.tiers[2].value, plan.tiers[2].bound) == (len(victims), len(victims))
        assert plan.status == "optimal"

    def test_a_higher_priority_pays_for_nobody(self) -> None:
        """Sparing one gang of priority 0 would cost priority 1 four GPU-seconds more: no tolerance allows that."""
        nodes = [node("a"), node("b")]
        holders = [
            running("a1", {"a": 1}, 4, restart_s=25, priority=1), running("a2", {"a": 1}, 4, restart_s=25),
            running("b1", {"b": 1}, 8, restart_s=13, priority=1),
        ]  # fmt: skip
        plan = solve(snapshot(nodes, [gang("g", priority=2)], holders, levels="", policy={"tolerance": 1.0}))
        assert {entry.gang for entry in plan.preemptions} == {"a1", "a2"}

    def test_fewer_uplinks_for_more_distance(self) -> None:
        """The last members of both gangs fit one rack, and share its uplink; or one goes to the other spine."""
        nodes = [node(f"n{n}", f"s{n // 3}", f"r{n}", gpus=gpus) for n, gpus in enumerate([4, 4, 2, 1])]
        levels = {"levels": [{"name": "spine", "weight": 1}, {"name": "rack", "weight": 2}], "node_weight": 0}
        for tolerance, distance, uplinks in ((0.0, 4, 1), (0.24, 4, 1), (0.25, 5, 0)):
            policy = {**PLACEMENT_ONLY, "tolerance": tolerance}
            plan = solve(snapshot(nodes, [gang("a", 5, 1), gang("b", 5, 1)], topology=levels, policy=policy))
            tiers = {tier.name: tier for tier in plan.tiers}
            assert (tiers["distance"].value, tiers["uplinks"].value) == (distance, uplinks)
            assert (tiers["distance"].traded, tiers["distance"].bound) == (distance - 4, 4)
            assert plan.status == "optimal"

    def test_nothing_is_traded_without_time(self) -> None:
        round, plan = traded_round()
        assert any(tier["traded"] for tier in plan["tiers"])
        assert not any(tier.traded for tier in solve(round, search=False).tiers)


class TestChecker:
    @pytest.mark.parametrize(
        ("tier", "change"),
        [("lost", {"traded": -1}), ("lost", {"traded": 10**6}), ("broken", {"traded": 1}), ("lost", {"traded": 0})],
    )
    def test_flags_a_wrong_trade(self, tier: str, change: Json) -> None:
        round, plan = traded_round()
        assert check(round, Plan.model_validate(plan)).ok
        entry = [entry for entry in plan["tiers"] if entry["name"].startswith(tier)][-1]
        entry |= change
        report = check(round, Plan.model_validate(plan))
        assert {violation.rule for violation in report.violations} == {"claims"}

    def test_flags_more_than_is_allowed(self) -> None:
        round, plan = traded_round()
        report = check(tolerant(round, 0.001), Plan.model_validate(plan))
        assert any("from 0 to 0 is what policy.tolerance allows" in v.message for v in report.violations)
