"""Brute force where running gangs may move: every set of victims with every set of moves, one by one."""

from __future__ import annotations

from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import combinations, product

from brute_force import Plan, Round, Space, amounts, total

from gangfit.models import Gang, Snapshot

Away = tuple[frozenset[str], frozenset[str]]
"""Gangs preempted, gangs moved."""
Figures = tuple[int, ...]
"""GPU-seconds lost per priority, descending; gangs preempted; gangs moved; their members."""


class MovingRound(Round):
    """A snapshot on dictionaries, with moves."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self.moves = snapshot.policy.moves
        allowed = self.moves.mode == "allowed"
        self.movable = [n for n in self.eligible if allowed and self.running[n].started_s < snapshot.time_s]
        self.most: Figures = (*(0 for _ in self.priorities), 0, 0, 0)
        """C of docs/model.md."""
        self.fits_beside = cache(self._fits_beside)
        self.lawful_with = cache(self._lawful_with)
        self.movers_of = cache(self._movers_of)

    def named(self, name: str) -> Gang:
        return self.pending[name] if name in self.pending else self.running[name]

    def plans(self, gangs: tuple[str, ...], free: Space) -> Iterator[Plan]:
        """Every placement of all these gangs, pending or running ones that move."""
        if not gangs:
            yield {}
            return
        gang = self.named(gangs[0])
        for spread in self.spreads(gang, free):
            after = {name: dict(values) for name, values in free.items()}
            for name, count in spread.items():
                for r, amount in amounts(gang.request).items():
                    if after[name].get(r) is not None:
                        after[name][r] -= count * amount  # type: ignore[operator]  # not None, as just asked
            for rest in self.plans(gangs[1:], after):
                yield {gang.name: spread, **rest}

    # ---- rights and bounds of moves

    def weight(self, gang: Gang) -> int:
        """GPUs of a gang; without any, what its CPU is worth."""
        asked, capacity = total(gang), self.capacity
        if asked["gpus"]:
            return asked["gpus"]
        return max(1, asked["cpu"] * capacity.get("gpus", 0) // capacity["cpu"]) if "cpu" in capacity else 1

    def may_move(self, mover: str, name: str, admitted: tuple[str, ...]) -> bool:
        """Rule 15 without its bound."""
        q, v = self.pending[mover], self.running[name]
        if q.preempted_s is not None and self.snapshot.time_s - q.preempted_s < self.policy.settle_s:
            return False
        if q.tenant == v.tenant:
            return v.priority <= q.priority
        up_to = admitted[: admitted.index(mover) + 1]
        ours = [t for t in self.above(q.tenant) if t not in self.above(v.tenant)]
        return all(self.use(t, up_to)[r] <= amount for t in ours for r, amount in self.quota(t).items())

    def _movers_of(self, admitted: tuple[str, ...], movers: frozenset[str], moved: frozenset[str]) -> bool:
        """Whether these gangs may all move, each for one of the movers, within the bounds."""
        if len(moved) > self.moves.max_gangs or not moved <= set(self.movable):
            return False
        ratio = Fraction(repr(self.moves.max_ratio))
        names = sorted(moved)
        for choice in product(sorted(movers), repeat=len(names)):
            if all(self.may_move(q, v, admitted) for q, v in zip(choice, names, strict=True)):
                weights = dict.fromkeys(movers, 0)
                for q, v in zip(choice, names, strict=True):
                    weights[q] += self.weight(self.running[v])
                if all(weight <= ratio * self.weight(self.pending[q]) for q, weight in weights.items()):
                    return True
        return not moved

    def away(self) -> Iterator[Away]:
        """Every pair of sets of running gangs that could leave."""
        for victims in self.victim_sets():
            rest = [name for name in self.movable if name not in victims]
            for size in range(len(rest) + 1):
                for moved in combinations(rest, size):
                    yield victims, frozenset(moved)

    # ---- what is lawful

    def _fits_beside(self, admitted: tuple[str, ...], victims: frozenset[str], moved: frozenset[str]) -> bool:
        everyone = (*admitted, *sorted(moved))
        space = self.space(victims | moved)
        return self.within_limits(admitted, victims) and any(True for _ in self.plans(everyone, space))

    def _lawful_with(
        self,
        admitted: tuple[str, ...],
        takers: frozenset[str],
        movers: frozenset[str],
        victims: frozenset[str],
        moved: frozenset[str],
    ) -> bool:
        return (
            all(any(self.right(taker, victim, admitted, victims) for taker in takers) for victim in victims)
            and self.movers_of(admitted, movers, moved)
            and self.fits_beside(admitted, victims, moved)
            and not any(self.fits_beside(admitted, victims - {victim}, moved) for victim in victims)
        )

    def figures(self, victims: frozenset[str], moved: frozenset[str]) -> Figures:
        losses, broken = self.cost(victims)
        return (*losses, broken, len(moved), sum(self.running[name].members for name in moved))

    # ---- admission and optimum

    def decide(self) -> tuple[tuple[str, ...], tuple[str, ...], frozenset[str], frozenset[str]]:
        """Considered gangs; the admitted ones, those asked again last; those that needed victims, and moves."""
        considered: tuple[str, ...] = ()
        admitted: tuple[str, ...] = ()
        takers, movers = frozenset[str](), frozenset[str]()
        left = set(self.pending)
        while (gang := self.next_gang(left, admitted)) is not None:
            left.remove(gang)
            considered += (gang,)
            joint = (*admitted, gang)
            if self.in_free_space(joint, takers, movers):
                admitted = joint
                continue
            if self.asked(joint, takers, movers | {gang}):
                admitted, movers = joint, movers | {gang}
            elif self.asked(joint, takers | {gang}, movers | {gang}):
                admitted, takers, movers = joint, takers | {gang}, movers | {gang}
            else:
                continue
            self.most = min(
                self.figures(*away) for away in self.away() if self.lawful_with(joint, takers, movers, *away)
            )
        self.at_first = admitted
        for gang in [name for name in considered if name not in admitted] if takers or movers else []:
            if self.in_free_space((*admitted, gang), takers, movers):
                admitted += (gang,)
        return considered, admitted, takers, movers

    def in_free_space(self, joint: tuple[str, ...], takers: frozenset[str], movers: frozenset[str]) -> bool:
        return any(
            all(a <= b for a, b in zip(self.figures(*away), self.most, strict=True))
            and self.lawful_with(joint, takers, movers, *away)
            for away in self.away()
        )

    def asked(self, joint: tuple[str, ...], takers: frozenset[str], movers: frozenset[str]) -> bool:
        """With further moves, and with victims of the last gang if it is among the takers."""
        gang = joint[-1]
        for victims, moved in self.away():
            others = victims
            if gang in takers:
                others = frozenset(v for v in victims if not self.right(gang, v, joint, victims))
            beyond = any(a > b for a, b in zip(self.figures(others, frozenset()), self.most, strict=True))
            if not beyond and self.lawful_with(joint, takers, movers, victims, moved):
                return True
        return False

    def best(self) -> tuple[int, ...]:
        """Best value vector over all plans: admissions, cost, the other tiers."""
        considered, admitted, takers, movers = self.decide()
        costs = {
            away: self.figures(*away)
            for away in self.away()
            if all(a <= b for a, b in zip(self.figures(*away), self.most, strict=True))
            and self.lawful_with(admitted, takers, movers, *away)
        }
        cheapest = min(costs.values())
        values = min(
            self.tiers_with(plan, *away)
            for away, cost in costs.items()
            if cost == cheapest
            for plan in self.plans((*admitted, *sorted(away[1])), self.space(away[0] | away[1]))
        )
        first = [name for name in considered if name in self.at_first]
        again = [name for name in considered if name not in first]
        return (
            *(-(name in first) for name in considered),
            *(-(name in admitted) for name in again),
            *cheapest,
            *values,
        )

    def tiers_with(self, plan: Plan, victims: frozenset[str], moved: frozenset[str]) -> tuple[int, ...]:
        """Values of the tiers after moved_members."""
        wishes = {name: self.named(name) for name in plan}
        pending = self.pending
        try:
            self.pending = wishes  # type: ignore[assignment]  # running gangs, too
            return self.tiers(plan, victims | moved)
        finally:
            self.pending = pending
