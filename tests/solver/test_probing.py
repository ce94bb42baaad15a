"""Probing: no bound above a known optimum, nothing shut out that belongs to a solution as cheap as the one at hand."""

from __future__ import annotations

import math
import threading
from dataclasses import replace

import numpy as np
import pytest
from ortools.sat.python import cp_model
from small_forms import highs_for, racks, solutions

from gangfit.models import Policy
from gangfit.solver import stages
from gangfit.solver.engine import Budget
from gangfit.solver.highs import Found, Relaxation
from gangfit.solver.linear_form import linear_form
from gangfit.solver.mip import run_mip
from gangfit.solver.probing import Probing, choices, lifted
from gangfit.solver.stages import _in_budget, staged

ROUNDS = [seed for seed in range(60) if 2 <= len(solutions(linear_form(racks(seed)))) <= 3000]


class TestProbing:
    def test_choices_are_the_rows_of_racks(self) -> None:
        """Every row Σ y = n, and no covering row of victims, which cost something."""
        for seed in ROUNDS:
            form = linear_form(racks(seed))
            found = choices(form)
            assert 1 <= len(found) <= 2, seed
            for choice in found:
                assert not form.cost[list(choice.options)].any()
                for _, values in solutions(form):
                    assert sum(values[option] for option in choice.options) == choice.count

    def test_lifted_rows_hold_in_every_solution(self) -> None:
        more = 0
        for seed in ROUNDS:
            form = linear_form(racks(seed))
            strong = lifted(form)
            more += len(strong.rows.upper) - len(form.rows.upper)
            assert [v for _, v in solutions(strong)] == [v for _, v in solutions(form)], seed
        assert more >= 10

    @pytest.mark.parametrize("excess", [0.0, 3.0, 1000.0])
    def test_nothing_as_cheap_is_shut_out(self, excess: float) -> None:
        """With a solution at hand that is dearer than the best by so much, every solution as cheap stays inside."""
        shut = closed = 0
        for seed in ROUNDS:
            form = linear_form(racks(seed))
            every = solutions(form)
            value = min(cost for cost, _ in every) + excess
            probing = Probing(form, highs_for(form), value)
            probing.run(60.0)
            assert probing.bound <= min(cost for cost, _ in every) + 1e-6 or excess == 0, seed
            assert probing.bound <= value
            closed += probing.bound >= value - 0.6
            for cost, values in every:
                if cost <= value:
                    inside = (probing.lower <= values) & (np.array(values) <= probing.upper)
                    assert inside.all(), (seed, values)
            for option, least in probing.known.items():
                with_it = [cost for cost, values in every if values[option] >= 1]
                assert least <= min(with_it, default=math.inf) + 1e-6 or least > value, (seed, option)
            shut += int((probing.upper < form.upper).sum())
        assert shut >= (20 if excess < 1000 else 0)
        assert closed >= (10 if excess == 0 else 0)

    @pytest.mark.parametrize("complete", [False, True])
    def test_a_dive_leaves_solutions_and_keeps_to_what_is_left(self, complete: bool) -> None:
        dives = 0
        for seed in ROUNDS:
            form = linear_form(racks(seed))
            value = max(cost for cost, _ in solutions(form))
            probing = Probing(form, highs_for(form), value)
            probing.run(0.0 if complete and seed % 2 else 60.0)
            before = probing.lower.copy(), probing.upper.copy()
            dive = probing.dive(3, complete, 60.0)
            assert (probing.lower == before[0]).all()
            assert (probing.upper == before[1]).all()
            if dive is None:
                continue
            dives += 1
            for choice in probing.choices:
                if complete or any(option in probing.known for option in choice.options):
                    assert sum(dive.lower[list(choice.options)]) == choice.count
            assert (dive.lower <= dive.upper).all()
            # The relaxation is left as it was.
            probing.shrink(value)
            assert probing.bound <= min(solutions(form))[0] + 1e-6
        assert dives >= 10


def test_two_racks_by_hand() -> None:
    """The example of docs/model.md: 1 node free in each rack, 2 held by `a` (10) and by `b` (4), a gang of 3."""
    model = cp_model.CpModel()
    a, b, in_a, in_b = (model.new_bool_var("") for _ in range(4))
    model.add(in_a + in_b == 1)
    model.add(3 * in_a <= 1 + 2 * a)
    model.add(3 * in_b <= 1 + 2 * b)
    model.minimize(10 * a + 4 * b)
    form = linear_form(model)
    relaxation = highs_for(form).relaxation(form)
    assert isinstance(relaxation, Relaxation)
    assert relaxation.value == pytest.approx(2)
    stronger = highs_for(form).relaxation(lifted(form))
    assert isinstance(stronger, Relaxation)
    assert stronger.value == pytest.approx(4)
    probing = Probing(form, highs_for(form), 11.0)
    probing.run(60.0)
    assert (probing.known[2], probing.known[3]) == pytest.approx((10, 4))
    assert probing.bound == pytest.approx(4)
    probing.shrink(4.0)
    assert probing.upper.tolist()[2:] == [0, 1]


