"""The nouns of gangfit: snapshot, gang, policy, plan. Frozen pydantic models; imports nothing else of gangfit."""

from .gang import Checkpoint, Gang, GangTopology, PendingGang, Request, RunningGang, Toleration
from .hostlist import expand
from .plan import (
    Blocked,
    CheckReport,
    Considered,
    Intact,
    Placement,
    Plan,
    Quality,
    Reason,
    Rule,
    Stats,
    Tier,
    TierValue,
    Violation,
)
from .policy import Policy
from .scalars import MAX_GANGS, MAX_NODES
from .snapshot import DEFAULT_TENANT, NODE_LEVEL, Level, Node, Snapshot, Taint, Tenant, Topology, Used
from .validation import amounts, overcommitted

__all__ = [
    "DEFAULT_TENANT", "MAX_GANGS", "MAX_NODES", "NODE_LEVEL",
    "Blocked", "CheckReport", "Checkpoint", "Considered", "Gang", "GangTopology", "Intact", "Level", "Node",
    "PendingGang", "Placement", "Plan", "Policy", "Quality", "Reason", "Request", "Rule", "RunningGang", "Snapshot",
    "Stats", "Taint", "Tenant", "Tier", "TierValue", "Toleration", "Topology", "Used", "Violation",
    "amounts", "expand", "overcommitted",
]  # fmt: skip
