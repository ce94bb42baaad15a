"""What makes questions with victims cheap: lending rows, bundles, integer certificates, refusals remembered."""

from __future__ import annotations

import itertools
import random
import threading
from functools import cache
from typing import Any

import numpy as np
import pytest
from ortools.sat.python import cp_model
from random_rounds import contested_round

from gangfit.models import Snapshot
from gangfit.solver import check, solve
from gangfit.solver import mip as mip_module
from gangfit.solver.assignment import admission
from gangfit.solver.bundles import most_members
from gangfit.solver.certificate import contradicts, dual_bound
from gangfit.solver.engine import Budget
from gangfit.solver.greedy.preemptor import _lawful as greedy_lawful
from gangfit.solver.joint import Joint, candidates
from gangfit.solver.linear_form import linear_form
from gangfit.solver.mip import run_mip
from gangfit.solver.needed_rows import victim_needed
from gangfit.solver.oracle import fits, lawful
from gangfit.solver.problem import UNLIMITED, Problem, encode
from gangfit.solver.refusals import Refusals
from gangfit.solver.rights import Right, attainable, claimable, given_back, rights
from gangfit.solver.slots import Slots


class Rights(Joint):
    """The joint model without space: who may leave, and nothing else."""

    def whole_gang(self) -> None:
        """Nobody is placed."""

    def node_capacity(self) -> None:
        """Nor asks for room."""

    def required_level(self) -> None:
        """Nor for a domain."""

    def tenant_limit(self) -> None:
        """Nor keeps to a limit."""


def verdict(model: cp_model.CpModel) -> bool:
    solver = cp_model.CpSolver()
    solver.parameters.num_workers = 1
    solver.parameters.cp_model_probing_level = 0
    return solver.solve(model) in (cp_model.OPTIMAL, cp_model.FEASIBLE)


class TestLending:
    @pytest.mark.parametrize("block", range(2))
    def test_rows_allow_exactly_the_lawful_sets(self, block: int) -> None:
        """Every set of victims against rule 10 as `rights.claims` reads it."""
        seen = {False: 0, True: 0}
        for seed in range(block * 400, block * 400 + 400):
            problem = encode(contested_round(seed, running=9, pending=6))
            gangs = list(range(len(problem.gangs)))
            held = rights(problem, gangs, set(gangs[::2]))
            reach = candidates(held, len(problem.victims.gangs))
            if not any(right.reclaim.any() for right in held):
                continue
            for size in (1, 2, 3):
                for chosen in itertools.combinations(reach, size):
                    model = Rights(problem, gangs, held, (), False)
                    for v, e in model.evicted.items():
                        model.model.add(e == (v in chosen))
                    expected = lawful(problem, held, frozenset(chosen))
                    assert verdict(model.model) == expected, (seed, chosen)
                    seen[expected] += 1
        assert min(seen.values()) >= 8, seen


def without_levels(snapshot: Snapshot, seed: int) -> Snapshot:
    """The same round where gangs ask for room alone, and no tenant has a limit."""
    rng = random.Random(seed)
    document = snapshot.model_dump(by_alias=True)
    for tenant in document["tenants"]:
        tenant["limit"] = None
    for gang in document["pending"]:
        gang["topology"]["required"] = None
        if rng.random() < 0.5:
            gang["selector"] = {}
    return Snapshot.model_validate(document)


class TestNeededRows:
    def test_every_set_of_needed_victims_is_allowed(self) -> None:
        """Every small set of victims against rule 11 as it reads: with any one of them left running not all fit."""
        self.check(range(150))

    @pytest.mark.long
    @pytest.mark.parametrize("block", range(10, 40))
    def test_long(self, block: int) -> None:
        self.check(range(block * 150, block * 150 + 150))

    @staticmethod
    def check(seeds: range) -> None:
        allowed, excluded = 0, 0
        for seed in seeds:
            problem = encode(without_levels(contested_round(seed, running=9, pending=5), seed))
            reach = range(len(problem.victims.gangs))
            for last in range(1, problem.waiting + 1):
                gangs = list(range(last))

                @cache
                def enough(gone: frozenset[int], problem: Problem = problem, last: int = last) -> bool:
                    budget = Budget(problem.snapshot.policy)
                    return fits(problem.without(gone), list(range(last)), budget).verdict == "yes"

                if enough(frozenset()) or not enough(frozenset(reach)):
                    continue
                for size in (1, 2, 3):
                    for chosen in map(frozenset, itertools.combinations(reach, size)):
                        if not enough(chosen):
                            continue
                        model = Slots(problem, gangs, [], only=reach, lawful=False)
                        victim_needed(model)
                        for v, e in model.evicted.items():
                            model.model.add(e == (v in chosen))
                        if not any(enough(chosen - {v}) for v in chosen):
                            assert verdict(model.model), (seed, chosen)
                            allowed += 1
                        else:
                            excluded += not verdict(model.model)
        assert allowed >= 20
        assert excluded >= 20, (allowed, excluded)


