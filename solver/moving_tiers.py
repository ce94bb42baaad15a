"""Tiers 3–6 where gangs move: placements, victims and moves stay one joint choice, tier 2 held."""

from __future__ import annotations

import numpy as np

from gangfit.solver.contested import ContestedImprovement
from gangfit.solver.joint import Joint
from gangfit.solver.movers import moved_members, movers
from gangfit.solver.moving import Moving
from gangfit.solver.moving_oracle import Question
from gangfit.solver.oracle import Answer


class MovingImprovement(ContestedImprovement):
    """As `ContestedImprovement`, over the model with moves."""

    @property
    def _question(self) -> Question:
        return Question.of(self.problem, self.gangs, self.preemption.preemptors, self.preemption.movers)

    def _reach(self) -> list[int]:
        reach = set(super()._reach())
        for mover in movers(self.problem, self.gangs, self.preemption.movers):
            reach.update(np.flatnonzero(mover.may).tolist())
        return sorted(reach)

    def _lawful(self, answer: Answer) -> bool:
        assert self.budget is not None
        enough = self._question.needed(answer, self.budget)
        if len(enough) == len(answer.victims):
            return True
        self.preemption.enough.append((enough, frozenset(answer.moved)))
        return False

    def _joint(self, single: set[int]) -> Joint:
        model = self._question.model(single, True, self.preemption.enough)
        model.model.add(model.gangs_moved() <= len(self.preemption.moved))
        model.model.add(model.members_moved() <= moved_members(self.problem, self.preemption.moved))
        return model

    def _hint(self, model: Joint) -> None:
        assert isinstance(model, Moving)
        model.start(self.assignment, self.preemption.victims, self.preemption.moved)
