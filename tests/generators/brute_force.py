"""Every plan of a tiny round, one by one, on plain dictionaries: the optimum that nobody can argue with."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from fractions import Fraction
from functools import cache
from itertools import combinations, product

from gangfit.models import Gang, Node, PendingGang, Request, RunningGang, Share, Snapshot, Tenant, Used

Plan = dict[str, dict[str, int]]
"""Gang → node → members."""
Space = dict[str, dict[str, int | None]]
"""Node → resource → what is free; None: not limited."""
Cost = tuple[tuple[int, ...], int]
"""GPU-seconds lost per priority of the eligible running gangs, descending; number of gangs preempted."""


def amounts(source: Request | Used | Node | Share) -> dict[str, int | None]:
    """Resource → amount of a request, a node, a `used`, a quota or a limit."""
    named = {f"resources.{k}": v for k, v in source.resources.items()}
    return {"gpus": source.gpus, "cpu": source.cpu_milli, "memory": source.memory_mib, **named}


def total(gang: Gang) -> Counter[str]:
    """What all members of a gang take."""
    return Counter({r: gang.members * a for r, a in amounts(gang.request).items() if a})


class Round:
    """A snapshot on dictionaries."""

    def __init__(self, snapshot: Snapshot) -> None:
        self.snapshot = snapshot
        self.policy = snapshot.policy.preemption
        self.levels = [level.name for level in snapshot.topology.levels]
        self.nodes: dict[str, Node] = {
            name: node for names, node in zip(snapshot.node_names, snapshot.nodes, strict=True) for name in names
        }
        self.pending: dict[str, PendingGang] = {gang.name: gang for gang in snapshot.pending}
        self.running: dict[str, RunningGang] = {g.name: g for g in snapshot.running if g.phase == "running"}
        self.eligible = [name for name, gang in self.running.items() if self.may_leave(gang)]
        self.priorities = sorted({self.running[name].priority for name in self.eligible}, reverse=True)
        self.free = self.space(frozenset())
        self.tenants = {tenant.name: tenant for tenant in snapshot.tenants}
        for gang in (*snapshot.running, *snapshot.pending):
            self.tenants.setdefault(gang.tenant, Tenant(name=gang.tenant))
        self.capacity = self._capacity()
        self.budget = self.cost(frozenset())
        """C of docs/model.md."""
        self.fits = cache(self._fits)
        self.lawful = cache(self._lawful)

    # ---- space and placements

    def space(self, victims: frozenset[str]) -> Space:
        """Free space when so many running gangs are gone; terminating ones always are."""
        free: Space = {}
        for name, node in self.nodes.items():
            used = amounts(node.used)
            free[name] = {r: None if cap is None else cap - (used.get(r) or 0) for r, cap in amounts(node).items()}
        for gang in self.running.values():
            for name, count in gang.placement.items() if gang.name not in victims else ():
                for r, amount in amounts(gang.request).items():
                    if free[name].get(r) is not None:
                        free[name][r] -= count * amount  # type: ignore[operator]  # not None, as just asked
        return free

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

    def spreads(self, gang: Gang, free: Space) -> Iterator[dict[str, int]]:
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

    def plans(self, gangs: tuple[str, ...], free: Space) -> Iterator[Plan]:
        """Every placement of all these gangs."""
        if not gangs:
            yield {}
            return
        gang = self.pending[gangs[0]]
        for spread in self.spreads(gang, free):
            after = {name: dict(values) for name, values in free.items()}
            for name, count in spread.items():
                for r, amount in amounts(gang.request).items():
                    if after[name].get(r) is not None:
                        after[name][r] -= count * amount  # type: ignore[operator]  # not None, as just asked
            for rest in self.plans(gangs[1:], after):
                yield {gang.name: spread, **rest}

    # ---- tenants

    def _capacity(self) -> dict[str, int]:
        """Resource → capacity for shares; only what every node limits and of which there is any."""
        nodes = [node for node in self.nodes.values() if node.state != "down"]
        names = {r for node in nodes for r in amounts(node)}
        limited = [r for r in names if all(amounts(node).get(r, 0) is not None for node in nodes)]
        capacity = {
            r: sum(max(0, (amounts(node).get(r) or 0) - (amounts(node.used).get(r) or 0)) for node in nodes)
            for r in limited
        }
        return {r: amount for r, amount in capacity.items() if amount > 0}

    def above(self, tenant: str) -> list[str]:
        """The tenant and all above it, itself first."""
        parent = self.tenants[tenant].parent
        return [tenant, *(self.above(parent) if parent is not None else ())]

    def use(self, tenant: str, admitted: tuple[str, ...], victims: frozenset[str] = frozenset()) -> Counter[str]:
        """What the tenant and all below it hold."""
        gangs: list[Gang] = [gang for name, gang in self.running.items() if name not in victims]
        gangs += [self.pending[name] for name in admitted]
        held: Counter[str] = Counter()
        for gang in gangs:
            if tenant in self.above(gang.tenant):
                held.update(total(gang))
        return held

    def quota(self, tenant: str) -> dict[str, int]:
        """Guarded resource → amount."""
        own = self.tenants[tenant]
        roots = [t for t in self.tenants.values() if t.parent is None]
        if own.parent is None and all(root.quota is None for root in roots):
            weights = sum(root.weight for root in roots)
            return {r: own.weight * cap // weights if weights else 0 for r, cap in self.capacity.items()}
        if own.quota is not None:
            return {r: amount for r, amount in amounts(own.quota).items() if amount is not None}
        is_parent = any(t.parent == tenant for t in self.tenants.values())
        return {} if is_parent else dict.fromkeys(self.everything(), 0)

    def everything(self) -> set[str]:
        """Every resource that a gang asks."""
        return {r for gang in (*self.running.values(), *self.pending.values()) for r in total(gang)}

    def share(self, tenant: str, admitted: tuple[str, ...]) -> Fraction:
        """Dominant share, without the weight."""
        held = self.use(tenant, admitted)
        return max((Fraction(held[r], cap) for r, cap in self.capacity.items()), default=Fraction(0))

    def group(self, tenant: str, gang: Gang, admitted: tuple[str, ...]) -> int:
        """0 within, 1 below, 2 surplus."""
        held, asked, quota = self.use(tenant, admitted), total(gang), self.quota(tenant)
        if all(held[r] + asked[r] <= amount for r, amount in quota.items()):
            return 0
        return 1 if all(held[r] < amount for r, amount in quota.items() if asked[r]) else 2

    def next_gang(self, left: set[str], admitted: tuple[str, ...], parent: str | None = None) -> str | None:
        """The gang that is considered next, of those below a parent; None: no gang is left there."""
        best = None
        for tenant in self.tenants.values():
            if tenant.parent != parent:
                continue
            own = [self.pending[name] for name in left if self.pending[name].tenant == tenant.name]
            offer = min(own, key=lambda g: (-g.priority, g.submitted_s, g.name)).name if own else None
            offer = offer or self.next_gang(left, admitted, tenant.name)
            if offer is None:
                continue
            gang = self.pending[offer]
            key = (
                -gang.priority if self.snapshot.policy.order == "priority" else 0,
                self.group(tenant.name, gang, admitted),
                tenant.weight == 0,
                self.share(tenant.name, admitted) / (tenant.weight or 1),
                -gang.priority,
                gang.submitted_s,
                gang.name,
            )
            best = min(best, key) if best else key
        return best[-1] if best else None

    def within_limits(self, admitted: tuple[str, ...], victims: frozenset[str]) -> bool:
        """Rule 8."""
        for tenant, own in self.tenants.items():
            starting = [self.pending[name] for name in admitted if tenant in self.above(self.pending[name].tenant)]
            held = self.use(tenant, admitted, victims)
            for r, amount in amounts(own.limit).items() if own.limit is not None else ():
                if amount is not None and held[r] > amount and any(total(gang)[r] for gang in starting):
                    return False
        return True

    # ---- victims

    def may_leave(self, gang: RunningGang) -> bool:
        """Rule 9, of a gang that isn't terminating."""
        age = self.snapshot.time_s - gang.started_s
        interval = gang.checkpoint.interval_s if gang.checkpoint is not None else None
        if interval is None:
            interval = max(gang.min_runtime_s, 3_600)
        guarded = gang.preemptions >= self.policy.guard and age < interval
        return gang.preemptible and age >= gang.min_runtime_s and not guarded

    def right(self, taker: str, victim: str, admitted: tuple[str, ...], victims: frozenset[str]) -> bool:
        """Rule 10: whether one admitted gang has a right over one of the victims."""
        p, v = self.pending[taker], self.running[victim]
        if p.preempted_s is not None and self.snapshot.time_s - p.preempted_s < self.policy.settle_s:
            return False
        if p.tenant == v.tenant:
            return self.policy.within == "priority" and v.priority < p.priority
        if self.policy.across != "reclaim":
            return self.policy.across == "priority" and v.priority < p.priority
        ours = [t for t in self.above(p.tenant) if t not in self.above(v.tenant)]
        theirs = [t for t in self.above(v.tenant) if t not in self.above(p.tenant)]
        up_to = admitted[: admitted.index(taker) + 1]
        within = all(self.use(t, up_to, victims)[r] <= amount for t in ours for r, amount in self.quota(t).items())
        asked = total(p)
        return within and all(
            any(self.use(t, up_to, victims - {victim})[r] > a for r, a in self.quota(t).items() if asked[r])
            for t in theirs
        )

    def _fits(self, admitted: tuple[str, ...], victims: frozenset[str]) -> bool:
        """Whether the gangs fit under rules 1–8 when the victims are gone."""
        return self.within_limits(admitted, victims) and any(True for _ in self.whole(admitted, victims))

    def whole(self, admitted: tuple[str, ...], victims: frozenset[str]) -> Iterator[Plan]:
        """Every placement of the gangs that the tiers count."""
        return self.plans(admitted, self.space(victims))

    def _lawful(self, admitted: tuple[str, ...], takers: frozenset[str], victims: frozenset[str]) -> bool:
        """Whether the admitted gangs fit with these victims, taken for `takers`, under rules 8–11."""
        return (
            all(any(self.right(taker, victim, admitted, victims) for taker in takers) for victim in victims)
            and self.fits(admitted, victims)
            and not any(self.fits(admitted, victims - {victim}) for victim in victims)
        )

    def victim_sets(self) -> Iterator[frozenset[str]]:
        """Every set of eligible running gangs."""
        for size in range(len(self.eligible) + 1):
            yield from map(frozenset, combinations(self.eligible, size))

    def lost(self, gang: RunningGang) -> int:
        """GPU-seconds lost when a gang is preempted."""
        asked = total(gang)
        gpus = asked["gpus"]
        if not gpus:
            capacity = self.capacity
            gpus = max(1, asked["cpu"] * capacity.get("gpus", 0) // capacity["cpu"]) if "cpu" in capacity else 1
        if self.saves_in_grace(gang):
            return gpus * gang.restart_s
        last = gang.checkpoint.last_s if gang.checkpoint is not None else None
        return gpus * (self.snapshot.time_s - max(gang.started_s, last or 0) + gang.restart_s)

    def saves_in_grace(self, gang: RunningGang) -> bool:
        """Whether a checkpoint fits into the grace window."""
        point = gang.checkpoint
        if point is None or point.bytes is None or point.write_gbps is None:
            return False
        return Fraction(point.bytes, 10**9) / Fraction(repr(point.write_gbps)) <= gang.grace_s

    def cost(self, victims: frozenset[str]) -> Cost:
        """The value of tier lost_progress."""
        gangs = [self.running[name] for name in victims]
        return tuple(sum(self.lost(g) for g in gangs if g.priority == p) for p in self.priorities), len(gangs)

    def affordable(self, victims: frozenset[str]) -> bool:
        """Whether the losses are in no priority more than the budget's, nor the gangs in number."""
        losses, broken = self.cost(victims)
        return broken <= self.budget[1] and all(a <= b for a, b in zip(losses, self.budget[0], strict=True))

    # ---- admission and optimum

    def turns(self, admits: set[str]) -> list[tuple[str, list[tuple[str, int, Fraction]]]]:
        """Gangs in considered order, if these are admitted; each with (tenant, class, weighted share), root first."""
        left, admitted, result = set(self.pending), (), []
        while (name := self.next_gang(left, admitted)) is not None:
            gang = self.pending[name]
            decided = [
                (t, self.group(t, gang, admitted), self.share(t, admitted) / (self.tenants[t].weight or 1))
                for t in reversed(self.above(gang.tenant))
            ]
            result.append((name, decided))
            left.remove(name)
            admitted = (*admitted, name) if name in admits else admitted
        return result

    def admission(self) -> tuple[tuple[str, ...], tuple[str, ...], frozenset[str]]:
        """Considered gangs in order; the admitted ones, those asked again last; and those that needed victims."""
        considered: tuple[str, ...] = ()
        admitted: tuple[str, ...] = ()
        takers: frozenset[str] = frozenset()
        left = set(self.pending)
        self.budget = self.cost(frozenset())
        while (gang := self.next_gang(left, admitted)) is not None:
            left.remove(gang)
            considered += (gang,)
            if self.free_space(gang, admitted, takers):
                admitted += (gang,)
            elif self.with_victims(gang, admitted, takers):
                admitted += (gang,)
                takers |= {gang}
                self.budget = min(self.cost(v) for v in self.victim_sets() if self.lawful(admitted, takers, v))
        self.at_first = admitted
        for gang in [name for name in considered if name not in admitted] if takers else []:
            if self.free_space(gang, admitted, takers):
                admitted += (gang,)
        return considered, admitted, takers

    def free_space(self, gang: str, admitted: tuple[str, ...], takers: frozenset[str]) -> bool:
        return any(
            self.affordable(victims) and self.lawful((*admitted, gang), takers, victims)
            for victims in self.victim_sets()
        )

    def with_victims(self, gang: str, admitted: tuple[str, ...], takers: frozenset[str]) -> bool:
        joint = (*admitted, gang)
        return any(
            self.lawful(joint, takers | {gang}, victims)
            and self.affordable(frozenset(v for v in victims if not self.right(gang, v, joint, victims)))
            for victims in self.victim_sets()
        )

    def optimum(self) -> tuple[int, ...]:
        """Best value vector over all plans: admissions, losses per priority, gangs preempted, the other tiers."""
        considered, admitted, takers = self.admission()
        costs = {v: self.cost(v) for v in self.victim_sets() if self.affordable(v) and self.lawful(admitted, takers, v)}
        cheapest = min(costs.values())
        victim_sets = [v for v, cost in costs.items() if cost == cheapest]
        best = min(self.tiers(plan, v) for v in victim_sets for plan in self.whole(admitted, v))
        first = [name for name in considered if name in self.at_first]
        again = [name for name in considered if name not in first]
        return (
            *(-(name in first) for name in considered),
            *(-(name in admitted) for name in again),
            *cheapest[0],
            cheapest[1],
            *best,
        )

    def tiers(self, plan: Plan, victims: frozenset[str] = frozenset()) -> tuple[int, ...]:
        """Values of the tiers after lost_progress; smaller is better."""
        levels = [*self.levels, "node"]
        weights = self.snapshot.topology.weights()
        touched = {
            (g, level): {self.domain(name, level) for name in spread} for g, spread in plan.items() for level in levels
        }
        wishes = {g: self.pending[g].topology.preferred for g in plan}
        preferred = sum(len(touched[g, level]) - 1 for g, level in wishes.items() if level is not None)
        distance = sum(
            weight * (len(touched[g, level]) - 1) for g in plan for level, weight in zip(levels, weights, strict=True)
        )
        spreads = [*plan.values(), *(gang.placement for name, gang in self.running.items() if name not in victims)]
        uplinks = 0
        for level in self.levels:
            for domain in {self.domain(name, level) for name in self.nodes}:
                inside = [sum(self.domain(name, level) == domain for name in spread) for spread in spreads]
                crossing = sum(0 < count < len(spread) for count, spread in zip(inside, spreads, strict=True))
                uplinks += max(0, crossing - 1)
        before = [gang.placement for gang in self.snapshot.running]
        lost = [
            len(self._intact(level, before)) - len(self._intact(level, [*before, *plan.values()])) for level in levels
        ]
        return (preferred, distance, uplinks, *lost)

    def _intact(self, level: str, spreads: list[dict[str, int]]) -> set[object]:
        """Domains with a ready node with GPUs, all of whose ready nodes with GPUs have them free and host nobody."""
        hosts = {name for spread in spreads for name in spread}
        result: set[object] = set()
        for domain in {self.domain(name, level) for name in self.nodes}:
            inside = {
                name: n
                for name, n in self.nodes.items()
                if self.domain(name, level) == domain and n.state == "ready" and n.gpus
            }
            if inside and all(n.used.gpus == 0 and name not in hosts for name, n in inside.items()):
                result.add(domain)
        return result
