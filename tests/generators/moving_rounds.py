"""Small rounds by hand in which gangs may move."""

from __future__ import annotations

from typing import Any

from hand_made import Json, gang, node, running, snapshot

from gangfit.models import Plan, Snapshot

NODES = [node("n0", gpus=4), node("n1", gpus=4)]


def halves(
    moves: Json | None = None, held: list[Json] | None = None, tenants: list[Json] | None = None, **facts: Any
) -> Snapshot:
    """Two nodes of 4 GPUs, half of each taken; `new` asks 3 GPUs on one node."""
    left = running("left", {"n0": 1}, 2, started_s=10_000, **facts)
    right = running("right", {"n1": 1}, 2, started_s=10_000, preemptible=False)
    policy = {"moves": {"mode": "allowed", **(moves or {})}, "preemption": {"within": "never", "across": "never"}}
    return snapshot(
        NODES, [gang("new", 1, 3)], held or [left, right], levels="", time_s=20_000, policy=policy,
        tenants=tenants or [],
    )  # fmt: skip


def moved(answer: Plan) -> dict[str, dict[str, int]]:
    return {move.gang: move.nodes() for move in answer.moves}


def tampered(answer: Plan, **fields: Any) -> Plan:
    """The plan with other fields in its one move."""
    return answer.model_copy(update={"moves": (answer.moves[0].model_copy(update=fields),)})
