"""Local search over who gives way: nothing that breaks a row, the least itself on small forms."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
from ortools.sat.python import cp_model
from small_forms import highs_for, racks, shared, solutions

from gangfit.solver import stages, victim_search
from gangfit.solver.covering import Covering
from gangfit.solver.highs import Found, Highs, Relaxation
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

    def test_goes_on_from_any_solution(self) -> None:
        """What the arrays then say is what they would after moves that lead there, and the record never gets worse."""
        adopted = 0
        for name, form in FORMS:
            every = sorted(solutions(form))
            search = search_of(form)
            search.search(99)
            if not every or search.best.values is None:
                continue
            cost, values = every[len(name) * 7 % len(every)]
            record = search.best.value
            search.adopt(np.array(values, dtype=np.float64))
            covering = search.covering
            assert search.best.value == min(record, cost), name
            assert (search._slot[:, 1] == covering.most(search._limit[:, 0])).all(), name
            assert (search._row[:, 0] >= 0).all(), name
            for _ in range(3):
                search.search(16)
            assert (search._row[:, 0] >= 0).all(), name
            # Moves and their undoing leave nothing behind.
            had = search._row[:, 0].copy()
            values = covering.values(search._victim[:, 1] > 0, search._unit[:, 1])
            assert values is not None, name
            search.adopt(values)
            assert (search._row[:, 0] == had).all(), name
            best = search.best
            assert best.values is not None
            assert (best.value, tuple(best.values.astype(int).tolist())) in every, name
            assert best.value <= min(record, cost), name
            adopted += 1
        assert adopted >= 100

    def test_a_solution_adopted_before_the_first_is_ignored(self) -> None:
        search = search_of(made_up_question())
        search.adopt(np.array([0, 0, 1, 0, 0, 1], dtype=np.float64))
        assert search.best.values is None
        search.search(1)
        assert search.best.value == 5

    def test_any_relaxation_will_do(self) -> None:
        """Ranks lead search, they decide nothing: solutions alone, and the least of most forms."""
        rng = np.random.default_rng(5)
        least = found = 0
        for name, form in FORMS[::2]:
            covering = Covering.of_form(form)
            assert covering is not None
            search = VictimSearch(covering, 0, rng.uniform(-0.5, 1.5, len(form.cost)))
            search.search(99)
            for _ in range(20):
                search.search(16)
            best = search.best
            if best.values is not None:
                every = solutions(form)
                assert (best.value, tuple(best.values.astype(int).tolist())) in every, name
                found += 1
                least += best.value == min(cost for cost, _ in every)
        assert found >= 50
        assert least >= 0.95 * found

    def test_the_relaxation_leads(self) -> None:
        """Of two victims that cost nearly the same the one that leaves in the relaxation has the lower rank."""
        model = cp_model.CpModel()
        a, b = (model.new_bool_var("") for _ in range(2))
        model.add(a + b >= 1)
        model.minimize(10 * a + 11 * b)
        covering = Covering.of_form(linear_form(model))
        assert covering is not None
        led = VictimSearch(covering, 0, np.array([0.0, 1.0]))
        led.search(1)
        assert led.best.value == 11
        unled = VictimSearch(covering, 0)
        unled.search(1)
        assert unled.best.value == 10

    def test_ends_once_nothing_better_turns_up(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(victim_search, "PATIENCE", 64)
        form = linear_form(racks(ROUNDS[0]))
        search = search_of(form)
        search.run(highs_for(form), 1.0, 32)
        assert search.iterations == 32
        assert not search.exhausted
        search.run(highs_for(form), 1.0)
        assert search.exhausted
        ended = search.iterations
        assert search.run(highs_for(form), 1.0).value == search.best.value
        assert search.iterations == ended
        worst = max(solutions(form))
        search.adopt(np.array(worst[1], dtype=np.float64))
        assert search.exhausted

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
        highs = highs_for(huge)
        relaxation = highs.relaxation(form)
        assert isinstance(relaxation, Relaxation)
        assert VictimSearch.of(huge, highs, relaxation) is None
        dear = replace(form, cost=form.cost * (LARGEST // 16))
        search = search_of(dear)
        search.search(99)
        assert search.best.value == 5 * (LARGEST // 16)


def test_who_leaves_is_the_best_for_the_options_taken(monkeypatch: pytest.MonkeyPatch) -> None:
    """Search and branch and bound by turns: no better victims for the same options, whatever search left undone."""
    monkeypatch.setattr(victim_search, "PATIENCE", 64)
    monkeypatch.setattr(stages, "TURN", 16)
    asked = 0
    for name, form in FORMS[::4]:
        every = solutions(form)
        search, highs = search_of(form), highs_for(form)
        if not every:
            continue
        found = stages._improved(form, highs, highs.met(search.run(highs, 1.0, 1)), search, 1.0)
        if found.values is None:
            continue
        options = search.covering.options
        same = [cost for cost, values in every if np.array_equal(np.array(values)[options], found.values[options])]
        assert found.value == min(same), name
        assert found.value <= search.best.value, name
        assert highs.shared.best.value == found.value, name
        asked += 1
    assert asked >= 30


def test_victims_that_search_missed_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    """From the dear victim, with search at a standstill: branch and bound finds the cheap ones, search adopts them."""
    form = made_up_question()
    search, highs = search_of(form), highs_for(form)
    search.search(1)
    dear = np.array([1, 1, 1, 1, 1, 0], dtype=np.float64)
    monkeypatch.setattr(VictimSearch, "run", lambda self, *_: self.best)
    monkeypatch.setattr(VictimSearch, "exhausted", property(lambda self: self.best.value == 5))
    search._control[2] = victim_search.NONE
    found = stages._improved(form, highs, Found(values=dear, value=11.0), search, 1.0)
    assert found.value == 5
    assert search.best.value == 5


def test_ends_by_patience_and_when_nobody_needs_it() -> None:
    form = made_up_question()
    search = search_of(form)
    assert search.run(highs_for(form), 1.0).value == 5
    assert victim_search.PATIENCE <= search.iterations <= 4 * victim_search.PATIENCE
    idle: Highs = highs_for(form)
    idle.done.set()
    fresh = search_of(form)
    assert fresh.run(idle, 1.0).value == np.inf
    assert fresh.iterations == 0
