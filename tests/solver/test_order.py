"""Whose turn it is, step by step, against the definition recomputed from nothing at every step."""

from __future__ import annotations

import random
from fractions import Fraction

import numpy as np
import pytest

from gangfit.solver.tenants import UNBOUNDED, Order, Tenants


class Naive:
    """docs/model.md, "Who is next", on plain lists."""

    def __init__(self, tenants: Tenants, of: list[int], total: list[list[int]], priority: list[int] | None) -> None:
        self.tenants, self.of, self.total = tenants, of, total
        self.priority = priority
        self.left = list(range(len(of)))
        self.use = tenants.use.tolist()

    def share(self, t: int) -> Fraction:
        held = zip(self.use[t], self.tenants.capacity.tolist(), strict=True)
        return max((Fraction(use, capacity) for use, capacity in held if capacity), default=Fraction(0))

    def group(self, t: int, gang: int) -> int:
        quota = self.tenants.quota[t].tolist()
        asks = self.total[gang]
        if all(use + ask <= most for use, ask, most in zip(self.use[t], asks, quota, strict=True)):
            return 0
        return 1 if all(use < most for use, ask, most in zip(self.use[t], asks, quota, strict=True) if ask) else 2

    def next(self, parent: int = -1) -> int | None:
        """The offer of a tenant (−1: of the cluster)."""
        children = [t for t, above in enumerate(self.tenants.parent) if above == parent]
        if not children:
            return next((gang for gang in self.left if self.of[gang] == parent), None)
        offers = []
        for t in children:
            gang = self.next(t)
            if gang is not None:
                weight = self.tenants.weight[t]
                first = 0 if self.priority is None else -self.priority[gang]
                offers.append((first, self.group(t, gang), weight == 0, self.share(t) / (weight or 1), gang))
        return min(offers)[-1] if offers else None

    def settle(self, gang: int, admitted: bool) -> None:
        self.left.remove(gang)
        if admitted:
            for t in self.tenants.chain(self.of[gang]):
                self.use[t] = [use + ask for use, ask in zip(self.use[t], self.total[gang], strict=True)]

    def within_limit(self, gang: int, gone: list[list[int]]) -> bool:
        return all(
            not ask or self.use[t][r] + ask - gone[t][r] <= self.tenants.limit[t, r]
            for t in self.tenants.chain(self.of[gang])
            for r, ask in enumerate(self.total[gang])
        )


def forest(rng: random.Random) -> Tenants:
    """Trees of up to three levels with quotas, limits, weights (0, too), use, and a resource that doesn't count."""
    count = rng.randint(1, 12)
    parent = [-1] + [rng.choice([-1, *range(t)]) for t in range(1, count)]
    amount = [[rng.choice([0, 0, 1, 3, 7]) for _ in range(3)] for _ in range(count)]
    use = np.array(amount, dtype=np.int64)
    bounds = [rng.choice([UNBOUNDED, UNBOUNDED, 0, 5, 12]) for _ in range(6 * count)]
    quota, limit = np.array(bounds, dtype=np.int64).reshape(2, count, 3)
    capacity = np.array([rng.choice([0, 6, 10, 15]) for _ in range(3)], dtype=np.int64)
    weight = tuple(rng.choice([0, 1, 1, 2, 3]) for _ in range(count))
    names = tuple(f"t{t}" for t in range(count))
    return Tenants(names, tuple(parent), weight, quota, limit, capacity, use)


@pytest.mark.parametrize("block", range(4))
def test_equals_the_definition(block: int) -> None:
    for seed in range(100 * block, 100 * block + 100):
        rng = random.Random(seed)
        tenants = forest(rng)
        leaves = [t for t in range(len(tenants.names)) if t not in tenants.parent]
        of = [rng.choice(leaves) for _ in range(rng.randint(0, 25))]
        total = [[rng.choice([0, 1, 2, 5]) for _ in range(3)] for _ in of]
        # Gangs come sorted by priority.
        priority = sorted((rng.randint(0, 2) for _ in of), reverse=True)
        by_priority = rng.random() < 0.3
        totals = np.array(total, dtype=np.int64).reshape(len(of), 3)
        order = Order(tenants, np.array(of, dtype=np.int64), totals, priority, by_priority)
        naive = Naive(tenants, of, total, priority if by_priority else None)
        while (gang := naive.next()) is not None:
            assert order.next() == gang, seed
            step = order.step(gang)
            turns = [
                (t, ("within", "below", "surplus")[naive.group(t, gang)], naive.share(t) / (tenants.weight[t] or 1))
                for t in reversed(tenants.chain(of[gang]))
            ]
            assert (step.gang, [(turn.tenant, turn.group, turn.share) for turn in step.turns]) == (gang, turns), seed
            gone = [[rng.choice([0, 0, 2]) for _ in range(3)] for _ in tenants.names]
            assert order.within_limit(gang) is naive.within_limit(gang, [[0] * 3] * len(gone)), seed
            assert order.within_limit(gang, np.array(gone, dtype=np.int64)) is naive.within_limit(gang, gone), seed
            admitted = rng.random() < 0.6
            order.settle(gang, admitted)
            naive.settle(gang, admitted)
        assert order.next() is None
        assert order.use.tolist() == naive.use


def test_what_is_asked_again_counts_at_once() -> None:
    """A gang that starts after all were considered holds its share."""
    tenants = forest(random.Random(1))
    order = Order(tenants, np.array([0], dtype=np.int64), np.array([[1, 2, 3]], dtype=np.int64), [0], False)
    before = order.use
    order.add(0)
    changed = np.flatnonzero((order.use != before).any(axis=1)).tolist()
    assert changed == sorted(tenants.chain(0))
