"""A made-up round and a made-up question that run every kernel once, for warm-up and tests."""

from __future__ import annotations

from ortools.sat.python import cp_model

from gangfit.models import Snapshot
from gangfit.solver.assignment import tier_values
from gangfit.solver.configurations import ConfigurationBound
from gangfit.solver.covering import Covering
from gangfit.solver.cuts import exact_sum
from gangfit.solver.engine import Budget
from gangfit.solver.gap_model import Reduced
from gangfit.solver.greedy import STRATEGIES
from gangfit.solver.greedy.strategies import PLACES, place_one
from gangfit.solver.leaves import leaves
from gangfit.solver.linear_form import IMPLIED, Form, linear_form
from gangfit.solver.local_search import LocalSearch
from gangfit.solver.pattern_bound import PatternBound
from gangfit.solver.problem import Problem, encode
from gangfit.solver.space import Space
from gangfit.solver.victim_search import VictimSearch


def made_up() -> Problem:
    """Two spines of two racks of four nodes, three gangs that don't fit a rack each."""
    nodes = [
        {"name": f"n{n:02d}", "path": [f"s{n // 8}", f"r{n // 4}"], "gpus": 8, "used": {"gpus": 8 * (n % 5 == 4)}}
        for n in range(16)
    ]
    pending = [{"name": f"g{j}", "members": 4, "request": {"gpus": 8}} for j in range(3)]
    snapshot = {
        "time_s": 0,
        "topology": {"levels": [{"name": "spine"}, {"name": "rack"}]},
        "nodes": nodes,
        "pending": pending,
    }
    return encode(Snapshot.model_validate(snapshot))


def made_up_question() -> Form:
    """A gang on one of two racks: one needs both its victims to leave, the other its only, dearer one."""
    model = cp_model.CpModel()
    a, b, c = (model.new_bool_var("") for _ in range(3))
    slot = model.new_int_var(0, 1, IMPLIED)
    left, right = model.new_bool_var(""), model.new_bool_var("")
    model.add(left + right == 1)
    for victim in (a, b):
        model.add(slot <= victim)
    model.add(slot >= left)
    model.add(c >= right)
    model.minimize(2 * a + 3 * b + 6 * c)
    return linear_form(model)


def rehearse() -> None:
    """Run every kernel on the made-up round or the made-up question."""
    problem = made_up()
    plan = STRATEGIES["rack_first"](problem)
    for place in PLACES.values():
        space = Space(problem)
        space.compiled = True
        for gang in plan:
            spread = place_one(problem, space, place, gang)
            if spread is None:
                raise RuntimeError("a kernel found no room where there is some")
            space.take(gang, spread)
        Space(problem).row([place.number], 0, 1)
    budget = Budget(problem.snapshot.policy.model_copy(update={"deterministic": True}))
    view = leaves(problem, sorted(plan), "distance")
    pattern = PatternBound(view)
    pattern.start(plan)
    certificate = pattern.run(1 << 30, budget)
    if certificate is not None:
        Reduced(pattern, certificate)
    exact_sum(view, 0)
    configurations = ConfigurationBound(view, 0)
    configurations.start_from(plan)
    configurations.run(1 << 30, budget)
    search = LocalSearch(problem, plan, 0)
    search.search(1, -1, 64, budget)
    if search.values > tier_values(problem, plan):
        raise RuntimeError("local search made a plan worse")
    covering = Covering.of_form(made_up_question())
    if covering is None:
        raise RuntimeError("a covering question wasn't read as one")
    victims = VictimSearch(covering, 0)
    for _ in range(2):
        victims.search(16)
    if victims.best.value != 5:
        raise RuntimeError("local search missed the cheapest victims")