@pytest.mark.parametrize("race", [False, True])
class TestStages:
    @pytest.fixture(autouse=True)
    def _race(self, race: bool, monkeypatch: pytest.MonkeyPatch) -> None:
        """With `race` branch and bound goes beside the stages, and answers alone what is asked within a budget."""
        monkeypatch.setattr(stages, "RACED", 0 if race else 10**9)

    @pytest.mark.parametrize("known", [False, True])
    def test_the_least_and_what_holds_up_to_it(self, race: bool, known: bool) -> None:
        """Stages on models of which everything is known; the bounds of columns hold for whatever is as cheap."""
        told = 0
        for seed in ROUNDS:
            form = linear_form(racks(seed))
            every = solutions(form)
            least, most = min(every)[0], max(every)
            if known:
                form = replace(form, hint=np.array(most[1], dtype=np.float64))
            highs = highs_for(form)
            relaxation = highs.relaxation(form)
            assert isinstance(relaxation, Relaxation)
            found = staged(form, replace(highs, known=most[0] if known else math.inf), relaxation)
            assert found.values is not None
            assert (found.value, found.closed) == (least, True), seed
            if found.within is not None:
                lower, upper, value = found.within
                told += 1
                for cost, values in every:
                    if cost <= value:
                        assert ((lower <= values) & (np.array(values) <= upper)).all(), seed
        assert told >= (10 if known and not race else 0)

    def test_what_no_integers_satisfy(self, race: bool) -> None:
        """Relaxations have solutions: 2x + 2y + 2z = 3 with y = z."""
        model = cp_model.CpModel()
        x, y, z = (model.new_bool_var("") for _ in range(3))
        model.add(2 * x + 2 * y + 2 * z == 3)
        model.add(y == z)
        model.minimize(x + 2 * y)
        form = linear_form(model)
        highs = highs_for(form)
        relaxation = highs.relaxation(form)
        assert isinstance(relaxation, Relaxation)
        found = staged(form, highs, relaxation)
        assert (found.infeasible, found.values) == (True, None)

    def test_a_bound_above_nothing_known(self, race: bool) -> None:
        """Told of a solution that costs one more than the least, or the least: never a bound above the least."""
        for seed in ROUNDS:
            form = linear_form(racks(seed))
            least = min(solutions(form))[0]
            for known in (least, least + 1):
                highs = replace(highs_for(form), known=known)
                relaxation = highs.relaxation(form)
                assert isinstance(relaxation, Relaxation)
                found = staged(form, highs, relaxation)
                assert found.bound <= least + 1e-6, seed
                assert highs.settled(found), seed
                assert known == least or found.value == least, seed

    @pytest.mark.parametrize("slack", [0, 20])
    def test_what_is_within_a_budget(self, race: bool, slack: int) -> None:
        """The fewest victims at about the least loss: the objective has a row on the same columns, hard to keep."""
        for seed in ROUNDS:
            model = racks(seed)
            least = min(solutions(linear_form(model)))[0]
            columns, costs = list(model.proto.objective.vars), list(model.proto.objective.coeffs)
            victims = [model.get_int_var_from_proto_index(x) for x in columns]
            model.add(cp_model.LinearExpr.weighted_sum(victims, costs) <= round(least) + slack)
            model.minimize(cp_model.LinearExpr.sum(victims))
            form = linear_form(model)
            every = solutions(form)
            highs = highs_for(form)
            relaxation = highs.relaxation(form)
            assert isinstance(relaxation, Relaxation)
            found = staged(form, replace(highs, known=max(every)[0] + 1), relaxation)
            assert found.values is not None
            assert (found.value, found.closed) == (min(every)[0], True), seed
            assert found.bound <= min(every)[0] + 1e-6, seed


def test_in_budget() -> None:
    """Whether anything costs no more than a budget, with a solution if so: every budget about the least."""
    yes = no = 0
    for seed in ROUNDS:
        form = linear_form(racks(seed))
        least = min(solutions(form))[0]
        for budget in (least - 1, least, least + 5):
            found = _in_budget(form, highs_for(form), budget)
            assert found.infeasible == (budget < least), seed
            assert (found.values is not None) == (budget >= least), seed
            assert found.values is None or form.cost @ found.values <= budget
            yes, no = yes + (budget >= least), no + (budget < least)
    assert min(yes, no) >= 10


def test_rows_without_one() -> None:
    for seed in ROUNDS[:20]:
        rows = linear_form(racks(seed)).rows
        for row in range(len(rows.upper)):
            less = rows.without(row)
            parts = [
                [(rows.upper[r], rows.index[slice(*rows.start[r : r + 2])], rows.value[slice(*rows.start[r : r + 2])])]
                for r in range(len(rows.upper))
                if r != row
            ]
            assert parts == [
                [(less.upper[r], less.index[slice(*less.start[r : r + 2])], less.value[slice(*less.start[r : r + 2])])]
                for r in range(len(less.upper))
            ]


def test_better_takes_either_part() -> None:
    one, two = Found(values=np.ones(1), value=5.0, bound=1.0), Found(bound=3.0)
    assert (one.better(two).value, one.better(two).bound) == (5.0, 3.0)
    assert (two.better(one).value, two.better(one).bound) == (5.0, 3.0)


def test_a_form_goes_on_where_it_was() -> None:
    """Rows translated before are kept; constraints on one variable become bounds."""
    for seed in ROUNDS[:20]:
        model = racks(seed)
        before = linear_form(model)
        x, y, z = (model.get_int_var_from_proto_index(at) for at in range(3))
        model.add(x <= 0)
        model.add(y + z <= 1)
        after = linear_form(model, before)
        assert solutions(after) == solutions(linear_form(model))
        assert len(after.rows.upper) == len(before.rows.upper) + 1
        assert after.upper[0] == 0
        assert before.upper[0] == 1


def test_an_end_that_comes_at_once() -> None:
    """Work that nobody needs any more claims nothing wrong."""
    done = threading.Event()
    done.set()
    for seed in ROUNDS[:20]:
        model = racks(seed)
        outcome = run_mip(model, Budget(Policy()), done=done)
        least = min(solutions(linear_form(model)))[0]
        assert outcome.bound is None or outcome.bound <= least
