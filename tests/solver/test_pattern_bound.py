"""No bound is ever above a known optimum; certificates are integers that anyone can add up again."""

from __future__ import annotations

import math
import threading

import numpy as np
import pytest
from crowded_rounds import ANY_SIZE, crowded, greedy_plan, improve
from lawful import lawful
from random_rounds import random_round

from gangfit.models import Snapshot
from gangfit.solver.arrays import IntArray
from gangfit.solver.assemble import choose, lay_out
from gangfit.solver.assignment import Assignment, touched
from gangfit.solver.configurations import ConfigurationBound, affordable
from gangfit.solver.cuts import exact_sum, spine_split
from gangfit.solver.engine import Budget, run
from gangfit.solver.gap_model import GapModel, Reduced
from gangfit.solver.held_bound import HeldBound
from gangfit.solver.leaves import Leaves, leaves
from gangfit.solver.pattern_bound import PatternBound
from gangfit.solver.pricing import SCALE
from gangfit.solver.problem import encode

BLOCK = 50
NEVER = 1 << 40


def bounds_hold(seed: int) -> tuple[int, int]:
    """Every bound against the proven optimum of a round. Returns bounds that are tight, and bounds."""
    problem = encode(random_round(seed))
    plan = greedy_plan(problem)
    if not plan:
        return 0, 0
    results, improvement = improve(problem, plan, ANY_SIZE)
    assert all(result.proof for result in results)
    values = [result.value for result in results]
    budget = Budget(problem.snapshot.policy)
    found = []
    for tier, name in enumerate(("preferred", "distance")):
        view = leaves(problem, sorted(plan), name)
        pattern = PatternBound(view)
        pattern.start(plan)
        certificate = pattern.run(NEVER, budget)
        assert certificate is not None
        assert certificate.bound <= values[tier], (seed, name)
        assert pattern.evaluate(certificate.price, certificate.discount).scaled == certificate.scaled
        found.append(certificate.bound == values[tier])
        if name == "distance":
            domains = touched(problem, improvement.assignment)
            found += configurations_hold(view, plan, values[tier], domains, seed)
            cut_and_gap_hold(pattern, values[tier], domains, seed)
    for tier in range(2, len(values)):
        bound = HeldBound(problem, plan, tuple(values[:2]), tier).run(NEVER, budget)
        assert bound <= values[tier], (seed, tier)
        found.append(bound == values[tier])
    return sum(found), len(found)


def configurations_hold(view: Leaves, plan: Assignment, value: int, domains: IntArray, seed: int) -> list[bool]:
    """The configuration bound on every row, with and without a plan's columns, with cuts, and after a dive."""
    tight = []
    for row in range(len(view.slots)):
        if not affordable(view, row):
            continue
        budget = Budget(view.problem.snapshot.policy)
        bound, fresh = ConfigurationBound(view, row), ConfigurationBound(view, row)
        bound.start_from(plan)
        assert bound.run(NEVER, budget) <= value, (seed, row)
        assert bound.bound == fresh.run(NEVER, budget), (seed, row)
        tight.append(bound.bound == value)
        for level, weights in ((1, (1, 0)), (2, (0, 1))):
            count = ConfigurationBound(view, row, weights).run(NEVER, budget)
            assert count <= domains[view.problem.tree.named - level].sum(), (seed, row, level)
        fresh.require(count)
        assert fresh.run(NEVER, budget) <= value, (seed, row)
        dived = fresh.dive(budget, math.inf, threading.Event())
        assert fresh.bound <= value, (seed, row)
        rng = np.random.default_rng(seed)
        for most in (0, SCALE, 20 * SCALE):
            prices = rng.integers(0, most + 1, size=len(bound.rows))
            for one in (bound, fresh):
                assert one.evaluate(prices) <= (value - bound.constant) * SCALE, (seed, row, most)
        chosen = choose(fresh, value + 1, budget, math.inf, threading.Event())
        for made in (lay_out(fresh, columns) for columns in (dived, chosen) if columns is not None):
            if made is None:
                continue
            assert sorted(made) == sorted(plan), (seed, row)
            assert lawful(view.problem, made), (seed, row)
    return tight


def cut_and_gap_hold(pattern: PatternBound, value: int, domains: np.ndarray, seed: int) -> None:
    """The cuts are met by an optimal plan; the gap model has a solution at the optimum, before and after them."""
    view, budget = pattern.view, Budget(pattern.view.problem.snapshot.policy)
    named = view.problem.tree.named
    cuts = [exact_sum(view, level) for level in range(named)]
    if len(view.forest.spines):
        cuts[named - 2] = max(cuts[named - 2], spine_split(view, budget, 0.2))
    for level, cut in enumerate(cuts):
        assert cut <= domains[level].sum(), (seed, level)
    for after in (False, True):
        if after:
            for level, cut in enumerate(cuts):
                pattern.require(level, cut)
            certificate = pattern.run(NEVER, budget)
            assert certificate is not None
            assert certificate.bound <= value, seed
        assert pattern.best is not None
        for above in (0, 2):
            model = GapModel(Reduced(pattern, pattern.best), value + above)
            assert model.feasible, seed
            assert not model.model.validate(), seed
            assert run(model.model, budget).status in ("optimal", "feasible"), seed


