"""Checkpoints: what a victim saves before it leaves, and the guard against never getting anywhere."""

from __future__ import annotations

import pytest
from hand_made import Json, gang, racks, running, snapshot

from gangfit.models import Drain, PendingGang, RunningGang
from gangfit.solver import apply, check, solve

NOW = 100_000


def drained(**facts: Json | int | None) -> Drain:
    """How `old`, 2 members of 8 GPUs, leaves for `new`."""
    old = running("old", {"r0n0": 1, "r0n1": 1}, started_s=NOW - 5_000, **facts)
    round = snapshot(racks((8, 8)), [gang("new", 2, priority=1)], [old], time_s=NOW)
    answer = solve(round)
    assert check(round, answer).ok
    (preemption,) = answer.preemptions
    kill = preemption.drain.kill_s
    assert [p.starts_after_s for p in answer.placements] == [kill if kill > NOW else None]
    return preemption.drain


class TestDrain:
    def test_without_checkpoint_it_starts_over(self) -> None:
        assert drained() == Drain(
            stop_s=NOW, saved_by_s=None, kill_s=NOW + 300, resume_from_s=None, lost_gpu_s=16 * (5_000 + 300)
        )

    def test_grace_and_restart_are_its_own(self) -> None:
        assert drained(grace_s=45, restart_s=20) == Drain(
            stop_s=NOW, saved_by_s=None, kill_s=NOW + 45, resume_from_s=None, lost_gpu_s=16 * (5_000 + 20)
        )

    def test_since_the_last_checkpoint(self) -> None:
        assert drained(checkpoint={"last_s": NOW - 700}) == Drain(
            stop_s=NOW, saved_by_s=None, kill_s=NOW + 300, resume_from_s=NOW - 700, lost_gpu_s=16 * (700 + 300)
        )

    def test_a_checkpoint_from_before_its_start_counts_from_the_start(self) -> None:
        assert drained(checkpoint={"last_s": NOW - 9_000}).lost_gpu_s == 16 * (5_000 + 300)

    @pytest.mark.parametrize(
        ("size", "speed", "seconds"),
        [(10**12, 10.0, 100), (10**12 + 1, 10.0, 101), (3 * 10**12, 10.0, 300), (0, 1.0, 0), (10**9, 0.25, 4)],
    )
    def test_one_that_fits_the_grace_window_saves_everything(self, size: int, speed: float, seconds: int) -> None:
        point = {"last_s": NOW - 700, "bytes": size, "write_gbps": speed}
        assert drained(checkpoint=point) == Drain(
            stop_s=NOW, saved_by_s=NOW + seconds, kill_s=NOW + 300, resume_from_s=NOW, lost_gpu_s=16 * 300
        )

    @pytest.mark.parametrize(("size", "speed", "grace"), [(3 * 10**12 + 1, 10.0, 300), (10**12, 10.0, 99), (1, 1.0, 0)])
    def test_one_that_does_not_fit_saves_nothing(self, size: int, speed: float, grace: int) -> None:
        point = {"last_s": NOW - 700, "bytes": size, "write_gbps": speed}
        leaves = drained(checkpoint=point, grace_s=grace)
        assert (leaves.saved_by_s, leaves.resume_from_s, leaves.lost_gpu_s) == (None, NOW - 700, 16 * (700 + 300))

    @pytest.mark.parametrize("point", [{"bytes": 1}, {"write_gbps": 1.0}, {"interval_s": 60}, {}])
    def test_size_and_speed_have_to_be_known(self, point: Json) -> None:
        assert drained(checkpoint=point).saved_by_s is None

    def test_fourteen_bytes_a_parameter(self) -> None:
        """70 billion parameters: 980 GB. At 4 GB/s it fits into 300 s of grace, at 3 GB/s it doesn't."""
        point = {"bytes": 14 * 70 * 10**9}
        assert drained(checkpoint={**point, "write_gbps": 4.0}).saved_by_s == NOW + 245
        assert drained(checkpoint={**point, "write_gbps": 3.0}).saved_by_s is None


class Spiral:
    """`slow` checkpoints every hour and a gang of higher priority comes for 15 minutes, 45 minutes after it starts."""

    MINUTE = 60
    HOUR = 60 * MINUTE

    def __init__(self, guard: int) -> None:
        self.progress = 0
        """Seconds of work in checkpoints."""
        self.taken: list[int] = []
        """Instants at which `slow` lost its node."""
        point = {"interval_s": self.HOUR}
        self.now = snapshot(
            racks((8,)),
            [gang("slow", checkpoint=point, restart_s=0)],
            policy={"preemption": {"guard": guard}},
        )

    def run(self, hours: int) -> None:
        """A round every five minutes. Urgent work comes whenever `slow` has run 45 minutes, and runs for 15."""
        for tick in range(hours * 12):
            self.now = self.now.model_copy(update={"time_s": tick * 5 * self.MINUTE})
            self._checkpoint()
            self._urgent(tick)
            answer = solve(self.now)
            assert check(self.now, answer).ok
            self.taken += [self.now.time_s for p in answer.preemptions if p.gang == "slow"]
            self.now = apply(self.now, answer)

    def _slow(self) -> RunningGang | None:
        return next((g for g in self.now.running if g.name == "slow"), None)

    def _checkpoint(self) -> None:
        """A full hour since start or the last checkpoint is saved, and what comes with that."""
        slow = self._slow()
        if slow is None or slow.checkpoint is None:
            return
        since = max(slow.started_s, slow.checkpoint.last_s or 0)
        if self.now.time_s - since >= self.HOUR:
            self.progress += self.HOUR
            point = slow.checkpoint.model_copy(update={"last_s": since + self.HOUR})
            saved = slow.model_copy(update={"checkpoint": point, "preemptions": 0})
            others = tuple(g for g in self.now.running if g.name != "slow")
            self.now = self.now.model_copy(update={"running": (*others, saved)})

    def _urgent(self, tick: int) -> None:
        """Finished urgent work leaves; the next piece comes when `slow` has run for 45 minutes or more."""
        quarter, slow = 15 * self.MINUTE, self._slow()
        stay = tuple(g for g in self.now.running if g.name == "slow" or self.now.time_s - g.started_s < quarter)
        pending = self.now.pending
        if slow is not None and self.now.time_s - slow.started_s >= 45 * self.MINUTE and not pending:
            pending = (PendingGang.model_validate(gang(f"urgent{tick}", priority=10)),)
        self.now = self.now.model_copy(update={"running": stay, "pending": pending})


class TestDeathSpiral:
    def test_without_the_guard_it_gets_nowhere(self) -> None:
        spiral = Spiral(guard=1_000)
        spiral.run(hours=24)
        assert spiral.progress == 0
        assert len(spiral.taken) == 24

    def test_with_the_guard_it_completes_a_checkpoint_after_every_third_loss(self) -> None:
        spiral = Spiral(guard=3)
        spiral.run(hours=24)
        assert spiral.progress >= 5 * Spiral.HOUR
        gaps = [b - a for a, b in zip(spiral.taken, spiral.taken[1:], strict=False)]
        assert max(gaps) >= Spiral.HOUR + 15 * Spiral.MINUTE

    @pytest.mark.parametrize("guard", [1, 2, 5])
    def test_the_smaller_the_guard_the_sooner(self, guard: int) -> None:
        """So many losses in a row, then an hour in peace."""
        spiral = Spiral(guard)
        spiral.run(hours=guard + 2)
        assert len([at for at in spiral.taken if at < (guard + 1) * Spiral.HOUR]) == guard
        assert spiral.progress == Spiral.HOUR
