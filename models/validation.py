"""Rules between the fields of a snapshot. Each fault names its field, the value and what is allowed."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable
from typing import TYPE_CHECKING, Any

from pydantic import ValidationError
from pydantic_core import InitErrorDetails, PydanticCustomError

from gangfit.models.hostlist import expand
from gangfit.models.scalars import MAX_NODES

if TYPE_CHECKING:
    from gangfit.models.gang import Gang, Request
    from gangfit.models.snapshot import Node, Share, Snapshot, Used

MAX_FAULTS = 100
MAX_DEMAND = 2**40
"""What all gangs together ask of one resource stays below."""
Location = tuple[str | int, ...]
Asked = tuple[int, int, int, tuple[tuple[str, int], ...]]
"""GPUs, millicores, MiB and named resources that one member asks."""
Load = tuple[int, ...]
"""What one node holds: number of the request and members, for each gang in turn."""


class _Faults:
    """Collects faults, so that one answer lists them all (up to `MAX_FAULTS`)."""

    def __init__(self) -> None:
        self.errors: list[InitErrorDetails] = []

    def add(self, location: Location, value: Any, message: str) -> None:
        if len(self.errors) < MAX_FAULTS:
            error = PydanticCustomError("snapshot", "{message}", {"message": message})
            self.errors.append(InitErrorDetails(type=error, loc=location, input=value))

    def raise_if_any(self) -> None:
        if self.errors:
            raise ValidationError.from_exception_data("Snapshot", self.errors)


def validate_snapshot(snapshot: Snapshot) -> None:
    """Check every cross-field rule; raises pydantic's ValidationError with one entry per fault."""
    faults = _Faults()
    _levels(snapshot, faults)
    names = _node_names(snapshot, faults)
    _paths(snapshot, faults)
    _tenants(snapshot, faults)
    _gangs(snapshot, faults)
    _placements(snapshot, names, faults)
    _demand(snapshot, faults)
    _instants(snapshot, faults)
    _resources(snapshot, faults)
    faults.raise_if_any()
    if snapshot.policy.overcommit == "reject":
        _overcommit(snapshot, names, faults)
        faults.raise_if_any()


def _listed(names: Iterable[str]) -> str:
    """The first few names, for a message."""
    listed = list(names)
    text = ", ".join(repr(name) for name in listed[:6])
    return f"{text}, … ({len(listed)} in all)" if len(listed) > 6 else text or "none"


def _levels(snapshot: Snapshot, faults: _Faults) -> None:
    seen: set[str] = set()
    for i, level in enumerate(snapshot.topology.levels):
        at = ("topology", "levels", i, "name")
        if level.name == "node":
            faults.add(at, level.name, "level name 'node' is taken by the implicit last level")
        if level.name in seen:
            faults.add(at, level.name, f"level {level.name!r} is listed twice; level names are unique")
        seen.add(level.name)
    weights = snapshot.topology.weights()
    if max(weights) > 1_000_000_000:
        faults.add(
            ("topology", "levels"),
            max(weights),
            f"a level's weight is {max(weights)} after defaults (4 × the finer level); the limit is 1000000000",
        )


def _node_names(snapshot: Snapshot, faults: _Faults) -> dict[str, int]:
    """Single node name → index of its entry in `nodes`."""
    try:
        expanded = snapshot.node_names
    except ValueError:
        return _faulty_names(snapshot, faults)
    names = {name: i for i, group in enumerate(expanded) for name in group}
    total = sum(map(len, expanded))
    return names if len(names) == total <= MAX_NODES else _faulty_names(snapshot, faults)


def _faulty_names(snapshot: Snapshot, faults: _Faults) -> dict[str, int]:
    """The same entry by entry, with a fault for every name that is malformed, doubled or too many."""
    names: dict[str, int] = {}
    for i, node in enumerate(snapshot.nodes):
        at = ("nodes", i, "name")
        try:
            expanded = expand(node.name)
        except ValueError as error:
            faults.add(at, node.name, str(error))
            continue
        for name in expanded:
            if name in names:
                faults.add(at, node.name, f"node {name!r} is also in nodes[{names[name]}]; node names are unique")
            names[name] = i
        if len(names) > MAX_NODES:
            faults.add(at, node.name, f"more than {MAX_NODES} nodes in all; that is the limit")
            break
    return names


def _paths(snapshot: Snapshot, faults: _Faults) -> None:
    levels = [level.name for level in snapshot.topology.levels]
    if {len(node.path) for node in snapshot.nodes} == {len(levels)}:
        return
    for i, node in enumerate(snapshot.nodes):
        if len(node.path) != len(levels):
            faults.add(
                ("nodes", i, "path"),
                node.path,
                f"path of node {node.name!r} has {len(node.path)} entries; the topology has {len(levels)} levels "
                f"({_listed(levels)}), one entry each",
            )


