"""Small forms of victim questions, and everything that satisfies one."""

from __future__ import annotations

import random
import threading
import time

import numpy as np
from ortools.sat.python import cp_model

from gangfit.models import Policy
from gangfit.solver.engine import Budget
from gangfit.solver.highs import Highs
from gangfit.solver.linear_form import IMPLIED, Form, linear_form


def racks(seed: int) -> cp_model.CpModel:
    """Victims on racks, some on several; kinds of gangs that choose racks. Small enough to try everything."""
    rng = random.Random(seed)
    model = cp_model.CpModel()
    count = rng.randint(2, 4)
    victims = [model.new_bool_var("") for _ in range(rng.randint(3, 6))]
    frees: list[cp_model.LinearExprT] = [rng.randint(0, 2) for _ in range(count)]
    for v in victims:
        for rack in rng.sample(range(count), rng.randint(1, count)):
            frees[rack] = frees[rack] + rng.randint(1, 3) * v
    demand: list[cp_model.LinearExprT] = [0] * count
    for _ in range(rng.randint(1, 2)):
        gangs, size = rng.randint(1, 2), rng.randint(1, 4)
        options = rng.sample(range(count), rng.randint(2, count))
        chosen = [model.new_int_var(0, gangs, "") for _ in options]
        model.add(cp_model.LinearExpr.sum(chosen) == gangs)
        for rack, y in zip(options, chosen, strict=True):
            demand[rack] = demand[rack] + size * y
    for free, needs in zip(frees, demand, strict=True):
        model.add(free - needs >= 0)
    model.minimize(cp_model.LinearExpr.weighted_sum(victims, [rng.randint(1, 40) for _ in victims]))
    return model


def solutions(form: Form) -> list[tuple[float, tuple[int, ...]]]:
    """Cost and values of everything that satisfies a form."""
    boxes = [np.arange(low, high + 1) for low, high in zip(form.lower, form.upper, strict=True)]
    points = np.stack([axis.ravel() for axis in np.meshgrid(*boxes, indexing="ij")], axis=1).astype(np.int64)
    rows = form.rows
    matrix = np.zeros((len(rows.upper), len(boxes)))
    for row in range(len(rows.upper)):
        part = slice(rows.start[row], rows.start[row + 1])
        matrix[row, rows.index[part]] = rows.value[part]
    points = points[(points @ matrix.T <= np.array(rows.upper)).all(axis=1)]
    return [(float(form.cost @ point), tuple(point.tolist())) for point in points]


def highs_for(form: Form) -> Highs:
    return Highs(Budget(Policy(workers=2)), 60.0, time.monotonic() + 60.0, threading.Event(), None, form.cost)


def shared(seed: int) -> Form:
    """As `racks`, with slots that are there once all victims of a node leave, some of them in part."""
    rng = np.random.default_rng(seed)
    model = cp_model.CpModel()
    victims = [model.new_bool_var("") for _ in range(int(rng.integers(3, 6)))]
    racks = int(rng.integers(2, 4))
    offers: list[cp_model.LinearExprT] = [int(rng.integers(0, 2)) for _ in range(racks)]
    for _ in range(int(rng.integers(2, 5))):
        nodes, on = int(rng.integers(1, 3)), rng.choice(len(victims), 2, replace=False).tolist()
        slot = model.new_int_var(0, nodes, IMPLIED)
        if rng.integers(2):
            for v in on:
                model.add(slot <= nodes * victims[v])
        else:
            # Each node has room for one beside either, two requests' worth of room in sum for one slot.
            model.add(2 * slot <= int(rng.integers(0, 2)) + nodes * (victims[on[0]] + victims[on[1]]))
        rack = int(rng.integers(racks))
        offers[rack] = offers[rack] + slot
    gangs, size = int(rng.integers(1, 3)), int(rng.integers(1, 3))
    chosen = [model.new_int_var(0, gangs, "") for _ in range(racks)]
    model.add(cp_model.LinearExpr.sum(chosen) == gangs)
    for offer, y in zip(offers, chosen, strict=True):
        model.add(offer - size * y >= 0)
    model.add(cp_model.LinearExpr.sum(offers) >= size * gangs + int(rng.integers(0, 2)))
    model.minimize(cp_model.LinearExpr.weighted_sum(victims, rng.integers(1, 40, len(victims)).tolist()))
    return linear_form(model)
