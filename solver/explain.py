"""Why a gang waits: the reason code of docs/model.md, with counters and a sentence that states the figures."""

from __future__ import annotations

from functools import cached_property
from typing import NamedTuple

import numpy as np

from gangfit.models import Blocked, PendingGang, Plan, Reason, Snapshot
from gangfit.solver.problem import UNLIMITED, Problem, encode
from gangfit.solver.protection import Protection
from gangfit.solver.reservation import Promise, Reservation
from gangfit.solver.rights import Right, rights
from gangfit.solver.space import Alone, members_per_node
from gangfit.solver.tenants import Order

_RULES: tuple[tuple[Reason, str], ...] = (
    ("topology", "required_level"),
    ("selector", "node_selector"),
    ("taint", "node_taints"),
    ("gpu_model", "gpu_model"),
)


def explain(snapshot: Snapshot, plan: Plan) -> tuple[Blocked, ...]:
    """Why each pending gang waits that a plan doesn't place, by priority, submission and name.

    For a plan of any origin; gangs that it lists as `decided_by: limit` are undecided. What it promises is left out.
    """
    problem = encode(snapshot)
    reasons = Reasons(problem)
    placed = {placement.gang for placement in plan.placements}
    undecided = {step.gang for step in plan.considered if step.decided_by == "limit"}
    return tuple(
        reasons.explain(j, gang.name in undecided) for j, gang in enumerate(problem.gangs) if gang.name not in placed
    )


class _Said(NamedTuple):
    """What alike gangs that wait have in common."""

    reason: Reason
    message: str
    counters: dict[str, int]
    retry_at_s: int | None


class Reasons:
    """Why blocked gangs wait. What alike gangs share is counted once."""

    def __init__(self, problem: Problem, head: Reservation | None = None) -> None:
        self.problem = problem
        self._head = head
        self._alone = Alone(problem)
        self._rights: dict[tuple[int, int, int, int, bool], Right] = {}
        """(tenant, shape, members, priority, may preempt) → right with no other gang before it."""
        self._takes: dict[tuple[object, ...], bool] = {}
        """What decides a gang's right, and its required level → whether the right makes room."""
        self._counters: dict[tuple[int, int, int], dict[str, int]] = {}
        """(shape, required, members where they matter) → counters."""
        self._said: dict[tuple[object, ...], _Said] = {}
        """What decides a gang's right, its required level, when it was preempted, `undecided` → what is said of it."""

    def explain(self, gang: int, undecided: bool, promise: Promise | None = None) -> Blocked:
        """The reason a blocked gang waits; `undecided`: its question ran out of time."""
        wanted = self.problem.gangs[gang]
        preempted_s = wanted.preempted_s if isinstance(wanted, PendingGang) else None
        key = *self._alike(gang), int(self.problem.required[gang]), preempted_s, undecided
        if key not in self._said:
            self._said[key] = self._say(gang, undecided)
        said = self._said[key]
        message = said.message
        if said.reason == "competing" and self._head is not None and self._head.hindered_by(gang):
            message += f", {self.problem.gangs[self._head.gang].name!r} among them, promised for {self._head.start_s}"
        return Blocked.trusted(
            gang=wanted.name,
            reason=said.reason,
            message=message if promise is None else f"{message}; {promise.message}",
            counters=said.counters.copy(),
            retry_at_s=said.retry_at_s,
            reservation=None if promise is None else promise.reservation,
        )

    def _say(self, gang: int, undecided: bool) -> _Said:
        """What is said of a gang and all that are alike."""
        reason = "undecided" if undecided else self._reason(gang)
        # Members show in the counters only where a node has no limit, and every node limits GPUs.
        members = 0 if self.problem.request[gang, 0] else int(self.problem.members[gang])
        alike = int(self.problem.shape_of[gang]), int(self.problem.required[gang]), members
        if alike not in self._counters:
            self._counters[alike] = _counters(self.problem, gang)
        counters = self._counters[alike]
        if reason != "protected":
            return _Said(reason, _message(self.problem, gang, reason, counters, ""), counters, None)
        held = self._protection.held_by(gang, self._right(gang).any)
        message = _message(self.problem, gang, reason, counters, held)
        return _Said(reason, message, counters, self._protection.retry_at(gang))

    def _reason(self, gang: int) -> Reason:
        """The reason of a gang whose question was settled."""
        if self._alone.fits(gang):
            return "competing" if self._order.within_limit(gang) else "limit"
        for code, rule in _RULES:
            if self._alone.fits(gang, ignoring=rule):
                return code
        if not self._empty.fits(gang):
            return "capacity"
        return "competing" if self._could_take(gang) else "protected"

    def _could_take(self, gang: int) -> bool:
        """Whether it would fit if all its own victims were gone (rule 10), with no other gang before it."""
        key = *self._alike(gang), int(self.problem.required[gang])
        if key not in self._takes:
            left = self.problem.without(self._right(gang).own.nonzero()[0].tolist())
            self._takes[key] = Alone(left).fits(gang)
        return self._takes[key]

    def _right(self, gang: int) -> Right:
        """Its right over running gangs, with no other gang before it."""
        key = self._alike(gang)
        if key not in self._rights:
            self._rights[key] = rights(self.problem, [gang], {gang})[0]
        return self._rights[key]

    def _alike(self, gang: int) -> tuple[int, int, int, int, bool]:
        """What decides its right."""
        return self._facts[gang]

    @cached_property
    def _facts(self) -> list[tuple[int, int, int, int, bool]]:
        problem = self.problem
        columns = (problem.tenant_of, problem.shape_of, problem.members)
        tenant, shape, members = (column.tolist() for column in columns)
        priority = [gang.priority for gang in problem.gangs]
        return list(zip(tenant, shape, members, priority, problem.may_preempt.tolist(), strict=True))

    @cached_property
    def _empty(self) -> Alone:
        """As if all running gangs were gone."""
        return Alone(self.problem.empty())

    @cached_property
    def _order(self) -> Order:
        return self.problem.order()

    @cached_property
    def _protection(self) -> Protection:
        return Protection(self.problem)


