"""docs/benchmarks.md from the saved results."""

from __future__ import annotations

import os
from pathlib import Path

from benchmarks.goals import GOALS, Runs, Timings
from benchmarks.machine import ROOT
from benchmarks.records import VictimRun
from benchmarks.speed import EXPERIMENTS
from benchmarks.suites import SUITES
from benchmarks.tables import solver_table, strategies_table
from benchmarks.timings import series_table
from benchmarks.victim_goals import VICTIM_GOALS
from benchmarks.victim_tables import losses_table, proofs_table

PAGE = ROOT / "docs" / "benchmarks.md"

INTRODUCTION = """\
# Benchmarks

Written by `python -m benchmarks report` from the results in `benchmarks/results/`; `benchmarks/README.md` tells how to
make them again. Every table states machine, versions, date, commit and command of its run. Greedies run in the same
process on the same arrays as the solver. Time is wall time from parsed snapshot to checked plan, kernels warm, policy
`workers: 2`. Gaps are relative to Σ weight × domains touched (without the −1) over admitted gangs of two members or
more.
"""


IN_VICTIMS = "reclaim"
"""Series that stands under "Victims"."""


def page(
    runs: Runs, timings: Timings, charts: list[Path], target: Path = PAGE, victims: VictimRun | None = None
) -> str:
    """The whole page as Markdown."""
    parts = [INTRODUCTION, _goals(runs, timings, victims), "## Quality"]
    for name in SUITES:
        if name in runs:
            parts += [solver_table(runs[name]).markdown(), *_charts(name, charts, target)]
            parts.append(strategies_table(runs[name]).markdown(4))
    parts += _charts("curves", charts, target)
    parts += _victims(timings, victims, charts, target)
    if timings:
        parts.append("## Speed")
    for name in EXPERIMENTS:
        if name in timings and name != IN_VICTIMS:
            parts += [
                series_table(timings[name]).markdown(),
                *(_charts(name, charts, target) if name != "curves" else []),
            ]
    return "\n\n".join(part.strip() for part in parts) + "\n"


def _victims(timings: Timings, victims: VictimRun | None, charts: list[Path], target: Path) -> list[str]:
    """Who gives way: the families and the reclaiming gangs."""
    parts = []
    if victims is not None:
        parts += [losses_table(victims).markdown(), *_charts("victims", charts, target)]
        parts.append(proofs_table(victims).markdown())
    if IN_VICTIMS in timings:
        parts.append(series_table(timings[IN_VICTIMS]).markdown())
    return ["## Victims", VICTIMS, *parts] if parts else []


VICTIMS = """\
Pending gangs start only if running ones give way. *Greedy*: gang by gang, victims of lowest priority first, then the
newest, until it fits, and a reprieve pass. Families, from `generators/contended.py`: `run`, contiguous runs of whole
nodes; `scat`, half of the runs on random nodes; `share`, as `scat` with members of 1, 2, 4 or 8 GPUs, so that several
gangs share a node; 70 % of the gangs are preemptible in these three, all of them in `hard`.
"""


def _goals(runs: Runs, timings: Timings, victims: VictimRun | None) -> str:
    lines = ["## Goals", "", "| workload | goal | measured | |", "|---|---|---|---|"]
    lines += ["| " + " | ".join(goal.row(runs, timings)) + " |" for goal in GOALS]
    lines += ["| " + " | ".join(goal.row(victims)) + " |" for goal in VICTIM_GOALS]
    stamps = [run.stamp for run in runs.values()] + [one.stamp for one in timings.values()]
    stamps += [victims.stamp] if victims is not None else []
    dates, commits = (sorted({getattr(stamp, key) for stamp in stamps}) for key in ("date", "commit"))
    if dates:
        lines += ["", f"Measured {dates[0]} to {dates[-1]}, commit {', '.join(commits)}."]
    return "\n".join(lines)


def _charts(name: str, charts: list[Path], target: Path) -> list[str]:
    """Pictures of a suite or series, as links from the page."""
    found = [path for path in charts if path.stem in (name, f"cost-{name}")]
    return [f"![{path.stem}]({Path(os.path.relpath(path, target.parent)).as_posix()})" for path in found]
