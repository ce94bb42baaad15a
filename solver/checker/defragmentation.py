"""Whether an answer to a request to defragment does what it says."""

from __future__ import annotations

import numpy as np

from gangfit.models import Defragmentation, MovesPolicy, Plan, Snapshot
from gangfit.solver.checker.case import Case
from gangfit.solver.checker.leaving import drains
from gangfit.solver.checker.moving import move_eligible, moves, returns
from gangfit.solver.checker.rules import (
    gpu_model,
    node_capacity,
    node_selector,
    node_state,
    node_taints,
    required_level,
    whole_gang,
)


def check_defragmentation(snapshot: Snapshot, answer: Defragmentation) -> list[str]:
    """What is wrong with an answer, one sentence each; empty if nothing is."""
    policy = snapshot.policy.model_copy(update={"moves": MovesPolicy(mode="allowed", max_gangs=10_000)})
    plan = Plan(moves=answer.moves, transitions=answer.transitions)
    case = Case(snapshot.model_copy(update={"pending": (), "policy": policy}), plan)
    rules = (
        whole_gang, node_capacity, node_state, node_selector, node_taints, gpu_model, required_level, move_eligible,
    )  # fmt: skip
    faults = [violation.message for rule in rules for violation in rule(case)]
    faults += [message for _, message in (*drains(case), *returns(case))]
    values = {tier.name: tier.value for tier in answer.tiers}
    if answer.tiers and values != moves(case):
        faults.append(f"tiers say {values}, recomputed {moves(case)}")
    if answer.status in ("optimal", "feasible"):
        faults += _not_empty(case, answer)
    return faults


def _not_empty(case: Case, answer: Defragmentation) -> list[str]:
    """Domains that are said to be empty and aren't."""
    cluster = case.cluster
    hosts = np.zeros(len(cluster.names), dtype=np.bool_)
    staying = cluster.running.only(cluster.counted & ~case.moved)
    hosts[staying.node] = True
    hosts[case.arrivals.node] = True
    taken = cluster.ready & (cluster.gpus > 0) & (hosts | (cluster.gpus_used > 0))
    present = cluster.ready & (cluster.gpus > 0)
    faults = []
    if len(set(answer.domains)) < answer.wanted:
        faults.append(f"{len(set(answer.domains))} domains are named, {answer.wanted} are wanted")
    for domain in answer.domains:
        inside = np.array([_within(case, node, domain) for node in range(len(cluster.names))], dtype=np.bool_)
        if not (inside & present).any():
            faults.append(f"domain {'/'.join(domain)} has no ready node with GPUs")
        held = [cluster.names[node] for node in np.flatnonzero(inside & taken).tolist()]
        faults += [f"domain {'/'.join(domain)} isn't empty: node {name!r}" for name in held]
    return faults


def _within(case: Case, node: int, domain: tuple[str, ...]) -> bool:
    """Whether a node lies in a domain."""
    path: tuple[str | None, ...] = case.cluster.entries[case.cluster.entry[node]].path
    if len(domain) > len(path):
        return case.cluster.names[node] == domain[-1]
    same: bool = path[: len(domain)] == domain
    return same
