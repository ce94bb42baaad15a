"""Charts of the saved results."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from functools import partial
from pathlib import Path

import matplotlib

matplotlib.use("Agg")

import matplotlib.pyplot as plt
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, PercentFormatter

from benchmarks.records import DISTANCE, Run, Series, VictimRun
from benchmarks.speed import medians
from benchmarks.tables import by_setting
from benchmarks.timings import exponent, labels
from benchmarks.victim_tables import weighted_ratio

plt.rcParams.update({"font.size": 10, "axes.spines.top": False, "axes.spines.right": False, "axes.axisbelow": True})
COLOURS = ["#0b6e99", "#d9730d", "#6b9e3f", "#9065b0", "#b3452c", "#787774", "#c29343"]
SOLVER = "#0b6e99"


def draw(runs: dict[str, Run], series: dict[str, Series], out: Path, victims: VictimRun | None = None) -> list[Path]:
    """Every chart whose figures are there."""
    suites = [name for name in ("runs", "scattered", "trace", "odd") if name in runs]
    made: list[tuple[str, Callable[[], None]]] = [(f"cost-{name}", partial(_cost, runs[name])) for name in suites]
    if "instances" in runs:
        made.append(("instances", partial(_instances, runs["instances"])))
    if "curves" in series:
        made.append(("curves", partial(_curves, series["curves"])))
    if "growth" in series:
        made.append(("growth", partial(_growth, series["growth"])))
    if "batches" in series:
        made.append(("batches", partial(_batches, series["batches"])))
    if victims is not None:
        made.append(("victims", partial(_victims, victims)))
    paths = []
    for name, paint in made:
        paint()
        path = out / f"{name}.png"
        plt.savefig(path, dpi=110, bbox_inches="tight", metadata={"Software": None})
        plt.close()
        paths.append(path)
    return paths


def _foot(stamp: str) -> None:
    plt.figtext(0.01, -0.06, stamp.split(" · `")[0], fontsize=7, color="#787774")


def _percent_axis(axes: Axes) -> None:
    axes.yaxis.set_major_formatter(PercentFormatter(1.0, decimals=0))
    axes.grid(axis="y", alpha=0.3)


def _cost(run: Run) -> None:
    """Bars: cost above the proven bound, per setting and strategy, where all admit the solver's gangs."""
    groups = by_setting(run)
    names = ["solver", *(row.name for row in run.trials[0].baselines)]
    _, axes = plt.subplots(figsize=(8.5, 4))
    width = 0.8 / len(names)
    for i, name in enumerate(names):
        for k, trials in enumerate(groups.values()):
            values = []
            for trial in trials:
                units, vector = trial.last.units, trial.vector
                if name != "solver":
                    units, vector = trial.baseline(name).units, trial.baseline(name).vector
                if vector == trial.vector and trial.last.units:
                    tier = trial.last.tier(DISTANCE)
                    floor = trial.last.units - (tier.value - tier.bound)
                    values.append(units / floor - 1)
            spot = k + (i - (len(names) - 1) / 2) * width
            label = name.replace("_", " ") if k == 0 else None
            height = statistics.median(values) if values else 0.0
            axes.bar(spot, height, width * 0.92, color=COLOURS[i % len(COLOURS)], label=label)
            if not values:
                axes.annotate("other\ngangs", (spot, 0), ha="center", va="bottom", fontsize=6, color="#787774")
    axes.set_xticks(range(len(groups)), list(groups))
    axes.set_xlabel("share of nodes taken / gangs pending" if run.suite in ("runs", "scattered") else "setting")
    axes.set_ylabel("topology cost above the bound")
    _percent_axis(axes)
    axes.set_title(f"{run.title}\nmedian cost above the solver's bound, {run.limits[-1]:g} s", loc="left", fontsize=11)
    axes.legend(frameon=False, fontsize=9, loc="upper left", bbox_to_anchor=(1, 1))
    _foot(run.stamp.line())


def _instances(run: Run) -> None:
    """Bars: time of the first answer beside the best greedy's and the goal, per snapshot."""
    trials = sorted(run.trials, key=lambda trial: trial.nodes)
    _, axes = plt.subplots(figsize=(8.5, 4))
    for k, trial in enumerate(trials):
        greedy, first = 1000 * trial.best.wall_s, 1000 * trial.first.wall_s
        axes.barh(k + 0.19, first, 0.36, color=SOLVER, label="first answer, checked, with bounds" if not k else None)
        axes.barh(k - 0.19, greedy, 0.36, color="#c9c7c3", label="best greedy alone" if not k else None)
        goal = 2 * greedy + 20
        axes.plot(
            [goal, goal], [k - 0.4, k + 0.4], color="#b3452c", lw=2, label="2 × greedy + 20 ms" if not k else None
        )
    axes.set_yticks(range(len(trials)), [trial.setting for trial in trials], fontsize=9)
    axes.set_xlabel("wall time, ms")
    axes.grid(axis="x", alpha=0.3)
    axes.set_title("Snapshots of instances/: time to the first answer", loc="left", fontsize=11)
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    _foot(run.stamp.line())


