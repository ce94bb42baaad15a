"""Reservation: when the first gang that has to wait can start, and what that leaves to the gangs after it.

Time is two slices, now and the promised instant. The second one is a second column per resource, so that everything
that knows resources knows reservations; see docs/model.md, "Reservation".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import dataclass, replace
from typing import Literal

import numpy as np

from gangfit import models
from gangfit.models import RunningGang, Snapshot, amounts
from gangfit.solver.arrays import BoolArray, IntArray
from gangfit.solver.assignment import Assignment
from gangfit.solver.drain import gone_s
from gangfit.solver.oracle import Answer
from gangfit.solver.problem import UNLIMITED, Problem
from gangfit.solver.space import Alone
from gangfit.solver.tenants import UNBOUNDED
from gangfit.solver.victims import Victims, victim_eligible

MOST_NAMED = 6
"""Most gangs that a message names."""


def known_end_s(snapshot: Snapshot, gang: RunningGang) -> int | None:
    """When a running gang ends; None: never, as far as is known. Terminating gangs aren't asked."""
    end = gang.expected_end_s
    return end if gang.phase == "running" and end is not None and end > snapshot.time_s else None


def overdue(snapshot: Snapshot) -> tuple[str, ...]:
    """A warning for every running gang that should have ended."""
    return tuple(
        f"gang {gang.name!r}: expected_end_s {gang.expected_end_s} isn't after time_s {snapshot.time_s}; "
        "when it ends is taken as unknown"
        for gang in snapshot.running
        if gang.expected_end_s is not None and gang.phase == "running" and gang.expected_end_s <= snapshot.time_s
    )


def longest_wait_s(problem: Problem) -> int:
    """W: the longest that a start may wait for terminating gangs and for victims that someone may take."""
    snapshot = problem.snapshot
    waits = [gone_s(snapshot, gang) - snapshot.time_s for gang in snapshot.running if gang.phase == "terminating"]
    return max([0, *waits, *(gang.grace_s for gang in _takeable(problem))])


def _takeable(problem: Problem) -> list[RunningGang]:
    """Running gangs over which a pending gang could have a right, whatever the quotas."""
    policy = problem.snapshot.policy.preemption
    takers: dict[str, int] = {}
    """Tenant → highest priority of its gangs that may preempt."""
    for gang, may in zip(problem.gangs, problem.may_preempt.tolist(), strict=True):
        if may:
            takers[gang.tenant] = max(gang.priority, takers.get(gang.tenant, gang.priority))
    result = []
    for victim in problem.snapshot.running:
        others = [priority for tenant, priority in takers.items() if tenant != victim.tenant]
        own = takers.get(victim.tenant)
        within = policy.within == "priority" and own is not None and victim.priority < own
        lower = policy.across == "priority" and any(victim.priority < priority for priority in others)
        if (within or lower or (policy.across == "reclaim" and others)) and victim_eligible(problem.snapshot, victim):
            result.append(victim)
    return result


