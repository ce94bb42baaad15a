"""Rules 1 to 7 of docs/model.md, one function each, and the names a plan refers to; `RULES` lists all rules."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from gangfit.models import PendingGang, Violation
from gangfit.solver.checker.case import Case
from gangfit.solver.checker.claims import claims
from gangfit.solver.checker.giving_way import tenant_limit, victim_eligible, victim_needed, victim_right
from gangfit.solver.checker.leximin import closed_upward
from gangfit.solver.checker.moving import move_eligible, move_needed, move_right
from gangfit.solver.checker.order import considered_order
from gangfit.solver.checker.reservation import reservation
from gangfit.solver.checker.room import Wish, tolerates
from gangfit.solver.checker.tree import Bools
from gangfit.solver.checker.waiting import admission, blocked_reason

__all__ = [
    "RULES", "admission", "blocked_reason", "claims", "closed_upward", "considered_order", "gpu_model",
    "move_eligible", "move_needed", "move_right", "node_capacity", "node_selector", "node_state", "node_taints",
    "reference", "required_level", "reservation", "tenant_limit", "victim_eligible", "victim_needed",
    "victim_right", "whole_gang",
]  # fmt: skip

ROLE = "members"
"""The only role of a gang today."""


def reference(case: Case) -> Iterator[Violation]:
    """Every gang, tenant, node and level that the plan names exists; gangs are pending ones, victims running ones."""
    plan, cluster = case.plan, case.cluster
    for placement in plan.placements:
        if placement.gang not in cluster.rank:
            yield from _unknown_gang(case, "placements", placement.gang)
        if all(on_nodes.keys() <= cluster.index.keys() for on_nodes in placement.roles.values()):
            continue
        nodes = dict.fromkeys(node for on_nodes in placement.roles.values() for node in on_nodes)
        for node in nodes:
            if node not in cluster.index:
                message = (
                    f"gang {placement.gang!r} is placed on unknown node {node!r}; {len(cluster.names)} nodes known"
                )
                yield Violation(rule="reference", gang=placement.gang, node=node, message=message)
    for move in plan.moves:
        yield from _unknown_gang(case, "moves ('for')", move.for_gang or "")
        if move.gang not in cluster.running_index:
            message = f"moves name {move.gang!r}, which is none of {len(cluster.running_gangs)} running gangs"
            yield Violation(rule="reference", gang=move.gang, message=message)
        for node in move.nodes():
            if node not in cluster.index:
                message = f"gang {move.gang!r} moves to unknown node {node!r}; {len(cluster.names)} nodes known"
                yield Violation(rule="reference", gang=move.gang, node=node, message=message)
    lists = (("blocked", plan.blocked), ("considered", plan.considered), ("quality", plan.quality))
    for where, entries in lists:
        for listed in entries:
            if listed.gang not in cluster.rank:
                yield from _unknown_gang(case, where, listed.gang)
    for preemption in plan.preemptions:
        yield from _unknown_gang(case, "preemptions ('for')", preemption.for_gang)
        if preemption.gang not in cluster.running_index:
            message = (
                f"preemptions name {preemption.gang!r}, which is none of {len(cluster.running_gangs)} running gangs"
            )
            yield Violation(rule="reference", gang=preemption.gang, message=message)
    for entry in plan.fairness:
        if entry.tenant not in case.tenancy.index:
            message = f"fairness names unknown tenant {entry.tenant!r}; known: {_listed(case.tenancy.names)}"
            yield Violation(rule="reference", message=message)
    for intact in plan.fragmentation:
        if intact.level not in cluster.tree.levels:
            message = f"fragmentation names unknown level {intact.level!r}; known: {_listed(cluster.tree.levels)}"
            yield Violation(rule="reference", message=message)


def whole_gang(case: Case) -> Iterator[Violation]:
    """A gang starts with all its members or none; it is placed or blocked, never both, never twice."""
    for placement in case.plan.placements:
        if placement.roles and placement.roles.keys() != {ROLE}:
            message = f"gang {placement.gang!r} is placed under {_listed(placement.roles)}; the only role is {ROLE!r}"
            yield Violation(rule="whole_gang", gang=placement.gang, message=message)
    for gang in case.cluster.pending:
        for message in _not_whole(case, gang):
            yield Violation(rule="whole_gang", gang=gang.name, message=f"gang {gang.name!r} {message}")
    for move, moved in case.moves:
        members = sum(move.nodes().values())
        if set(move.roles) != {ROLE} or members != moved.members:
            message = (
                f"gang {moved.name!r} moves with {members} members as {_listed(move.roles)}, it has {moved.members}"
            )
            yield Violation(rule="whole_gang", gang=moved.name, message=message)


def node_capacity(case: Case) -> Iterator[Violation]:
    """What members take on a node is at most what is free there, for every resource asked."""
    case = case.laid
    cluster, placed = case.cluster, case.placed
    over = (case.taken > case.space) & (case.taken > 0) & ~cluster.unlimited
    for node, resource in np.argwhere(over.T).tolist():
        asks = cluster.asks[placed.gang, resource]
        here = np.flatnonzero((placed.node == node) & (asks > 0))
        taken = sum(int(members) * int(ask) for members, ask in zip(placed.members[here], asks[here], strict=True))
        gangs = dict.fromkeys(cluster.pending[rank].name for rank in placed.gang[here].tolist())
        name, limit = cluster.names[node], int(case.space[resource, node])
        who = f"gang {_listed(gangs)} takes" if len(gangs) == 1 else f"gangs {_listed(gangs)} take"
        message = f"node {name!r}: {who} {taken} {cluster.resources[resource]}, {limit} are free"
        gang = next(iter(gangs)) if len(gangs) == 1 else None
        yield Violation(rule="node_capacity", gang=gang, node=name, message=message)


def node_state(case: Case) -> Iterator[Violation]:
    """Members sit on ready nodes only."""
    case = case.laid
    for gang, node in _misplaced(case, lambda _: case.cluster.ready):
        entry = case.cluster.entries[case.cluster.entry[node]]
        name = case.cluster.names[node]
        message = f"gang {gang.name!r} on node {name!r}: its state is {entry.state!r}, only 'ready' nodes take members"
        yield Violation(rule="node_state", gang=gang.name, node=name, message=message)


def node_selector(case: Case) -> Iterator[Violation]:
    """Every key of the selector is a label of the node, with that very value."""
    case = case.laid
    for gang, node in _misplaced(case, lambda wish: case.masks.selector(wish.selector)):
        labels = case.cluster.entries[case.cluster.entry[node]].labels
        name = case.cluster.names[node]
        faults = [
            f"label {key!r} is {labels.get(key)!r}, asked is {value!r}"
            for key, value in gang.selector.items()
            if labels.get(key) != value
        ]
        message = f"gang {gang.name!r} on node {name!r}: {'; '.join(faults)}"
        yield Violation(rule="node_selector", gang=gang.name, node=name, message=message)


def node_taints(case: Case) -> Iterator[Violation]:
    """Every taint of the node is tolerated."""
    case = case.laid
    for gang, node in _misplaced(case, lambda wish: case.masks.tolerated(wish.tolerations)):
        taints = case.cluster.entries[case.cluster.entry[node]].taints
        name = case.cluster.names[node]
        faults = [
            f"{taint.key}={taint.value}:{taint.effect}" for taint in taints if not tolerates(gang.tolerations, taint)
        ]
        message = f"gang {gang.name!r} on node {name!r}: it doesn't tolerate {_listed(faults)}"
        yield Violation(rule="node_taints", gang=gang.name, node=name, message=message)


def gpu_model(case: Case) -> Iterator[Violation]:
    """A gang that names a GPU model sits on nodes of that very model."""
    case = case.laid
    for gang, node in _misplaced(case, lambda wish: case.masks.gpu_model(wish.gpu_model)):
        model = case.cluster.entries[case.cluster.entry[node]].gpu_model
        name = case.cluster.names[node]
        message = f"gang {gang.name!r} on node {name!r}: its GPU model is {model!r}, asked is {gang.gpu_model!r}"
        yield Violation(rule="gpu_model", gang=gang.name, node=name, message=message)


def required_level(case: Case) -> Iterator[Violation]:
    """All members sit in one domain of the required level, and not in an unknown one."""
    case = case.laid
    tree = case.cluster.tree
    ranks, all_nodes = case.pairs
    for rank in _outside(case):
        gang = case.cluster.pending[rank]
        level = case.wishes[rank].level
        assert level is not None
        nodes = all_nodes[ranks == rank]
        partition = tree.partitions[level]
        domains = np.unique(partition.domain[nodes])
        unknown = nodes[~partition.known[partition.domain[nodes]]]
        where = f"of level {gang.topology.required!r}"
        if len(domains) > 1:
            message = f"gang {gang.name!r} touches {len(domains)} domains {where}, 1 is allowed"
            yield Violation(rule="required_level", gang=gang.name, message=message)
        for node in unknown.tolist():
            name = case.cluster.names[node]
            message = f"gang {gang.name!r} on node {name!r}: its domain {where} is unknown and can't serve"
            yield Violation(rule="required_level", gang=gang.name, node=name, message=message)


RULES: tuple[Callable[[Case], Iterator[Violation]], ...] = (
    reference, whole_gang, node_capacity, node_state, node_selector, node_taints, gpu_model, required_level,
    tenant_limit, victim_eligible, victim_right, victim_needed, closed_upward, reservation,
    move_eligible, move_right, move_needed,
    considered_order, admission, blocked_reason, claims,
)  # fmt: skip
"""Every rule, in the order of the report."""


def _unknown_gang(case: Case, where: str, gang: str) -> Iterator[Violation]:
    if gang not in case.cluster.rank:
        kind = "running" if gang in case.cluster.running_index else "unknown"
        message = f"{where} name {kind} gang {gang!r}; only the {len(case.cluster.pending)} pending gangs can be there"
        yield Violation(rule="reference", gang=gang, message=message)


def _not_whole(case: Case, gang: PendingGang) -> list[str]:
    """What is wrong with the gang's entries, as the ends of sentences."""
    faults = []
    times, members = case.times_placed[gang.name], case.members_placed[gang.name]
    if times > 1:
        faults.append(f"is placed {times} times, with {members} members in all; once is allowed")
    elif times and members != gang.members:
        faults.append(f"is placed with {members} members, it has {gang.members}")
    if times and gang.name in case.blocked:
        faults.append("is placed and blocked, only one is allowed")
    if not times and case.full and gang.name not in case.blocked:
        faults.append("is neither placed nor blocked, it has to be one of them")
    return faults


