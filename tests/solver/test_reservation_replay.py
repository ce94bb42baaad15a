"""Reservations round after round: what is promised is kept, and a big gang starts where it would starve."""

from __future__ import annotations

import pytest
from hand_made import gang, node, running
from reserving import timed_contest, timed_round

from gangfit.models import PendingGang, Plan, Snapshot
from gangfit.solver import apply, check, solve
from gangfit.solver.reservation import known_end_s
from gangfit.solver.round import compare


def promise(plan: Plan) -> tuple[str, int] | None:
    return next(((b.gang, b.reservation.start_s) for b in plan.blocked if b.reservation is not None), None)


def at(snapshot: Snapshot, instant: int) -> Snapshot:
    """The clock goes on; what should have ended by then has, and terminating gangs are gone when they should be."""
    stays = []
    for held in snapshot.running:
        end = known_end_s(snapshot, held)
        if held.phase == "terminating":
            end = snapshot.time_s + held.grace_s if held.expected_end_s is None else held.expected_end_s
        if end is None or end > instant:
            stays.append(held)
    return snapshot.model_copy(update={"time_s": instant, "running": tuple(stays)})


class TestPromises:
    """Rounds of one tenant: nobody's share changes who is first."""

    @pytest.mark.parametrize("block", range(2))
    def test_kept(self, block: int) -> None:
        seen = 0
        for seed in range(block * 40, block * 40 + 40):
            first = timed_round(seed, nodes=10, gangs=7, members=6, crowded=seed % 2 == 0)
            promised = promise(plan := solve(first))
            if promised is None:
                continue
            seen += 1
            head, instant = promised
            second = apply(first, plan)
            again = solve(second)
            now = promise(again)
            assert not again.placements, seed
            assert now is not None, seed
            assert now[0] == head, seed
            assert now[1] <= instant, seed
            assert head in {p.gang for p in solve(at(second, instant)).placements}, seed
        assert seen >= 10

    @pytest.mark.parametrize("block", range(2))
    def test_or_overtaken_by_right(self, block: int) -> None:
        """Tenants that contend: at its instant the head starts, or gangs go first whose turn comes before its own."""
        for seed in range(block * 40, block * 40 + 40):
            first = timed_contest(seed, running=7, pending=5)
            promised = promise(plan := solve(first))
            if promised is None:
                continue
            head, instant = promised
            second = apply(first, plan)
            later = solve(at(second, instant))
            order = [step.gang for step in later.considered]
            before = order[: order.index(head)]
            if head not in {p.gang for p in later.placements}:
                after = promise(later)
                started = {p.gang for p in later.placements}
                assert started.intersection(before) or (after is not None and after[0] in before), seed


class TestStarvation:
    """16 nodes, always busy with one-node jobs that end one by one and are replaced at once; a gang wants all 16.

    KAI-Scheduler#1969, volcano#13, #947, #748, kueue#8309.
    """

    NODES = 16
    HORIZON = 4_000

    def play(self, policy: str) -> tuple[int | None, int | None, int]:
        """(start of the gang, the first start it was promised, jobs started) within the horizon; a job every 50 s."""
        names = [f"n{i:02d}" for i in range(self.NODES)]
        jobs = [running(f"old{i}", {name: 1}, expected_end_s=100 + 50 * i) for i, name in enumerate(names)]
        document = {
            "time_s": 0,
            "nodes": [node(name) for name in names],
            "running": jobs,
            "pending": [gang("big", self.NODES, expected_duration_s=1_000)],
            "policy": {"reservation": policy, "deterministic": True, "workers": 1},
        }
        snapshot = Snapshot.model_validate(document)
        first, started = None, 0
        for instant in range(50, self.HORIZON, 50):
            job = PendingGang.model_validate(
                gang(f"job{instant}", submitted_s=instant, expected_duration_s=800 if instant % 100 else 150)
            )
            snapshot = at(snapshot, instant).model_copy(update={"pending": (*snapshot.pending, job)})
            plan = solve(snapshot)
            assert check(snapshot, plan).ok
            promised = promise(plan)
            if promised is not None and "big" in {blocked.gang for blocked in plan.blocked}:
                first = promised[1] if first is None else first
                assert promised[0] == "big"
                assert promised[1] <= first
            started += len(plan.placements)
            if any(p.gang == "big" for p in plan.placements):
                return instant, first, started
            snapshot = apply(snapshot, plan)
        return None, first, started

    def test_with_a_reservation_it_starts_when_promised(self) -> None:
        start, promised, fillers = self.play("head")
        assert promised == 100 + 50 * (self.NODES - 1)  # when the last job that ran before it ends
        assert start == promised
        assert fillers > 1  # short jobs have filled in

    def test_without_it_starves(self) -> None:
        start, promised, fillers = self.play("never")
        assert (start, promised) == (None, None)
        assert fillers >= 60


def test_compared_strategies_promise_nothing() -> None:
    """Nor does the solver beside them: the same gangs may start, and it is never worse."""
    document = {
        "nodes": [node("n0"), node("n1")],
        "running": [running("old", {"n0": 1}, expected_end_s=100)],
        "pending": [gang("big", 2), gang("small", submitted_s=1)],
    }
    rows = compare(Snapshot.model_validate(document))
    assert rows[0].values["admission"] == 1
    assert rows[0].vector == min(row.vector for row in rows)
