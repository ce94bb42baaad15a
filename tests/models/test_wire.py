"""The wire form field by field: what every object refuses, what it defaults to, and that it goes round through JSON."""

from __future__ import annotations

import copy
import json
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import BaseModel, ValidationError
from random_rounds import random_round

import gangfit.models
from gangfit.models import CheckReport, Plan, Policy, Snapshot, Topology
from gangfit.solver import check, solve

Location = tuple[str | int, ...]

FULL: dict[str, Any] = {
    "time_s": 100,
    "topology": {"levels": [{"name": "spine", "weight": 20}, {"name": "rack", "weight": None}], "node_weight": 2},
    "nodes": [
        {
            "name": "n[1-2]", "path": ["s", None], "gpus": 8, "cpu_milli": 64_000, "memory_mib": 1_024,
            "resources": {"rdma": 4}, "gpu_model": "H100", "labels": {"pool": "a"},
            "taints": [{"key": "k", "value": "v", "effect": "NoExecute"}], "state": "ready",
            "used": {"gpus": 1, "cpu_milli": 2, "memory_mib": 3, "resources": {"rdma": 1}},
        },
    ],
    "tenants": [
        {
            "name": "t", "weight": 3, "parent": "all",
            "quota": {"gpus": 4, "cpu_milli": 5, "memory_mib": None, "resources": {"rdma": 2}},
            "limit": {"gpus": 6, "cpu_milli": None, "memory_mib": 7, "resources": {"rdma": 3}},
        },
        {"name": "all", "weight": 1, "parent": None, "quota": None, "limit": None},
    ],
    "running": [
        {
            "name": "old", "tenant": "t", "priority": 1, "submitted_s": 5, "members": 1,
            "request": {"gpus": 1, "cpu_milli": 1, "memory_mib": 1, "resources": {"rdma": 1}},
            "topology": {"required": "spine", "preferred": "node"}, "selector": {"pool": "a"},
            "tolerations": [{"key": "k", "operator": "Equal", "value": "v", "effect": "NoExecute"}],
            "gpu_model": "H100", "placement": {"n1": 1}, "started_s": 7, "preemptible": False,
            "min_runtime_s": 60, "grace_s": 30, "restart_s": 20, "preemptions": 2, "phase": "terminating",
            "expected_end_s": 130,
            "checkpoint": {"last_s": 8, "interval_s": 9, "bytes": 10, "write_gbps": 1.5},
        }
    ],
    "pending": [
        {"name": "new", "members": 2, "request": {"gpus": 2}, "topology": {"preferred": "rack"}, "preempted_s": 40,
         "expected_duration_s": 90}
    ],
    "policy": {
        "time_limit_s": 2.5, "seed": 3, "workers": 4, "deterministic": True, "overcommit": "clamp", "order": "priority",
        "reservation": "never", "tolerance": 0.5,
        "preemption": {"within": "never", "across": "priority", "settle_s": 50, "guard": 2},
        "moves": {"mode": "allowed", "max_gangs": 3, "max_ratio": 1.5},
    },
    "meta": {"origin": {"any": ["json", 1.5, None]}},
}  # fmt: skip
FULL["nodes"].append({**copy.deepcopy(FULL["nodes"][0]), "name": "m"})
"""A snapshot that sets every field; two nodes, so that one at fault leaves another."""


def objects(value: object, at: Location = ()) -> Iterator[tuple[Location, BaseModel]]:
    """Every object of a document with its location."""
    if isinstance(value, BaseModel):
        yield at, value
        for name in type(value).model_fields:
            yield from objects(getattr(value, name), (*at, name))
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from objects(item, (*at, i))


def leaves(value: object, at: Location = ()) -> Iterator[tuple[Location, object]]:
    """Every scalar of a document with its location, `meta` left out."""
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    if not isinstance(value, dict | list):
        yield at, value
    for key, item in items:
        if (*at, key) != ("meta",):
            yield from leaves(item, (*at, key))


def put(at: Location, value: object) -> dict[str, Any]:
    """The full document with one value replaced or added."""
    document: Any = copy.deepcopy(FULL)
    target = document
    for key in at[:-1]:
        target = target[key]
    target[at[-1]] = value
    return document  # type: ignore[no-any-return]


def refused(document: object) -> set[Location]:
    """Locations of the faults; empty if the document is accepted."""
    try:
        Snapshot.model_validate(document)
    except ValidationError as error:
        return {fault["loc"] for fault in error.errors()}
    return set()


def paths(locations: Iterator[tuple[Location, object]]) -> list[Any]:
    return [pytest.param(at, id=".".join(map(str, at)) or "snapshot") for at, _ in locations]


WHOLE = [(at, value) for at, value in leaves(FULL) if isinstance(value, int) and not isinstance(value, bool)]
"""Integers of the full document."""


