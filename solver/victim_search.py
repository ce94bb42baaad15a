"""Local search over a large victim question: arrays for the ruin-and-recreate kernel, its schedule, the solution back.

It works on a form of one kind: priced columns are victims, *slots* (implied columns) are what nodes offer once certain
victims leave, and gangs choose *options*, the domains they sit in. Rows say how many slots a domain has to offer to
those who sit there. HiGHS takes seconds to find what this finds in a hundredth of one; the bound is HiGHS' still.
"""

from __future__ import annotations

import time
from dataclasses import dataclass

import numpy as np

from gangfit.solver.arrays import BoolArray, IntArray
from gangfit.solver.engine import Budget
from gangfit.solver.highs import Found, Highs
from gangfit.solver.kernels import at_hand, kernel, ready
from gangfit.solver.linear_form import FloatArray, Form
from gangfit.solver.probing import Choice, choices

BATCH = 16
"""Iterations between two looks at the clock."""
PATIENCE = 1_000
"""Iterations without a better solution after which it ends, and as many again as it has done."""
READY_SHARE = 0.1
"""Most of the remaining time that loading the kernels may take."""
LISTS = "needs", "helps", "limits", "gains", "frees", "members", "slots", "asks", "options"
"""Victim → limits it makes room in, → rows; slot → its limits, → rows; row → victims, limit → victims, row → slots;
option → rows; choice → options. In the order of the kernel."""
BIG = 1 << 60
"""What no solution costs."""
SCRATCH = 6, 16
"""Rows of the kernel's scratch space; entries of one beyond those for every victim."""


