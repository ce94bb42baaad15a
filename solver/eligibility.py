"""Rules 3–6: which nodes a gang may use. Each function takes node entries and returns one boolean per entry."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from gangfit.models import Gang, Node, Taint, Toleration
from gangfit.solver.arrays import BoolArray


def node_state(nodes: Sequence[Node]) -> BoolArray:
    """Rule 3: only ready nodes take members."""
    return np.array([node.state == "ready" for node in nodes], dtype=np.bool_)


def node_selector(nodes: Sequence[Node], gang: Gang) -> BoolArray:
    """Rule 4: every key of the gang's selector is a label of the node with that very value."""
    wanted = gang.selector.items()
    return np.array([wanted <= node.labels.items() for node in nodes], dtype=np.bool_)


def node_taints(nodes: Sequence[Node], gang: Gang) -> BoolArray:
    """Rule 5: every taint of the node is tolerated by the gang."""
    return np.array(
        [all(any(_matches(t, taint) for t in gang.tolerations) for taint in node.taints) for node in nodes],
        dtype=np.bool_,
    )


def gpu_model(nodes: Sequence[Node], gang: Gang) -> BoolArray:
    """Rule 6: a gang that names a GPU model sits only on nodes of that model."""
    if gang.gpu_model is None:
        return np.ones(len(nodes), dtype=np.bool_)
    return np.array([node.gpu_model == gang.gpu_model for node in nodes], dtype=np.bool_)


def _matches(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect is not None and toleration.effect != taint.effect:
        return False
    if toleration.key and toleration.key != taint.key:
        return False
    return toleration.operator == "Exists" or toleration.value == taint.value
