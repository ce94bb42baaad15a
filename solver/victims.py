"""Running gangs that may give way: who is eligible, what a preemption loses, who has a right over whom."""

from __future__ import annotations

import math
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np

from gangfit.models import Checkpoint, Gang, RunningGang, Snapshot
from gangfit.solver.arrays import IntArray
from gangfit.solver.tenants import Tenants

MOST_LOST = 2**46
"""No preemption counts for more GPU-seconds: a million GPUs for two years."""


@dataclass(frozen=True)
class Victims:
    """V eligible running gangs as arrays, by name."""

    gangs: tuple[RunningGang, ...]
    tenant: IntArray
    """(V,)"""
    priority: IntArray
    """(V,)"""
    lost: IntArray
    """(V,): GPU-seconds that a preemption loses."""
    request: IntArray
    """(V, R): per member."""
    total: IntArray
    """(V, R): all members."""
    nodes: tuple[IntArray, ...]
    """Per victim: node indices, ascending."""
    counts: tuple[IntArray, ...]
    """Per victim: members on each of its nodes."""
    crossing: tuple[tuple[frozenset[int], ...], ...]
    """Per victim and named level: domains whose boundary it crosses."""

    @cached_property
    def turns(self) -> tuple[int, ...]:
        """Victims as the greedy preemptor takes them: by priority, then start (newest first), then name."""
        priority, gangs = self.priority.tolist(), self.gangs
        keys = [(priority[v], -gang.started_s, gang.name, v) for v, gang in enumerate(gangs)]
        return tuple(key[-1] for key in sorted(keys))

    @cached_property
    def _held(self) -> tuple[IntArray, IntArray, IntArray]:
        """Victim (F,), node (F,) and amounts (F, R) of every (victim, node) pair."""
        of = np.repeat(np.arange(len(self.nodes)), [len(nodes) for nodes in self.nodes])
        return of, np.concatenate(self.nodes), np.concatenate(self.counts)[:, None] * self.request[of]

    @cached_property
    def _crossed(self) -> tuple[tuple[IntArray, IntArray], ...]:
        """Per named level: victim and domain of every boundary crossed."""
        result = []
        for level in range(len(self.crossing[0])):
            pairs = [(v, d) for v, levels in enumerate(self.crossing) for d in levels[level]]
            flat = np.array(pairs, dtype=np.int64).reshape(-1, 2)
            result.append((flat[:, 0], flat[:, 1]))
        return tuple(result)

    def held_by(self, victims: Sequence[int]) -> tuple[IntArray, IntArray, IntArray]:
        """Node (F,) and amounts (F, R) of the victims' pairs, one victim after the other, and where each starts."""
        if not victims:
            none = np.zeros(0, dtype=np.int64)
            return none, np.zeros((0, self.request.shape[1]), dtype=np.int64), np.zeros(1, dtype=np.int64)
        of, node, amount = self._held
        order = np.array(victims, dtype=np.int64)
        size = np.bincount(of, minlength=len(self.nodes))
        start = np.cumsum(size) - size
        ends = np.concatenate([[0], np.cumsum(size[order])])
        pairs = np.repeat(start[order] - ends[:-1], size[order]) + np.arange(ends[-1])
        return node[pairs], amount[pairs], ends

    def leave(self, victims: Collection[int], free: IntArray, crossing: tuple[IntArray, ...]) -> None:
        """Add what the victims hold to `free` (N, R) and take them off `crossing`, both in place."""
        gone = np.zeros(len(self.nodes), dtype=np.bool_)
        gone[list(victims)] = True
        of, node, amount = self._held
        here = gone[of]
        np.add.at(free, node[here], amount[here])
        for level, (victim, domain) in enumerate(self._crossed):
            np.subtract.at(crossing[level], domain[gone[victim]], 1)


