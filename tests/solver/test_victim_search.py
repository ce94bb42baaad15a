"""Local search over who gives way: nothing that breaks a row, the least itself on small forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ortools.sat.python import cp_model
from small_forms import highs_for, racks, shared, solutions

from gangfit.solver.covering import Covering
from gangfit.solver.highs import Highs
from gangfit.solver.linear_form import Form, linear_form
from gangfit.solver.rehearsal import made_up_question
from gangfit.solver.victim_search import LARGEST, VictimSearch

ROUNDS = [seed for seed in range(60) if 2 <= len(solutions(linear_form(racks(seed)))) <= 3000]
FORMS = [(f"racks-{seed}", linear_form(racks(seed))) for seed in range(60)]
FORMS += [(f"shared-{seed}", shared(seed)) for seed in range(120)]


def search_of(form: Form, seed: int = 0) -> VictimSearch:
    covering = Covering.of_form(form)
    assert covering is not None
    return VictimSearch(covering, seed)


class TestVictimSearch:
    def test_hand_example(self) -> None:
        """docs/model.md: both victims of the left rack (2 + 3), not the right one's (6)."""
        search = search_of(made_up_question())
        search.search(1)
        search.search(16)
        assert search.best.value == 5
        assert search.best.values is not None
        assert search.best.values.tolist() == [1, 1, 0, 1, 1, 0]

    def test_equals_all_solutions(self) -> None:
        """Never below the least, always a solution; the least on nearly all small forms."""
        least = found = 0
        for name, form in FORMS:
            every = solutions(form)
            search = search_of(form)
            search.search(99)
            for _ in range(20):
                search.search(16)
            best = search.best
            if best.values is None:
                continue
            found += 1
            assert (best.value, tuple(best.values.astype(int).tolist())) in every, name
            least += best.value == min(cost for cost, _ in every)
        solvable = sum(bool(solutions(form)) for _, form in FORMS)
        assert solvable >= 100
        assert found >= 0.95 * solvable
        assert least >= 0.95 * found

    def test_what_cannot_be_solved_has_no_solution(self) -> None:
        refused = [(name, form) for name, form in FORMS if not solutions(form)]
        assert len(refused) >= 3
        for name, form in refused:
            search = search_of(form)
            for _ in range(3):
                search.search(16)
            assert search.best.values is None, name

    def test_the_record_never_gets_worse(self) -> None:
        for seed in ROUNDS[:20]:
            search = search_of(linear_form(racks(seed)), seed)
            values = []
            for _ in range(10):
                search.search(4)
                values.append(search.best.value)
            assert values == sorted(values, reverse=True), seed

    def test_same_seed_same_answer(self) -> None:
        for _, form in FORMS[::9]:
            one, other = search_of(form, 3), search_of(form, 3)
            for search in (one, other):
                search.search(99)
                search.search(50)
            assert one.best.value == other.best.value
            assert (one.best.values is None) == (other.best.values is None)
            if one.best.values is not None and other.best.values is not None:
                assert (one.best.values == other.best.values).all()

    def test_of_equal_losses_fewer_victims(self) -> None:
        """Two of 3 or one of 6: the one."""
        model = cp_model.CpModel()
        a, b, c = (model.new_bool_var("") for _ in range(3))
        model.add(a + b + 2 * c >= 2)
        model.minimize(3 * a + 3 * b + 6 * c)
        search = search_of(linear_form(model))
        for _ in range(4):
            search.search(16)
        assert search.best.values is not None
        assert search.best.values.tolist() == [0, 0, 1]

    def test_columns_of_one_value(self) -> None:
        """A victim that is out, one that leaves anyway, a gang that has its domain."""
        asked = found = 0
        for seed in ROUNDS[:30]:
            form = linear_form(racks(seed))
            for _, values in solutions(form)[:5]:
                priced = np.flatnonzero(form.cost > 0)[:2]
                y = np.flatnonzero(form.cost == 0)[:1]
                lower, upper = form.lower.copy(), form.upper.copy()
                for x in (*priced, *y):
                    lower[x] = upper[x] = values[x]
                narrow = replace(form, lower=lower, upper=upper)
                covering = Covering.of_form(narrow)
                assert covering is not None, seed
                search = VictimSearch(covering, 0)
                search.search(99)
                search.search(200)
                best = search.best
                asked += 1
                if best.values is not None:
                    found += 1
                    assert (best.value, tuple(best.values.astype(int).tolist())) in solutions(narrow), seed
        assert asked >= 100
        assert found >= 0.95 * asked


class TestCovering:
    def test_other_rows_are_not_read(self) -> None:
        """A budget on victims; a victim that may leave only if another does; a count nobody chooses; none of them."""
        for odd in range(4):
            model = cp_model.CpModel()
            a, b = (model.new_bool_var("") for _ in range(2))
            free = model.new_int_var(0, 3, "")
            model.add(a + b >= 1)
            if odd == 0:
                model.add(2 * a + 3 * b <= 4)
            if odd == 1:
                model.add(a <= b)
            if odd == 2:
                model.add(a + b >= free)
            model.minimize(a + b)
            form = linear_form(model)
            if odd != 2:
                form = replace(form, upper=np.where(form.cost > 0, form.upper, form.lower))
            assert (Covering.of_form(form) is None) == (odd < 3), odd

    def test_rows_on_domains_without_victims_are_kept(self) -> None:
        """y₀ + y₁ ≤ 1 on a rack where nobody leaves looks like a choice and is none."""
        model = cp_model.CpModel()
        a = model.new_bool_var("")
        first = [model.new_bool_var("") for _ in range(2)]
        second = [model.new_bool_var("") for _ in range(2)]
        for options in (first, second):
            model.add(options[0] + options[1] == 1)
        model.add(first[0] + second[0] <= 1)
        model.add(first[1] + second[1] <= a)
        model.minimize(7 * a)
        search = search_of(linear_form(model))
        for _ in range(3):
            search.search(16)
        assert search.best.value == 7

    def test_too_large_numbers(self) -> None:
        form = made_up_question()
        huge = replace(form, cost=form.cost * LARGEST)
        covering = Covering.of_form(huge)
        assert covering is not None
        with pytest.raises(ValueError, match="at most"):
            VictimSearch(covering, 0)
        assert VictimSearch.of(huge, highs_for(huge)) is None
        dear = replace(form, cost=form.cost * (LARGEST // 16))
        search = search_of(dear)
        search.search(99)
        assert search.best.value == 5 * (LARGEST // 16)


def test_ends_by_patience_and_when_nobody_needs_it() -> None:
    form = made_up_question()
    search = search_of(form)
    assert search.run(highs_for(form), 1.0).value == 5
    assert 1000 <= search.iterations <= 4000
    idle: Highs = highs_for(form)
    idle.done.set()
    fresh = search_of(form)
    assert fresh.run(idle, 1.0).value == np.inf
    assert fresh.iterations == 0