@dataclass
class VictimSearch:
    """Arrays of the kernel: who gives way, and where gangs sit. Every solution on the way keeps every row."""

    form: Form
    columns: tuple[IntArray, IntArray, IntArray]
    """Of victims, slots and options."""
    start: IntArray
    index: IntArray
    value: IntArray
    """Lists in compressed form: those of kind k begin at start[k]."""
    victim: IntArray
    """(V, 5): cost, whether it leaves, whether it may not for now; leaves at the record, before the iteration."""
    limit: IntArray
    """(P, 4): room, what one of the slot takes of it, which slot; room before the iteration."""
    slot: IntArray
    """(I, 3): most, how many there are; before the iteration."""
    row: IntArray
    """(R, 2): slots beyond what is asked; before the iteration."""
    option: IntArray
    """(Y, 3): most gangs, gangs; before the iteration."""
    unit: IntArray
    """(G, 4): choice of a gang, the option it takes; at the record, before the iteration."""
    fixed: FloatArray
    """Values of the columns that have only one."""
    scratch: IntArray
    control: IntArray
    """State of the generator, what the solution at hand costs, the record."""
    done: int = 0
    """Iterations."""

    @classmethod
    def of(cls, form: Form, budget: Budget) -> VictimSearch | None:
        """None where the form is of another kind (budgets, rights that depend on who else leaves) or kernels aren't
        ready.
        """
        if not (at_hand() or ready(READY_SHARE * budget.remaining)):
            return None
        low, high = form.lower, form.upper
        open_ = high > low
        found = choices(form)
        taken = [_open(choice, low, high) for choice in found]
        if any(one is None for one in taken):
            return None
        chosen = [one for one in taken if one is not None and one.count > 0]
        kind = np.where(form.cost > 0, 1, np.where(form.implied, 2, 0))
        options = np.array([y for one in chosen for y in one.options], dtype=np.int64)
        kind[options] = 3
        victims, slots = np.flatnonzero(open_ & (kind == 1)), np.flatnonzero(open_ & (kind == 2))
        kind[~open_] = 4
        if (
            (kind == 0).any()
            or low[open_].any()
            or (high[victims] > 1).any()
            or len(set(options.tolist())) < len(options)
        ):
            return None
        place = np.zeros(len(form.cost), dtype=np.int64)
        for columns in (victims, slots, options):
            place[columns] = np.arange(len(columns))
        read = _Reading.of(form, kind, {one.options for one in found})
        if read is None:
            return None
        demands, limits, row, column, weight = read.demands, read.limits, read.row, read.column, read.weight
        of_demand, of_limit = np.zeros(len(read.kept), dtype=np.int64), np.zeros(len(read.kept), dtype=np.int64)
        of_demand[demands], of_limit[limits] = np.arange(len(demands)), np.arange(len(limits))
        here = kind[column]
        is_limit = np.zeros(len(read.kept), dtype=np.bool_)
        is_limit[limits] = True
        in_limit = is_limit[row]
        size = np.bincount(row, minlength=len(read.kept))
        narrow = np.argsort(size[row], kind="stable")
        v, i, y = here == 1, here == 2, here == 3
        needs, helps = in_limit & v, ~in_limit & v
        bound, gains, asks = in_limit & i, ~in_limit & i, narrow[y[narrow]]
        whose = np.repeat(np.arange(len(chosen)), [len(one.options) for one in chosen])
        pieces = [
            (place[column[needs]], of_limit[row[needs]], weight[needs]),
            (place[column[helps]], of_demand[row[helps]], weight[helps]),
            (place[column[bound]], of_limit[row[bound]], weight[bound]),
            (place[column[gains]], of_demand[row[gains]], weight[gains]),
            (of_demand[row[helps]], place[column[helps]], weight[helps]),
            (of_limit[row[needs]], place[column[needs]], weight[needs]),
            (of_demand[row[gains]], place[column[gains]], weight[gains]),
            (place[column[asks]], of_demand[row[asks]], weight[asks]),
            (whose, place[options], np.ones(len(options), dtype=np.int64)),
        ]
        limit = np.zeros((len(limits), 4), dtype=np.int64)
        limit[:, 0] = read.kept[limits]
        limit[of_limit[row[bound]], 1] = weight[bound]
        limit[of_limit[row[bound]], 2] = place[column[bound]]
        victim = np.zeros((len(victims), 5), dtype=np.int64)
        # Of those that cost the same, fewer.
        victim[:, 0] = form.cost[victims].astype(np.int64) * (len(victims) + 1) + 1
        slot = np.zeros((len(slots), 3), dtype=np.int64)
        slot[:, 0] = slot[:, 1] = high[slots]
        np.minimum.at(slot[:, 1], limit[:, 2], limit[:, 0] // np.maximum(limit[:, 1], 1))
        have = np.zeros((len(demands), 2), dtype=np.int64)
        have[:, 0] = read.kept[demands]
        np.add.at(have[:, 0], of_demand[row[gains]], weight[gains] * slot[place[column[gains]], 1])
        option = np.zeros((len(options), 3), dtype=np.int64)
        option[:, 0] = high[options]
        unit = np.full((sum(one.count for one in chosen), 4), -1, dtype=np.int64)
        unit[:, 0] = np.repeat(np.arange(len(chosen)), [one.count for one in chosen])
        if len(slot) and slot[:, 1].min() < 0:
            return None
        fixed = np.where(open_, 0.0, low)
        scratch = np.zeros((SCRATCH[0], len(victims) + SCRATCH[1]), dtype=np.int64)
        control = np.array([1 + budget.policy.seed % 1_000_003, -1, 0], dtype=np.int64)
        columns, (start, index, value) = (victims, slots, options), _lists(pieces)
        return cls(form, columns, start, index, value, victim, limit, slot, have, option, unit, fixed, scratch, control)

    def run(self, highs: Highs, share: float) -> Found:
        """The best so far, until nothing better turns up for a while or a share of the time is over.

        It goes on where it ended; nothing if there is no solution or the form's rows don't confirm it.
        """
        until = time.monotonic() + share * highs.left
        search = kernel("give_way")
        since = 0
        while since <= PATIENCE + self.done // 2 and not highs.done.is_set() and self.control[2] < BIG:
            before = int(self.control[2])
            search(
                BATCH if self.done else 0,
                *(self.start, self.index, self.value, self.victim, self.limit, self.slot, self.row),
                *(self.option, self.unit, self.scratch, self.control),
            )
            self.done += BATCH
            since = since + BATCH if self.control[2] == before else 0
            if time.monotonic() > until:
                break
        if not self.done or self.control[2] >= BIG:
            return Found()
        values = self.form.whole(self._values())
        return Found() if values is None else Found(values=values, value=float(self.form.cost @ values))

    def _values(self) -> FloatArray:
        """Columns of the record: victims, options, and every slot there is then."""
        values = self.fixed.copy()
        victims, slots, options = self.columns
        values[victims] = self.victim[:, 3]
        np.add.at(values, options[self.unit[:, 2]], 1.0)
        room = self.limit[:, 0].copy()
        limits = np.repeat(np.arange(len(self.victim)), np.diff(self.start[0])[: len(self.victim)])
        part = slice(int(self.start[0, 0]), int(self.start[0, -1]))
        np.add.at(room, self.index[part], self.value[part] * (self.victim[limits, 3] - self.victim[limits, 1]))
        most = self.slot[:, 0].copy()
        np.minimum.at(most, self.limit[:, 2], room // np.maximum(self.limit[:, 1], 1))
        values[slots] = most
        return values


@dataclass(frozen=True)
class _Reading:
    """Rows of a form, without the columns that have one value only."""

    demands: IntArray
    """Rows that ask for slots."""
    limits: IntArray
    """Rows that say how many of a slot there are."""
    kept: IntArray
    """(rows,): upper ends."""
    row: IntArray
    column: IntArray
    weight: IntArray
    """Entries of those rows, without signs."""

    @classmethod
    def of(cls, form: Form, kind: IntArray, chosen: set[tuple[int, ...]]) -> _Reading | None:
        """`kind` of each column: 1 victim, 2 slot, 3 option, 4 fixed; `chosen`: options of each choice.

        None where a row is of another kind.
        """
        rows = form.rows
        if np.isfinite(rows.lower).any() or not np.isfinite(rows.upper).all():
            return None
        count = len(rows.upper)
        row = np.repeat(np.arange(count), np.diff(rows.start))
        column, weight = np.array(rows.index, dtype=np.int64), np.array(rows.value, dtype=np.float64)
        fixed = kind[column] == 4 if len(column) else np.zeros(0, dtype=np.bool_)
        kept = np.array(rows.upper) - np.bincount(
            row[fixed], weight[fixed] * form.lower[column[fixed]], minlength=count
        )
        row, column, weight = row[~fixed], column[~fixed], weight[~fixed]
        here = kind[column]

        def some(entries: BoolArray) -> BoolArray:
            return np.bincount(row[entries], minlength=count) > 0

        up, down = weight > 0, weight < 0
        size = np.bincount(row, minlength=count)
        choosing = ~some(here != 3) & some(here == 3)
        for r in np.flatnonzero(choosing).tolist():
            choosing[r] = tuple(rows.index[rows.start[r] : rows.start[r + 1]]) in chosen
        slots = np.bincount(row[up & (here == 2)], minlength=count)
        limiting = slots > 0
        sound = ~some(up & (here == 1)) & ~some(down & (here == 3))
        # A limit is on one slot alone, and victims alone make room in it.
        sound &= ~limiting | ((slots == 1) & ~some((here == 3) | (down & (here == 2))))
        empty = (size == 0) | (~some(up) & (kept >= 0))
        if not (sound | choosing | empty).all():
            return None
        demands = np.flatnonzero(~limiting & ~choosing & ~empty)
        limits = np.flatnonzero(limiting & ~empty)
        inside = np.zeros(count, dtype=np.bool_)
        inside[demands] = inside[limits] = True
        entries = inside[row]
        return cls(
            demands,
            limits,
            np.rint(kept).astype(np.int64),
            row[entries],
            column[entries],
            np.abs(np.rint(weight[entries])).astype(np.int64),
        )


def _open(choice: Choice, lower: FloatArray, upper: FloatArray) -> Choice | None:
    """What is left to choose; None where it may not be left: an option that has to be taken and may be again."""
    options = list(choice.options)
    left = [y for y in options if upper[y] > lower[y]]
    if lower[left].any():
        return None
    return Choice(tuple(left), choice.count - round(float(lower[options].sum())))


def _lists(pieces: list[tuple[IntArray, IntArray, IntArray]]) -> tuple[IntArray, IntArray, IntArray]:
    """Lists of (owner, member, weight) in compressed form, members in the order given."""
    owners = max((int(owner.max()) + 1 for owner, _, _ in pieces if len(owner)), default=0)
    start = np.zeros((len(pieces), owners + 1), dtype=np.int64)
    index, value, begin = [], [], 0
    for k, (owner, member, weight) in enumerate(pieces):
        order = np.argsort(owner, kind="stable")
        start[k] = begin + np.concatenate([[0], np.cumsum(np.bincount(owner, minlength=owners))])
        index.append(member[order])
        value.append(weight[order])
        begin += len(order)
    return start, np.concatenate(index), np.concatenate(value)