def test_rows_of_each_imply_those_of_all_together() -> None:
    """Slots that need all victims of a node: with anybody gone in part, no more room is used than there would be."""
    rng, checked = np.random.default_rng(3), 0
    for seed in range(1000):
        problem = encode(contested_round(seed, running=9, pending=3))
        reach, gangs = range(len(problem.victims.gangs)), list(range(problem.waiting))
        budget = Budget(problem.snapshot.policy)
        if (
            fits(problem, gangs, budget).verdict == "yes"
            or fits(problem.without(reach), gangs, budget).verdict != "yes"
        ):
            continue
        model = Slots(problem, gangs, [], only=reach, lawful=False)
        form = model.linear()
        rows = form.rows
        for (k, bundle), offered in model._offers._known.items():
            if not isinstance(offered, cp_model.IntVar) or not form.implied[offered.index] or not bundle:
                continue
            room, holders = model._offers._class(k)
            count, column = model.classes[k].size, offered.index
            away = rng.uniform(0, 1, len(form.cost)) ** 2
            most = form.upper[column]
            for row, upper in enumerate(rows.upper):
                part = slice(rows.start[row], rows.start[row + 1])
                terms = dict(zip(rows.index[part], rows.value[part], strict=True))
                others = [x for x in terms if x != column]
                limiting = column in terms and not form.implied[others].any()
                if limiting and all(x in {e.index for e in model.evicted.values()} for x in others):
                    most = min(most, (upper - sum(terms[x] * away[x] for x in others)) / terms[column])
            for r, size in bundle:
                if room[r] < UNLIMITED:
                    freed = sum(amounts[r] * away[model.evicted[v].index] for v, amounts in holders)
                    assert size * most <= count * (room[r] + freed) + 1e-6, (seed, k, bundle)
                    checked += 1
    assert checked >= 40, checked


def test_greedy_takes_whom_the_rights_allow() -> None:
    """One after the other, as `rights.claimable` reads rule 10."""
    taken = refused = 0
    for seed in range(600):
        problem = encode(contested_round(seed, running=9, pending=6))
        reach = list(range(len(problem.victims.gangs)))
        random.Random(seed).shuffle(reach)
        for right in rights(problem, list(range(problem.waiting)), set(range(problem.waiting))):
            if not right.reclaim.any():
                continue
            gone, expected = frozenset(reach[:1]), []
            for v in reach[1:]:
                back = given_back(problem, [*gone, *expected, v])
                if right.own[v] or claimable(problem, right, v, back):
                    expected.append(v)
            assert greedy_lawful(problem, right, gone, reach[1:]) == expected, seed
            taken += len(expected)
            refused += len(reach) - 1 - len(expected)
    assert min(taken, refused) >= 50


class TestAttainable:
    def test_nothing_lawful_is_left_out(self) -> None:
        """What it takes off a right is in no lawful set in which others give up to so many gangs."""
        taken = 0
        for seed in range(1_500):
            problem = encode(contested_round(seed, running=7, pending=6))
            gangs = list(range(len(problem.gangs)))
            held = rights(problem, gangs, set(gangs))
            if not held:
                continue
            broken = seed % 3
            narrow = attainable(problem, held, broken)
            lost = np.flatnonzero(held[-1].reclaim & ~narrow.reclaim).tolist()
            taken += bool(lost)
            for v in lost:
                for size in range(4):
                    for rest in itertools.combinations(set(range(len(problem.victims.gangs))) - {v}, size):
                        everyone = frozenset({v, *rest})
                        if sum(not held[-1].any[w] for w in everyone) <= broken:
                            assert not lawful(problem, held[-1:], everyone) or held[-1].own[v], (seed, everyone)
        assert taken >= 5


def random_model(rng: random.Random, rows: int, columns: int) -> cp_model.CpModel:
    """Covering and packing rows over small integers."""
    model = cp_model.CpModel()
    x = [model.new_int_var(rng.randint(-3, 0), rng.randint(1, 4), "") for _ in range(columns)]
    for _ in range(rows):
        terms = [rng.randint(-4, 6) * one for one in rng.sample(x, 3)]
        expression = cp_model.LinearExpr.sum(terms)
        model.add(expression >= rng.randint(-2, 14)) if rng.random() < 0.6 else model.add(
            expression <= rng.randint(-4, 9)
        )
    model.minimize(cp_model.LinearExpr.sum([rng.randint(0, 10**6) * one for one in x]))
    return model


