"""Plan: what a round decided, how good that provably is, and why the rest waits."""

from __future__ import annotations

from collections import Counter
from typing import Annotated, Literal

from pydantic import Field

from gangfit.models.scalars import Frozen, Members, Moment, Name

Reason = Literal[
    "capacity", "topology", "selector", "taint", "gpu_model", "limit", "protected", "competing", "undecided"
]
"""Why a gang waits. Closed list."""


Group = Literal["within", "below", "surplus"]
"""Class of a tenant that offers a gang."""


class Tier(Frozen):
    """One tier of the lexicographic objective, on the plan that this answer carries."""

    name: str
    """`admission`, `lost.p<priority>`, `broken`, `moved`, `moved_members`, `preferred`, `distance`, `uplinks` or
    `intact.<level>`."""
    sense: Literal["max", "min"]
    """Whether more or less is better."""
    value: int
    """Value of this plan."""
    bound: int
    """No plan that is equal on every earlier tier can be better than this."""
    gap: float
    """0 if proven. admission: undecided gangs; preferred and distance: (value − traded − bound) / Σ weight × domains
    touched; others: (value − traded − bound) / value."""
    proof: Literal["bound", "search"] | None
    """What closed the tier: a bound known before search, or search; null: still open."""
    traded: int = 0
    """How much of the value is given for the sake of the next tier (`policy.tolerance`)."""


def _over_roles(roles: dict[str, dict[str, int]]) -> dict[str, int]:
    """Node → members, summed over roles."""
    total: Counter[str] = Counter()
    for nodes in roles.values():
        total.update(nodes)
    return dict(total)


class Placement(Frozen):
    """Where one admitted gang starts."""

    gang: Name
    """Gang name."""
    roles: dict[Name, dict[Name, Members]]
    """Role → node → members. A gang without roles of its own has the one role `members`."""
    starts_after_s: Moment | None = None
    """When the nodes it waits for are given back by gangs that leave; null: at once."""

    def nodes(self) -> dict[str, int]:
        """Node → members, over all roles."""
        return _over_roles(self.roles)


class Reservation(Frozen):
    """What is promised to the first gang that has to wait."""

    start_s: Moment
    """The earliest instant at which it can start, as far as ends are known. Gangs that are leaving count as gone, as
    they do now; if one is still there then, the start waits for it (`starts_after_s`)."""
    nodes: dict[Name, Members]
    """Node → members. Until it starts the nodes may still change, the instant only to an earlier one."""
    proof: Literal["bound", "search"] | None
    """How it is known that no earlier instant is possible: by counts or by search; null: not settled in time."""


class Blocked(Frozen):
    """Why one gang waits."""

    gang: Name
    """Gang name."""
    reason: Reason
    """capacity: too little room even alone; topology: fits, but not inside its required level; selector, taint,
    gpu_model: fits, but not on the nodes this rule leaves; competing: fits alone, not beside the gangs that go first;
    undecided: time ran out before the question was settled; limit: it would pass its tenant's limit; protected: it
    would fit if running gangs were gone that may not be taken."""
    message: str
    """The reason with its figures."""
    counters: dict[str, int]
    """Nodes ruled out per rule, each node counted at the first rule that excludes it, and members that would fit."""
    retry_at_s: Moment | None = None
    """When the first running gang it has a claim on, but for its age, loses that protection; not before the gang itself
    has settled after a preemption (`policy.preemption.settle_s`)."""
    reservation: Reservation | None = None
    """Its promised start, if it is the one gang that has one."""


class Turn(Frozen):
    """What decided between one tenant and its siblings."""

    tenant: Name
    """Tenant name."""
    group: Group
    """Its class: within quota after the start, still below quota, or surplus."""
    share: float
    """Its weighted dominant share; weight 0: without the weight."""


class Considered(Frozen):
    """One step of admission, in order."""

    gang: Name
    """Gang name."""
    admitted: bool
    """Whether it starts."""
    group: Group = "within"
    """Its tenant's class at its turn: within quota after the start, still below quota, or surplus."""
    share: float = 0.0
    """Weighted dominant share of its tenant at its turn, compared inside a class; weight 0: without the weight."""
    above: tuple[Turn, ...] = ()
    """The same of the tenants above it, root first: what decided at each level of the tree."""
    decided_by: Literal["greedy", "bound", "search", "limit"]
    """greedy: a packing was found; bound: a count rules it out; search: CP-SAT; limit: time ran out."""
    reserved_s: Moment | None = None
    """Start promised at its turn, which the gangs after it respect."""


class Drain(Frozen):
    """How a victim leaves."""

    stop_s: Moment
    """SIGTERM."""
    saved_by_s: Moment | None
    """When the checkpoint taken in the grace window is complete; null: none fits."""
    kill_s: Moment
    """SIGKILL."""
    resume_from_s: Moment | None
    """Instant whose state it resumes from; null: it starts over."""
    lost_gpu_s: int
    """GPU-seconds lost, restart included."""


class Preemption(Frozen):
    """One running gang that gives way."""

    gang: Name
    """The victim."""
    for_gang: Annotated[Name, Field(alias="for")]
    """The admitted gang it gives way to."""
    reason: Literal["own", "priority", "reclaim"]
    """own: lower priority in the same tenant; priority: the same in another; reclaim: its tenant is above quota."""
    drain: Drain
    """When and how it leaves."""


