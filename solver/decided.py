"""What admission decided: who starts, in which order, why, and beside whom."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

from gangfit.solver.assignment import Assignment, considered
from gangfit.solver.oracle import Preemption
from gangfit.solver.problem import Problem
from gangfit.solver.reservation import Reservation
from gangfit.solver.tenants import Step

Decision = Literal["greedy", "bound", "search", "limit"]
"""What settled a gang's question: a placement found by packing, a count, CP-SAT; limit: time ran out."""


@dataclass(frozen=True)
class Admission:
    """What the loop decided."""

    plans: dict[str, Assignment]
    """Greedy rule → a placement of all admitted gangs by that rule, as far as it got; equal plans may be one object."""
    preemption: Preemption
    """Victims of the admitted gangs."""
    steps: tuple[Step, ...]
    """Whose turn it was, and why."""
    decided: dict[int, Decision]
    """Gang → how its question was settled; `limit` = undecided."""
    late: frozenset[int] = frozenset()
    """Gangs that start only when they are asked again."""
    doubtful: int = 0
    """Refusals that rest on floats, to 1e-6."""
    reservation: Reservation | None = None
    """What is promised to the first gang that waits; plans place that gang, too."""

    def round(self, problem: Problem) -> Problem:
        """The round that the plans are for: with second columns if something is promised."""
        return problem if self.reservation is None else self.reservation.problem

    def in_order(self, problem: Problem, assignment: Assignment) -> list[int]:
        """The gangs placed, in considered order, those that start when asked again last."""
        order = [step.gang for step in considered(problem, self.starts(assignment), self.late)]
        first = [j for j in order[: problem.waiting] if j in assignment and j not in self.late]
        return first + order[problem.waiting :]

    def starts(self, assignment: Assignment) -> Assignment:
        """An assignment without the gang that only has a promise."""
        head = -1 if self.reservation is None else self.reservation.gang
        return {gang: spread for gang, spread in assignment.items() if gang != head}
