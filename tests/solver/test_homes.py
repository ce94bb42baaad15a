"""Gangs placed in domains that were chosen for them."""

from __future__ import annotations

import pytest

from benchmarks.generators import contended
from gangfit.solver import solve
from gangfit.solver.greedy.homes import place_in_homes
from gangfit.solver.problem import encode


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("family", ["run", "scat"])
def test_whole_nodes_always_find_room(family: str, seed: int) -> None:
    """The domains of a plan hold all of its gangs again, whatever the order they were placed in; no node twice."""
    snapshot = contended(family, 128, 12, seed)
    snapshot = snapshot.model_copy(update={"policy": snapshot.policy.model_copy(update={"time_limit_s": 1.0})})
    plan = solve(snapshot)
    problem = encode(snapshot)
    victims = {victim.gang for victim in plan.preemptions}
    space = problem.without([v for v, gang in enumerate(problem.victims.gangs) if gang.name in victims])
    placed = {one.gang: one.nodes() for one in plan.placements}
    number = {gang.name: j for j, gang in enumerate(problem.gangs)}
    at = {name: i for i, name in enumerate(problem.node_names)}
    gangs = sorted(number[name] for name in placed)
    homes = {}
    for name, nodes in placed.items():
        level = int(problem.required[number[name]])
        if level >= 0:
            homes[number[name]] = int(problem.tree.domain[level][at[next(iter(nodes))]])
    assert homes
    found = place_in_homes(space, gangs, homes)
    assert found is not None
    assert sorted(found) == gangs
    used = [node for spread in found.values() for node in spread.nodes.tolist()]
    assert len(used) == len(set(used))
    for j, spread in found.items():
        assert spread.counts.sum() == problem.members[j]
        assert (problem.total[j] == spread.counts.sum() * problem.request[j]).all()
        level = int(problem.required[j])
        assert level < 0 or set(problem.tree.domain[level][spread.nodes].tolist()) == {homes[j]}


def test_a_home_that_is_too_small() -> None:
    """No other domain is taken instead."""
    snapshot = contended("run", 128, 12, 0)
    problem = encode(snapshot)
    j = next(j for j in range(len(problem.gangs)) if problem.required[j] >= 0)
    level = int(problem.required[j])
    space = problem.without(range(len(problem.victims.gangs)))
    full = problem.without([])
    none = [
        d
        for d in range(problem.tree.domains(level))
        if problem.free[slice(*problem.tree.nodes(level, d)), 0].sum() < problem.total[j, 0]
    ]
    assert none
    assert place_in_homes(full, [j], {j: none[0]}) is None
    assert place_in_homes(space, [j], {}) is not None
