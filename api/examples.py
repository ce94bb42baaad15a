"""One snapshot and its plan, as the OpenAPI document shows them."""

from typing import Any

SNAPSHOT: dict[str, Any] = {
    "topology": {"levels": [{"name": "rack"}]},
    "nodes": [
        {"name": "r1-[1-2]", "path": ["r1"], "gpus": 8},
        {"name": "r2-[1-2]", "path": ["r2"], "gpus": 8},
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
"""Two racks of two nodes; a gang for a whole rack and a gang for half a node."""

PLACEMENTS: dict[str, Any] = {
    "placements": [
        {"gang": "train", "roles": {"members": {"r1-1": 1, "r1-2": 1}}},
        {"gang": "eval", "roles": {"members": {"r2-1": 1}}},
    ]
}
"""A plan as a caller may send it for a check: placements only."""

PLAN: dict[str, Any] = {
    "status": "optimal",
    "tiers": [
        {"name": "admission", "sense": "max", "value": 2, "bound": 2, "gap": 0.0, "proof": "bound"},
        {"name": "preferred", "sense": "min", "value": 0, "bound": 0, "gap": 0.0, "proof": "bound"},
        {"name": "distance", "sense": "min", "value": 1, "bound": 1, "gap": 0.0, "proof": "bound"},
        {"name": "uplinks", "sense": "min", "value": 0, "bound": 0, "gap": 0.0, "proof": "bound"},
        {"name": "intact.rack", "sense": "min", "value": 2, "bound": 2, "gap": 0.0, "proof": "bound"},
        {"name": "intact.node", "sense": "min", "value": 3, "bound": 3, "gap": 0.0, "proof": "bound"},
    ],
    **PLACEMENTS,
    "blocked": [],
    "considered": [
        {"gang": "train", "admitted": True, "decided_by": "greedy"},
        {"gang": "eval", "admitted": True, "decided_by": "greedy"},
    ],
    "warnings": [],
}
"""The answer to `SNAPSHOT`, shortened."""

REPORT: dict[str, Any] = {
    "ok": False,
    "violations": [
        {
            "rule": "node_capacity",
            "gang": None,
            "node": "r1-1",
            "message": "gpus: gangs take 16; the node has 8 free",
        }
    ],
    "tiers": [{"name": "admission", "value": 2}],
}
"""A check that found something."""

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
