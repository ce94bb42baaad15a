"""The restricted master of the pattern bound: a linear program over patterns, solved by HiGHS, one thread."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from highspy import _core

FloatArray = npt.NDArray[np.float64]
Column = tuple[float, tuple[int, ...], tuple[float, ...]]
"""Cost, rows, coefficients."""


PRIMAL = int(_core.simplex_constants.SimplexStrategy.kSimplexStrategyPrimal)
"""HiGHS' number for it."""


class Master:
    """min c·x, A·x ≥ lower, A·x ≤ upper, x ≥ 0, with columns that keep coming."""

    def __init__(self, lower: FloatArray, upper: FloatArray, artificial: float, primal: bool = False) -> None:
        """`artificial`: cost of what makes up for a `lower` not met. `primal`: by the primal simplex, else the dual."""
        # The plain core class: the Python wrapper prints a banner before it can be told not to.
        self._solver = _core._Highs()
        for option, value in (("output_flag", False), ("threads", 1), ("presolve", "off"), ("solver", "simplex")):
            self._solver.setOptionValue(option, value)
        if primal:
            self._solver.setOptionValue("simplex_strategy", PRIMAL)
        rows = len(lower)
        none = np.zeros(0, dtype=np.int32)
        starts = np.zeros(rows, dtype=np.int32)
        self._solver.addRows(rows, lower, upper, 0, starts, none, np.zeros(0))
        needy = np.flatnonzero(lower > -np.inf)
        self.add([(artificial, (int(row),), (1.0,)) for row in needy])

    def add(
        self, columns: Sequence[Column], least: npt.NDArray[Any] | None = None, most: npt.NDArray[Any] | None = None
    ) -> None:
        """More columns, between `least` (default 0) and `most` (default ∞) each."""
        if not columns:
            return
        count = len(columns)
        index = np.array([row for _, rows, _ in columns for row in rows], dtype=np.int32)
        value = np.array([v for _, _, values in columns for v in values], dtype=np.float64)
        starts = np.cumsum([0, *(len(rows) for _, rows, _ in columns)], dtype=np.int32)[:-1]
        cost = np.array([c for c, _, _ in columns], dtype=np.float64)
        low = np.zeros(count) if least is None else least.astype(np.float64)
        high = np.full(count, np.inf) if most is None else most.astype(np.float64)
        self._solver.addCols(count, cost, low, high, len(index), starts, index, value)

    @property
    def objective(self) -> float:
        """Objective of the last solution."""
        return float(self._solver.getInfo().objective_function_value)

    def values(self) -> FloatArray:
        """Value of every column at the last solution, artificial ones first."""
        return np.array(self._solver.getSolution().col_value, dtype=np.float64)

    def raise_lower(self, row: int, lower: float) -> None:
        """A row's new lower limit."""
        self._solver.changeRowBounds(row, lower, np.inf)

    def between(self, column: int, least: float, most: float) -> None:
        """New limits of a column, artificial ones counted."""
        self._solver.changeColBounds(column, least, most)

    def solve(self, seconds: float | None) -> FloatArray | None:
        """Row duals of an optimal basis, or None if HiGHS didn't get there (in so many seconds)."""
        if seconds is not None:
            self._solver.setOptionValue("time_limit", self._solver.getRunTime() + seconds)
        self._solver.run()
        if self._solver.getModelStatus() != _core.HighsModelStatus.kOptimal:
            return None
        return np.array(self._solver.getSolution().row_dual, dtype=np.float64)
