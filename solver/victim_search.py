"""Local search over who gives way: arrays for the ruin-and-recreate kernel, its schedule, the best solution.

Solutions only; the bound is HiGHS' still.
"""

from __future__ import annotations

import math
import time

import numpy as np

from gangfit.solver.arrays import BoolArray, IntArray
from gangfit.solver.covering import Covering, Entries
from gangfit.solver.highs import Found, Highs, Relaxation
from gangfit.solver.kernels import kernel, ready
from gangfit.solver.linear_form import FloatArray, Form

BATCH = 16
"""Iterations between two looks at the clock."""
PATIENCE = 10_000
"""Iterations without a better solution after which it ends, beside half of those it has done."""
READY_SHARE = 0.1
"""Most of the remaining time that loading the kernels may take."""
LARGEST = 1 << 52
"""Most that all victims together may cost: the kernel multiplies by a thousand."""
NONE = 1 << 60
"""What no solution costs."""
FAVOUR = 0.8
"""By what part of its cost a victim's rank is lower where the relaxation lets all of it leave."""
SCRATCH = 6, 16
"""Rows of the kernel's scratch space; entries of one beyond those for every victim."""


class VictimSearch:
    """The search and where it stands. Every solution on the way keeps every row; the record never gets worse."""

    def __init__(self, covering: Covering, seed: int, relaxed: FloatArray | None = None) -> None:
        """`relaxed`: the form's columns in its linear relaxation. ValueError where the numbers are too large for it."""
        self.covering = covering
        cost = covering.form.cost[covering.victims].astype(np.int64)
        # Of those that cost the same, fewer.
        fine = len(cost) + 1
        scale = fine if float(cost.sum()) * fine < LARGEST else 1
        if float(cost.sum()) >= LARGEST:
            raise ValueError(f"victims cost {cost.sum():,} in sum, {LARGEST:,} at most")
        self._victim: IntArray = np.zeros((len(cost), 6), dtype=np.int64)
        """(V, 6): cost, whether it leaves, whether it may not for now; leaves at the record, before the iteration;
        rank."""
        self._victim[:, 0] = cost * scale + (scale > 1)
        likely = np.zeros(len(cost)) if relaxed is None else np.clip(relaxed[covering.victims], 0, 1)
        self._victim[:, 5] = np.maximum(1, self._victim[:, 0] * (1 - FAVOUR * likely))
        self._limit: IntArray = np.zeros((len(covering.room), 3), dtype=np.int64)
        """(P, 3): room, what one of the slot takes of it, which slot."""
        self._limit[:, 1:] = np.stack([covering.need, covering.of], axis=1)
        self._slot: IntArray = np.zeros((len(covering.slots), 6), dtype=np.int64)
        """(I, 6): most, how many there are; how often who holds one left or stayed, by now and when one more was priced
        last; its price then, and how many more that brings."""
        self._slot[:, 0] = covering.form.upper[covering.slots]
        self._slot[:, 3] = -1
        self._row: IntArray = np.zeros((len(covering.have), 2), dtype=np.int64)
        """(R, 2): what a demand has beyond what is asked of it; whether it doesn't count for now."""
        self._option: IntArray = np.zeros((len(covering.options), 2), dtype=np.int64)
        """(Y, 2): most gangs, gangs."""
        self._option[:, 0] = covering.form.upper[covering.options]
        self._stand(np.zeros(len(cost), dtype=np.bool_), np.zeros(len(covering.options), dtype=np.int64))
        counts = [choice.count for choice in covering.choices]
        self._unit: IntArray = np.full((sum(counts), 4), -1, dtype=np.int64)
        """(G, 4): choice of a gang, the option it takes; at the record, before the iteration."""
        self._unit[:, 0] = np.repeat(np.arange(len(counts)), counts)
        arrays = self._victim, self._limit, self._slot, self._row, self._option
        owners = max(len(counts), *(len(array) for array in arrays))
        self._start, self._index, self._value = _lists(_entries(covering, self._victim[:, 5]), owners)
        self._scratch: IntArray = np.zeros((SCRATCH[0], len(cost) + SCRATCH[1]), dtype=np.int64)
        self._control: IntArray = np.array([1 + seed % 1_000_003, -1, NONE, 0], dtype=np.int64)
        """(4,): state of the generator, cost of the solution at hand (−1: none yet, `NONE`: there is none), the record,
        gangs that have an option in the first solution."""
        self.iterations = 0
        self._since = 0
        """Iterations without a better solution."""

    @classmethod
    def of(cls, form: Form, highs: Highs, relaxation: Relaxation) -> VictimSearch | None:
        """None where the form isn't one that is read, its numbers are too large, or kernels aren't ready in time."""
        if not ready(READY_SHARE * highs.left):
            return None
        covering = Covering.of_form(form)
        if covering is None or form.cost[covering.victims].sum() >= LARGEST:
            return None
        return cls(covering, highs.budget.policy.seed, relaxation.columns)

    @property
    def exhausted(self) -> bool:
        """Whether there is no solution, or nothing better has turned up for a while."""
        return bool(self._control[1] == NONE) or self._since > PATIENCE + self.iterations // 2

    def run(self, highs: Highs, share: float, iterations: int | None = None) -> Found:
        """The best so far once it is exhausted, or a share of the time or so many iterations are over.

        It goes on where it ended. Nothing if no solution turns up.
        """
        until, most = time.monotonic() + share * highs.left, math.inf if iterations is None else iterations
        before = self.iterations
        while self.iterations - before < most and not highs.done.is_set() and not self.exhausted:
            self.search(1 if self._control[1] < 0 else BATCH)
            if time.monotonic() > until:
                break
        return self.best

    def search(self, iterations: int) -> None:
        """So many iterations or, until there is a first solution, so many gangs more of it."""
        first, before = self._control[1] < 0, int(self._control[2])
        if self._control[1] < NONE:
            kernel("give_way")(
                iterations,
                *(self._start, self._index, self._value),
                *(self._victim, self._limit, self._slot, self._row, self._option, self._unit),
                *(self._scratch, self._control),
            )
        self.iterations += 0 if first else iterations
        self._since = 0 if first or self._control[2] < before else self._since + iterations

    def adopt(self, values: FloatArray) -> None:
        """Go on from a solution of the form that another search found; it counts as the record if it is the best.

        Nothing changes where that was not yet begun, or has no solution.
        """
        if self._control[1] in (-1, NONE):
            return
        covering = self.covering
        taken = np.rint(values[covering.options] - covering.form.lower[covering.options]).astype(np.int64)
        leaving = values[covering.victims] > 0.5
        self._stand(leaving, taken)
        for number, choice in enumerate(covering.choices):
            options = np.array(choice.options)
            self._unit[self._unit[:, 0] == number, 1] = np.repeat(options, taken[options])
        self._control[1] = self._victim[leaving, 0].sum()
        if self._control[1] < self._control[2]:
            self._control[2] = self._control[1]
            self._since = 0
            self._victim[:, 3], self._unit[:, 2] = self._victim[:, 1], self._unit[:, 1]

    def _stand(self, leaving: BoolArray, taken: IntArray) -> None:
        """Room, slots and what demands have, with these victims gone and so many gangs in each option."""
        self._victim[:, 1] = leaving
        victim, limit, made = self.covering.made
        self._limit[:, 0] = self.covering.room
        np.add.at(self._limit[:, 0], limit, made * leaving[victim])
        self._slot[:, 1] = self.covering.most(self._limit[:, 0])
        self._slot[:, 2] += 1
        self._row[:, 0] = self.covering.have
        for (owner, demand, weight), many in (
            (self.covering.offered, self._slot[:, 1]),
            (self.covering.freed, leaving.astype(np.int64)),
            (self.covering.asked, -taken),
        ):
            np.add.at(self._row[:, 0], demand, weight * many[owner])
        self._option[:, 1] = taken

    @property
    def best(self) -> Found:
        """The record, once the form's rows have confirmed it."""
        if self._control[2] == NONE:
            return Found()
        values = self.covering.values(self._victim[:, 3] > 0, self._unit[:, 2])
        return Found() if values is None else Found(values=values, value=float(self.covering.form.cost @ values))