def _tenants(snapshot: Snapshot, faults: _Faults) -> None:
    counts = Counter(tenant.name for tenant in snapshot.tenants)
    for i, tenant in enumerate(snapshot.tenants):
        if counts[tenant.name] > 1:
            faults.add(
                ("tenants", i, "name"),
                tenant.name,
                f"tenant {tenant.name!r} is listed twice; names are unique",
            )
    parent = {tenant.name: tenant.parent for tenant in snapshot.tenants}
    sound: set[str] = set()
    for i, tenant in enumerate(snapshot.tenants):
        if tenant.parent is None:
            continue
        if tenant.parent not in parent:
            message = f"unknown parent tenant {tenant.parent!r}; known: {_listed(sorted(parent))}"
            faults.add(("tenants", i, "parent"), tenant.parent, message)
            continue
        chain = [tenant.name]
        seen = {tenant.name}
        while chain[-1] not in sound and (above := parent.get(chain[-1])) is not None:
            chain.append(above)
            if above in seen:
                message = f"tenant {tenant.name!r} is below itself: {' → '.join(chain[:6])}"
                faults.add(("tenants", i, "parent"), tenant.parent, message)
                break
            seen.add(above)
        else:
            sound |= seen


def _gangs(snapshot: Snapshot, faults: _Faults) -> None:
    tenants = {"default", *(tenant.name for tenant in snapshot.tenants)}
    parents = {tenant.parent for tenant in snapshot.tenants}
    levels = [*(level.name for level in snapshot.topology.levels), "node"]
    first: dict[str, str] = {}
    groups: tuple[tuple[str, tuple[Gang, ...]], ...] = (
        ("running", snapshot.running),
        ("pending", snapshot.pending),
    )
    for group, gangs in groups:
        for i, gang in enumerate(gangs):
            here = f"{group}[{i}]"
            if gang.name in first:
                faults.add(
                    (group, i, "name"),
                    gang.name,
                    f"gang {gang.name!r} is also {first[gang.name]}; names are unique",
                )
            first.setdefault(gang.name, here)
            if gang.tenant not in tenants:
                faults.add(
                    (group, i, "tenant"),
                    gang.tenant,
                    f"unknown tenant {gang.tenant!r}; known: {_listed(sorted(tenants))}",
                )
            if gang.tenant in parents:
                message = f"tenant {gang.tenant!r} has tenants below it; gangs belong to leaf tenants"
                faults.add((group, i, "tenant"), gang.tenant, message)
            for field in ("required", "preferred"):
                level = getattr(gang.topology, field)
                if level is not None and level not in levels:
                    faults.add(
                        (group, i, "topology", field),
                        level,
                        f"unknown level {level!r}; known: {_listed(levels)}",
                    )


def _demand(snapshot: Snapshot, faults: _Faults) -> None:
    """All gangs together ask less of every resource than the solver takes for unlimited."""
    members: defaultdict[Asked, int] = defaultdict(int)
    for gang in (*snapshot.running, *snapshot.pending):
        members[asked(gang.request)] += gang.members
    total: Counter[str] = Counter()
    for key, count in members.items():
        for resource, amount in _by_name(key).items():
            total[resource] += count * amount
    for resource, amount in total.items():
        if amount >= MAX_DEMAND:
            message = f"the gangs ask {amount} of {resource} in all; the limit is {MAX_DEMAND - 1}"
            faults.add(("pending",), amount, message)


def _instants(snapshot: Snapshot, faults: _Faults) -> None:
    """What has happened has happened by `time_s`."""
    for i, running in enumerate(snapshot.running):
        if running.started_s > snapshot.time_s:
            _past(snapshot, faults, ("running", i, "started_s"), running.started_s)
    for i, pending in enumerate(snapshot.pending):
        _past(snapshot, faults, ("pending", i, "preempted_s"), pending.preempted_s)
    groups: tuple[tuple[str, tuple[Gang, ...]], ...] = (("running", snapshot.running), ("pending", snapshot.pending))
    for group, gangs in groups:
        for i, gang in enumerate(gangs):
            if gang.checkpoint is not None:
                _past(snapshot, faults, (group, i, "checkpoint", "last_s"), gang.checkpoint.last_s)


def _past(snapshot: Snapshot, faults: _Faults, at: Location, instant: int | None) -> None:
    if instant is not None and instant > snapshot.time_s:
        faults.add(
            at, instant, f"{at[-1]} is {instant}, after time_s {snapshot.time_s}; {snapshot.time_s} is the latest"
        )


def _resources(snapshot: Snapshot, faults: _Faults) -> None:
    """Quotas, limits and `used` name resources that some node has; else they would have no effect."""
    known = {name for node in snapshot.nodes for name in node.resources}

    def unknown(at: Location, of: str, resources: dict[str, int]) -> None:
        for name in resources.keys() - known:
            message = f"{of} names resource {name!r}, which no node has; known: {_listed(sorted(known))}"
            faults.add((*at, "resources", name), resources[name], message)

    for i, tenant in enumerate(snapshot.tenants):
        for field, share in (("quota", tenant.quota), ("limit", tenant.limit)):
            if share is not None:
                unknown(("tenants", i, field), f"{field} of tenant {tenant.name!r}", share.resources)
    for i, node in enumerate(snapshot.nodes):
        if node.used.resources:
            unknown(("nodes", i, "used"), f"used of node {node.name!r}", node.used.resources)


