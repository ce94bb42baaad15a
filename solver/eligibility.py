"""Rules 3–6: which nodes a gang may use. Each function takes node entries and returns one boolean per entry."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from gangfit.models import Gang, Node, Taint, Toleration
from gangfit.solver.arrays import BoolArray


class Labels:
    """Labels of node entries, turned round: which entries carry a label, for those that gangs ask."""

    def __init__(self, nodes: Sequence[Node], gangs: Iterable[Gang]) -> None:
        self._count = len(nodes)
        self._carriers: dict[tuple[str, str], list[int]] = {
            pair: [] for gang in gangs if gang.selector for pair in gang.selector.items()
        }
        if not self._carriers:
            return
        for i, node in enumerate(nodes):
            for pair in node.labels.items():
                if pair in self._carriers:
                    self._carriers[pair].append(i)

    def __len__(self) -> int:
        """Number of entries."""
        return self._count

    def carry(self, key: str, value: str) -> BoolArray:
        """(entries,): the entry has the label with that value."""
        result = np.zeros(self._count, dtype=np.bool_)
        result[self._carriers[key, value]] = True
        return result


def node_state(nodes: Sequence[Node]) -> BoolArray:
    """Rule 3: only ready nodes take members."""
    return np.array([node.state == "ready" for node in nodes], dtype=np.bool_)


def node_selector(labels: Labels, gang: Gang) -> BoolArray:
    """Rule 4: every key of the gang's selector is a label of the node with that very value."""
    result = np.ones(len(labels), dtype=np.bool_)
    for key, value in gang.selector.items():
        result &= labels.carry(key, value)
    return result


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
