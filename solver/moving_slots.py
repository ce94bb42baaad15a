"""Moves on counts of slots: what HiGHS settles before placements are looked at. A relaxation, as `Slots`.

A gang that moves gives its slots back and asks as many again, wherever in the cluster its eligible nodes are; in which
domain it finds them is left open.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence

from ortools.sat.python import cp_model

from gangfit.solver.joint import candidates
from gangfit.solver.merged import Sum
from gangfit.solver.move_choice import MoveChoice
from gangfit.solver.movers import Mover
from gangfit.solver.problem import Problem
from gangfit.solver.rights import Right
from gangfit.solver.slots import Slots


class MovingSlots(MoveChoice, Slots):
    """Slots model in which running gangs may move; `gangs` are the admitted ones, in considered order."""

    def __init__(
        self,
        problem: Problem,
        gangs: Sequence[int],
        rights: Sequence[Right],
        movers: Sequence[Mover],
        single: Collection[int] = (),
    ) -> None:
        self.prepare(problem, movers)
        self._admitted = tuple(gangs)
        reach = {*candidates(rights, len(problem.victims.gangs)), *self.movable}
        super().__init__(problem, [*gangs, *self.victim_of], rights, (), only=reach, single=single)
        self.move_bounds()

    @property
    def starting(self) -> Sequence[int]:
        """Gangs that are demand in every solution."""
        return self._admitted

    def victim_needed(self) -> None:
        """Gangs that move make room, too: cuts say who isn't needed."""

    def _more(self, within: Collection[int], r: int, size: int) -> cp_model.LinearExprT:
        """What gangs that move ask again, in slots of a size."""
        problem, terms = self.problem, []
        for v in self.movable:
            j = int(problem.copy_of[v])
            slots = int(problem.request[j, r]) // size * int(problem.members[j])
            if slots and int(problem.eligible_of[j]) in within:
                terms.append(slots * self.moved[v])
        return Sum(terms) if terms else 0

    def start(self, victims: Collection[int], moved: Mapping[int, int]) -> None:
        """Hint known victims and moves."""
        self.model.clear_hints()  # type: ignore[no-untyped-call]  # untyped in ortools 9.15
        for v, e in self.evicted.items():
            self.model.add_hint(e, v in victims)
        self.hint_moves(moved)
