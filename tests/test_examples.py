"""The teaching examples: every answer was worked out by hand from docs/model.md."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from gangfit.models import Snapshot
from gangfit.solver import check, solve

FOLDER = Path(__file__).parents[1] / "instances" / "examples"
REQUESTS = sorted(FOLDER.glob("*.request.json"))


def test_every_request_has_an_answer_and_a_line() -> None:
    names = [path.name.removesuffix(".request.json") for path in REQUESTS]
    assert len(names) == 15
    assert names == sorted(path.name.removesuffix(".answer.json") for path in FOLDER.glob("*.answer.json"))
    text = (FOLDER / "README.md").read_text(encoding="utf-8")
    assert all(f"| {name} |" in text for name in names)


@pytest.mark.parametrize("path", REQUESTS, ids=lambda path: path.name.removesuffix(".request.json"))
def test_example(path: Path) -> None:
    snapshot = Snapshot.model_validate_json(path.read_bytes())
    answer = json.loads(path.with_name(path.name.replace(".request.", ".answer.")).read_bytes())
    plan = solve(snapshot)
    report = check(snapshot, plan)
    assert report.ok, report.violations
    assert plan.status == answer["status"]
    assert {tier.name: tier.value for tier in plan.tiers} == answer["tiers"]
    assert {tier.name: tier.value for tier in report.tiers} == answer["tiers"]
    placed = {placement.gang: placement.nodes() for placement in plan.placements}
    assert placed in answer.get("placements_any_of", [answer.get("placements")])
    assert {blocked.gang: blocked.reason for blocked in plan.blocked} == answer["blocked"]
    preempted = {p.gang: [p.for_gang, p.reason, p.drain.lost_gpu_s] for p in plan.preemptions}
    assert preempted == answer.get("preempted", {})
    assert answer.get("considered") in (None, [step.gang for step in plan.considered])
    shares = {fair.tenant: [fair.share_before, fair.share_after] for fair in plan.fairness}
    assert answer.get("shares") in (None, shares)
