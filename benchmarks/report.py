"""docs/benchmarks.md from the saved results."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.goals import GOALS, Runs, Timings
from benchmarks.machine import ROOT
from benchmarks.speed import EXPERIMENTS
from benchmarks.suites import SUITES
from benchmarks.tables import solver_table, strategies_table
from benchmarks.timings import series_table

PAGE = ROOT / "docs" / "benchmarks.md"

INTRODUCTION = """\
# Benchmarks

Written by `python -m benchmarks report` from the results in `benchmarks/results/`; `benchmarks/README.md` tells how to
make them again. Every table states machine, versions, date, commit and command of its run. Greedies run in the same
process on the same arrays as the solver. Time is wall time from parsed snapshot to checked plan, kernels warm, policy
`workers: 2`. Gaps are relative to Σ weight × domains touched (without the −1) over admitted gangs of two members or
more.
"""


def page(runs: Runs, timings: Timings, charts: list[Path], target: Path = PAGE) -> str:
    """The whole page as Markdown."""
    parts = [INTRODUCTION, _goals(runs, timings), "## Quality"]
    for name in SUITES:
        if name in runs:
            parts += [solver_table(runs[name]).markdown(), *_charts(name, charts, target)]
            parts.append(strategies_table(runs[name]).markdown(4))
    parts += _charts("curves", charts, target)
    if timings:
        parts.append("## Speed")
    for name in EXPERIMENTS:
        if name in timings:
            parts += [
                series_table(timings[name]).markdown(),
                *(_charts(name, charts, target) if name != "curves" else []),
            ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _goals(runs: Runs, timings: Timings) -> str:
    lines = ["## Goals", "", "| workload | goal | measured | |", "|---|---|---|---|"]
    lines += ["| " + " | ".join(goal.row(runs, timings)) + " |" for goal in GOALS]
    stamps = [run.stamp for run in runs.values()] + [one.stamp for one in timings.values()]
    dates, commits = (sorted({getattr(stamp, key) for stamp in stamps}) for key in ("date", "commit"))
    if dates:
        lines += ["", f"Measured {dates[0]} to {dates[-1]}, commit {', '.join(commits)}."]
    return "\n".join(lines)


def _charts(name: str, charts: list[Path], target: Path) -> list[str]:
    """Pictures of a suite or series, as links from the page."""
    found = [path for path in charts if path.stem in (name, f"cost-{name}")]
    return [f"![{path.stem}]({Path(os.path.relpath(path, target.parent)).as_posix()})" for path in found]