class TestEveryObject:
    @pytest.mark.parametrize("at", paths(objects(Snapshot.model_validate(FULL))))
    def test_refuses_unknown_fields(self, at: Location) -> None:
        assert refused(put((*at, "surprise"), 1)) == {(*at, "surprise")}

    @pytest.mark.parametrize("at", paths(objects(Snapshot.model_validate(FULL))))
    def test_is_frozen(self, at: Location) -> None:
        found = dict(objects(Snapshot.model_validate(FULL)))[at]
        for name in type(found).model_fields:
            with pytest.raises(ValidationError, match="frozen"):
                setattr(found, name, None)

    @pytest.mark.parametrize("value", [None, 1, "text", [], [1]])
    @pytest.mark.parametrize("at", paths(i for i in objects(Snapshot.model_validate(FULL)) if i[0]))
    def test_is_an_object(self, at: Location, value: object) -> None:
        if at[-1] in ("checkpoint", "quota", "limit") and value is None:
            return
        assert at in refused(put(at, value))

    def test_every_field_is_described(self) -> None:
        models = [getattr(gangfit.models, name) for name in gangfit.models.__all__]
        for model in models:
            if isinstance(model, type) and issubclass(model, BaseModel):
                assert all(field.description for field in model.model_fields.values()), model

    def test_one_fault_is_one_error(self) -> None:
        assert refused({"nodes": [{"name": "n", "gpus": -1}]}) == {("nodes", 0, "gpus")}
        assert refused({"nodes": []}) == {("nodes",)}


class TestEveryInteger:
    @pytest.mark.parametrize("wrong", [True, 1.0, 1.5, "1", None, float("nan"), float("inf"), [], 10**30, -(10**30)])
    @pytest.mark.parametrize("at", paths(iter(WHOLE)))
    def test_is_a_plain_integer_in_its_range(self, at: Location, wrong: object) -> None:
        optional = {"cpu_milli", "memory_mib", "last_s", "interval_s", "bytes", "expected_end_s", "preempted_s"}
        optional |= {"expected_duration_s"}
        shares = {"quota", "limit"} & set(at) and at[-1] == "gpus"
        if wrong is None and (
            (at[-1] in optional and "used" not in at and "request" not in at) or "levels" in at or shares
        ):
            return
        assert any(fault[: len(at)] == at for fault in refused(put(at, wrong)))

    @pytest.mark.parametrize("at", paths(i for i in WHOLE if i[0][-1] != "priority"))
    def test_is_not_negative(self, at: Location) -> None:
        assert refused(put(at, -1)) == {at}


class TestEveryString:
    @pytest.mark.parametrize("wrong", [1, True, ["x"], {"x": 1}])
    @pytest.mark.parametrize("at", paths(i for i in leaves(FULL) if isinstance(i[1], str)))
    def test_is_text(self, at: Location, wrong: object) -> None:
        assert any(fault[: len(at)] == at for fault in refused(put(at, wrong)))

    @pytest.mark.parametrize("wrong", ["", "x" * 254, "line\nbreak", "tab\t", "nul\x00", "del\x7f", "end\n"])
    @pytest.mark.parametrize("at", paths(i for i in leaves(FULL) if i[0][-1] in ("name", "tenant", "gpu_model")))
    def test_names_are_printable_and_short(self, at: Location, wrong: str) -> None:
        assert at in refused(put(at, wrong))

    @pytest.mark.parametrize(
        ("at", "wrong"),
        [
            (("nodes", 0, "state"), "Ready"),
            (("nodes", 0, "taints", 0, "effect"), "PreferNoSchedule"),
            (("running", 0, "tolerations", 0, "operator"), "equal"),
            (("running", 0, "tolerations", 0, "effect"), ""),
            (("policy", "overcommit"), "ignore"),
            (("policy", "order"), "fair"),
            (("policy", "preemption", "within"), "reclaim"),
            (("policy", "preemption", "across"), "always"),
            (("running", 0, "phase"), "reserved"),
        ],
    )
    def test_closed_lists_name_what_is_allowed(self, at: Location, wrong: str) -> None:
        with pytest.raises(ValidationError, match="Input should be '"):
            Snapshot.model_validate(put(at, wrong))


class TestFloatsAndSwitches:
    @pytest.mark.parametrize("wrong", [0, 0.0, -1.0, 3_600.1, float("nan"), float("inf"), None, [], "x"])
    def test_time_limit_is_a_positive_number(self, wrong: object) -> None:
        assert refused(put(("policy", "time_limit_s"), wrong)) == {("policy", "time_limit_s")}

    @pytest.mark.parametrize("right", [1, 1e-9, 3_600])
    def test_time_limit_may_be_whole(self, right: float) -> None:
        assert not refused(put(("policy", "time_limit_s"), right))

    @pytest.mark.parametrize("wrong", [True, "5"])
    @pytest.mark.parametrize("at", [("policy", "time_limit_s"), ("running", 0, "checkpoint", "write_gbps")])
    def test_numbers_are_numbers(self, at: Location, wrong: object) -> None:
        assert refused(put(at, wrong)) == {at}

    @pytest.mark.parametrize("wrong", [1, 0, "yes", "false", 1.0])
    @pytest.mark.parametrize("at", [("policy", "deterministic"), ("running", 0, "preemptible")])
    def test_switches_are_true_or_false(self, at: Location, wrong: object) -> None:
        assert refused(put(at, wrong)) == {at}

    @pytest.mark.parametrize("text", ["NaN", "Infinity", "-Infinity"])
    def test_no_such_numbers_in_json(self, text: str) -> None:
        document = json.dumps(FULL).replace('"time_limit_s": 2.5', f'"time_limit_s": {text}')
        with pytest.raises(ValidationError):
            Snapshot.model_validate_json(document)

    @pytest.mark.parametrize("text", ["NaN", "Infinity"])
    def test_nor_in_the_description(self, text: str) -> None:
        with pytest.raises(ValidationError):
            Snapshot.model_validate_json(json.dumps(FULL).replace("1.5, null", f"{text}, null"))