class TestCertificates:
    def test_bounds_hold_and_refusals_are_right(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """HiGHS' answers on random models against CP-SAT's; certified ones from the duals alone."""
        monkeypatch.setattr(mip_module, "TINY", 0)
        rng, seen = random.Random(5), {"certified no": 0, "no": 0, "certified": 0, "optimal": 0}
        for _ in range(300):
            model = random_model(rng, rng.randint(2, 9), rng.randint(3, 8))
            solver = cp_model.CpSolver()
            solver.parameters.num_workers = 1
            status = solver.solve(model)
            outcome = run_mip(model, Budget(contested_round(0).policy))
            if status == cp_model.INFEASIBLE:
                assert outcome.status == "infeasible"
                seen["certified no" if outcome.certified else "no"] += 1
                continue
            assert outcome.status == "optimal"
            assert outcome.bound == round(solver.objective_value)
            seen["certified" if outcome.certified else "optimal"] += 1
        assert min(seen.values()) >= 5, seen

    def test_work_that_is_ended_claims_nothing_wrong(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(mip_module, "TINY", 0)
        rng, done = random.Random(6), threading.Event()
        done.set()
        for _ in range(100):
            model = random_model(rng, rng.randint(2, 9), rng.randint(3, 8))
            solver = cp_model.CpSolver()
            solver.parameters.num_workers = 1
            status = solver.solve(model)
            outcome = run_mip(model, Budget(contested_round(0).policy), done=done)
            if outcome.status == "infeasible":
                assert status == cp_model.INFEASIBLE
            if status == cp_model.OPTIMAL and outcome.bound is not None:
                assert outcome.bound <= round(solver.objective_value)

    def test_any_multipliers_prove_no_more_than_is_true(self) -> None:
        rng = np.random.default_rng(3)
        for seed in range(200):
            model = random_model(random.Random(seed), 4, 5)
            form = linear_form(model)
            y = -rng.exponential(10.0 ** rng.integers(0, 6), len(form.rows.upper))
            solver = cp_model.CpSolver()
            solver.parameters.num_workers = 1
            feasible = solver.solve(model) == cp_model.OPTIMAL
            bound = dual_bound(form, y)
            assert bound is not None
            if feasible:
                assert bound <= round(solver.objective_value)
                assert not contradicts(form, y)

    def test_figures_that_floats_cannot_hold_prove_nothing(self) -> None:
        model = cp_model.CpModel()
        x = model.new_int_var(0, 2**60, "")
        model.add(x >= 2**55 + 1)
        model.minimize(x)
        form = linear_form(model)
        assert dual_bound(form, -np.ones(1)) is None
        assert not contradicts(form, -np.ones(1))


class TestBundles:
    def test_most_members_is_the_best_mix(self) -> None:
        rng = random.Random(1)
        for _ in range(300):
            shapes = [tuple(rng.randint(0, 4) for _ in range(2)) for _ in range(rng.randint(1, 3))]
            shapes = [shape for shape in shapes if any(shape)]
            room = (rng.randint(0, 8), rng.randint(0, 8))
            if not shapes or any(not all(shape) for shape in shapes):
                continue
            mixes = itertools.product(range(9), repeat=len(shapes))
            best = max(
                sum(mix)
                for mix in mixes
                if all(sum(k * shape[r] for k, shape in zip(mix, shapes, strict=True)) <= room[r] for r in (0, 1))
            )
            assert most_members(room, shapes) == best


class TestRefusals:
    @pytest.mark.parametrize("block", range(3))
    def test_remembering_changes_nothing(self, monkeypatch: pytest.MonkeyPatch, block: int) -> None:
        """Rounds with many gangs of few kinds, with and without the memory."""
        answers, calls = [], [0, 0]

        def counted(self: Refusals, gang: int, right: Right | None, covers: Any = Refusals.covers) -> bool | None:
            known: bool | None = covers(self, gang, right)
            calls[known is not None] += 1
            return known

        for covers in (counted, lambda *_: None):
            monkeypatch.setattr(Refusals, "covers", covers)
            found = []
            for seed in range(block * 40, block * 40 + 40):
                snapshot = crowded(contested_round(seed, running=8, pending=3), seed)
                plan = solve(snapshot)
                assert check(snapshot, plan).ok
                found.append(([(step.gang, step.admitted) for step in plan.considered], [t.value for t in plan.tiers]))
            answers.append(found)
        assert answers[0] == answers[1]
        assert calls[1] >= 3, calls


def crowded(snapshot: Snapshot, seed: int) -> Snapshot:
    """The same round with its pending gangs three times over, some with a member more."""
    rng = random.Random(seed)
    document = snapshot.model_dump(by_alias=True)
    document["pending"] = list(document["pending"])
    for copy in range(2):
        for gang in [dict(one) for one in document["pending"][: len(snapshot.pending)]]:
            gang["name"] += f"-{copy}"
            gang["members"] += rng.random() < 0.3
            document["pending"].append(gang)
    return Snapshot.model_validate(document)


def test_admission_is_the_vector() -> None:
    """`considered` of a plan and the vector of its assignment are one."""
    for seed in range(20):
        snapshot = contested_round(seed)
        plan, problem = solve(snapshot), encode(snapshot)
        started = {problem.gangs[j].name: j for j in range(len(problem.gangs))}
        placed = {started[placement.gang] for placement in plan.placements}
        turns = plan.considered[: len(snapshot.pending)]
        if len(plan.considered) == len(turns):
            assert admission(problem, placed) == tuple(int(step.admitted) for step in turns)