def _placements(snapshot: Snapshot, names: dict[str, int], faults: _Faults) -> None:
    for i, gang in enumerate(snapshot.running):
        placed = sum(gang.placement.values())
        if placed != gang.members:
            faults.add(
                ("running", i, "placement"),
                placed,
                f"gang {gang.name!r} has {gang.members} members, its placement has {placed}",
            )
        if gang.placement.keys() <= names.keys():
            continue
        for node in gang.placement:
            if node not in names:
                faults.add(
                    ("running", i, "placement", node),
                    node,
                    f"unknown node {node!r}; {len(names)} nodes are known",
                )


def amounts(source: Request | Used | Node | Share) -> dict[str, int | None]:
    """Resource name → amount; None: not limited."""
    result = {"gpus": source.gpus, "cpu_milli": source.cpu_milli, "memory_mib": source.memory_mib}
    for name, amount in source.resources.items():
        result[f"resources.{name}"] = amount
    return result


def asked(request: Request) -> Asked:
    """What one member asks, as a key: gangs that ask the same have the same."""
    named = tuple(request.resources.items()) if request.resources else ()
    return request.gpus, request.cpu_milli, request.memory_mib, named


def _by_name(key: Asked) -> dict[str, int]:
    """Resource → amount, without zeros."""
    gpus, cpu_milli, memory_mib, named = key
    result = {"gpus": gpus, "cpu_milli": cpu_milli, "memory_mib": memory_mib}
    result.update({f"resources.{name}": amount for name, amount in named})
    return {resource: amount for resource, amount in result.items() if amount}


def _overcommit(snapshot: Snapshot, names: dict[str, int], faults: _Faults) -> None:
    for node, resource, taken, capacity in overcommitted(snapshot, names):
        faults.add(
            ("nodes", names[node], *resource.split(".", 1)),
            taken,
            f"node {node!r}: running gangs and `used` take {taken} of {resource}, it has {capacity}; "
            "policy.overcommit 'clamp' would take the node as full",
        )


def overcommitted(snapshot: Snapshot, names: dict[str, int]) -> list[tuple[str, str, int, int]]:
    """(node, resource, taken, capacity) wherever `used` and running gangs take more than the node has."""
    # What a node holds, as (request, members) of each gang in turn: entries and loads that are alike are judged once.
    numbers: dict[Asked, int] = {}
    loads: dict[str, Load] = {}
    for gang in snapshot.running:
        number = numbers.setdefault(asked(gang.request), len(numbers))
        for node, members in gang.placement.items():
            loads[node] = (*loads.get(node, ()), number, members)
    requests = [_by_name(key) for key in numbers]
    # By name only nodes that host members or belong to a faulty entry.
    faulty = {i for i, node in enumerate(snapshot.nodes) if not _is_nothing(node.used) and _over(node, {})}
    over = {
        (i, load)
        for i, load in {(names[node], load) for node, load in loads.items()}
        if _over(snapshot.nodes[i], _taken(requests, load))
    }
    if not faulty and not over:
        return []
    return [
        (name, resource, total, limit)
        for name, index in names.items()
        if index in faulty or (index, loads.get(name, ())) in over
        for resource, total, limit in _over(snapshot.nodes[index], _taken(requests, loads.get(name, ())))
    ]


def _taken(requests: list[dict[str, int]], load: Load) -> dict[str, int]:
    """Resource → what the members on a node take."""
    taken: dict[str, int] = {}
    for number, members in zip(load[::2], load[1::2], strict=True):
        for resource, amount in requests[number].items():
            taken[resource] = taken.get(resource, 0) + members * amount
    return taken


def _is_nothing(used: Used) -> bool:
    return not (used.gpus or used.cpu_milli or used.memory_mib or used.resources)


def _over(node: Node, taken: dict[str, int]) -> list[tuple[str, int, int]]:
    """(resource, total, capacity) of what `used` and `taken` overcommit on a node."""
    used = {} if _is_nothing(node.used) else amounts(node.used)
    result = []
    for resource in {**used, **taken}:
        total = (used.get(resource) or 0) + taken.get(resource, 0)
        limit = _limit(node, resource)
        if limit is not None and total > limit:
            result.append((resource, total, limit))
    return result


def _limit(node: Node, resource: str) -> int | None:
    """A node's capacity of a resource; None: not limited."""
    match resource:
        case "gpus":
            return node.gpus
        case "cpu_milli":
            return node.cpu_milli
        case "memory_mib":
            return node.memory_mib
    return node.resources.get(resource.removeprefix("resources."), 0)