class TestDefaults:
    def test_the_least_there_is(self) -> None:
        snapshot = Snapshot.model_validate({"nodes": [{"name": "n", "gpus": 0}]})
        assert (snapshot.time_s, snapshot.pending, snapshot.running, snapshot.topology.levels) == (0, (), (), ())
        node = snapshot.nodes[0]
        assert (node.cpu_milli, node.memory_mib, node.resources, node.state) == (None, None, {}, "ready")
        assert (node.used.gpus, node.labels, node.taints, node.path) == (0, {}, (), ())

    def test_of_a_gang(self) -> None:
        document = {
            "nodes": [{"name": "n", "gpus": 1}],
            "pending": [{"name": "g", "members": 1, "request": {"gpus": 1}}],
        }
        gang = Snapshot.model_validate(document).pending[0]
        assert (gang.tenant, gang.priority, gang.submitted_s, gang.gpu_model) == ("default", 0, 0, None)
        assert (gang.topology.required, gang.topology.preferred, gang.selector, gang.tolerations) == (
            None,
            None,
            {},
            (),
        )

    def test_of_the_policy(self) -> None:
        assert Policy().model_dump() == {
            "time_limit_s": 10.0, "seed": 0, "workers": 2, "deterministic": False, "overcommit": "reject",
            "order": "drf", "reservation": None, "tolerance": 0.0,
            "preemption": {"within": "priority", "across": "reclaim", "settle_s": 600, "guard": 3},
            "moves": {"mode": "never", "max_gangs": 8, "max_ratio": 2.0},
        }  # fmt: skip

    @pytest.mark.parametrize(
        ("weights", "node", "wanted"),
        [
            ([], 1, [1]),
            ([None, None, None], 1, [64, 16, 4, 1]),
            ([None, 10, None], 1, [40, 10, 4, 1]),
            ([None, 0, None], 3, [0, 0, 12, 3]),
            ([5, None], 0, [5, 0, 0]),
        ],
    )
    def test_weights_are_four_times_the_finer_level(
        self, weights: list[int | None], node: int, wanted: list[int]
    ) -> None:
        levels = [{"name": f"l{i}", "weight": weight} for i, weight in enumerate(weights)]
        assert Topology.model_validate({"levels": levels, "node_weight": node}).weights() == wanted

    def test_dicts_are_not_shared(self) -> None:
        snapshot = Snapshot.model_validate({"nodes": [{"name": "a", "gpus": 0}, {"name": "b", "gpus": 0}]})
        assert snapshot.nodes[0].labels is not snapshot.nodes[1].labels
        assert snapshot.nodes[0].resources is not snapshot.nodes[1].resources


class TestRoundTrip:
    def test_every_field(self) -> None:
        snapshot = Snapshot.model_validate(FULL)
        assert Snapshot.model_validate_json(snapshot.model_dump_json()) == snapshot
        given = {key for key in FULL if snapshot.model_dump(mode="json")[key] == FULL[key]}
        assert given == set(FULL) - {"pending"}  # a pending gang gets its defaults written out

    @settings(max_examples=60, deadline=None)
    @given(st.integers(0, 10**9))
    def test_random_rounds_and_their_plans(self, seed: int) -> None:
        snapshot = random_round(seed)
        text = snapshot.model_dump_json()
        assert Snapshot.model_validate_json(text) == Snapshot.model_validate(json.loads(text)) == snapshot
        plan = solve(snapshot, search=False)
        again = Plan.model_validate_json(plan.model_dump_json())
        assert again == plan
        assert (again.model_dump_json(), repr(again)) == (plan.model_dump_json(), repr(plan))  # fields in their order
        report = check(snapshot, plan)
        assert CheckReport.model_validate_json(report.model_dump_json()) == report

    def test_a_placement_adds_up_its_roles(self) -> None:
        roles = {"a": {"n": 1, "m": 2}, "b": {"n": 3}}
        plan = Plan.model_validate({"placements": [{"gang": "g", "roles": roles}]})
        assert plan.placements[0].nodes() == {"n": 4, "m": 2}

    @pytest.mark.parametrize("document", [{"surprise": 1}, {"placements": [{"gang": "g"}]}, {"status": "done"}])
    def test_a_plan_refuses_what_it_does_not_know(self, document: dict[str, Any]) -> None:
        with pytest.raises(ValidationError):
            Plan.model_validate(document)
