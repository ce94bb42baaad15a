"""What both formulations with moves share: who moves, for whom, and how many. Rules 14 and 15."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

import numpy as np
from ortools.sat.python import cp_model

from gangfit.solver.joint import Joint
from gangfit.solver.merged import Sum
from gangfit.solver.movers import Mover, weights
from gangfit.solver.problem import Problem


class MoveChoice(Joint):
    """A joint model in which running gangs may also move. `movers` say who may be moved for whom."""

    def prepare(self, problem: Problem, movers: Sequence[Mover]) -> None:
        """What has to be known before the rows of the other rules are built."""
        self.movers = list(movers)
        may = np.zeros(len(problem.victims.gangs), dtype=np.bool_)
        for mover in movers:
            may |= mover.may
        self.movable = np.flatnonzero(may).tolist()
        self.victim_of = {int(problem.copy_of[v]): v for v in self.movable}
        """Gang that stands for a moved one → the victim it is."""
        self.moved: dict[int, cp_model.IntVar] = {}
        """m[v]: the running gang moves."""
        self.moved_for: dict[tuple[int, int], cp_model.IntVar] = {}
        """m[v, i]: it moves for the i-th mover."""

    def _members(self) -> None:
        for v in self.movable:
            self.moved[v] = self.model.new_bool_var("")
        super()._members()
        for v in self.movable:
            self.model.add_implication(self.moved[v], self.evicted[v].negated())

    def leaves(self, v: int) -> cp_model.LinearExprT:
        """Whether a running gang leaves its place, for good or to another."""
        return self.evicted[v] + self.moved[v] if v in self.moved else self.evicted[v]

    def gone(self, values: Sequence[int]) -> frozenset[int]:
        """Running gangs that leave their places in a solution."""
        return self.leaving(values) | self.moves(values).keys()

    def moves(self, values: Sequence[int]) -> dict[int, int]:
        """Gangs moved in a solution → the gang it is for."""
        return {v: self.movers[i].gang for (v, i), m in self.moved_for.items() if values[m.index]}

    def move_bounds(self) -> None:
        """For whom each gang moves, how many do, and how many GPUs for each mover."""
        weight = weights(self.problem)
        for v in self.movable:
            choices = []
            for i, mover in enumerate(self.movers):
                if mover.may[v]:
                    self.moved_for[v, i] = choice = self.model.new_bool_var("")
                    choices.append(choice)
            self.model.add(Sum(choices) == self.moved[v])
        for i, mover in enumerate(self.movers):
            rows = [int(weight[v]) * m for (v, at), m in self.moved_for.items() if at == i]
            self.model.add(Sum(rows) <= mover.most)
        self.model.add(self.gangs_moved() <= self.problem.snapshot.policy.moves.max_gangs)

    def gangs_moved(self) -> cp_model.LinearExpr:
        """Gangs moved."""
        return Sum(list(self.moved.values()))

    def members_moved(self) -> cp_model.LinearExpr:
        """Members of the gangs moved."""
        return Sum([self.problem.victims.gangs[v].members * m for v, m in self.moved.items()])

    def enough(self, victims: Collection[int], moved: Collection[int]) -> None:
        """Rule 11: with these moves (and any more) these victims are enough, so no larger set of victims is lawful."""
        if not self.evicted.keys() >= set(victims) or not self.moved.keys() >= set(moved):
            return
        inside = [*(self.evicted[v] for v in victims), *(self.moved[v] for v in moved)]
        outside = [e for v, e in self.evicted.items() if v not in victims]
        self.model.add(Sum(outside) <= len(outside) * (len(inside) - Sum(inside)))

    def hint_moves(self, moved: Mapping[int, int]) -> None:
        """Start from these moves."""
        for v, m in self.moved.items():
            self.model.add_hint(m, v in moved)
        for (v, i), choice in self.moved_for.items():
            self.model.add_hint(choice, moved.get(v) == self.movers[i].gang)