def _victims(run: VictimRun) -> None:
    """Two panels of bars per family and nodes: what the greedy preemptor loses beyond the solver; what is proven."""
    families = list(dict.fromkeys(one.family for one in run.trials))
    sizes = sorted({one.nodes for one in run.trials})
    _, panels = plt.subplots(1, 2, figsize=(10.5, 4))
    width = 0.8 / len(families)
    for i, family in enumerate(families):
        for k, nodes in enumerate(sizes):
            trials = [one for one in run.trials if (one.family, one.nodes) == (family, nodes)]
            x, name = k + (i - len(families) / 2 + 0.5) * width, family if not k else None
            if trials:
                ratio = weighted_ratio(trials)
                panels[0].bar(x, (ratio or 1) - 1, width, color=COLOURS[i], label=name)
                share = sum(one.proven for one in trials) / len(trials)
                panels[1].bar(x, share, width, color=COLOURS[i], label=name)
    for axes in panels:
        axes.set_xticks(range(len(sizes)), [f"{nodes:,}" for nodes in sizes])
        axes.set_xlabel("nodes (1 to 40 gangs pending)")
        _percent_axis(axes)
    panels[0].set_title("Greedy preemptor: GPU-seconds lost beyond the solver, Σ / Σ", loc="left", fontsize=10)
    panels[0].legend(frameon=False, fontsize=9)
    panels[1].set_title("Victims proven least", loc="left", fontsize=10)
    panels[1].set_ylim(0, 1.02)
    _foot(run.stamp.line())


def _curves(series: Series) -> None:
    """Lines: gap over the time limit, one line per setting; a ring marks a proof."""
    _, axes = plt.subplots(figsize=(8.5, 4.2))
    for i, label in enumerate(labels(series)):
        gaps, proven = medians(series, label, "gap"), medians(series, label, "proven")
        colour = COLOURS[i % len(COLOURS)]
        axes.plot(list(gaps), list(gaps.values()), marker=".", color=colour, label=label)
        closed = [x for x in gaps if proven[x] == 1]
        axes.plot(closed[:1], [gaps[x] for x in closed[:1]], marker="o", ms=9, mfc="none", color=colour, ls="none")
    axes.axhline(0.02, color="#787774", lw=0.8, ls="--")
    axes.annotate("2 %", (1, 0.02), xycoords=("axes fraction", "data"), ha="right", va="bottom", color="#787774")
    axes.set_xscale("log")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:g}"))
    axes.set_xlabel("time limit of the whole solve, s")
    axes.set_ylabel("gap of the topology tier")
    axes.set_ylim(bottom=-0.003)
    _percent_axis(axes)
    axes.set_title("2,048 nodes, contiguous runs: gap over time (ring: proven)", loc="left", fontsize=11)
    axes.legend(frameon=False, fontsize=9, title="taken / pending", ncols=2)
    _foot(series.stamp.line())


def _growth(series: Series) -> None:
    """Two log-log panels: time against nodes and against gangs, with fitted exponents."""
    _, panels = plt.subplots(1, 2, figsize=(9.5, 4), sharey=True)
    lines = {"first_s": "first answer", "bound_s": "to bound", "greedy_s": "quickest greedy alone"}
    for axes, label in zip(panels, labels(series), strict=True):
        for i, (key, text) in enumerate(lines.items()):
            points = medians(series, label, key)
            slope = exponent(points)
            axes.plot(list(points), list(points.values()), marker="o", color=COLOURS[i], label=f"{text}: {slope:.2f}")
        axes.set_xscale("log")
        axes.set_yscale("log")
        axes.set_xlabel("nodes (100 gangs pending)" if label == "nodes" else "gangs pending (16,384 nodes)")
        axes.xaxis.set_major_formatter(FuncFormatter(lambda x, _: f"{x:,.0f}"))
        axes.yaxis.set_major_formatter(FuncFormatter(lambda y, _: f"{y:g}"))
        axes.grid(alpha=0.3)
        axes.legend(frameon=False, fontsize=9, title="exponent", loc="upper left")
    low, high = panels[0].get_ylim()
    panels[0].set_ylim(low, 8 * high)
    panels[0].set_ylabel("wall time, s")
    panels[0].set_title("Growth of time against size", loc="left", fontsize=11)
    _foot(series.stamp.line())


def _batches(series: Series) -> None:
    """Distribution of the time per batch."""
    _, axes = plt.subplots(figsize=(8.5, 3.4))
    for i, (key, text) in enumerate((("first_s", "first answer"), ("full_s", "solve with a limit of 20 ms"))):
        values = sorted(1000 * point.values[key] for point in series.points)
        shares = [(k + 1) / len(values) for k in range(len(values))]
        axes.step(values, shares, where="post", color=COLOURS[i], label=text)
    axes.axvline(30, color="#b3452c", lw=1.5, label="goal for p95: 30 ms")
    axes.axhline(0.95, color="#787774", lw=0.8, ls="--")
    axes.set_xlim(left=0)
    axes.set_xlabel("wall time of a batch of 50 pods on 500 nodes, ms")
    axes.set_ylabel("share of batches")
    _percent_axis(axes)
    axes.set_title("Batches of 50 pods", loc="left", fontsize=11)
    axes.legend(frameon=False, fontsize=9, loc="lower right")
    _foot(series.stamp.line())
