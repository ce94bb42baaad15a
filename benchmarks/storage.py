"""Saved results: one JSON file per suite or series."""

from __future__ import annotations

from pathlib import Path

from benchmarks.machine import ROOT
from benchmarks.records import Run, Series, VictimRun

RESULTS = ROOT / "benchmarks" / "results"


def save(result: Run | Series | VictimRun, out: Path) -> Path:
    """Write one result; returns its file."""
    out.mkdir(parents=True, exist_ok=True)
    path = out / f"{_name(result)}.json"
    path.write_text(result.model_dump_json() + "\n", encoding="utf-8")
    return path


def _name(result: Run | Series | VictimRun) -> str:
    if isinstance(result, VictimRun):
        return "victims"
    return f"quality-{result.suite}" if isinstance(result, Run) else f"speed-{result.name}"


def victims(out: Path) -> VictimRun | None:
    """The last saved run of `victims`."""
    path = out / "victims.json"
    return VictimRun.model_validate_json(path.read_bytes()) if path.exists() else None


def runs(out: Path) -> dict[str, Run]:
    """Suite → its last saved run."""
    read = (Run.model_validate_json(path.read_bytes()) for path in sorted(out.glob("quality-*.json")))
    return {run.suite: run for run in read}


def series(out: Path) -> dict[str, Series]:
    """Name → its last saved series."""
    read = (Series.model_validate_json(path.read_bytes()) for path in sorted(out.glob("speed-*.json")))
    return {one.name: one for one in read}
