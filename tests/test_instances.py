"""The instances: origin stated, solved within seconds, checked, and at least as good as every greedy strategy."""

from __future__ import annotations

import gzip
import importlib.util
import json
import re
from pathlib import Path
from typing import Any

import pytest

from gangfit.models import Plan, Snapshot
from gangfit.solver import check, solve
from gangfit.solver.round import compare

FOLDER = Path(__file__).parents[1] / "instances"
PATHS = sorted([*FOLDER.glob("*.json.gz"), FOLDER / "demo.json"])
NAMES = [path.name.split(".json")[0] for path in PATHS]
SECONDS = 2.0


def load(name: str) -> Snapshot:
    path = PATHS[NAMES.index(name)]
    raw = path.read_bytes()
    return Snapshot.model_validate_json(gzip.decompress(raw) if path.suffix == ".gz" else raw)


def rank(values: dict[str, int]) -> tuple[int, ...]:
    """Smaller is better: tiers in their order, admission being the one that is maximised."""
    return tuple(-value if name == "admission" else value for name, value in values.items())


@pytest.mark.parametrize("name", NAMES)
class TestOrigin:
    def test_states_origin_and_licence(self, name: str) -> None:
        meta = load(name).meta
        assert meta["name"] == name
        for key in ("source", "provenance", "licence"):
            assert isinstance(meta[key], str)
            assert meta[key]

    def test_is_listed_with_its_figures(self, name: str) -> None:
        snapshot = load(name)
        text = (FOLDER / "README.md").read_text(encoding="utf-8")
        row = re.search(rf"^\| `{re.escape(name)}` \|.*\| (.*) \|$", text, re.MULTILINE)
        assert row is not None
        assert row[1] == snapshot.meta["licence"]
        cells = [cell.strip().replace(",", "") for cell in row[0].split("|")[2:6]]
        gpus = sum(node.gpus for node in snapshot.nodes)
        assert cells == [str(n) for n in (len(snapshot.nodes), gpus, len(snapshot.running), len(snapshot.pending))]

    def test_states_no_policy(self, name: str) -> None:
        """Instances are about placement; who may give way is for whoever solves them to say."""
        assert "policy" not in load(name).model_fields_set

    def test_is_compact(self, name: str) -> None:
        raw = PATHS[NAMES.index(name)].read_bytes()
        request: Any = json.loads(gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw)
        assert load(name).model_dump(mode="json", exclude_defaults=True) == request
        assert raw[:2] != b"\x1f\x8b" or raw[4:8] == bytes(4), "gzip carries a time: the file can't be made again"


@pytest.fixture(scope="module", params=NAMES)
def solved(request: pytest.FixtureRequest) -> tuple[str, Snapshot, Plan]:
    name = request.param
    snapshot = script("record_best").placement_only(load(name), SECONDS)
    return name, snapshot, solve(snapshot)


def values(plan: Plan) -> dict[str, int]:
    return {tier.name: tier.value for tier in plan.tiers}


