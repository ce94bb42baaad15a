"""`policy.order: leximin` by brute force: every set of pending gangs, on the plain dictionaries of `brute_force`."""

from __future__ import annotations

from fractions import Fraction
from itertools import combinations

from brute_force import Round
from hand_made import Json, racks, snapshot
from random_rounds import contested_round

from gangfit.models import Plan, Policy, Snapshot

Shares = tuple[tuple[Fraction, ...], tuple[Fraction, ...]]
"""Ascending weighted dominant shares: of tenants with a weight, of those without."""
LEXIMIN: Json = {"order": "leximin", "preemption": {"within": "never", "across": "never"}}
NOBODY: frozenset[str] = frozenset()


def shared_round(seed: int) -> Snapshot:
    """A contested round under leximin, with few running gangs and many that wait."""
    round = contested_round(seed, running=2, pending=6)
    policy = Policy.model_validate({**LEXIMIN, "time_limit_s": 60, "workers": 1})
    return round.model_copy(update={"policy": policy})


def leximin_round(nodes: int, pending: list[Json], old: list[Json] | None = None, **facts: Json) -> Snapshot:
    """So many nodes of 8 GPUs in one rack; tenants a, b, … as the gangs name them."""
    names = sorted({entry["tenant"] for entry in (*pending, *(old or []))})
    tenants = [{"name": name, **facts.get(name, {})} for name in names]
    return snapshot(racks((8,) * nodes), pending, old, tenants=tenants, policy=LEXIMIN)


def shares(answer: Plan) -> list[tuple[str, float]]:
    """The vector that a plan states."""
    return [(entry.tenant, entry.share) for entry in answer.leximin]


class Sets(Round):
    """All sets of gangs that may start."""

    def __init__(self, snapshot: Snapshot) -> None:
        super().__init__(snapshot)
        self.able = {name for name in self.pending if self.fits((name,), NOBODY)}
        holders = (*self.running.values(), *self.pending.values())
        self.leaves = sorted({gang.tenant for gang in holders})
        self.sets = [
            chosen
            for size in range(len(self.pending) + 1)
            for chosen in combinations(sorted(self.pending), size)
            if self.closed(chosen) and self.fits(chosen, NOBODY)
        ]

    def closed(self, chosen: tuple[str, ...]) -> bool:
        """Whether nobody starts before one of its tenant of higher priority that could start alone."""
        return not any(
            self.pending[h].tenant == self.pending[g].tenant and self.pending[h].priority > self.pending[g].priority
            for g in chosen
            for h in self.able.difference(chosen)
        )

    def shares(self, chosen: tuple[str, ...]) -> Shares:
        """The vector."""
        by_weight: tuple[list[Fraction], list[Fraction]] = ([], [])
        for tenant in self.leaves:
            weight = self.tenants[tenant].weight
            by_weight[weight == 0].append(self.share(tenant, chosen) / (weight or 1))
        return tuple(sorted(by_weight[0])), tuple(sorted(by_weight[1]))

    def outcome(self) -> tuple[Shares, tuple[str, ...], tuple[str, ...]]:
        """The largest vector; the gangs that start when first asked, in considered order; those that start later."""
        most = max(map(self.shares, self.sets))
        best = [set(chosen) for chosen in self.sets if self.shares(chosen) == most]
        left, considered = set(self.pending), []
        admitted: tuple[str, ...] = ()
        while (gang := self.next_gang(left, admitted)) is not None:
            left.remove(gang)
            considered.append(gang)
            if any(chosen.issuperset((*admitted, gang)) for chosen in best):
                admitted += (gang,)
        late: tuple[str, ...] = ()
        for gang in considered:
            if gang not in admitted and self.fits((*admitted, *late, gang), NOBODY):
                late += (gang,)
        return most, admitted, late

    def best_tiers(self, gangs: tuple[str, ...]) -> tuple[int, ...]:
        """The least values of the tiers after `broken`."""
        return min(self.tiers(plan) for plan in self.plans(gangs, self.free))
