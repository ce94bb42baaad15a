"""Defragmentation: the fewest moves that leave so many whole domains of a level empty.

See docs/model.md, "Defragmentation".
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import replace

import numpy as np
from ortools.sat.python import cp_model

from gangfit.models import NODE_LEVEL, Defragmentation, MovesPolicy, PreemptionPolicy, Snapshot
from gangfit.solver.answer import cost_tier
from gangfit.solver.arrays import BoolArray
from gangfit.solver.assignment import Assignment
from gangfit.solver.bundles import Bundle
from gangfit.solver.checker.defragmentation import check_defragmentation
from gangfit.solver.drain import starts_after
from gangfit.solver.engine import Budget
from gangfit.solver.greedy.strategies import PLACES, place_in_order
from gangfit.solver.itinerary import moves, transitions
from gangfit.solver.merged import Merged, Sum
from gangfit.solver.mip import run_mip
from gangfit.solver.move_choice import MoveChoice
from gangfit.solver.movers import Mover, moved_members
from gangfit.solver.moving import Moving
from gangfit.solver.moving_slots import MovingSlots
from gangfit.solver.oracle import Answer, Preemption, Verdict, ask, place_beside
from gangfit.solver.problem import Problem, encode
from gangfit.solver.tiers import Improvement

_Found = tuple[list[int], Answer]
"""Domains to be empty, and who moves where."""
SHARE = 0.4
"""Most of the remaining time that one step may take."""
NOBODY = -1
"""The gang that moves are for, where they are for none."""
LARGEST = 200_000
"""Most (node, movable gang) pairs that are put to CP-SAT."""


def defragment(
    snapshot: Snapshot, level: str, domains: int, *, on_progress: Callable[[str], None] | None = None
) -> Defragmentation:
    """The fewest gangs to move, then the fewest members, so that `domains` domains of a level are intact.

    Domains that are intact already count. Pending gangs stay pending, nobody is preempted, and whoever may give way by
    rule 9 may move, whatever the policy says. Raises ValueError for an unknown level or a number below 1.
    """
    levels = [*(one.name for one in snapshot.topology.levels), NODE_LEVEL]
    if level not in levels:
        raise ValueError(f"unknown level {level!r}; the snapshot has {', '.join(map(repr, levels))}")
    if domains < 1:
        raise ValueError(f"domains is {domains}; at least 1 has to be asked for")
    progress = on_progress or (lambda line: None)
    problem = encode(_movable(snapshot))
    job = _Job(problem, levels.index(level), domains, Budget(snapshot.policy), progress)
    result = job.run(level)
    faults = check_defragmentation(snapshot, result)
    if faults:
        raise RuntimeError("; ".join(faults[:5]))
    return result


def _movable(snapshot: Snapshot) -> Snapshot:
    """The snapshot without pending gangs, its running ones free to move."""
    policy = snapshot.policy.model_copy(
        update={
            "moves": MovesPolicy(mode="allowed", max_gangs=10_000),
            "preemption": PreemptionPolicy(
                within="never", across="never", settle_s=0, guard=snapshot.policy.preemption.guard
            ),
        }
    )
    return snapshot.model_copy(update={"pending": (), "policy": policy})


class Clearing(Moving):
    """The model of moves on placements, with domains that are to be empty."""

    def __init__(self, problem: Problem, job: _Job, single: Collection[int]) -> None:
        super().__init__(problem, (), (), [job.everyone], single, False)
        cleared = job.clear(self)
        for k, group in enumerate(self.classes):
            d = self.domain_of[k][job.level]
            if d in cleared and job.counts[group.nodes[0]]:
                arrivals = [self.members[k, j] for j in group.room]
                self.model.add(Sum(arrivals) == 0).only_enforce_if(cleared[d])


class ClearingSlots(MovingSlots):
    """The same on counts of slots, for HiGHS: an empty domain offers none."""

    def __init__(self, problem: Problem, job: _Job, single: Collection[int]) -> None:
        self._job = job
        super().__init__(problem, (), (), [job.everyone], single)

    def _levels(self, problem: Problem, gangs: Sequence[int]) -> int | None:
        """All: the domains to be emptied are among them."""
        return None

    def _members(self) -> None:
        super()._members()
        self.cleared = self._job.clear(self)

    def _binding(self) -> list[Bundle]:
        """None: whom an empty domain keeps out is counted in GPUs."""
        return []

    def _slots_of(self, k: int, bundle: Bundle) -> cp_model.LinearExprT:
        slots, group, size = super()._slots_of(k, bundle), self.classes[k], bundle[0][1]
        d = self.domain_of[k][self._job.level]
        if d not in self.cleared or not self._job.counts[group.nodes[0]]:
            return slots
        # Whoever is in an empty domain has left it, so all its slots are among those counted.
        full = int(self.problem.free[group.nodes[0], 0]) + sum(amount for _, amount in self.held(k, 0))
        return Sum([slots, -group.size * (full // size) * self.cleared[d]])

    def chosen(self, values: Sequence[int]) -> list[int]:
        """Domains to be empty in a solution."""
        return [d for d, f in self.cleared.items() if values[f.index]]


class _Job:
    """One request as arrays."""

    def __init__(
        self, problem: Problem, level: int, wanted: int, budget: Budget, progress: Callable[[str], None]
    ) -> None:
        self.problem, self.level, self.wanted, self.budget, self.progress = problem, level, wanted, budget, progress
        self.everyone = Mover(NOBODY, problem.copy_of >= 0, 2**60)
        snapshot = problem.snapshot
        gpus = np.array([node.gpus for node in snapshot.nodes], dtype=np.int64)
        used = np.array([node.used.gpus for node in snapshot.nodes], dtype=np.int64)
        entry = {name: i for i, names in enumerate(snapshot.node_names) for name in names}
        entries = np.array([entry[name] for name in problem.node_names], dtype=np.int64)
        self.counts: BoolArray = problem.ready & (gpus[entries] > 0)
        """(N,): nodes that an intact domain needs empty: ready, with GPUs."""
        index = {name: n for n, name in enumerate(problem.node_names)}
        movable = {gang.name: v for v, gang in enumerate(problem.victims.gangs) if problem.copy_of[v] >= 0}
        stuck: BoolArray = used[entries] > 0
        domain = problem.tree.domain[level]
        holders: dict[int, set[int]] = {}
        for gang in snapshot.running:
            nodes = np.array([index[name] for name in gang.placement], dtype=np.int64)
            if gang.name in movable:
                for d in np.unique(domain[nodes[self.counts[nodes]]]).tolist():
                    holders.setdefault(d, set()).add(movable[gang.name])
            elif gang.phase != "terminating":
                stuck[nodes] = True
        self.holders: dict[int, list[int]] = {}
        """Domain that could be emptied → victims that would have to move."""
        known = problem.tree.known_domains(level)
        possible = np.unique(domain[self.counts])
        impossible = set(np.unique(domain[self.counts & stuck]).tolist())
        self.candidates = [d for d in possible.tolist() if d not in impossible and known[d]]
        self.holders = {d: sorted(holders.get(d, ())) for d in self.candidates}

    def clear(self, model: MoveChoice) -> dict[int, cp_model.IntVar]:
        """Variables f[d] (the domain is to be empty): enough of them, and whoever is in one of these moves."""
        cleared = {d: model.model.new_bool_var("") for d in self.candidates}
        model.model.add(Sum(list(cleared.values())) >= self.wanted)
        for d, holders in self.holders.items():
            for v in holders:
                model.model.add_implication(cleared[d], model.moved[v])
        return cleared

    def run(self, level: str) -> Defragmentation:
        """The answer."""
        if len(self.candidates) < self.wanted:
            return self._result(level, "impossible", None, [])
        greedy = self._greedily()
        found, bounds, answer = greedy, [0, 0], None
        if greedy is None or greedy[1].moved:
            found, bounds, answer = self._exactly(greedy)
        if found is None:
            return self._result(level, "impossible" if answer == "no" else "undecided", None, bounds)
        return self._result(level, "", found, bounds)

    def _greedily(self) -> _Found | None:
        """The domains with the fewest members to move, as many as needed, whoever is in them placed by best fit."""
        problem = self.problem
        order = sorted(self.candidates, key=lambda d: (moved_members(problem, self.holders[d]), d))
        chosen = order[: self.wanted]
        for spare in (None, *order[self.wanted :][:20]):
            domains = chosen if spare is None else [*chosen[:-1], spare]
            placed = self._place(domains)
            if placed is not None:
                moved = {v for d in domains for v in self.holders[d]}
                return domains, Answer("yes", placed, moved=dict.fromkeys(sorted(moved), NOBODY))
        return None

    def _place(self, domains: Sequence[int]) -> Assignment | None:
        """Everybody in these domains elsewhere, or None."""
        problem, moved = self.problem, {v for d in domains for v in self.holders[d]}
        copies = [int(problem.copy_of[v]) for v in moved]
        copies.sort(key=lambda j: (-int(problem.total[j, 0]), j))
        return place_in_order(self._closed(moved, domains), PLACES["best_fit"], copies)

    def _closed(self, moved: Collection[int], domains: Sequence[int]) -> Problem:
        """The round with these gangs gone and nothing free in these domains."""
        reduced = self.problem.without(moved)
        free = reduced.free.copy()
        free[np.isin(reduced.tree.domain[self.level], domains) & self.counts] = 0
        return replace(reduced, free=free)

    def _exactly(self, greedy: _Found | None) -> tuple[_Found | None, list[int], str | None]:
        """Fewest gangs, then fewest members, by CP-SAT."""
        found, bounds = greedy, [0, 0]
        for stage, name in enumerate(("gangs moved", "members moved")):
            if self.budget.exhausted:
                break
            self.progress(name)
            limit = None if not stage or found is None else self._figure(found[1], 0)
            verdict, better, bound = self._on_slots(stage, limit)
            if verdict == "limit" and len(self.problem.gangs) * len(self.problem.node_names) <= LARGEST:
                verdict, exact, more = self._on_placements(stage, limit)
                better, bound = exact or better, max(bound, more)
            if verdict == "no" and found is None:
                return None, bounds, "no"
            if better is not None and (
                found is None or self._figure(better[1], stage) <= self._figure(found[1], stage)
            ):
                found = better
            if found is None:
                break
            bounds[stage] = min(max(bound, 0), self._figure(found[1], stage))
        return found, bounds, None

    def _apart(self) -> set[int]:
        """Nodes that are domains of their own."""
        return set(np.flatnonzero(self.counts).tolist()) if self.level == self.problem.tree.named else set()

    def _aim(self, model: MoveChoice, stage: int, limit: int | None) -> None:
        if limit is not None:
            model.model.add(model.gangs_moved() <= limit)
        model.model.minimize(model.members_moved() if stage else model.gangs_moved())

    def _on_slots(self, stage: int, limit: int | None) -> tuple[Verdict, _Found | None, int]:
        """HiGHS: its no and its bound hold, its yes if everybody can be placed."""
        model = ClearingSlots(self.problem, self, self._apart())
        self._aim(model, stage, limit)
        outcome = run_mip(model.model, self.budget, SHARE)
        if outcome.status == "infeasible":
            return "no", None, 0
        bound = outcome.bound or 0
        if outcome.values is None:
            return "limit", None, bound
        moved, domains = model.moves(outcome.values), model.chosen(outcome.values)
        copies = [int(self.problem.copy_of[v]) for v in sorted(moved)]
        placed = place_beside(self._closed(moved, domains), copies, frozenset(), self.budget)
        if placed is None:
            return "limit", None, bound
        return ("yes" if outcome.status == "optimal" else "limit"), (domains, Answer("yes", placed, moved=moved)), bound

    def _on_placements(self, stage: int, limit: int | None) -> tuple[Verdict, _Found | None, int]:
        """CP-SAT on placements."""

        def build(single: set[int]) -> Merged:
            model = Clearing(self.problem, self, single | self._apart())
            self._aim(model, stage, limit)
            return model

        answer = ask(self.problem, build, self.budget, SHARE)
        better = (self._emptied(answer), answer) if answer.verdict == "yes" else None
        return answer.verdict, better, answer.bound or 0

    def _result(self, level: str, status: str, found: _Found | None, bounds: Sequence[int]) -> Defragmentation:
        problem, snapshot = self.problem, self.problem.snapshot
        before = int(np.count_nonzero(problem.intact_domains[self.level]))
        if found is None:
            return Defragmentation(
                status="impossible" if status == "impossible" else "undecided",
                level=level,
                wanted=self.wanted,
                candidates=len(self.candidates),
                intact_before=before,
                time_s=snapshot.time_s,
            )
        domains, answer = found
        closed = self._closed(answer.moved, domains)
        improvement = Improvement(closed, answer.assignment, self.budget, self.progress)
        improvement.run()
        leaving = Preemption(moved=dict(answer.moved))
        waits = starts_after(problem, improvement.assignment, leaving.leaving)
        values = len(answer.moved), moved_members(problem, answer.moved)
        tiers = tuple(map(cost_tier, ("moved", "moved_members"), values, bounds))
        return Defragmentation(
            status="optimal" if all(tier.proof for tier in tiers) else "feasible",
            level=level,
            wanted=self.wanted,
            candidates=len(self.candidates),
            intact_before=before,
            domains=tuple(self._path(d) for d in domains),
            tiers=tiers,
            moves=moves(problem, improvement.assignment, leaving, waits),
            transitions=transitions(problem, (), leaving, waits) if answer.moved else (),
            time_s=snapshot.time_s,
        )

    def _path(self, domain: int) -> tuple[str, ...]:
        """Names from the coarsest level down to the domain."""
        name = self.problem.node_names[int(self.problem.tree.starts[self.level][domain])]
        node = next(
            node
            for names, node in zip(self.problem.snapshot.node_names, self.problem.snapshot.nodes, strict=True)
            if name in names
        )
        path = tuple(part for part in node.path if part is not None)
        return (*path, name) if self.level == self.problem.tree.named else path[: self.level + 1]

    def _figure(self, answer: Answer, stage: int) -> int:
        return len(answer.moved) if stage == 0 else moved_members(self.problem, answer.moved)

    def _emptied(self, answer: Answer) -> list[int]:
        """Domains that a solution leaves empty."""
        domain = self.problem.tree.domain[self.level]
        hosts = {
            int(d) for spread in answer.assignment.values() for d in domain[spread.nodes[self.counts[spread.nodes]]]
        }
        return [d for d in self.candidates if d not in hosts and answer.moved.keys() >= set(self.holders[d])]
