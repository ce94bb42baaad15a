"""Plans as dictionaries that state everything, with naive figures; and the checker on them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from brute_force import Round
from naive import level_names, naive_counters, naive_fragmentation, naive_tiers, naive_touched

from gangfit.models import Plan, Snapshot
from gangfit.solver.checker import check

Json = dict[str, Any]
GROUPS = ("within", "below", "surplus")
Placements = dict[str, dict[str, int]]
Damage = Callable[[Json, Json], object]
"""Changes the snapshot's and the plan's dictionaries in place."""


def full_plan(data: Json, placements: Placements, reasons: dict[str, str], bounds: dict[str, int], lost=()) -> Json:
    """A plan that states everything; figures are the naive ones, tiers closed where `bounds` doesn't say otherwise.

    `lost`: victim → GPU-seconds; preemptions themselves are up to the caller.
    """
    snapshot = Snapshot.model_validate(data)
    exact = Round(snapshot)
    turns = exact.turns(set(placements))
    gangs = [exact.pending[name] for name, _ in turns]
    placed = [gang for gang in gangs if gang.name in placements]
    levels = level_names(snapshot)
    weights = dict(zip(levels, snapshot.topology.weights(), strict=True))
    values = naive_tiers(snapshot, placements, lost)
    touched = {name: {lv: naive_touched(snapshot, on, lv) for lv in levels} for name, on in placements.items()}
    scales = dict(values)
    scales["distance"] = sum(weights[level] * count for counts in touched.values() for level, count in counts.items())
    wishes = [(gang.name, gang.topology.preferred) for gang in placed if gang.topology.preferred is not None]
    scales["preferred"] = sum(touched[name][level] for name, level in wishes)
    tiers = []
    for name, value in values.items():
        bound = bounds.get(name, value)
        gap = bound - value if name == "admission" else 0 if bound == value else (value - bound) / scales[name]
        sense = "max" if name == "admission" else "min"
        proof = "search" if bound == value else None
        tiers.append({"name": name, "sense": sense, "value": value, "bound": bound, "gap": gap, "proof": proof})
    quality = [
        {
            "gang": gang.name,
            "domains": touched[gang.name],
            "diameter": next((level for level in levels if touched[gang.name][level] > 1), None),
            "distance": sum(weights[level] * (count - 1) for level, count in touched[gang.name].items()),
        }
        for gang in placed
    ]
    blocked = [
        {"gang": gang.name, "reason": reasons[gang.name], "message": "", "counters": naive_counters(snapshot, gang)}
        for gang in gangs
        if gang.name in reasons
    ]
    return {
        "status": "feasible" if bounds else "optimal",
        "tiers": tiers,
        "placements": [{"gang": gang.name, "roles": {"members": dict(placements[gang.name])}} for gang in placed],
        "blocked": blocked,
        "considered": [
            {
                "gang": name,
                "admitted": name in placements,
                "group": GROUPS[decided[-1][1]],
                "share": float(decided[-1][2]),
                "above": [{"tenant": t, "group": GROUPS[g], "share": float(s)} for t, g, s in decided[:-1]],
                "decided_by": "limit" if reasons.get(name) == "undecided" else "search",
            }
            for name, decided in turns
        ],
        "quality": quality,
        "fragmentation": [
            {"level": level, "before": before, "after": after}
            for level, (before, after) in naive_fragmentation(snapshot, placements).items()
        ],
    }


def run(data: Json, plan: Json):
    return check(Snapshot.model_validate(data), Plan.model_validate(plan))


def bare(placements: Placements) -> Json:
    return {"placements": [{"gang": name, "roles": {"members": on}} for name, on in placements.items()]}


def entry(entries: list[Json], name: str) -> Json:
    return next(one for one in entries if name in [one.get(key) for key in ("gang", "name", "level", "tenant")])
