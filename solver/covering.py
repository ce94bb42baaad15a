"""A form read as a covering question: victims make room, slots are what room amounts to, gangs choose who offers them.

Priced columns are *victims*; implied ones *slots*, of which a node class has as many as its *limits* allow, rows
c·slot ≤ room + Σ a·victim; the counts of `choices` *options*, the domains that gangs may sit in. *Demands* are rows
Σ m·option ≤ have + Σ a·victim + Σ b·slot. Forms with other rows (budgets, rights that depend on who else leaves) aren't
read.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np

from gangfit.solver.arrays import BoolArray, IntArray
from gangfit.solver.linear_form import FloatArray, Form
from gangfit.solver.probing import Choice, choices

OPEN, VICTIM, SLOT, OPTION, FIXED = range(5)
"""Kinds of columns; `OPEN` is none of the others."""

Entries = tuple[IntArray, IntArray, IntArray]
"""Owner, member, weight of each entry of a list."""


@dataclass(frozen=True)
class Covering:
    """Numbers of victims, slots, options, limits, demands and choices are their places in these arrays."""

    form: Form
    victims: IntArray
    slots: IntArray
    options: IntArray
    """Columns."""
    choices: list[Choice]
    """What is left to choose, as places in `options`."""
    room: IntArray
    need: IntArray
    of: IntArray
    """(limits,): room before anyone leaves, what one of the slot takes of it, and which slot."""
    have: IntArray
    """(demands,): slots free of anybody's leaving and of other slots."""
    made: Entries
    """Victim, limit and the room that the victim makes in it."""
    freed: Entries
    """Victim, demand and what the victim gives to it."""
    offered: Entries
    """Slot, demand and what one of the slot gives to it."""
    asked: Entries
    """Option, demand and what a gang with the option asks of it, demands of few columns first."""

    @classmethod
    def of_form(cls, form: Form) -> Covering | None:
        """None where the form is of another kind."""
        low, high = form.lower, form.upper
        loose = high > low
        # Also those in which an option is taken already.
        every = choices(replace(form, lower=np.zeros(len(low))))
        left = [_left(choice, low, high) for choice in every]
        chosen = [choice for choice in left if choice.count > 0]
        columns = np.array([y for choice in chosen for y in choice.options], dtype=np.int64)
        kind = np.where(form.cost > 0, VICTIM, np.where(form.implied, SLOT, OPEN))
        kind[columns] = OPTION
        # Nothing is left to choose: the others stay at what they have to be.
        loose[[y for choice in left if choice.count <= 0 for y in choice.options]] = False
        kind[~loose] = FIXED
        victims, slots = np.flatnonzero(kind == VICTIM), np.flatnonzero(kind == SLOT)
        known = not (kind == OPEN).any() and not low[loose].any() and not (high[victims] > 1).any()
        if not known or len(np.unique(columns)) < len(columns):
            return None
        place = np.zeros(len(form.cost), dtype=np.int64)
        for some in (victims, slots, columns):
            place[some] = np.arange(len(some))
        rows = _Rows.of(form, kind, {choice.options for choice in every})
        if rows is None:
            return None
        number = np.zeros(len(rows.upper), dtype=np.int64)
        for which in (rows.limits, rows.demands):
            number[which] = np.arange(int(which.sum()))
        row, column, weight = rows.row, rows.column, rows.weight
        here, limiting = kind[column], rows.limits[row]
        narrow = np.argsort(np.bincount(row, minlength=len(rows.upper))[row], kind="stable")

        def entries(these: IntArray | BoolArray) -> Entries:
            return place[column[these]], number[row[these]], weight[these]

        of, limit, need = entries(limiting & (here == SLOT))
        order = np.argsort(limit)
        return cls(
            *(form, victims, slots, columns),
            [Choice(tuple(place[list(choice.options)].tolist()), choice.count) for choice in chosen],
            *(rows.upper[rows.limits], need[order], of[order], rows.upper[rows.demands]),
            made=entries(limiting & (here == VICTIM)),
            freed=entries(~limiting & (here == VICTIM)),
            offered=entries(~limiting & (here == SLOT)),
            asked=entries(narrow[here[narrow] == OPTION]),
        )

    def most(self, room: IntArray) -> IntArray:
        """(slots,): how many there are with that room in each limit."""
        most = self.form.upper[self.slots].astype(np.int64)
        np.minimum.at(most, self.of, room // self.need)
        return most

    def values(self, leaving: BoolArray, taken: IntArray) -> FloatArray | None:
        """Columns with these victims leaving and these options taken; None if they break a row."""
        victim, limit, made = self.made
        room = self.room.copy()
        np.add.at(room, limit, made * leaving[victim])
        values = self.form.lower.copy()
        values[self.victims] = leaving
        values[self.slots] = self.most(room)
        np.add.at(values, self.options[taken], 1.0)
        return self.form.whole(values)


@dataclass(frozen=True)
class _Rows:
    """Rows of a form without the columns that have one value only."""

    limits: BoolArray
    demands: BoolArray
    """(rows,): what a row is; one that is neither always holds."""
    upper: IntArray
    row: IntArray
    column: IntArray
    weight: IntArray
    """Entries of those rows, without signs."""

    @classmethod
    def of(cls, form: Form, kind: IntArray, chosen: set[tuple[int, ...]]) -> _Rows | None:
        """`kind` of each column, `chosen`: options of each choice. None where a row is of another kind."""
        rows, count = form.rows, len(form.rows.upper)
        if np.isfinite(rows.lower).any() or not np.isfinite(rows.upper).all():
            return None
        row = np.repeat(np.arange(count), np.diff(rows.start))
        column, weight = np.array(rows.index, dtype=np.int64), np.array(rows.value, dtype=np.float64)
        fixed = kind[column] == FIXED
        spent = np.bincount(row[fixed], weight[fixed] * form.lower[column[fixed]], minlength=count)
        upper = np.rint(np.array(rows.upper) - spent).astype(np.int64)
        row, column, weight = row[~fixed], column[~fixed], np.rint(weight[~fixed]).astype(np.int64)
        here, up, down = kind[column], weight > 0, weight < 0

        def some(entries: BoolArray) -> BoolArray:
            return np.bincount(row[entries], minlength=count) > 0

        choosing = some(here == OPTION) & ~some(here != OPTION)
        for r in np.flatnonzero(choosing).tolist():
            choosing[r] = tuple(rows.index[rows.start[r] : rows.start[r + 1]]) in chosen
        holds = choosing | (~some(up) & (upper >= 0))
        slots = np.bincount(row[up & (here == SLOT)], minlength=count)
        odd = some(up & (here == VICTIM)) | some(down & (here == OPTION))
        # A limit is on one slot alone, and victims alone make room in it.
        odd |= (slots > 0) & ((slots > 1) | (upper < 0) | some((here == OPTION) | (down & (here == SLOT))))
        if (odd & ~holds).any():
            return None
        limits, demands = (slots > 0) & ~holds, (slots == 0) & ~holds
        inside = (limits | demands)[row]
        return cls(limits, demands, upper, row[inside], column[inside], np.abs(weight[inside]))


def _left(choice: Choice, lower: FloatArray, upper: FloatArray) -> Choice:
    """What is left to choose once the options that have one value only have taken it."""
    options = list(choice.options)
    left = tuple(y for y in options if upper[y] > lower[y])
    return Choice(left, choice.count - round(float(lower[options].sum())))