class Calendar:
    """When gangs end, and the round at a promised instant."""

    def __init__(self, problem: Problem) -> None:
        snapshot = problem.snapshot
        self.problem = problem
        wanted = snapshot.policy.reserves
        ends = [gang for gang in snapshot.running if gang.expected_end_s is not None] if wanted else []
        self._ending = [(gang, end) for gang in ends if (end := known_end_s(snapshot, gang)) is not None]
        pending = snapshot.pending if wanted else ()
        duration = {gang.name: gang.expected_duration_s for gang in pending}
        self._durations = [duration.get(gang.name) for gang in problem.gangs]
        starts = snapshot.time_s
        if any(duration is not None for duration in self._durations):
            starts += longest_wait_s(problem)
        self.end_s: list[int | None] = [None if d is None else starts + d for d in self._durations]
        """Per pending gang: when it ends if it starts now, at the latest."""
        self._held: tuple[IntArray, IntArray, IntArray, IntArray] | None = None
        self._cleared: Alone | None = None

    def instants(self, admitted: Iterable[int]) -> list[int]:
        """Ends of running gangs and of the pending ones that start, ascending."""
        ends = {end for _, end in self._ending}
        ends.update(end for j in admitted if (end := self.end_s[j]) is not None)
        return sorted(ends)

    def ever_fits(self, gang: int) -> bool:
        """Whether the gang fits alone once all running gangs of known end have ended: a count that rules most out."""
        if self._cleared is None:
            problem = self.problem
            back, _ = self._given_back(max((end for _, end in self._ending), default=0))
            free = np.where(problem.free == UNLIMITED, UNLIMITED, np.maximum(problem.free - problem.debt + back, 0))
            self._cleared = Alone(replace(problem, free=free))
        return self._cleared.fits(gang)

    def at(self, instant: int, head: int) -> Problem:
        """The round with a second column per resource, what is free and allowed at the instant, and a head there."""
        problem = self.problem
        back, tenants_back = self._given_back(instant)
        later = problem.free - problem.debt + back
        unlimited = problem.free == UNLIMITED
        request = np.concatenate([problem.request, problem.request], axis=1)
        count = len(problem.resources)
        request[[j for j, end in enumerate(self.end_s) if end is not None and end <= instant], count:] = 0
        request[head] = np.concatenate([np.zeros(count, dtype=np.int64), problem.request[head]])
        shapes: dict[tuple[bytes, int], int] = {}
        keys = zip(map(bytes, request), problem.eligible_of.tolist(), strict=True)
        return replace(
            problem,
            resources=(*problem.resources, *(f"{resource}@{instant}" for resource in problem.resources)),
            free=_beside(problem.free, np.where(unlimited, UNLIMITED, np.maximum(later, 0))),
            debt=_beside(problem.debt, np.where(unlimited, 0, np.maximum(-later, 0))),
            request=request,
            shape_of=np.array([shapes.setdefault(key, len(shapes)) for key in keys], dtype=np.int64),
            tenants=replace(
                problem.tenants,
                quota=_beside(problem.tenants.quota, np.full_like(problem.tenants.quota, UNBOUNDED)),
                limit=_beside(problem.tenants.limit, problem.tenants.limit),
                capacity=np.concatenate([problem.tenants.capacity, np.zeros(count, dtype=np.int64)]),
                use=_beside(problem.tenants.use, problem.tenants.use - tenants_back),
            ),
            victims=self._victims(instant),
            held=_beside(problem.held, problem.held - back),
        )

    def _given_back(self, instant: int) -> tuple[IntArray, IntArray]:
        """What gangs that have ended by an instant give back: (N, R) on nodes, (T, R) to tenants and all above."""
        problem = self.problem
        if self._held is None:
            self._held = self._read()
        gang, node, amount, total = self._held
        ended: BoolArray = np.array([end <= instant for _, end in self._ending], dtype=np.bool_)
        back, tenants_back = np.zeros_like(problem.free), np.zeros_like(problem.tenants.use)
        here = ended[gang]
        np.add.at(back, node[here], amount[here])
        index = {name: t for t, name in enumerate(problem.tenants.names)}
        for (running, end), held in zip(self._ending, total, strict=True):
            if end <= instant:
                tenants_back[list(problem.tenants.chain(index[running.tenant]))] += held
        return back, tenants_back

    def _read(self) -> tuple[IntArray, IntArray, IntArray, IntArray]:
        """Gangs that end: position (F,), node (F,) and amounts (F, R) of every node of theirs, totals (gangs, R)."""
        index = {name: n for n, name in enumerate(self.problem.node_names)}
        gang = [i for i, (g, _) in enumerate(self._ending) for _ in g.placement]
        node = [index[name] for g, _ in self._ending for name in g.placement]
        members = [count for g, _ in self._ending for count in g.placement.values()]
        asked = [amounts(g.request) for g, _ in self._ending]
        asks = np.array([[a.get(r) or 0 for r in self.problem.resources] for a in asked], dtype=np.int64)
        asks = asks.reshape(len(self._ending), len(self.problem.resources))
        of = np.array(gang, dtype=np.int64)
        sizes = np.array([g.members for g, _ in self._ending], dtype=np.int64)
        amount = np.array(members, dtype=np.int64)[:, None] * asks[of]
        return of, np.array(node, dtype=np.int64), amount, asks * sizes[:, None]

    def _victims(self, instant: int) -> Victims:
        victims = self.problem.victims
        ended = {gang.name for gang, end in self._ending if end <= instant}
        stays = np.array([gang.name not in ended for gang in victims.gangs], dtype=np.bool_)[:, None]
        return replace(
            victims,
            request=_beside(victims.request, np.where(stays, victims.request, 0)),
            total=_beside(victims.total, np.where(stays, victims.total, 0)),
        )