def _outside(case: Case) -> list[int]:
    """Ranks of the gangs that sit in an unknown domain of their required level or in more than one."""
    ranks, nodes = case.pairs
    found: set[int] = set()
    for wish, positions in case.alike:
        if wish.level is not None:
            partition = case.cluster.tree.partitions[wish.level]
            rank, domain = ranks[positions], partition.domain[nodes[positions]]
            moved = (rank[1:] == rank[:-1]) & (domain[1:] != domain[:-1])
            found.update(rank[1:][moved].tolist(), rank[~partition.known[domain]].tolist())
    return sorted(found)


def _misplaced(case: Case, mask_of: Callable[[Wish], Bools]) -> Iterator[tuple[PendingGang, int]]:
    """(gang, node index) wherever a placed gang sits on a node that its mask leaves out, by rank, then node."""
    ranks, nodes = case.pairs
    wrong = np.zeros(len(nodes), dtype=np.bool_)
    for wish, positions in case.alike:
        wrong[positions] = ~mask_of(wish)[nodes[positions]]
    for rank, node in zip(ranks[wrong].tolist(), nodes[wrong].tolist(), strict=True):
        yield case.cluster.pending[rank], node


def _listed(names: Iterable[str]) -> str:
    """The first few names, for a message."""
    listed = list(names)
    return ", ".join(listed) if len(listed) <= 6 else f"{', '.join(listed[:6])}, … ({len(listed)} in all)"
