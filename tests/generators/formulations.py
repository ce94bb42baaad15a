"""Both formulations solved to the end, stated and real tier values side by side; and rules made to vanish."""

from __future__ import annotations

from collections.abc import Sized
from dataclasses import dataclass
from typing import Any

import numpy as np
import pytest
from ortools.sat.python import cp_model

from gangfit.models import Snapshot
from gangfit.solver import eligibility
from gangfit.solver.assignment import Assignment, tier_values
from gangfit.solver.engine import Budget
from gangfit.solver.merged import Merged, merged
from gangfit.solver.plain import Plain, optimum
from gangfit.solver.problem import Problem, encode

ELIGIBILITY = ("node_state", "node_selector", "node_taints", "gpu_model")
"""Rules that leave out variables in both formulations."""


@dataclass(frozen=True)
class Answer:
    """What a formulation says."""

    admitted: tuple[str, ...]
    """Gangs that start, in considered order."""
    stated: tuple[int, ...]
    """Tier values after admission, as the model's objectives count them."""
    real: tuple[int, ...]
    """The same, counted on the placement; empty where the model's counts can't be placed."""


def plain_answer(snapshot: Snapshot) -> Answer:
    """The optimum of the plain model."""
    problem = encode(snapshot)
    placed, stated = optimum(problem)
    return _answer(problem, placed, stated)


def merged_answer(snapshot: Snapshot, gangs: list[str], *, single: bool) -> Answer | None:
    """The optimum of the merged model in which these gangs start; None if they can't. `single`: a class per node."""
    problem = encode(snapshot)
    chosen = [j for j, gang in enumerate(problem.gangs) if gang.name in gangs]
    alone = set(range(len(problem.node_names))) if single else set()
    model = merged(problem, chosen, alone, spread=True)
    values = _close(model) if model.feasible else None
    if values is None:
        return None
    stated = []
    for tier in range(3 + len(problem.tree.levels)):
        objective = model.objective(tier)
        model.model.minimize(objective)
        values = _close(model)
        assert values is not None
        stated.append(_value(objective, values))
        model.model.add(objective == stated[-1])
    placed, _ = model.decode(values, Budget(snapshot.policy))
    return Answer(tuple(gangs), tuple(stated), ()) if placed is None else _answer(problem, placed, tuple(stated))


def _answer(problem: Problem, placed: Assignment, stated: tuple[int, ...]) -> Answer:
    names = tuple(problem.gangs[j].name for j in sorted(placed))
    try:
        real = tier_values(problem, placed)
    except IndexError:  # a rule has vanished and a gang sits nowhere
        real = ()
    return Answer(names, stated, real)


def _close(model: Merged) -> list[int] | None:
    solver = cp_model.CpSolver()
    # As in `engine.run`: probing in 9.15 may call a feasible model infeasible.
    solver.parameters.cp_model_probing_level = 0
    solver.parameters.num_workers = 1
    status = solver.solve(model.model)
    assert status in (cp_model.OPTIMAL, cp_model.INFEASIBLE), status
    return list(solver.response_proto.solution) if status == cp_model.OPTIMAL else None


def _value(objective: Any, values: list[int]) -> int:
    if isinstance(objective, int):
        return objective
    flat = cp_model.FlatIntExpr(objective)
    return int(flat.offset) + sum(int(c) * values[v.index] for v, c in zip(flat.vars, flat.coeffs, strict=True))


def _everywhere(nodes: Sized, *_: object) -> eligibility.BoolArray:
    return np.ones(len(nodes), dtype=np.bool_)


def forget(monkeypatch: pytest.MonkeyPatch, formulation: type[Plain] | type[Merged], rule: str) -> None:
    """Make a rule or a tier vanish from one formulation."""
    if rule in ELIGIBILITY:
        monkeypatch.setattr(eligibility, rule, _everywhere)
    else:
        assert callable(getattr(formulation, rule))
        monkeypatch.setattr(formulation, rule, lambda *_: 0)