def _entries(covering: Covering, rank: IntArray) -> list[Entries]:
    """The kernel's lists, in its order; victims of a demand by rank per slot.

    Victim → limits it makes room in, → demands; slot → its limits, → demands; demand → victims; limit → victims;
    demand → slots; option → demands; choice → options.
    """
    one = np.ones(len(covering.of), dtype=np.int64)
    victim, _, given = covering.freed
    cheap = np.argsort(rank[victim] / given, kind="stable")
    whose = np.repeat(np.arange(len(covering.choices)), [len(choice.options) for choice in covering.choices])
    options = np.array([y for choice in covering.choices for y in choice.options], dtype=np.int64)
    return [
        covering.made,
        covering.freed,
        (covering.of, np.arange(len(covering.of)), one),
        covering.offered,
        _sorted(_turned(covering.freed), cheap),
        _turned(covering.made),
        _turned(covering.offered),
        covering.asked,
        (whose, options, np.ones(len(options), dtype=np.int64)),
    ]


def _turned(entries: Entries) -> Entries:
    """Members as owners."""
    owner, member, weight = entries
    return member, owner, weight


def _sorted(entries: Entries, order: IntArray) -> Entries:
    """Entries in another order."""
    owner, member, weight = entries
    return owner[order], member[order], weight[order]


def _lists(pieces: list[Entries], owners: int) -> tuple[IntArray, IntArray, IntArray]:
    """Lists in compressed form: that of owner a, of kind k, is index[start[k, a] : start[k, a + 1]], weights alike."""
    start = np.zeros((len(pieces), owners + 1), dtype=np.int64)
    index, value, begin = [], [], 0
    for k, (owner, member, weight) in enumerate(pieces):
        order = np.argsort(owner, kind="stable")
        start[k] = begin + np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=owners))])
        index.append(member[order])
        value.append(weight[order])
        begin += len(order)
    return start, np.concatenate(index), np.concatenate(value)