def script(name: str) -> Any:
    """One of the scripts beside the instances, as a module."""
    spec = importlib.util.spec_from_file_location(name, FOLDER / f"{name}.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class TestAnswer:
    def test_passes_the_checker(self, solved: tuple[str, Snapshot, Plan]) -> None:
        _, snapshot, plan = solved
        report = check(snapshot, plan)
        assert report.ok, report.violations[:3]
        assert {tier.name: tier.value for tier in report.tiers} == values(plan)

    def test_is_no_worse_than_any_greedy(self, solved: tuple[str, Snapshot, Plan]) -> None:
        _, snapshot, plan = solved
        rows = {row.name: row.values for row in compare(snapshot)}
        greedies = {name: row for name, row in rows.items() if name != "solver"}
        assert len(greedies) >= 2
        for name, row in greedies.items():
            assert list(row) == list(values(plan))
            assert rank(values(plan)) <= rank(row), name

    def test_agrees_with_what_is_known(self, solved: tuple[str, Snapshot, Plan]) -> None:
        """A tier's bound holds among plans that are equal on every earlier tier, so compare as far as values agree."""
        name, _, plan = solved
        known = json.loads((FOLDER / "best_known.json").read_bytes())[name]
        assert ["admission", "broken", *list(known)[1:]] == [tier.name for tier in plan.tiers]
        assert (plan.tiers[1].value, plan.tiers[1].bound, plan.preemptions) == (0, 0, ())
        for tier in (plan.tiers[0], *plan.tiers[2:]):
            best = known[tier.name]
            assert best["proven"] == (best["value"] == best["bound"])
            if tier.sense == "max":
                assert tier.value <= best["bound"]
                assert tier.bound >= best["value"]
            else:
                assert tier.value >= best["bound"]
                assert tier.bound <= best["value"]
            if tier.value != best["value"]:
                break


class TestRecord:
    """What `record_best.py` keeps of two runs."""

    merged = staticmethod(script("record_best").merged)

    @staticmethod
    def entry(**tiers: tuple[int, int]) -> dict[str, Any]:
        return {
            name: {"value": value, "bound": bound, "proven": value == bound} for name, (value, bound) in tiers.items()
        }

    def test_a_worse_plan_changes_nothing_but_tightens_the_bound_up_to_where_they_part(self) -> None:
        old = self.entry(admission=(5, 5), distance=(9, 4), uplinks=(3, 1))
        new = self.entry(admission=(5, 5), distance=(10, 6), uplinks=(2, 2))
        assert self.merged(old, new) == self.entry(admission=(5, 5), distance=(9, 6), uplinks=(3, 1))

    def test_a_better_plan_replaces_all_values(self) -> None:
        old = self.entry(admission=(5, 5), distance=(9, 7), uplinks=(3, 3))
        new = self.entry(admission=(5, 5), distance=(8, 6), uplinks=(4, 0))
        assert self.merged(old, new) == self.entry(admission=(5, 5), distance=(8, 7), uplinks=(4, 0))

    def test_an_unproven_admission_never_beats_a_proven_one(self) -> None:
        old = self.entry(admission=(5, 5), distance=(9, 7))
        assert self.merged(old, self.entry(admission=(6, 8), distance=(1, 1))) == old
        assert self.merged(self.entry(admission=(6, 8), distance=(1, 1)), old) == old


class TestConverter:
    neutral: dict[str, Any] = {
        "levels": ["rack"],
        "nodes": [{"name": "a", "path": ["r1"], "gpus": 8, "cpu": 1.5, "mem_gib": 2}],
        "tenants": [{"name": "t", "weight": 1}],
        "running": [],
        "pending": [
            {
                "name": "g",
                "tenant": "t",
                "priority": 0,
                "members": 1,
                "gpus_per_member": 0,
                "cpu_per_member": 0.1,
                "mem_per_member": 0,
                "submitted_s_ago": 1.4,
            }
        ],
        "meta": {"name": "kalos-302n"},
    }

    def test_units_and_defaults(self) -> None:
        wire = script("convert").snapshot(self.neutral)
        assert wire["nodes"] == [{"name": "a", "path": ["r1"], "gpus": 8, "cpu_milli": 1500, "memory_mib": 2048}]
        assert wire["tenants"] == [{"name": "t"}]
        (gang,) = wire["pending"]
        assert gang == {
            "name": "g", "tenant": "t", "members": 1, "request": {"cpu_milli": 100}, "submitted_s": 1_699_999_999
        }  # fmt: skip
        Snapshot.model_validate(wire)

    def test_a_field_without_meaning_is_refused(self) -> None:
        node = {**self.neutral["nodes"][0], "rdma": 1}
        with pytest.raises(ValueError, match="rdma"):
            script("convert").snapshot({**self.neutral, "nodes": [node]})
