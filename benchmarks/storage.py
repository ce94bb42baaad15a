"""Saved results: one JSON file per suite or series."""

from __future__ import annotations

from pathlib import Path

from benchmarks.machine import ROOT
from benchmarks.records import Run, Series

RESULTS = ROOT / "benchmarks" / "results"


def save(result: Run | Series, out: Path) -> Path:
    """Write one result; returns its file."""
    out.mkdir(parents=True, exist_ok=True)
    name = f"quality-{result.suite}" if isinstance(result, Run) else f"speed-{result.name}"
    path = out / f"{name}.json"
    path.write_text(result.model_dump_json() + "\n", encoding="utf-8")
    return path


def runs(out: Path) -> dict[str, Run]:
    """Suite → its last saved run."""
    read = (Run.model_validate_json(path.read_bytes()) for path in sorted(out.glob("quality-*.json")))
    return {run.suite: run for run in read}


def series(out: Path) -> dict[str, Series]:
    """Name → its last saved series."""
    read = (Series.model_validate_json(path.read_bytes()) for path in sorted(out.glob("speed-*.json")))
    return {one.name: one for one in read}
