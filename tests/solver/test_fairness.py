"""Fair shares: the paper's example, who is next, and what holds on every round."""

from __future__ import annotations

import random
from fractions import Fraction

import pytest
from brute_force import Round, total
from hand_made import Json, gang, node, placed, racks, running, snapshot
from random_rounds import contested_round

from gangfit.models import Plan, Snapshot
from gangfit.solver import apply, check, solve


def order(answer: Plan) -> list[str]:
    return [step.gang for step in answer.considered]


def shares(answer: Plan) -> dict[str, tuple[float, float]]:
    return {fair.tenant: (fair.share_before, fair.share_after) for fair in answer.fairness}


ASKS = {"A": {"cpu_milli": 1_000, "memory_mib": 4_096}, "B": {"cpu_milli": 3_000, "memory_mib": 1_024}}


class TestPaper:
    """Ghodsi et al., NSDI'11, §4.1: 9 CPU, 18 GB; A's tasks ask 1 CPU and 4 GB, B's 3 CPU and 1 GB."""

    round = snapshot(
        [node("n", "r", gpus=0, cpu_milli=9_000, memory_mib=18 * 1_024)],
        [gang(f"{t.lower()}{i}", request=ASKS[t], tenant=t) for t in ASKS for i in range(9)],
        tenants=[{"name": "A"}, {"name": "B"}],
    )

    def test_three_tasks_and_two(self) -> None:
        answer = solve(self.round)
        assert sorted(placed(answer)) == ["a0", "a1", "a2", "b0", "b1"]
        assert order(answer)[:5] == ["a0", "b0", "a1", "b1", "a2"]
        assert [step.share for step in answer.considered[:5]] == [0.0, 0.0, 2 / 9, 1 / 3, 4 / 9]
        assert shares(answer) == {"A": (0.0, 2 / 3), "B": (0.0, 2 / 3)}
        assert [fair.dominant_resource for fair in answer.fairness] == ["memory_mib", "cpu_milli"]