def _beside(now: IntArray, later: IntArray) -> IntArray:
    return np.concatenate([now, later], axis=1)


@dataclass(frozen=True)
class Reservation:
    """The head's promise."""

    gang: int
    start_s: int
    proof: Literal["bound", "search"] | None
    """How it is known that no earlier instant is possible; None: it isn't."""
    problem: Problem
    """The round with the instant as second columns."""

    def hindered_by(self, gang: int) -> bool:
        """Whether another gang, if it started now, would still hold its nodes at the instant."""
        request = self.problem.request[gang]
        return gang != self.gang and bool(request[len(request) // 2 :].any())


Ask = Callable[[Problem], tuple[Answer, Literal["bound", "search"]]]
"""Whether the head fits into a round with second columns, with what settled it."""


def earliest(
    calendar: Calendar, gang: int, admitted: Collection[int], ask: Ask
) -> tuple[Reservation, Answer] | Literal["no", "limit"]:
    """The head's promise at the least instant, by bisection; "no": there is none; "limit": none was found in time."""
    instants = calendar.instants(admitted)
    if not instants:
        return "no"
    low, high = 0, len(instants)
    refused: dict[int, Literal["bound", "search"]] = {}
    best: tuple[Problem, Answer] | None = None
    while low < high:
        # The last one first: mostly a gang fits there, or waits for something else.
        middle = (low + high) // 2 if best is not None else len(instants) - 1
        problem = calendar.at(instants[middle], gang)
        answer, how = ask(problem)
        if answer.verdict == "yes":
            best, high = (problem, answer), middle
            continue
        if best is None:
            return answer.verdict
        low = middle + 1
        if answer.verdict == "no":
            refused[middle] = how
    assert best is not None
    proof = "bound" if high == 0 else refused.get(high - 1)
    return Reservation(gang, instants[high], proof, best[0]), best[1]


@dataclass(frozen=True)
class Promise:
    """A reservation as the plan states it."""

    reservation: models.Reservation
    message: str


def promised(problem: Problem, head: Reservation, assignment: Assignment) -> Promise:
    """The head's nodes, and the gangs there that have to end first; `problem` has no second columns."""
    spread = assignment[head.gang]
    nodes = {problem.node_names[n]: c for n, c in zip(spread.nodes.tolist(), spread.counts.tolist(), strict=True)}
    calendar = Calendar(problem)
    ends = {
        gang.name: end
        for gang in problem.snapshot.running
        if (end := known_end_s(problem.snapshot, gang)) is not None
        and end <= head.start_s
        and not gang.placement.keys().isdisjoint(nodes)
    }
    for gang, other in assignment.items():
        end = calendar.end_s[gang]
        if gang != head.gang and end is not None and end <= head.start_s and np.isin(other.nodes, spread.nodes).any():
            ends[problem.gangs[gang].name] = end
    waits = [f"{name!r} ({end})" for name, end in sorted(ends.items(), key=lambda pair: (-pair[1], pair[0]))]
    text = ", ".join(waits[:MOST_NAMED]) + (f", … ({len(waits)} in all)" if len(waits) > MOST_NAMED else "")
    message = f"promised for {head.start_s} on {len(nodes)} node{'s' if len(nodes) > 1 else ''}"
    if waits:
        message += f", when these have ended: {text}"
    return Promise(models.Reservation(start_s=head.start_s, nodes=nodes, proof=head.proof), message)
