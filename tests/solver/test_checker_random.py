"""The independent checker against the naive recomputation, on random snapshots."""

from __future__ import annotations

import random

import pytest
from brute_force import Round
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from naive import naive_broken, naive_reason, naive_tiers
from random_rounds import contested_round
from stated_plans import bare, full_plan, run

from gangfit.models import Plan, Snapshot
from gangfit.solver.checker import check


@st.composite
def rounds(draw):
    """(snapshot as dictionaries, placements that may break any rule)."""

    def one_of(*values):
        return draw(st.sampled_from(values))

    levels = [f"l{i}" for i in range(draw(st.integers(0, 3)))]
    nodes = [
        {
            "name": f"n{i}",
            "path": [one_of("x", "x", "y", None) for _ in levels],
            "gpus": one_of(0, 4, 8, 8),
            "cpu_milli": one_of(None, 3, 9),
            "resources": one_of({}, {"nic": 2}),
            "gpu_model": one_of(None, "H", "A"),
            "labels": one_of({}, {"z": "1"}, {"z": "2"}),
            "taints": one_of([], [], [{"key": "t", "value": "v"}]),
            "state": one_of("ready", "ready", "ready", "cordoned", "down"),
            "used": one_of({}, {}, {"gpus": 1}, {"gpus": 8}, {"cpu_milli": 2}),
        }
        for i in range(draw(st.integers(1, 7)))
    ]
    seats = st.dictionaries(
        st.sampled_from([node["name"] for node in nodes]), st.integers(1, 2), min_size=1, max_size=4
    )
    requests = st.sampled_from(
        [{"gpus": 4}, {"gpus": 8}, {"gpus": 1, "cpu_milli": 2}, {"cpu_milli": 1}, {"gpus": 2, "resources": {"nic": 1}}]
    )
    running = [
        {"name": f"r{i}", "members": sum(on.values()), "request": draw(requests), "placement": on}
        for i, on in enumerate(draw(st.lists(seats, max_size=3)))
    ]
    placements = {f"g{i}": draw(seats) for i in range(4) if draw(st.booleans())}
    pending = [
        {
            "name": f"g{i}",
            "members": sum(placements.get(f"g{i}", {}).values()) or draw(st.integers(1, 6)),
            "request": draw(requests),
            "priority": draw(st.integers(0, 1)),
            "topology": {"required": one_of(None, *levels, "node"), "preferred": one_of(None, *levels, "node")},
            "selector": one_of({}, {}, {"z": "1"}),
            "gpu_model": one_of(None, None, "H"),
            "tolerations": one_of([], [{}], [{"key": "t"}], [{"key": "t", "operator": "Equal", "value": "w"}]),
        }
        for i in range(4)
    ]
    if draw(st.booleans()):
        pending[0]["members"] += 1
    return {
        "topology": {"levels": [{"name": name, "weight": one_of(None, 0, 3)} for name in levels]},
        "nodes": nodes,
        "running": running,
        "pending": pending,
        "policy": {"overcommit": "clamp"},
    }, placements


QUICK = settings(max_examples=100, deadline=None, suppress_health_check=[HealthCheck.too_slow])


class TestAgainstNaive:
    @QUICK
    @given(rounds())
    def test_tier_values(self, case):
        data, placements = case
        report = run(data, bare(placements))
        expected = naive_tiers(Snapshot.model_validate(data), placements)
        assert [(tier.name, tier.value) for tier in report.tiers] == list(expected.items())

    @QUICK
    @given(rounds())
    def test_rules(self, case):
        data, placements = case
        violations = run(data, bare(placements)).violations
        found = {(one.rule, one.node if one.rule == "node_capacity" else one.gang) for one in violations}
        assert found == naive_broken(Snapshot.model_validate(data), placements)

    @QUICK
    @given(rounds())
    def test_stated_figures_and_reasons(self, case):
        data, placements = case
        snapshot = Snapshot.model_validate(data)
        reasons = {gang.name: naive_reason(snapshot, gang) for gang in snapshot.pending if gang.name not in placements}
        report = run(data, full_plan(data, placements, reasons, {}))
        stated = {"claims", "blocked_reason", "reference"}
        assert [violation for violation in report.violations if violation.rule in stated] == []

    @pytest.mark.parametrize("block", range(4))
    def test_considered_order(self, block):
        for seed in range(block * 100, (block + 1) * 100):
            snapshot = contested_round(seed, pending=8)
            names = sorted(gang.name for gang in snapshot.pending)
            admits = set(random.Random(seed).sample(names, len(names) // 2))
            steps = []
            for name, decided in Round(snapshot).turns(admits):
                *above, own = [
                    {"tenant": tenant, "group": ("within", "below", "surplus")[group], "share": float(share)}
                    for tenant, group, share in decided
                ]
                step = {"gang": name, "admitted": name in admits, "decided_by": "search", "above": above}
                steps.append({**step, "group": own["group"], "share": own["share"]})
            plan = Plan.model_validate({**bare({name: {} for name in admits}), "considered": steps})
            found = [one for one in check(snapshot, plan).violations if one.rule == "considered_order"]
            assert found == [], seed