class TestWhoIsNext:
    @staticmethod
    def two(held: dict[str, int], **facts: Json) -> Plan:
        """32 GPUs; tenants x and y hold so many, and each has a gang of 8 waiting."""
        nodes = racks((8, 8, 8, 8))
        names = iter(entry["name"] for entry in nodes)
        old = [running(f"{t}-old{i}", {next(names): 1}, tenant=t) for t, gpus in held.items() for i in range(gpus // 8)]
        pending = [gang("x-new", tenant="x", submitted_s=1), gang("y-new", tenant="y", submitted_s=2)]
        return solve(snapshot(nodes, pending, old, tenants=[{"name": t, **facts.get(t, {})} for t in "xy"]))

    @pytest.mark.parametrize(
        ("held", "first"),
        [
            ({}, "x"),
            ({"x": 8}, "y"),
            ({"y": 8}, "x"),
            ({"x": 16}, "y"),
            ({"x": 8, "y": 8}, "x"),
            ({"x": 8, "y": 16}, "x"),
        ],
    )
    def test_the_one_that_holds_less(self, held: dict[str, int], first: str) -> None:
        answer = self.two(held)
        assert order(answer)[0] == f"{first}-new"
        before = {t: held.get(t, 0) / 32 for t in "xy"}
        assert {t: share for t, (share, _) in shares(answer).items()} == before
        assert {step.gang[0]: step.share for step in answer.considered} == before

    def test_weights_divide_the_share(self) -> None:
        assert order(self.two({"x": 8, "y": 16}, y={"weight": 3}))[0] == "y-new"
        assert order(self.two({"x": 8, "y": 16}, y={"weight": 2}))[0] == "x-new"

    def test_a_race_for_space_that_holds_one(self) -> None:
        """One node is left: it goes to whom it is due, and the other is told why not."""
        for held, winner in (({"x": 8, "y": 16}, "x"), ({"x": 16, "y": 8}, "y")):
            answer = self.two(held)
            loser = "y" if winner == "x" else "x"
            assert list(placed(answer)) == [f"{winner}-new"]
            assert [(blocked.gang, blocked.reason) for blocked in answer.blocked] == [(f"{loser}-new", "competing")]
            assert shares(answer)[winner] == (8 / 32, 16 / 32)
            assert not answer.preemptions

    def test_whoever_comes_in_between_waits_for_no_turn(self) -> None:
        """Progressive filling: turns alternate however the gangs were submitted."""
        pending = [gang(f"{t}{i}", 1, 1, tenant=t, submitted_s=(t == "y") * 100 + i) for t in "xy" for i in range(8)]
        answer = solve(snapshot(racks((8,)), pending, tenants=[{"name": "x"}, {"name": "y"}]))
        assert order(answer)[:8] == ["x0", "y0", "x1", "y1", "x2", "y2", "x3", "y3"]
        assert {t: after for t, (_, after) in shares(answer).items()} == {"x": 0.5, "y": 0.5}


class TestSharingIncentive:
    """Work in small pieces: a tenant with enough of it gets at least its part of the cluster, weights and all."""

    @pytest.mark.parametrize("weights", [(1, 1), (1, 3), (1, 1, 2), (2, 3, 5), (1, 1, 1, 1, 1)])
    def test_everybody_gets_his_part(self, weights: tuple[int, ...]) -> None:
        gpus = 4 * sum(weights)
        nodes = [node(f"n{i}", "r", gpus=4) for i in range(sum(weights))]
        tenants = [{"name": f"t{i}", "weight": weight} for i, weight in enumerate(weights)]
        pending = [gang(f"t{i}-{j:03}", 1, 1, tenant=f"t{i}") for i in range(len(weights)) for j in range(gpus)]
        answer = solve(snapshot(nodes, pending, tenants=tenants))
        for i, weight in enumerate(weights):
            assert shares(answer)[f"t{i}"][1] == pytest.approx(weight / sum(weights))

    @pytest.mark.parametrize("seed", range(20))
    def test_of_its_dominant_resource(self, seed: int) -> None:
        """Tenants ask GPUs and CPU in different proportions; none holds less than 1/n of what it asks most of."""
        rng = random.Random(seed)
        count = rng.randint(2, 4)
        mixes = [(rng.randint(1, 3), 1_000 * rng.randint(1, 3)) for _ in range(count)]
        pending = [
            gang(f"t{i}-{j:03}", request={"gpus": gpus, "cpu_milli": cpu}, tenant=f"t{i}")
            for i, (gpus, cpu) in enumerate(mixes)
            for j in range(60)
        ]
        answer = solve(
            snapshot(
                [node("n", "r", gpus=60, cpu_milli=60_000)], pending, tenants=[{"name": f"t{i}"} for i in range(count)]
            )
        )
        for i, mix in enumerate(mixes):
            one_more = max(mix[0] / 60, mix[1] / 60_000)
            assert shares(answer)[f"t{i}"][1] > 1 / count - one_more


def held_by(snapshot: Snapshot, answer: Plan) -> tuple[tuple[str, ...], frozenset[str]]:
    """Names of the gangs that start, in the order they were admitted, and of the victims."""
    return tuple(p.gang for p in answer.placements), frozenset(p.gang for p in answer.preemptions)


class TestEveryRound:
    """What holds on random contended rounds, recomputed on plain dictionaries."""

    @pytest.mark.parametrize("block", range(5))
    def test_limits_are_never_passed(self, block: int) -> None:
        for seed in range(block * 50, block * 50 + 50):
            round = contested_round(seed)
            admitted, victims = held_by(round, solve(round))
            assert Round(round).within_limits(admitted, victims), seed

    @pytest.mark.parametrize("block", range(5))
    def test_no_blocked_gang_could_be_added(self, block: int) -> None:
        """Pareto: in the space that is left, beside all that run and start, and within limits."""
        for seed in range(block * 50, block * 50 + 50):
            round = contested_round(seed)
            answer = solve(round)
            after = Round(apply(round, answer))
            for blocked in answer.blocked:
                fits = any(True for _ in after.plans((blocked.gang,), after.free))
                assert not (fits and after.within_limits((blocked.gang,), frozenset())), (seed, blocked.gang)

    @pytest.mark.parametrize("block", range(5))
    def test_nobody_waits_within_quota_while_others_take_surplus_it_could_use(self, block: int) -> None:
        """Nobody starts in surplus before the next gang of a root tenant that would keep it within quota was asked."""
        asked = 0
        for seed in range(block * 50, block * 50 + 50):
            round = contested_round(seed)
            round = round.model_copy(update={"policy": round.policy.model_copy(update={"order": "drf"})})
            answer, exact = solve(round), Round(round)
            started: tuple[str, ...] = ()
            surplus, refused = False, set()
            for step in answer.considered[: len(round.pending)]:
                tenant = exact.pending[step.gang].tenant
                root = exact.tenants[tenant].parent is None
                if not step.admitted and root and step.group == "within" and tenant not in refused:
                    asked += 1
                    assert not surplus, (seed, step.gang)
                    assert not exact.fits((*started, step.gang), frozenset()), (seed, step.gang)
                if step.admitted:
                    started = (*started, step.gang)
                    surplus |= step.group == "surplus" and root
                else:
                    refused.add(tenant)
        assert asked

    @pytest.mark.parametrize("block", range(5))
    def test_asking_for_more_never_helps(self, block: int) -> None:
        """Strategy-proofness: a gang that waits still waits if its tenant raises what the gang doesn't ask most of."""
        raised = 0
        for seed in range(block * 50, block * 50 + 50):
            round = contested_round(seed)
            answer = solve(round)
            exact = Round(round)
            for blocked in answer.blocked:
                wider = wider_request(round, exact, blocked.gang)
                if wider is not None:
                    raised += 1
                    again = solve(wider)
                    assert check(wider, again).ok
                    assert blocked.gang not in {p.gang for p in again.placements}, (seed, blocked.gang)
        assert raised > 5


def wider_request(round: Snapshot, exact: Round, name: str) -> Snapshot | None:
    """The round with a larger request of a resource that isn't the gang's dominant one; None if there is none."""
    gang = exact.pending[name]
    if "cpu" not in exact.capacity or "gpus" not in exact.capacity:
        return None
    asked = total(gang)
    gpus, cpu = (Fraction(asked[r], exact.capacity[r]) for r in ("gpus", "cpu"))
    more_cpu = gang.request.cpu_milli + 1_000
    if cpu >= gpus or Fraction(more_cpu * gang.members, exact.capacity["cpu"]) > gpus:
        return None
    request = gang.request.model_copy(update={"cpu_milli": more_cpu})
    pending = tuple(g.model_copy(update={"request": request}) if g.name == name else g for g in round.pending)
    return round.model_copy(update={"pending": pending})
