"""The joint model with moves: running gangs that leave their places and are placed anew. Rules 14–16."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

import numpy as np
from ortools.sat.python import cp_model

from gangfit.solver.assignment import Assignment, Spread
from gangfit.solver.classes import NodeClass
from gangfit.solver.engine import Budget
from gangfit.solver.joint import candidates
from gangfit.solver.merged import Sum
from gangfit.solver.move_choice import MoveChoice
from gangfit.solver.movers import Mover
from gangfit.solver.problem import Problem
from gangfit.solver.rights import Right

NOWHERE = Spread(np.zeros(0, dtype=np.int64), np.zeros(0, dtype=np.int64))


class Moving(MoveChoice):
    """Joint model in which running gangs may also move: each is then one more gang that has to be placed.

    `movers` say who may be moved for whom. `gangs` are the admitted ones, in considered order.
    """

    def __init__(
        self,
        problem: Problem,
        gangs: Sequence[int],
        rights: Sequence[Right],
        movers: Sequence[Mover],
        single: Collection[int],
        spread: bool,
    ) -> None:
        self.prepare(problem, movers)
        reach = {*candidates(rights, len(problem.victims.gangs)), *self.movable}
        everyone = (*gangs, *self.victim_of)
        super().__init__(problem, everyone, rights, single, spread, only=reach)
        self.move_bounds()

    def _starts(self, j: int) -> cp_model.LinearExprT:
        """1 for an admitted gang; for one that stands for a running gang, whether that one moves."""
        v = self.victim_of.get(j)
        return 1 if v is None else self.moved[v]

    def whole_gang(self) -> None:
        """Rule 1: all members, and of a running gang only if it moves."""
        for j in self.gangs:
            total = [z for _, z in self._of(j)]
            if total:
                self.model.add(Sum(total) == int(self.problem.members[j]) * self._starts(j))
            elif j in self.victim_of:
                self.model.add(self.moved[self.victim_of[j]] == 0)
            else:
                self.feasible = False
                return

    def _exactly_one(self, j: int, homes: Iterable[cp_model.IntVar]) -> None:
        """A gang with a required level sits in one of its domains if it starts or moves."""
        self.model.add(Sum(list(homes)) == self._starts(j))

    def _extra(self, level: int, j: int) -> cp_model.LinearExpr:
        extra, v = super()._extra(level, j), self.victim_of.get(j)
        return extra if v is None else extra + 1 - self.moved[v]

    def start(self, assignment: Assignment, victims: Collection[int], moved: Mapping[int, int]) -> None:
        """Hint a known solution."""
        self.hint({j: assignment.get(j, NOWHERE) for j in self.gangs}, victims)
        self.hint_moves(moved)

    def decode(self, values: Sequence[int], budget: Budget) -> tuple[Assignment | None, list[NodeClass]]:
        """As in `Merged`; gangs that don't move are absent."""
        found, failed = super().decode(values, budget)
        if found is None:
            return None, failed
        return {j: spread for j, spread in found.items() if len(spread.nodes)}, []
