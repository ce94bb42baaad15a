"""Small rounds by hand: racks of nodes, gangs, and plans that hold placements only; which rules a plan breaks."""

from __future__ import annotations

from typing import Any

from gangfit.models import Placement, Plan, Snapshot
from gangfit.solver import check
from gangfit.solver.assignment import Assignment
from gangfit.solver.problem import Problem

Json = dict[str, Any]

PLACEMENT_ONLY: Json = {"order": "priority", "preemption": {"within": "never", "across": "never"}}
"""Policy of rounds that are about placement: priority decides who is next, nobody gives way."""


def node(name: str, *path: str | None, gpus: int = 8, **facts: Any) -> Json:
    """A node at a path."""
    return {"name": name, "path": list(path), "gpus": gpus, **facts}


def gang(name: str, members: int = 1, gpus: int = 8, **facts: Any) -> Json:
    """A pending gang whose members ask GPUs; `request`, `required` and `preferred` may be given as such."""
    request = facts.pop("request", {"gpus": gpus})
    topology = {key: facts.pop(key) for key in ("required", "preferred") if key in facts}
    return {"name": name, "members": members, "request": request, "topology": topology, **facts}


def running(name: str, placement: dict[str, int], gpus: int = 8, **facts: Any) -> Json:
    """A running gang."""
    request = facts.pop("request", {"gpus": gpus})
    return {"name": name, "members": sum(placement.values()), "request": request, "placement": placement, **facts}


def racks(*rooms: tuple[int, ...]) -> list[Json]:
    """Racks r0, r1, … of nodes r0n0, r0n1, … with so many GPUs free of 8 each (8: nothing used)."""
    free = [(r, n, gpus) for r, room in enumerate(rooms) for n, gpus in enumerate(room)]
    return [node(f"r{r}n{n}", f"r{r}", used={"gpus": 8 - gpus}) for r, n, gpus in free]


def snapshot(
    nodes: list[Json], pending: list[Json], running: list[Json] | None = None, levels: str = "rack", **facts: Any
) -> Snapshot:
    """A round; `levels` are names, coarse → fine, with spaces between."""
    topology = {"levels": [{"name": name} for name in levels.split()], **facts.pop("topology", {})}
    policy = {"time_limit_s": 60, "workers": 1, "deterministic": True, **facts.pop("policy", {})}
    document = {"topology": topology, "nodes": nodes, "pending": pending, "running": running or [], "policy": policy}
    return Snapshot.model_validate({**document, **facts})


def plan(placements: dict[str, dict[str, int]]) -> Plan:
    """A caller's own plan: gang → node → members."""
    return Plan(placements=tuple(Placement(gang=name, roles={"members": on}) for name, on in placements.items()))


def as_plan(problem: Problem, assignment: Assignment) -> Plan:
    """A plan that holds placements only."""
    placements = {}
    for j, spread in assignment.items():
        names = [problem.node_names[n] for n in spread.nodes]
        placements[problem.gangs[j].name] = dict(zip(names, spread.counts.tolist(), strict=True))
    return plan(placements)


def placed(answer: Plan) -> dict[str, dict[str, int]]:
    """Gang → node → members of a plan."""
    return {placement.gang: placement.nodes() for placement in answer.placements}


def rules_broken_by(snapshot: Snapshot, plan: Plan) -> set[str]:
    """Names of the rules of the violations that the checker finds."""
    return {violation.rule for violation in check(snapshot, plan).violations}


def broken_rules(snapshot: Snapshot, placements: dict[str, dict[str, int]]) -> set[str]:
    """The same of a caller's own plan."""
    return rules_broken_by(snapshot, plan(placements))
