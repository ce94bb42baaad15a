"""Local search keeps every rule at every step, counts its tiers right, and never hands back a worse plan."""

from __future__ import annotations

import numpy as np
import pytest
from crowded_rounds import crowded, greedy_plan
from random_rounds import random_round

from gangfit.models import Snapshot
from gangfit.solver.assignment import Assignment, tier_values
from gangfit.solver.engine import Budget
from gangfit.solver.local_search import LocalSearch, binding_resources
from gangfit.solver.problem import Problem, encode
from gangfit.solver.space import members_per_node

BLOCK = 100


def lawful(problem: Problem, plan: Assignment) -> bool:
    """Rules 1–7, straight from the arrays."""
    free = problem.free.copy()
    for j, spread in plan.items():
        if spread.counts.sum() != problem.members[j] or len(np.unique(spread.nodes)) != len(spread.nodes):
            return False
        if (members_per_node(problem, problem.free, j)[spread.nodes] < spread.counts).any():
            return False
        free[spread.nodes] -= spread.counts[:, None] * problem.request[j]
        level = int(problem.required[j])
        if level >= 0:
            known = problem.tree.known[level][spread.nodes].all()
            if not known or len(np.unique(problem.tree.domain[level][spread.nodes])) != 1:
                return False
    return bool((free >= 0).all())


class TestEveryRule:
    @pytest.mark.parametrize("block", range(3))
    def test_random_rounds(self, block: int) -> None:
        for seed in range(block * BLOCK, (block + 1) * BLOCK):
            problem = encode(random_round(seed, nodes=40, gangs=9))
            plan = greedy_plan(problem, worst=True)
            if not plan:
                continue
            search = LocalSearch(problem, plan, seed)
            assert search.values == tier_values(problem, plan), seed
            before = search.values
            for tier in range(len(before)):
                search.search(tier, -1, 300, Budget(problem.snapshot.policy))
                assert search.values <= before, seed
                before = search.values
                assert lawful(problem, search.record), seed
                assert tier_values(problem, search.record) == search.values, seed

    @pytest.mark.long
    @pytest.mark.parametrize("block", range(10, 60))
    def test_random_rounds_long(self, block: int) -> None:
        self.test_random_rounds(block)


def test_same_seed_same_plan() -> None:
    problem = encode(crowded(2))
    plan = greedy_plan(problem)
    searches = [LocalSearch(problem, plan, seed) for seed in (5, 5)]
    for search in searches:
        search.search(1, 0, 2_000, Budget(problem.snapshot.policy))
    one, other = (search.record for search in searches)
    assert all((one[j].nodes == other[j].nodes).all() for j in plan)


def test_improves_a_poor_plan() -> None:
    problem = encode(crowded(4))
    plan = greedy_plan(problem, worst=True)
    search = LocalSearch(problem, plan, 0)
    search.search(1, 0, 4_000, Budget(problem.snapshot.policy))
    assert search.values[1] < tier_values(problem, plan)[1]


def test_resources_that_cannot_bind_are_left_out() -> None:
    """CPU asked in proportion to GPUs is implied by them; one gang that asks more than its share brings it back."""
    snapshot = random_round(0).model_dump()
    for node in snapshot["nodes"]:
        node |= {"gpus": 8, "cpu_milli": 64_000, "used": {}, "state": "ready", "gpu_model": None, "resources": {}}
    for gang in snapshot["pending"]:
        gang |= {"request": {"gpus": 2, "cpu_milli": 16_000}, "gpu_model": None}
    snapshot["running"] = []
    problem = encode(Snapshot.model_validate(snapshot))
    assert binding_resources(problem, [0]).tolist() == [0]
    snapshot["pending"][0]["request"]["cpu_milli"] = 17_000
    problem = encode(Snapshot.model_validate(snapshot))
    assert binding_resources(problem, list(range(len(problem.gangs)))).tolist() == [0, 1]
