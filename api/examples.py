"""One snapshot and its plan, as the OpenAPI document shows them."""

from typing import Any

SNAPSHOT: dict[str, Any] = {
    "time_s": 1_700_003_600,
    "topology": {"levels": [{"name": "rack"}]},
    "nodes": [
        {"name": "r1-[1-2]", "path": ["r1"], "gpus": 8},
        {"name": "r2-[1-2]", "path": ["r2"], "gpus": 8},
    ],
    "running": [
        {
            "name": "sweep",
            "members": 2,
            "request": {"gpus": 8},
            "placement": {"r1-1": 1, "r2-1": 1},
            "started_s": 1_700_000_000,
            "checkpoint": {"last_s": 1_700_000_000, "bytes": 1_000_000_000_000, "write_gbps": 10.0},
        }
    ],
    "pending": [
        {
            "name": "train",
            "priority": 10,
            "members": 2,
            "request": {"gpus": 8},
            "topology": {"required": "rack"},
        },
        {"name": "eval", "members": 1, "request": {"gpus": 4}},
    ],
    "policy": {"time_limit_s": 5, "deterministic": True},
}
"""Two racks of two nodes, one node of each in use; a gang for a whole rack and a gang for half a node."""

DECISIONS: dict[str, Any] = {
    "placements": [
        {"gang": "train", "roles": {"members": {"r1-1": 1, "r1-2": 1}}},
        {"gang": "eval", "roles": {"members": {"r2-1": 1}}},
    ],
    "preemptions": [
        {
            "gang": "sweep",
            "for": "train",
            "reason": "own",
            "drain": {
                "stop_s": 1700003600,
                "saved_by_s": 1700003700,
                "kill_s": 1700003900,
                "resume_from_s": 1700003600,
                "lost_gpu_s": 4800,
            },
        }
    ],
}
"""A plan as a caller may send it for a check: who starts where, and who gives way."""

PLAN: dict[str, Any] = {
    "status": "optimal",
    "tiers": [
        {"name": "admission", "sense": "max", "value": 2, "bound": 2, "gap": 0.0, "proof": "bound", "traded": 0},
        {"name": "lost.p0", "sense": "min", "value": 4800, "bound": 4800, "gap": 0.0, "proof": "search", "traded": 0},
        {"name": "broken", "sense": "min", "value": 1, "bound": 1, "gap": 0.0, "proof": "search", "traded": 0},
        {"name": "preferred", "sense": "min", "value": 0, "bound": 0, "gap": 0.0, "proof": "bound", "traded": 0},
        {"name": "distance", "sense": "min", "value": 1, "bound": 1, "gap": 0.0, "proof": "bound", "traded": 0},
        {"name": "uplinks", "sense": "min", "value": 0, "bound": 0, "gap": 0.0, "proof": "bound", "traded": 0},
        {"name": "intact.rack", "sense": "min", "value": 0, "bound": 0, "gap": 0.0, "proof": "bound", "traded": 0},
        {"name": "intact.node", "sense": "min", "value": 1, "bound": 1, "gap": 0.0, "proof": "bound", "traded": 0},
    ],
    "placements": [
        {"gang": "train", "roles": {"members": {"r1-1": 1, "r1-2": 1}}, "starts_after_s": 1700003900},
        {"gang": "eval", "roles": {"members": {"r2-1": 1}}, "starts_after_s": 1700003900},
    ],
    "preemptions": [
        {
            "gang": "sweep",
            "for": "train",
            "reason": "own",
            "drain": {
                "stop_s": 1700003600,
                "saved_by_s": 1700003700,
                "kill_s": 1700003900,
                "resume_from_s": 1700003600,
                "lost_gpu_s": 4800,
            },
        }
    ],
    "blocked": [],
    "considered": [
        {"gang": "train", "admitted": True, "group": "within", "share": 0.5, "above": [], "decided_by": "greedy"},
        {"gang": "eval", "admitted": True, "group": "surplus", "share": 1.0, "above": [], "decided_by": "greedy"},
    ],
    "fairness": [{"tenant": "default", "dominant_resource": "gpus", "share_before": 0.5, "share_after": 0.625}],
    "warnings": [],
}
"""The answer to `SNAPSHOT`, shortened."""

REPORT: dict[str, Any] = {
    "ok": False,
    "violations": [
        {
            "rule": "node_capacity",
            "gang": "train",
            "node": "r1-1",
            "message": "node 'r1-1': gang train takes 8 gpus, 0 are free",
        }
    ],
    "tiers": [{"name": "admission", "value": 2}],
}
"""A check of `DECISIONS` without its preemptions, shortened."""

PROBLEM: dict[str, Any] = {
    "type": "urn:gangfit:problem:invalid-body",
    "title": "Unprocessable Content",
    "status": 422,
    "detail": "The body has 1 fault: nodes[1].gpus: -1 is not allowed: input should be greater than or equal to 0",
    "instance": "urn:uuid:4be0643f-1d98-573b-97cd-ca98a65347dd",
    "errors": [
        {
            "pointer": "/nodes/1/gpus",
            "field": "nodes[1].gpus",
            "message": "nodes[1].gpus: -1 is not allowed: input should be greater than or equal to 0",
            "value": -1,
        }
    ],
}
"""An error that names its field."""

DEFRAGMENT: dict[str, Any] = {
    "snapshot": {
        "time_s": 1_700_003_600,
        "topology": {"levels": [{"name": "rack"}]},
        "nodes": [{"name": "r1-[1-2]", "path": ["r1"], "gpus": 8}, {"name": "r2-[1-2]", "path": ["r2"], "gpus": 8}],
        "running": [
            {
                "name": name,
                "members": 1,
                "request": {"gpus": 4},
                "placement": {node: 1},
                "started_s": 1_700_000_000,
            }
            for name, node in (("sweep", "r1-1"), ("eval", "r2-1"), ("notebook", "r2-2"))
        ],
        "policy": {"deterministic": True},
    },
    "level": "rack",
    "domains": 1,
}
"""Two racks with small gangs in both; one rack is to be empty."""

DEFRAGMENTATION: dict[str, Any] = {
    "status": "optimal",
    "level": "rack",
    "wanted": 1,
    "candidates": 2,
    "intact_before": 0,
    "domains": [["r1"]],
    "tiers": [
        {"name": "moved", "sense": "min", "value": 1, "bound": 1, "gap": 0.0, "proof": "search", "traded": 0},
        {"name": "moved_members", "sense": "min", "value": 1, "bound": 1, "gap": 0.0, "proof": "search", "traded": 0},
    ],
    "moves": [
        {
            "gang": "sweep",
            "for": None,
            "roles": {"members": {"r2-1": 1}},
            "drain": {
                "stop_s": 1700003600,
                "saved_by_s": None,
                "kill_s": 1700003900,
                "resume_from_s": None,
                "lost_gpu_s": 15600,
            },
            "starts_after_s": 1700003900,
        }
    ],
    "transitions": [
        {"at_s": 1700003900, "action": "stop", "gang": "sweep"},
        {"at_s": 1700003900, "action": "start", "gang": "sweep"},
    ],
    "time_s": 1700003600,
}
"""The answer to `DEFRAGMENT`."""
