"""Greedy placement strategies: functions of one shape, Problem → Assignment."""

from collections.abc import Callable

from gangfit.solver.assignment import Assignment
from gangfit.solver.greedy.strategies import PLACES, best_fit, bottom_up, lexicographic, lowest_switch, rack_first
from gangfit.solver.problem import Problem

Strategy = Callable[[Problem], Assignment]

STRATEGIES: dict[str, Strategy] = {
    "rack_first": rack_first,
    "bottom_up": bottom_up,
    "lexicographic": lexicographic,
    "best_fit": best_fit,
    "lowest_switch": lowest_switch,
}
"""Name → baseline."""

__all__ = ["PLACES", "STRATEGIES", "Strategy"]