class Move(Frozen):
    """One running gang that is stopped and started elsewhere."""

    gang: Name
    """The gang moved."""
    for_gang: Annotated[Name | None, Field(alias="for")] = None
    """The admitted gang it makes room for; null: it clears a domain."""
    roles: dict[Name, dict[Name, Members]]
    """Where it goes: role → node → members, as in a placement."""
    drain: Drain
    """When and how it leaves its old place, and what that loses."""
    starts_after_s: Moment
    """When it starts again: its own grace is over, and the nodes it waits for are given back."""

    def nodes(self) -> dict[str, int]:
        """Node → members, over all roles."""
        return _over_roles(self.roles)


class Transition(Frozen):
    """One step of a plan with moves. Carried out in order, every step finds its space free."""

    at_s: Moment
    """Earliest instant."""
    action: Literal["stop", "start"]
    """stop: the gang is gone from its nodes; start: it takes its new ones."""
    gang: Name
    """Gang concerned."""


class Fairness(Frozen):
    """What one tenant holds."""

    tenant: Name
    """Tenant name."""
    dominant_resource: str | None
    """Resource of its largest share after the plan; null: it holds nothing."""
    share_before: float
    """Dominant share before the plan."""
    share_after: float
    """The same after it."""


class LeximinShare(Frozen):
    """One entry of the vector that `policy.order: leximin` maximises."""

    tenant: Name
    """Leaf tenant with pending or running gangs."""
    share: float
    """Weighted dominant share with the gangs that start when first asked (weight 0: without the weight)."""


class Quality(Frozen):
    """How well one gang sits."""

    gang: Name
    """Gang name."""
    domains: dict[Name, int]
    """Level → domains touched, coarse → fine, `node` last."""
    diameter: Name | None
    """Coarsest level whose boundary the gang crosses; null: one node."""
    distance: int
    """Σ weight × (domains touched − 1)."""


class Intact(Frozen):
    """Intact domains of one level, before and after the plan."""

    level: Name
    """Level name, `node` included."""
    before: int
    """Domains with every ready GPU node empty, before the plan."""
    after: int
    """The same after it."""


class Stats(Frozen):
    """How the answer came about. Deterministic mode leaves `seconds` out."""

    versions: dict[str, str] = {}
    """Versions of gangfit and its solver."""
    sizes: dict[str, int] = {}
    """Nodes, gangs, node classes, largest model."""
    seconds: dict[str, float] | None = None
    """Wall time per stage in seconds."""
    baseline: str = ""
    """Greedy strategy whose plan search started from."""
    improved: bool = False
    """Whether search beat that plan."""
    sources: dict[str, str] = {}
    """Topology tier → what its bound rests on: count, pattern, configuration, cut, gap model, merged model."""
    failures: tuple[str, ...] = ()
    """Engines that failed on the way; the plan and its bounds hold without them."""


class Plan(Frozen):
    """Answer of one round. A caller's own plan for `check` needs placements only."""

    status: Literal["optimal", "feasible"] = "feasible"
    """optimal: no gang undecided, every tier closed, and a promised start proven the earliest."""
    tiers: tuple[Tier, ...] = ()
    """Lexicographic objective, first tier first."""
    placements: tuple[Placement, ...] = ()
    """Admitted gangs, in considered order."""
    preemptions: tuple[Preemption, ...] = ()
    """Running gangs that give way."""
    moves: tuple[Move, ...] = ()
    """Running gangs that go on elsewhere."""
    transitions: tuple[Transition, ...] = ()
    """Where gangs move: every stop and start of the plan, in an order in which each step fits."""
    blocked: tuple[Blocked, ...] = ()
    """Gangs that wait, in considered order."""
    considered: tuple[Considered, ...] = ()
    """Steps of admission."""
    fairness: tuple[Fairness, ...] = ()
    """Per tenant, in the order of the snapshot."""
    leximin: tuple[LeximinShare, ...] = ()
    """With `policy.order: leximin`: the vector of shares, ascending, tenants of weight 0 after all others."""
    quality: tuple[Quality, ...] = ()
    """Per admitted gang."""
    fragmentation: tuple[Intact, ...] = ()
    """Per level, coarse → fine, `node` last."""
    warnings: tuple[str, ...] = ()
    """What the caller should know: clamped nodes, a search that died."""
    stats: Stats = Stats()
    """Figures about the solve."""


Rule = Literal[
    "whole_gang",
    "node_capacity",
    "node_state",
    "node_selector",
    "node_taints",
    "gpu_model",
    "required_level",
    "tenant_limit",
    "victim_eligible",
    "victim_right",
    "victim_needed",
    "closed_upward",
    "reservation",
    "move_eligible",
    "move_right",
    "move_needed",
    "considered_order",
    "admission",
    "blocked_reason",
    "claims",
    "reference",
]


class Violation(Frozen):
    """One rule that a plan breaks."""

    rule: Rule
    """Rule of docs/model.md, or `reference` for a name the snapshot doesn't have, `claims` for a stated figure that
    differs from the recomputed one."""
    gang: str | None = None
    """Gang concerned."""
    node: str | None = None
    """Node concerned."""
    message: str
    """What is wrong, with value and limit."""


class TierValue(Frozen):
    """Recomputed value of one tier."""

    name: str
    """As in `Tier`."""
    value: int
    """Value of the checked plan."""


class CheckReport(Frozen):
    """What the independent checker found."""

    ok: bool
    """No violation."""
    violations: Annotated[tuple[Violation, ...], Field()] = ()
    """Rules broken."""
    tiers: tuple[TierValue, ...] = ()
    """Tier values, recomputed from the placements."""
