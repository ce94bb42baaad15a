"""Integer proofs from a linear relaxation: HiGHS' duals, rounded, show a bound or a contradiction in whole numbers.

For any multipliers y ≤ 0 of the rows a·x ≤ u and any box l ≤ x ≤ h,

    c·x  ≥  Σ_i y_i·u_i + Σ_j min(r_j·l_j, r_j·h_j),        r = c − Σ_i y_i·a_i

so floats may choose y; what it proves is worked out exactly. With c = 0 a positive value says that no x is left.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from gangfit.solver.linear_form import FloatArray, Form

SCALE = 2**20
"""Duals are rounded to multiples of 1/SCALE."""
EXACT = 2.0**53
"""Integers below are exact in a float."""
SAFE = 2.0**62
"""Sums below fit into 64 bits."""

Exact = np.ndarray[Any, np.dtype[Any]]


def dual_bound(form: Form, duals: FloatArray) -> int | None:
    """A lower bound of the form's objective, proven in integers; None: its figures are too large for one."""
    value = _weighted(form, form.cost, duals, SCALE)
    return None if value is None else -(-value // SCALE)


def contradicts(form: Form, ray: FloatArray) -> bool:
    """Whether a ray of the dual proves in integers that nothing satisfies the form."""
    top = float(np.abs(ray).max(initial=0.0))
    if not top or not np.isfinite(top):
        return False
    value = _weighted(form, np.zeros(len(form.cost)), -np.abs(ray) / top, SCALE)
    return value is not None and value > 0


def _weighted(form: Form, cost: FloatArray, duals: FloatArray, scale: int) -> int | None:
    """`scale` × the bound that the duals prove."""
    upper = np.array(form.rows.upper)
    value = np.array(form.rows.value)
    if not len(upper) or not np.isfinite(upper).all():
        return None
    figures = np.concatenate([upper, value, form.lower, form.upper, cost])
    if (np.abs(figures) >= EXACT).any() or (figures != np.rint(figures)).any():
        return None
    y = np.minimum(np.rint(duals * scale), 0)
    row = np.repeat(np.arange(len(upper)), np.diff(form.rows.start))
    column = np.array(form.rows.index, dtype=np.int64)
    # By how much no sum below can be passed.
    reach = scale * np.abs(cost)
    np.add.at(reach, column, np.abs(y[row] * value))
    box = np.maximum(np.abs(form.lower), np.abs(form.upper))
    most = float(np.abs(y * upper).sum() + (reach * box).sum())
    kind: type = np.int64 if most < SAFE else object
    ints: Exact = np.array([int(x) for x in y], dtype=kind)
    reduced: Exact = np.array([scale * int(c) for c in cost], dtype=kind)
    np.subtract.at(reduced, column, ints[row] * _whole(value, kind))
    lower, higher = reduced * _whole(form.lower, kind), reduced * _whole(form.upper, kind)
    return int((ints * _whole(upper, kind)).sum() + np.minimum(lower, higher).sum())


def _whole(figures: FloatArray, kind: type) -> Exact:
    return np.array([int(x) for x in figures], dtype=kind)
