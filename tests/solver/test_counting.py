"""The count behind the exact-sum bound of full clusters."""

from __future__ import annotations

import numpy as np
import pytest

from gangfit.solver.kernels import kernel


@pytest.mark.parametrize("zeros", [1, 255, 256, 300, 1_000])
def test_every_zero_is_a_part_of_its_own(zeros: int) -> None:
    """More than 255 parts, too: the table holds 16 bits."""
    parts = np.zeros(zeros + 1, dtype=np.uint16)
    one = np.ones(1, dtype=np.int64)
    assert kernel("balanced")(one * zeros, one * 0, one.copy(), one * 0, parts) == zeros


def test_opposite_numbers_pair_up() -> None:
    count, value = np.array([3, 3], dtype=np.int64), np.array([2, -2], dtype=np.int64)
    stride = np.array([1, 4], dtype=np.int64)
    parts = np.zeros(16, dtype=np.uint16)
    assert kernel("balanced")(count, value, stride, np.zeros(2, dtype=np.int64), parts) == 3
