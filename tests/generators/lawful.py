"""Whether a placement keeps the rules of placement, straight from the arrays."""

from __future__ import annotations

import numpy as np

from gangfit.solver.assignment import Assignment
from gangfit.solver.problem import Problem
from gangfit.solver.space import members_per_node


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