def encode_victims(
    snapshot: Snapshot, tenants: Tenants, asks: IntArray, held: tuple[IntArray, IntArray, IntArray], domain: IntArray
) -> Victims:
    """The eligible gangs of a snapshot.

    `asks` (running gangs, R): per member; `held` (F,) each: running gang, ascending, node and members of every pair;
    `domain` (L + 1, N): the tree's domains.
    """
    policy = snapshot.policy.preemption
    wanted = policy.within != "never" or policy.across != "never" or snapshot.policy.moves.mode == "allowed"
    running = snapshot.running
    eligible = [i for i, gang in enumerate(running) if wanted and victim_eligible(snapshot, gang)]
    eligible.sort(key=lambda i: running[i].name)
    gangs = tuple(running[i] for i in eligible)
    tenant = {name: t for t, name in enumerate(tenants.names)}
    request = asks[eligible]
    members = np.array([gang.members for gang in gangs], dtype=np.int64)
    order = np.lexsort((held[1], held[0]))
    nodes, counts = held[1][order], held[2][order]
    first = np.searchsorted(held[0], np.arange(len(running) + 1))
    ranges = list(zip(first[eligible].tolist(), first[1:][eligible].tolist(), strict=True))
    return Victims(
        gangs=gangs,
        tenant=np.array([tenant[gang.tenant] for gang in gangs], dtype=np.int64),
        priority=np.array([gang.priority for gang in gangs], dtype=np.int64),
        lost=np.array([lost_progress(snapshot, gang, tenants) for gang in gangs], dtype=np.int64),
        request=request,
        total=request * members[:, None],
        nodes=tuple(nodes[start:end] for start, end in ranges),
        counts=tuple(counts[start:end] for start, end in ranges),
        crossing=_crossing(domain[:-1, nodes], ranges),
    )


def victim_eligible(snapshot: Snapshot, gang: RunningGang) -> bool:
    """Rule 9: preemptible, running, old enough, and not protected by the guard against the death spiral."""
    if not gang.preemptible or gang.phase == "terminating":
        return False
    return snapshot.time_s >= protected_until(snapshot, gang)


def move_eligible(snapshot: Snapshot, gang: RunningGang) -> bool:
    """Rule 14, of a gang that could be a victim: moves are allowed, and it didn't start only now."""
    return snapshot.policy.moves.mode == "allowed" and gang.started_s < snapshot.time_s


def protected_until(snapshot: Snapshot, gang: RunningGang) -> int:
    """Instant from which the gang's age no longer protects it: minimum run, or the guard's interval."""
    guarded = gang.preemptions >= snapshot.policy.preemption.guard
    return gang.started_s + max(gang.min_runtime_s, guard_interval(gang) if guarded else 0)


def guard_interval(gang: RunningGang) -> int:
    """Seconds that a gang preempted too often is left in peace after its start."""
    if gang.checkpoint is not None and gang.checkpoint.interval_s is not None:
        return gang.checkpoint.interval_s
    return max(gang.min_runtime_s, 3_600)


def lost_progress(snapshot: Snapshot, gang: RunningGang, tenants: Tenants) -> int:
    """GPU-seconds lost when the gang is preempted: progress since the last checkpoint, and the restart."""
    seconds = gang.restart_s
    if not saves_in_grace(gang):
        last = gang.checkpoint.last_s if gang.checkpoint is not None else None
        seconds += max(0, snapshot.time_s - max(gang.started_s, last if last is not None else 0))
    return min(gpu_equivalent(gang, tenants) * seconds, MOST_LOST)


def saves_in_grace(gang: RunningGang) -> bool:
    """Whether a checkpoint fits into the grace window."""
    return gang.checkpoint is not None and write_s(gang.checkpoint) <= gang.grace_s


def write_s(checkpoint: Checkpoint) -> Fraction | float:
    """Seconds that a checkpoint takes, exact in decimals as written; infinite if that isn't known."""
    if checkpoint.bytes is None or checkpoint.write_gbps is None:
        return math.inf
    return _exactly(checkpoint.bytes, checkpoint.write_gbps)


@lru_cache(4_096)
def _exactly(size: int, gbps: float) -> Fraction:
    """Seconds that so many bytes take; gangs of one user are alike."""
    return Fraction(size, 10**9) / Fraction(repr(gbps))


def gpu_equivalent(gang: Gang, tenants: Tenants) -> int:
    """GPUs of the gang; without any, its CPU at the cluster's GPUs per CPU, rounded down, at least 1."""
    if gang.request.gpus:
        return gang.request.gpus * gang.members
    gpus, cpu = int(tenants.capacity[0]), int(tenants.capacity[1])
    return max(1, gang.members * gang.request.cpu_milli * gpus // cpu) if cpu else 1


def _crossing(domain: IntArray, ranges: Sequence[tuple[int, int]]) -> tuple[tuple[frozenset[int], ...], ...]:
    """Per gang and named level the domains whose boundary it crosses; `ranges`: each gang's columns of `domain`."""
    inside: frozenset[int] = frozenset()
    result = []
    for start, end in ranges:
        if end - start == 1:
            result.append((inside,) * len(domain))
            continue
        touched = (frozenset(row) for row in domain[:, start:end].tolist())
        result.append(tuple(domains if len(domains) > 1 else inside for domains in touched))
    return tuple(result)