class TestNeverAboveTheOptimum:
    @pytest.mark.parametrize("block", range(4))
    def test_random_rounds(self, block: int) -> None:
        tight, total = np.sum([bounds_hold(seed) for seed in range(block * BLOCK, (block + 1) * BLOCK)], axis=0)
        # Weak bounds would pass, too: most are met.
        assert tight > 0.7 * total

    @pytest.mark.long
    @pytest.mark.parametrize("block", range(20, 100))
    def test_random_rounds_long(self, block: int) -> None:
        self.test_random_rounds(block)


def test_example_by_hand() -> None:
    """Four racks of 12 nodes, gangs of 9 and 14 alone: 0 and 1 rack more, so bound 1, at prices of 0."""
    snapshot = crowded(0)
    pending = tuple(gang for gang in snapshot.pending if gang.members in (9, 14))
    problem = encode(snapshot.model_copy(update={"pending": pending}))
    view = leaves(problem, [0, 1], "distance")
    pattern = PatternBound(view)
    nothing = np.zeros_like(view.capacity)
    certificate = pattern.evaluate(nothing, np.zeros(2, dtype=np.int64))
    assert view.constant == 8
    assert certificate.scaled == 9 * SCALE
    assert certificate.bound == 1


class TestExactSum:
    def test_counts_balanced_parts(self) -> None:
        """Spines of 48: sizes 5 + 9 + … fill four of them; the parts that balance bound the pairs."""
        problem = encode(crowded(0))
        plan = greedy_plan(problem)
        view = leaves(problem, sorted(plan), "distance")
        cut = exact_sum(view, 0)
        assert cut == 0 or cut >= len(plan)
        pattern = PatternBound(view)
        pattern.start(plan)
        before = pattern.run(NEVER, Budget(problem.snapshot.policy))
        pattern.require(0, cut)
        after = pattern.run(NEVER, Budget(problem.snapshot.policy))
        assert before is not None
        assert after is not None
        assert after.scaled >= before.scaled


def test_example_of_the_model_page() -> None:
    """docs/model.md, "The fast path": bound 2 at prices 0, 6 at 4/3 on spine 1, three spines touched at least."""
    free = (("1", "a", 3), ("1", "b", 2), ("2", "c", 2), ("2", "d", 1))
    problem = encode(
        Snapshot.model_validate(
            {
                "time_s": 0,
                "topology": {
                    "levels": [{"name": "spine", "weight": 3}, {"name": "rack", "weight": 1}],
                    "node_weight": 0,
                },
                "nodes": [
                    {"name": f"{rack}{n}", "path": [spine, rack], "gpus": 8}
                    for spine, rack, count in free
                    for n in range(count)
                ],
                "pending": [{"name": name, "members": 4, "request": {"gpus": 8}} for name in "AB"],
            }
        )
    )
    view = leaves(problem, [0, 1], "distance")
    pattern = PatternBound(view)
    assert view.capacity.tolist() == [[3, 2, 2, 1]]
    nothing = np.zeros(2, dtype=np.int64)
    assert pattern.evaluate(np.zeros_like(view.capacity), nothing).bound == 2
    price = np.array([[4, 4, 0, 0]], dtype=np.int64) * (SCALE // 3)
    assert pattern.evaluate(price, nothing).bound == 6
    assert exact_sum(view, 0) == 3
    results, _ = improve(problem, greedy_plan(problem), 0)
    assert (results[1].value, results[1].bound) == (6, 6)


@pytest.mark.parametrize(("sizes", "touched"), [((4, 3, 1), 3), ((4, 4), 3), ((7, 1), 3), ((2, 2, 2), 3)])
def test_configurations_by_hand(sizes: tuple[int, ...], touched: int) -> None:
    """docs/model.md: one spine with racks of 5 and 3; exact sums fill both, 4 and 4 can't but across."""
    nodes = [
        {"name": f"{rack}{n}", "path": ["s", rack], "gpus": 8}
        for rack, count in (("a", 5), ("b", 3))
        for n in range(count)
    ]
    levels = [{"name": "spine", "weight": 3}, {"name": "rack", "weight": 1}]
    gangs = [{"name": f"g{j}", "members": m, "request": {"gpus": 8}} for j, m in enumerate(sizes)]
    round = {"time_s": 0, "topology": {"levels": levels, "node_weight": 0}, "nodes": nodes, "pending": gangs}
    problem = encode(Snapshot.model_validate(round))
    bound = ConfigurationBound(leaves(problem, list(range(len(sizes))), "distance"), 0)
    assert bound.run(NEVER, Budget(problem.snapshot.policy)) == touched - len(sizes)
