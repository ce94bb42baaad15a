"""Every plan of a tiny round, one by one, on plain dictionaries: the optimum that nobody can argue with."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product

from gangfit.models import Gang, Node, Snapshot

Plan = dict[str, dict[str, int]]
"""Gang → node → members."""


def amounts(source: object) -> dict[str, int | None]:
    """Resource → amount of a request, a node or a `used`."""
    named = {f"resources.{k}": v for k, v in source.resources.items()}  # type: ignore[attr-defined]
    return {"gpus": source.gpus, "cpu": source.cpu_milli, "memory": source.memory_mib, **named}  # type: ignore[attr-defined]


class Round:
    """A snapshot on dictionaries."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.levels = [level.name for level in snapshot.topology.levels]
        self.nodes: dict[str, Node] = {node.name: node for node in snapshot.nodes}
        self.free: dict[str, dict[str, int | None]] = {}
        for name, node in self.nodes.items():
            used = amounts(node.used)
            self.free[name] = {r: None if cap is None else cap - (used.get(r) or 0) for r, cap in amounts(node).items()}
        for gang in snapshot.running:
            for name, count in gang.placement.items():
                for r, amount in amounts(gang.request).items():
                    if self.free[name].get(r) is not None:
                        self.free[name][r] -= count * amount  # type: ignore[operator]
        self.gangs = sorted(snapshot.pending, key=lambda g: (-g.priority, g.submitted_s, g.name))

    def domain(self, name: str, level: str) -> tuple[object, ...]:
        """Identity of a node's domain."""
        if level == "node":
            return (name,)
        prefix = self.nodes[name].path[: self.levels.index(level) + 1]
        return (*prefix, name) if None in prefix else prefix

    def known(self, name: str, level: str) -> bool:
        return level == "node" or None not in self.nodes[name].path[: self.levels.index(level) + 1]

    def allowed(self, gang: Gang, name: str) -> bool:
        node = self.nodes[name]
        required = gang.topology.required
        return (
            node.state == "ready"
            and all(node.labels.get(k) == v for k, v in gang.selector.items())
            and all(
                any(
                    t.effect in (None, taint.effect)
                    and t.key in ("", taint.key)
                    and (t.operator == "Exists" or t.value == taint.value)
                    for t in gang.tolerations
                )
                for taint in node.taints
            )
            and gang.gpu_model in (None, node.gpu_model)
            and (required is None or self.known(name, required))
        )

    def spreads(self, gang: Gang, free: dict[str, dict[str, int | None]]) -> Iterator[dict[str, int]]:
        """Every way to place a gang's members in free space."""
        names = [name for name in self.nodes if self.allowed(gang, name)]
        asks = {r: a for r, a in amounts(gang.request).items() if a}
        rooms = []
        for name in names:
            room = gang.members
            for r, amount in asks.items():
                have = free[name].get(r, 0)
                if have is not None:
                    room = min(room, max(have, 0) // amount)
            rooms.append(range(room + 1))
        for counts in product(*rooms):
            if sum(counts) != gang.members:
                continue
            spread = {name: c for name, c in zip(names, counts, strict=True) if c}
            required = gang.topology.required
            if required is None or len({self.domain(name, required) for name in spread}) == 1:
                yield spread

    def plans(self, index: int, free: dict[str, dict[str, int | None]], plan: Plan) -> Iterator[Plan]:
        """Every plan, gangs from `index` on."""
        if index == len(self.gangs):
            yield dict(plan)
            return
        gang = self.gangs[index]
        yield from self.plans(index + 1, free, plan)
        for spread in self.spreads(gang, free):
            after = {name: dict(values) for name, values in free.items()}
            for name, count in spread.items():
                for r, amount in amounts(gang.request).items():
                    if after[name].get(r) is not None:
                        after[name][r] -= count * amount  # type: ignore[operator]
            yield from self.plans(index + 1, after, {**plan, gang.name: spread})

    def values(self, plan: Plan) -> tuple[int, ...]:
        """Admissions (as 0/1 vector, negated) and tier values; smaller is better."""
        gangs = {gang.name: gang for gang in self.gangs}
        levels = [*self.levels, "node"]
        weights = self.snapshot.topology.weights()
        touched = {
            (g, level): {self.domain(name, level) for name in spread} for g, spread in plan.items() for level in levels
        }
        preferred = sum(
            len(touched[g, gangs[g].topology.preferred]) - 1 for g in plan if gangs[g].topology.preferred is not None
        )
        distance = sum(
            weight * (len(touched[g, level]) - 1) for g in plan for level, weight in zip(levels, weights, strict=True)
        )
        spreads = [*plan.values(), *(gang.placement for gang in self.snapshot.running)]
        uplinks = 0
        for level in self.levels:
            for domain in {self.domain(name, level) for name in self.nodes}:
                inside = [sum(self.domain(name, level) == domain for name in spread) for spread in spreads]
                crossing = sum(0 < count < len(spread) for count, spread in zip(inside, spreads, strict=True))
                uplinks += max(0, crossing - 1)
        before = [gang.placement for gang in self.snapshot.running]
        lost = [self._intact(level, before) - self._intact(level, spreads) for level in levels]
        return (*(-(gang.name in plan) for gang in self.gangs), preferred, distance, uplinks, *lost)

    def _intact(self, level: str, spreads: list[dict[str, int]]) -> int:
        hosts = {name for spread in spreads for name in spread}
        total = 0
        for domain in {self.domain(name, level) for name in self.nodes}:
            inside = [
                n for name, n in self.nodes.items()
                if self.domain(name, level) == domain and n.state == "ready" and n.gpus
            ]  # fmt: skip
            total += bool(inside) and all(self.free[n.name]["gpus"] == n.gpus and n.name not in hosts for n in inside)
        return total

    def optimum(self) -> tuple[int, ...]:
        """Best value vector over all plans."""
        return min(self.values(plan) for plan in self.plans(0, self.free, {}))
