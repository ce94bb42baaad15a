"""The victim tier on counts of slots, not on placements: small enough for HiGHS to prove in milliseconds.

Gangs without a required level are only demand on the whole cluster; the others choose a domain. Per domain, eligible
set and request size, the demand inside keeps to the slots of the nodes there, which grow as victims leave. Nested sets
of nodes and sizes that divide each other make that exact where GPUs alone bind; otherwise it is a relaxation: its bound
and its "no" hold, its victims count once everything has been placed beside them.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Collection, Sequence

import numpy as np
from ortools.sat.python import cp_model

from gangfit.solver.assignment import Assignment
from gangfit.solver.bundles import Bundle, Offers, binding, gpus, taken
from gangfit.solver.engine import Within
from gangfit.solver.joint import Joint
from gangfit.solver.linear_form import Form, linear_form
from gangfit.solver.merged import Sum
from gangfit.solver.needed_rows import victim_needed
from gangfit.solver.problem import Problem
from gangfit.solver.rights import Right

Kind = tuple[int, int, int, int]
"""(shape, members, required level, eligible set): gangs of one kind are counted, not told apart."""


class Slots(Joint):
    """Joint model whose space is slots per domain."""

    def __init__(
        self,
        problem: Problem,
        gangs: Sequence[int],
        rights: Sequence[Right],
        cuts: Sequence[Collection[int]] = (),
        only: Collection[int] | None = None,
        lawful: bool = True,
        single: Collection[int] = (),
    ) -> None:
        self._offers = Offers(self, problem, gangs)
        self._inside: dict[tuple[int, int], list[tuple[int, cp_model.IntVar]]] = defaultdict(list)
        """(level, domain) → (a gang of the kind, how many of the kind sit there)."""
        self._chosen: dict[Kind, list[tuple[int, cp_model.IntVar]]] = {}
        """Kind → (domain of its required level, how many of the kind sit there)."""
        self.within: Within | None = None
        """What the last question found to hold up to a cost."""
        self._form: Form | None = None
        super().__init__(problem, gangs, rights, single, False, only, lawful)
        for enough in cuts:
            self.cut(enough)
        if cuts and self.conditional:
            # Only once rule 11 has turned out to matter: a no without it lasts longer.
            self.victim_needed()

    def victim_needed(self) -> None:
        """Rule 11 as far as counting goes. Where rights are plain, the cheapest victims are all needed anyway."""
        victim_needed(self)

    def _levels(self, problem: Problem, gangs: Sequence[int]) -> int | None:
        """Nodes are told apart by the domains in which some gang has to sit whole, not by finer ones."""
        finest = max((int(problem.required[j]) for j in gangs), default=-1)
        return min(finest, problem.tree.named - 1) + 1

    def _members(self) -> None:
        for v in self.victims:
            self.evicted[v] = self.model.new_bool_var("")

    @property
    def starting(self) -> Sequence[int]:
        """Gangs that are demand in every solution."""
        return self.gangs

    def whole_gang(self) -> None:
        """Rule 1 is built in: every gang of the model is demand."""

    def _touches(self) -> None:
        """Nothing is touched: gangs are demand."""

    def required_level(self) -> None:
        """Rule 7: gangs with a required level choose a domain that could hold them if every victim left."""
        tree, problem = self.problem.tree, self.problem
        kinds = Counter(self._kind(j) for j in self.starting if problem.required[j] >= 0)
        example = {self._kind(j): j for j in self.starting}
        sizes = np.array([group.size for group in self.classes], dtype=np.int64)
        domain_of = np.array(self.domain_of, dtype=np.int64).reshape(len(self.classes), -1)
        for kind, count in kinds.items():
            j, level = example[kind], kind[2]
            holds = np.array([group.room.get(j, 0) for group in self.classes], dtype=np.int64)
            if level < tree.named:
                sums = np.bincount(domain_of[:, level], sizes * holds) if len(holds) else np.zeros(0)
                room = dict(enumerate(sums.astype(np.int64).tolist()))
            else:
                fits = (
                    group.nodes.tolist() for group, most in zip(self.classes, holds, strict=True) if most >= kind[1]
                )
                room = dict.fromkeys((n for nodes in fits for n in nodes), kind[1])
            homes = [d for d, members in room.items() if members >= kind[1]]
            if not homes:
                self.feasible = False
                return
            chosen = [self.model.new_int_var(0, count, "") for _ in homes]
            self.model.add(Sum(chosen) == count)
            self._chosen[kind] = list(zip(homes, chosen, strict=True))
            for d, y in zip(homes, chosen, strict=True):
                for above in range(min(level, tree.named - 1) + 1):
                    first = int(tree.starts[level][d])
                    self._inside[above, int(tree.domain[above][first])].append((j, y))
        self._space()

    def node_capacity(self) -> None:
        """Rule 2 comes with `required_level`, which tells who is demand where."""

    def hint(self, assignment: Assignment, victims: Collection[int] = ()) -> None:
        """Start from these victims; which domains they leave room in follows."""
        for v, e in self.evicted.items():
            self.model.add_hint(e, v in victims)

    def homes(self, values: Sequence[int]) -> dict[int, int]:
        """Gang → the domain of its required level that a solution chooses for it."""
        chosen = {
            kind: [d for d, y in options for _ in range(values[y.index])] for kind, options in self._chosen.items()
        }
        return {j: chosen[self._kind(j)].pop() for j in self.starting if self._kind(j) in chosen}

    def value(self, victims: Collection[int]) -> int | None:
        """What the objective is worth if these victims leave; None: there is none."""
        objective = self.model.proto.objective
        if not self.model.has_objective() or not len(objective.vars):
            return None
        gone = {self.evicted[v].index for v in victims if v in self.evicted}
        return int(sum(c for x, c in zip(objective.vars, objective.coeffs, strict=True) if x in gone))

    def linear(self) -> Form:
        """The model as rows; what was translated before isn't again."""
        self._form = linear_form(self.model, self._form)
        return self._form

    def narrow(self, cost: int) -> bool:
        """Keep to what holds in every solution of at most that cost, which the model now has as a row.

        Whether anything came of it: it rests on floats.
        """
        within, self.within = self.within, None
        if within is None or cost > within.cost:
            return False
        for index, (lower, upper) in within.bounds.items():
            self.model.add_linear_constraint(self.model.get_int_var_from_proto_index(index), lower, upper)
        return bool(within.bounds)

    def _kind(self, j: int) -> Kind:
        problem = self.problem
        return (
            int(problem.shape_of[j]),
            int(problem.members[j]),
            int(problem.required[j]),
            int(problem.eligible_of[j]),
        )

    def _space(self) -> None:
        """Demand ≤ slots: of the whole cluster, and of every domain that a required level names."""
        problem = self.problem
        sizes = sorted({int(q) for q in problem.request[list(self.gangs), 0] if q})
        # Slots of the least size, where it divides all others, say all that slots of size 1 would.
        sizes = sizes if sizes and not any(size % sizes[0] for size in sizes) else [1, *(s for s in sizes if s > 1)]
        sets = sorted({int(problem.eligible_of[j]) for j in self.gangs})
        allowed = {e: problem.eligible[e].allowed for e in sets}
        cells_of: dict[tuple[int, int], list[int]] = defaultdict(list)
        levels = {level for level, _ in self._inside}
        for k, domains in enumerate(self.domain_of):
            for level in levels:
                cells_of[level, domains[level]].append(k)
        within = {e: [o for o in sets if not (allowed[o] & ~allowed[e]).any()] for e in sets}
        slots: list[Bundle] = [*(gpus(size) for size in sizes), *self._binding()]
        for e in sets:
            members = [j for j in self.starting if problem.eligible_of[j] in within[e]]
            for bundle in slots:
                demand = sum(taken(problem.request[j], bundle) * int(problem.members[j]) for j in members)
                # Gangs that move are counted in GPUs alone.
                more = self._more(within[e], 0, bundle[0][1]) if len(bundle) == 1 and bundle[0][0] == 0 else 0
                self._row(demand + more, range(len(self.classes)), e, bundle)
            for (level, d), inside in self._inside.items():
                cells = cells_of[level, d]
                here = [(j, y) for j, y in inside if problem.eligible_of[j] in within[e]]
                for bundle in slots:
                    terms = [(taken(problem.request[j], bundle) * int(problem.members[j]), y) for j, y in here]
                    self._row(Sum([c * y for c, y in terms if c]), cells, e, bundle)
            self._sums(e, members, within[e])

    def _binding(self) -> list[Bundle]:
        """Bundles of more than GPUs that bind somewhere."""
        return binding(self.problem, self.gangs, self.most)

    def _slots_of(self, k: int, bundle: Bundle) -> cp_model.LinearExprT:
        """Slots that the nodes of a class offer."""
        return self._offers.of(k, bundle)

    def _row(self, demand: cp_model.LinearExprT, cells: Collection[int], e: int, bundle: Bundle) -> None:
        allowed = self.problem.eligible[e].allowed
        slots = [self._slots_of(k, bundle) for k in cells if allowed[self.classes[k].nodes[0]]]
        self.model.add(Sum(slots) >= demand)

    def _more(self, within: Collection[int], r: int, size: int) -> cp_model.LinearExprT:
        """Demand beside `starting` of gangs limited to these eligible sets, in slots of a size."""
        return 0

    def _sums(self, e: int, members: Sequence[int], within: Collection[int]) -> None:
        """Every other resource, in sum over the nodes of an eligible set."""
        problem = self.problem
        nodes = problem.eligible[e].allowed
        for r in range(1, len(problem.resources)):
            demand = int((problem.request[members, r] * problem.members[members]).sum())
            free = int(problem.free[nodes, r].sum())
            more = self._more(within, r, 1)
            if demand > free or not isinstance(more, int):
                victims = problem.victims
                held = [
                    (int(victims.counts[v][nodes[victims.nodes[v]]].sum() * victims.request[v, r]), self.leaves(v))
                    for v in self.evicted
                ]
                self.model.add(Sum([amount * x for amount, x in held if amount]) >= demand - free + more)
