"""Gangs that wait: none of them fits what the plan leaves, and each says truly why it waits."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from gangfit.models import Blocked, Reason, Violation
from gangfit.solver.checker.case import Case
from gangfit.solver.checker.cluster import CEILING
from gangfit.solver.checker.giving_way import entangled
from gangfit.solver.checker.reservation import Later
from gangfit.solver.checker.room import Wish


def admission(case: Case) -> Iterator[Violation]:
    """No gang that isn't placed fits, alone, into the space the plan leaves and the limits of its tenants.

    Unless it would take what is promised to another.
    """
    if entangled(case):
        return
    later = Later.of(case)
    for rank in np.flatnonzero(~case.admitted).tolist():
        gang = case.cluster.pending[rank]
        most = case.left.most(case.wishes[rank])
        if most >= gang.members and case.held_after.over_limit(gang) is None and not (later and later.hinders(rank)):
            message = f"gang {gang.name!r} waits with {gang.members} members, the plan leaves room for {_figure(most)}"
            yield Violation(rule="admission", gang=gang.name, message=message)


def blocked_reason(case: Case) -> Iterator[Violation]:
    """Every blocked gang is listed once, and its reason and counters follow from the snapshot."""
    seen: set[str] = set()
    for entry in case.plan.blocked:
        if entry.gang in seen:
            message = f"gang {entry.gang!r} is listed as blocked more than once, once is allowed"
            yield Violation(rule="blocked_reason", gang=entry.gang, message=message)
        elif entry.gang in case.cluster.rank and entry.gang not in case.times_placed:
            for message in _untrue(case, entry):
                yield Violation(rule="blocked_reason", gang=entry.gang, message=f"gang {entry.gang!r}: {message}")
        seen.add(entry.gang)


def _untrue(case: Case, entry: Blocked) -> Iterator[str]:
    """What is wrong with the reason, the counters and the time of a blocked entry."""
    rank = case.cluster.rank[entry.gang]
    true = true_reason(case, rank)
    if (entry.reason == "undecided") != (entry.gang in case.out_of_time):
        yield f"reason is {entry.reason!r}, it is {'not' if entry.reason == 'undecided' else ''} out of time"
    elif entry.reason not in ("undecided", true) and (entry.reason, true) != ("competing", "protected"):
        # Whether its rights alone would make room isn't judged here: that is `victim_right` over sets not in the plan.
        most, members = case.alone.most(case.wishes[rank]), case.cluster.pending[rank].members
        yield f"reason is {entry.reason!r}, it is {true!r} ({members} members, alone room for {_figure(most)})"
    if entry.retry_at_s is not None and (
        entry.reason != "protected" or entry.retry_at_s <= case.cluster.snapshot.time_s
    ):
        yield f"retry_at_s is {entry.retry_at_s} with reason {entry.reason!r}; only 'protected' has one, after time_s"
    if entry.counters:
        counters = true_counters(case, rank)
        if entry.counters == counters:
            return
        for name, stated in entry.counters.items():
            if name not in counters:
                yield f"counter {name!r} is unknown here; known: {', '.join(counters)}"
            elif stated != counters[name]:
                yield f"counter {name!r} is {stated}, recomputed {counters[name]}"


def true_reason(case: Case, rank: int) -> Reason:
    """Why the gang waits, if its question was settled; judged once for alike gangs of a tenant."""
    gang = case.cluster.pending[rank]
    alike = case.wishes[rank], gang.members, gang.tenant
    if alike not in case.reasons:
        case.reasons[alike] = _judged(case, rank)
    return case.reasons[alike]


def _judged(case: Case, rank: int) -> Reason:
    wish, gang, room = case.wishes[rank], case.cluster.pending[rank], case.alone
    if room.most(wish) >= gang.members:
        return "competing" if case.held_before.over_limit(gang) is None else "limit"
    if wish.level is not None and room.most(wish._replace(level=None)) >= gang.members:
        return "topology"
    if wish.selector and room.most(wish._replace(selector=frozenset())) >= gang.members:
        return "selector"
    if room.most(wish._replace(tolerations=None)) >= gang.members:
        return "taint"
    if wish.gpu_model is not None and room.most(wish._replace(gpu_model=None)) >= gang.members:
        return "gpu_model"
    if case.emptied.most(wish) >= gang.members:
        return "protected"
    return "capacity"


def true_counters(case: Case, rank: int) -> dict[str, int]:
    """Nodes per first rule that excludes them, usable nodes, and the members these hold.

    A node without any limit on what the gang asks counts as holding all its members.
    """
    wish, members = case.wishes[rank], case.cluster.pending[rank].members
    # Every node limits GPUs, so the members matter only to gangs that ask none.
    alike = wish, 0 if wish.ask[0] else members
    if alike not in case.counted:
        case.counted[alike] = _counted(case, wish, members)
    return case.counted[alike]


def _counted(case: Case, wish: Wish, members: int) -> dict[str, int]:
    masks = case.masks
    ready = case.cluster.ready
    selected = ready & masks.selector(wish.selector)
    tolerated = selected & masks.tolerated(wish.tolerations)
    held = case.alone.held(wish)
    held[held >= CEILING] = members
    left = [len(ready), *(int(np.count_nonzero(mask)) for mask in (ready, selected, tolerated))]
    allowed = masks.allowed(wish.selector, wish.tolerations, wish.gpu_model)
    left += [int(np.count_nonzero(allowed)), int(np.count_nonzero(held))]
    names = ("not_ready", "selector", "taint", "gpu_model", "too_small")
    counters = {name: left[position] - left[position + 1] for position, name in enumerate(names)}
    counters |= {"usable": left[-1], "members_that_fit": int(held.sum())}
    if wish.level is not None:
        counters["largest_domain"] = case.alone.largest(held, wish.level)
    return counters


def _figure(most: int) -> str:
    """A number of members, for a message."""
    return str(most) if most < CEILING else "any number"
