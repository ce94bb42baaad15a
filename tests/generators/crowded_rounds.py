"""Plans to improve, ways to improve them, and an exactly full round that keeps the fast path busy."""

from __future__ import annotations

from functools import cache

from gangfit.models import Snapshot
from gangfit.solver.admission import admit
from gangfit.solver.assignment import Assignment, rank
from gangfit.solver.engine import Budget
from gangfit.solver.kernels import warmup
from gangfit.solver.problem import Problem
from gangfit.solver.tiers import Improvement, TierResult

ANY_SIZE = 1 << 40
"""As `Improvement.small`: the merged model alone."""


def greedy_plan(problem: Problem, *, worst: bool = False) -> Assignment:
    """A plan of the admitted gangs, the best or the worst of the greedy rules."""
    plans = admit(problem, Budget(problem.snapshot.policy), lambda line: None).plans.values()
    return (max if worst else min)(plans, key=lambda plan: rank(problem, plan))


@cache
def compiled() -> None:
    """Kernels compiled before the first round that is timed."""
    warmup()


def improve(problem: Problem, plan: Assignment, small: int) -> tuple[list[TierResult], Improvement]:
    compiled()
    improvement = Improvement(problem, dict(plan), Budget(problem.snapshot.policy), lambda line: None, small=small)
    results = improvement.run()
    assert not improvement.failures
    return results, improvement


def crowded(seed: int, **policy: object) -> Snapshot:
    """A round that keeps the fast path busy: 192 nodes, exactly full."""
    sizes = [5, 9, 14, 3, 21, 7, 11, 30, 6, 2, 17, 13, 4, 8, 10, 12]
    return Snapshot.model_validate(
        {
            "time_s": 0,
            "topology": {"levels": [{"name": "spine", "weight": 3}, {"name": "rack", "weight": 1}], "node_weight": 0},
            "nodes": [{"name": f"n{n:03d}", "path": [f"s{n // 48}", f"r{n // 12:02d}"], "gpus": 8} for n in range(192)],
            "pending": [
                {"name": f"g{j:02d}", "members": m, "request": {"gpus": 8}, "submitted_s": (j * 7 + seed) % 16}
                for j, m in enumerate(sizes)
            ],
            "policy": policy,
        }
    )
