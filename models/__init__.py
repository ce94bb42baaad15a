"""The nouns of gangfit: snapshot, gang, policy, plan. Frozen pydantic models; imports nothing else of gangfit."""

from gangfit.models.defragmentation import Defragmentation
from gangfit.models.gang import Checkpoint, Gang, GangTopology, PendingGang, Request, RunningGang, Toleration
from gangfit.models.hostlist import expand
from gangfit.models.plan import (
    Blocked,
    CheckReport,
    Considered,
    Drain,
    Fairness,
    Intact,
    LeximinShare,
    Move,
    Placement,
    Plan,
    Preemption,
    Quality,
    Reason,
    Reservation,
    Rule,
    Stats,
    Tier,
    TierValue,
    Transition,
    Turn,
    Violation,
)
from gangfit.models.policy import MovesPolicy, Policy, PreemptionPolicy
from gangfit.models.scalars import MAX_GANGS, MAX_NODES
from gangfit.models.snapshot import (
    DEFAULT_TENANT,
    NODE_LEVEL,
    Level,
    Node,
    Share,
    Snapshot,
    Taint,
    Tenant,
    Topology,
    Used,
)
from gangfit.models.validation import Asked, amounts, asked, overcommitted

__all__ = [
    "DEFAULT_TENANT", "MAX_GANGS", "MAX_NODES", "NODE_LEVEL",
    "Asked", "Blocked", "CheckReport", "Checkpoint", "Considered", "Defragmentation", "Drain", "Fairness", "Gang",
    "GangTopology", "Intact", "Level", "LeximinShare", "Move", "MovesPolicy", "Node", "PendingGang", "Placement",
    "Plan", "Policy", "Preemption", "PreemptionPolicy", "Quality", "Reason", "Request", "Reservation", "Rule",
    "RunningGang", "Share", "Snapshot", "Stats", "Taint", "Tenant", "Tier", "TierValue", "Toleration", "Topology",
    "Transition", "Turn", "Used", "Violation",
    "amounts", "asked", "expand", "overcommitted",
]  # fmt: skip