def _counters(problem: Problem, gang: int) -> dict[str, int]:
    """Nodes at the first rule that excludes each, and the members that the usable ones hold."""
    eligible = problem.eligible[problem.eligible_of[gang]]
    left = np.ones(len(problem.node_names), dtype=np.bool_)
    counters: dict[str, int] = {}
    room = members_per_node(problem, problem.free, gang)
    unlimited = (problem.free[:, np.flatnonzero(problem.request[gang])] == UNLIMITED).all(axis=1)
    room = np.where(unlimited & (room > 0), problem.members[gang], room)
    for name, mask in (
        ("not_ready", problem.ready),
        ("selector", eligible.selector),
        ("taint", eligible.taint),
        ("gpu_model", eligible.gpu_model),
        ("too_small", room > 0),
    ):
        counters[name] = int((left & ~mask).sum())
        left &= mask
    counters["usable"] = int(left.sum())
    counters["members_that_fit"] = int(room[left].sum())
    required = int(problem.required[gang])
    if required >= 0:
        known = np.where(problem.tree.known[required], room, 0)
        counters["largest_domain"] = int(problem.tree.sums(required, known).max())
    return counters


def _message(problem: Problem, gang: int, reason: Reason, counters: dict[str, int], held: str) -> str:
    """The reason in words; `held`: who holds the room, where gangs do that it may not preempt."""
    wanted = problem.gangs[gang]
    members = f"{wanted.members} member{'s' if wanted.members > 1 else ''} of {_request(problem, gang)}"
    fit = counters["members_that_fit"]
    nodes = len(problem.node_names)
    match reason:
        case "topology":
            level = wanted.topology.required
            return f"{members} have to share one {level}; the roomiest {level} holds {counters['largest_domain']}"
        case "selector":
            return f"{members}: the selector leaves out {counters['selector']} of {nodes} nodes; the rest hold {fit}"
        case "taint":
            return f"{members}: untolerated taints rule out {counters['taint']} of {nodes} nodes; the rest hold {fit}"
        case "gpu_model":
            return (
                f"{members} on {wanted.gpu_model}: {counters['gpu_model']} of {nodes} nodes have another GPU model; "
                f"the rest hold {fit}"
            )
        case "capacity":
            return f"{members}: the free space of the nodes it may use holds {fit}"
        case "limit":
            return f"{members} would take {_passed(problem, gang)}"
        case "protected":
            return f"{members}: free space holds {fit}; the rest is held by gangs that it may not preempt: {held}"
        case "competing":
            return f"{members} fit alone ({fit} would), but not beside the gangs that go first"
        case "undecided":
            return f"{members}: {fit} would fit alone; time ran out before the question was settled"


def _passed(problem: Problem, gang: int) -> str:
    """The first limit that the gang would pass, with its figures."""
    tenants, asks = problem.tenants, problem.total[gang]
    for t in tenants.chain(int(problem.tenant_of[gang])):
        for r in np.flatnonzero((tenants.use[t] + asks > tenants.limit[t]) & (asks > 0)).tolist():
            name = problem.resources[r].removeprefix("resources.")
            use, limit = tenants.use[t, r], tenants.limit[t, r]
            return f"tenant {tenants.names[t]!r} from {use} to {use + asks[r]} {name}, its limit is {limit}"
    raise AssertionError("no limit is passed")


def _request(problem: Problem, gang: int) -> str:
    return " + ".join(
        f"{amount} {name}"
        for name, amount in zip(
            (resource.removeprefix("resources.") for resource in problem.resources),
            problem.request[gang].tolist(),
            strict=True,
        )
        if amount
    )
