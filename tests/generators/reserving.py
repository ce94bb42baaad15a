"""Brute force with reservations: every instant, every placement beside the head's; and rounds where ends are known."""

from __future__ import annotations

import random
from collections.abc import Iterator
from functools import cache

from brute_force import Plan, Round, Space, amounts, total
from random_rounds import contested_round, random_round

from gangfit.models import RunningGang, Snapshot


class Reserving(Round):
    """As `Round`; once there is a head, it has its place at its instant in everything that is asked."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.head: str | None = None
        self.start = 0
        super().__init__(snapshot)
        self.wait = self._longest_wait()

    def promise(self, head: str | None, start: int = 0) -> None:
        """Keep room for a gang at an instant, or for none."""
        self.head, self.start = head, start
        self.fits, self.lawful = cache(self._fits), cache(self._lawful)

    # ---- time

    def _longest_wait(self) -> int:
        now = self.snapshot.time_s
        leaving = [gang for gang in self.snapshot.running if gang.phase == "terminating"]
        waits = [gang.grace_s if gang.expected_end_s is None else gang.expected_end_s - now for gang in leaving]
        return max(0, *waits, *(self.running[name].grace_s for name in self.eligible if self._taken_by_anyone(name)), 0)

    def _taken_by_anyone(self, victim: str) -> bool:
        held = self.running[victim]
        for gang in self.pending.values():
            if gang.preempted_s is not None and self.snapshot.time_s - gang.preempted_s < self.policy.settle_s:
                continue
            rule = self.policy.within if gang.tenant == held.tenant else self.policy.across
            if rule == "reclaim" or (rule == "priority" and held.priority < gang.priority):
                return True
        return False

    def end(self, name: str) -> int | None:
        """When a running gang, or a pending one that starts now, ends."""
        now = self.snapshot.time_s
        if name in self.running:
            end = self.running[name].expected_end_s
            return None if end is None or end <= now else end
        duration = self.pending[name].expected_duration_s
        return None if duration is None else now + self.wait + duration

    def ended(self, name: str) -> bool:
        end = self.end(name)
        return end is not None and end <= self.start

    # ---- the head at its instant

    def whole(self, admitted: tuple[str, ...], victims: frozenset[str]) -> Iterator[Plan]:
        for plan in super().whole(admitted, victims):
            if self.head is None:
                yield plan
                continue
            for spread in self.spreads(self.pending[self.head], self._later(plan, victims)):
                yield {**plan, self.head: spread}

    def _later(self, plan: Plan, victims: frozenset[str]) -> Space:
        """Free space at the instant."""
        free = self.space(victims | {name for name in self.running if self.ended(name)})
        for gang, spread in plan.items():
            for name, count in {} if self.ended(gang) else spread.items():
                for r, amount in amounts(self.pending[gang].request).items():
                    if free[name].get(r) is not None:
                        free[name][r] -= count * amount  # type: ignore[operator]  # not None, as just asked
        return free

    def within_limits(self, admitted: tuple[str, ...], victims: frozenset[str]) -> bool:
        if not super().within_limits(admitted, victims):
            return False
        if self.head is None:
            return True
        there = (*(name for name in admitted if not self.ended(name)), self.head)
        return super().within_limits(there, victims | {name for name in self.running if self.ended(name)})

    def _waits_for_space(self, gang: str, admitted: tuple[str, ...]) -> bool:
        """Whether its start now would keep the limits of its tenants, nobody preempted."""
        asked = total(self.pending[gang])
        for tenant in self.above(self.pending[gang].tenant):
            limit, held = self.tenants[tenant].limit, self.use(tenant, admitted)
            for r, amount in amounts(limit).items() if limit is not None else ():
                if amount is not None and asked[r] and held[r] + asked[r] > amount:
                    return False
        return True

    def reserve(self, gang: str, admitted: tuple[str, ...], takers: frozenset[str]) -> None:
        """Promise the gang the first instant at which it fits, if there is one."""
        if self.head is not None or not self._waits_for_space(gang, admitted):
            return
        for instant in sorted({end for name in (*self.running, *admitted) if (end := self.end(name)) is not None}):
            self.promise(gang, instant)
            if any(self.affordable(v) and self.lawful(admitted, takers, v) for v in self.victim_sets()):
                return
        self.promise(None)

    def admission(self) -> tuple[tuple[str, ...], tuple[str, ...], frozenset[str]]:
        considered: tuple[str, ...] = ()
        admitted: tuple[str, ...] = ()
        takers: frozenset[str] = frozenset()
        left = set(self.pending)
        self.promise(None)
        self.budget = self.cost(frozenset())
        while (gang := self.next_gang(left, admitted)) is not None:
            left.remove(gang)
            considered += (gang,)
            if self.free_space(gang, admitted, takers):
                admitted += (gang,)
            elif self.with_victims(gang, admitted, takers):
                admitted += (gang,)
                takers |= {gang}
                self.budget = min(self.cost(v) for v in self.victim_sets() if self.lawful(admitted, takers, v))
            else:
                self.reserve(gang, admitted, takers)
        self.at_first = admitted
        for gang in [name for name in considered if name not in admitted] if takers else []:
            head = self.head
            if gang == head:
                start = self.start
                self.promise(None)
                if not self.free_space(gang, admitted, takers):
                    self.promise(head, start)
                    continue
                admitted += (gang,)
            elif self.free_space(gang, admitted, takers):
                admitted += (gang,)
        return considered, admitted, takers


def timed(snapshot: Snapshot, seed: int, *, known: float = 0.7) -> Snapshot:
    """The same round with known ends: most running gangs end, many pending ones say how long they run."""
    rng = random.Random(seed)
    document = snapshot.model_dump(by_alias=True)
    now = snapshot.time_s
    for gang in document["running"]:
        if gang["phase"] == "running" and rng.random() < known:
            gang["expected_end_s"] = now + rng.choice([50, 50, 100, 200, 400, 1_000, -10])
    for gang in document["pending"]:
        if rng.random() < known:
            gang["expected_duration_s"] = rng.choice([1, 10, 50, 60, 100, 150, 200, 300, 500, 1_500])
    return Snapshot.model_validate(document)


def timed_contest(seed: int, **sizes: int) -> Snapshot:
    """Tenants that contend, with ends."""
    return timed(contested_round(seed, **sizes), seed)


def timed_round(seed: int, **sizes: int) -> Snapshot:
    """Placement alone, with ends."""
    return timed(random_round(seed, **sizes), seed, known=0.9)


def ends_at(gang: RunningGang, instant: int) -> bool:
    """Whether a running gang has ended by an instant."""
    return gang.phase == "running" and gang.expected_end_s is not None and gang.expected_end_s <= instant
