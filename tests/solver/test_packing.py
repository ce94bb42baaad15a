"""Handing a class's counts out to nodes: exact, and never more than was said."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

import numpy as np
import pytest
from hand_made import Json, gang, node, snapshot
from hypothesis import given, settings
from hypothesis import strategies as st

import gangfit.solver.packing
from gangfit.models import Policy
from gangfit.solver.classes import NodeClass
from gangfit.solver.engine import Budget, Outcome
from gangfit.solver.packing import Packed, first_fit, pack
from gangfit.solver.problem import Problem, encode
from gangfit.solver.space import members_per_node


def alike(count: int, pending: list[Json], gpus: int = 8, **facts: int) -> tuple[Problem, NodeClass]:
    """A round of alike nodes, all of one class."""
    problem = encode(snapshot([node(f"n{i}", "r", gpus=gpus, **facts) for i in range(count)], pending))
    room = {j: int(members_per_node(problem, problem.free, j)[0]) for j in range(len(pending))}
    group = NodeClass(
        nodes=np.arange(count), free=problem.free[0], intact=True, room={j: held for j, held in room.items() if held}
    )
    return problem, group


def budget() -> Budget:
    return Budget(Policy(time_limit_s=60, workers=1, deterministic=True))


def faults(
    problem: Problem, group: NodeClass, members: dict[int, int], most: dict[int, int], opened: int, packed: Packed
) -> Iterator[str]:
    """What is wrong with the nodes' members."""
    for j in members:
        on = [counts.get(j, 0) for counts in packed]
        if sum(on) != members[j]:
            yield f"gang {j} has {sum(on)} of {members[j]} members"
        if np.count_nonzero(on) > most[j]:
            yield f"gang {j} sits on more than {most[j]} nodes"
    if sum(1 for counts in packed if any(counts.values())) > opened:
        yield f"more than {opened} nodes are open"
    for counts in packed:
        taken = sum((np.array(problem.request[j]) * count for j, count in counts.items()), np.zeros_like(group.free))
        if (taken > group.free).any():
            yield f"{counts} take {taken.tolist()} of {group.free.tolist()}"


def possible(problem: Problem, group: NodeClass, members: dict[int, int], most: dict[int, int], opened: int) -> bool:
    """Whether any way to hand out exists: all of them are tried."""
    nodes: list[Packed] = [[]]
    for j, total in members.items():
        ways = [way for way in product(range(total + 1), repeat=opened) if sum(way) == total]
        ways = [way for way in ways if np.count_nonzero(way) <= most[j]]
        nodes = [[*sofar, dict(enumerate(way))] for sofar in nodes for way in ways]
    for choice in nodes:
        taken = np.zeros((opened, len(group.free)), dtype=np.int64)
        for j, way in zip(members, choice, strict=True):
            for n, count in way.items():
                taken[n] += problem.request[j] * count
        if (taken <= group.free).all():
            return True
    return False


GANG = st.tuples(st.integers(1, 3), st.integers(1, 7), st.integers(0, 3), st.integers(1, 3))
"""Members, GPUs, CPU, most nodes."""


@settings(max_examples=400, deadline=None)
@given(gangs=st.lists(GANG, min_size=1, max_size=3), count=st.integers(1, 3), spare=st.integers(0, 1))
def test_exact(gangs: list[tuple[int, int, int, int]], count: int, spare: int) -> None:
    asks = [{"gpus": gpus, "cpu_milli": cpu} for _, gpus, cpu, _ in gangs]
    pending = [gang(f"g{j}", asked[0], request=asks[j]) for j, asked in enumerate(gangs)]
    problem, group = alike(count, pending, cpu_milli=5)
    opened = max(count - spare, 0)
    if len(group.room) < len(gangs):
        return
    members = {j: asked[0] for j, asked in enumerate(gangs)}
    most = {j: asked[3] for j, asked in enumerate(gangs)}
    packed = pack(problem, group, members, most, opened, budget())
    if packed is None:
        assert not possible(problem, group, members, most, opened)
    else:
        assert not list(faults(problem, group, members, most, opened, packed))
    quick = first_fit(problem, group, members, most, opened)
    if quick is not None:
        assert packed == quick


def test_search_finds_what_first_fit_misses() -> None:
    """Members of 4, 3, 3, 2, 2, 2 GPUs on two nodes of 8: best fit ends 4 + 3, 3 + 2 + 2, and one of 2 is left."""
    problem, group = alike(2, [gang("a", 1, 4), gang("b", 2, 3), gang("c", 3, 2)])
    members, most = {0: 1, 1: 2, 2: 3}, {0: 1, 1: 2, 2: 3}
    assert first_fit(problem, group, members, most, 2) is None
    packed = pack(problem, group, members, most, 2, budget())
    assert packed is not None
    assert not list(faults(problem, group, members, most, 2, packed))


def test_what_stays_together_stays_together() -> None:
    problem, group = alike(3, [gang("a", 4, 2), gang("b", 2, 4)])
    packed = pack(problem, group, {0: 4, 1: 2}, {0: 1, 1: 1}, 2, budget())
    assert packed is not None
    assert sorted(map(str, packed)) == ["{0: 4}", "{1: 2}", "{}"]


@pytest.mark.parametrize("members", [{}, {0: 0}])
def test_nothing_to_hand_out(members: dict[int, int]) -> None:
    problem, group = alike(2, [gang("a")])
    assert pack(problem, group, members, members, 0, budget()) == [{}, {}]


def test_no_node_open() -> None:
    problem, group = alike(2, [gang("a")])
    assert pack(problem, group, {0: 1}, {0: 1}, 0, budget()) is None


def test_out_of_time_is_no_answer(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gangfit.solver.packing, "run", lambda *_: Outcome("unknown", None, None))
    problem, group = alike(2, [gang("a", 1, 4), gang("b", 2, 3), gang("c", 3, 2)])
    assert pack(problem, group, {0: 1, 1: 2, 2: 3}, {0: 1, 1: 2, 2: 3}, 2, budget()) is None
