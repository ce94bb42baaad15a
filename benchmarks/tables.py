"""Tables that are printed with rich and written as Markdown."""

from __future__ import annotations

import statistics
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from rich.table import Table as Grid

from benchmarks.machine import Stamp
from benchmarks.records import DISTANCE, Run, Trial

LEXICOGRAPHIC = "lexicographic"
CLOSE = 0.02
"""A topology gap that counts as close."""


@dataclass(frozen=True)
class Table:
    """Title, stamp of the run, header and rows of text."""

    title: str
    stamp: Stamp
    header: Sequence[str]
    rows: Sequence[Sequence[str]]
    note: str = ""

    def rich(self) -> Grid:
        """For the terminal."""
        grid = Grid(title=self.title, caption=self.stamp.line(), title_justify="left", caption_justify="left")
        for i, name in enumerate(self.header):
            grid.add_column(name, justify="right" if i else "left")
        for row in self.rows:
            grid.add_row(*row)
        return grid

    def markdown(self, depth: int = 3) -> str:
        """For a page."""
        lines = [f"{'#' * depth} {self.title}", "", self.stamp.line(), ""]
        lines += ["| " + " | ".join(self.header) + " |", "|---" + "|---:" * (len(self.header) - 1) + "|"]
        lines += ["| " + " | ".join(row) + " |" for row in self.rows]
        if self.note:
            lines += ["", self.note]
        return "\n".join(lines)


def milliseconds(values: Iterable[float]) -> str:
    """Median in ms."""
    return _short(1000 * statistics.median(values))


def percent(value: float) -> str:
    """A share with as many digits as matter."""
    return f"{value:.1%}" if value else "0 %"


def _short(value: float) -> str:
    return f"{value:.1f}" if value < 10 else f"{value:,.0f}"


def by_setting(run: Run) -> dict[str, list[Trial]]:
    """Setting → its trials."""
    groups: dict[str, list[Trial]] = {}
    for trial in run.trials:
        groups.setdefault(trial.setting, []).append(trial)
    return groups


def excess(trials: Iterable[Trial], strategy: str = "") -> list[float]:
    """Topology cost of a greedy (default: the best) over the solver's, as a share, on trials of the same gangs."""
    result = []
    for trial in trials:
        row = trial.baseline(strategy) if strategy else trial.best
        if row.vector == trial.vector:
            result.append(row.units / trial.last.units - 1 if trial.last.units else 0.0)
    return result


def _signed(values: Sequence[float]) -> str:
    if not values:
        return "–"
    value = statistics.median(values)
    return f"{value:+.1%}" if abs(value) >= 0.0005 else "0 %"


def solver_table(run: Run) -> Table:
    """Per setting: what the solver reaches, how sure that is, how long it took, and the greedies beside it."""
    header = ["setting", "seeds", "admitted", "cost", LEXICOGRAPHIC, "best greedy"]
    for limit in run.limits:
        header += [f"gap at {limit:g} s (worst)", f"≤ 2 % at {limit:g} s", f"proven at {limit:g} s"]
    header += ["all tiers", "first answer ms", "to bound ms", "to proof ms", "greedy ms"]
    groups = by_setting(run)
    rows = [_solver_row(run, setting, trials) for setting, trials in groups.items()]
    if len(groups) > 1:
        rows.append(_solver_row(run, "all", run.trials))
    return Table(run.title, run.stamp, header, rows, SOLVER_NOTE)


SOLVER_NOTE = (
    "Medians over seeds. *cost*: Σ weight × domains touched over gangs of two members or more, without the −1; gaps "
    "are relative to it. *lexicographic*, *best greedy*: their cost over the solver's, where they admit the same gangs "
    "(–: nowhere). *proven*: admission and topology tier; *all tiers*: every tier, at the longest limit. *to bound*: "
    "until the topology tier had its last bound; *to proof*: until it was proven, over the seeds on which it was. "
    "*greedy ms*: lexicographic."
)


def _solver_row(run: Run, setting: str, trials: list[Trial]) -> list[str]:
    admitted = statistics.mean(trial.last.admitted for trial in trials)
    pending = statistics.mean(trial.pending for trial in trials)
    row = [
        setting,
        str(len(trials)),
        f"{admitted:.1f} / {pending:.0f}",
        f"{statistics.median(trial.last.units for trial in trials):,.0f}",
        _signed(excess(trials, LEXICOGRAPHIC)),
        _signed(excess(trials)),
    ]
    for limit in run.limits:
        answers = [trial.at(limit) for trial in trials]
        gaps = [answer.gap for answer in answers]
        row += [
            f"{percent(statistics.median(gaps))} ({percent(max(gaps))})",
            f"{sum(gap <= CLOSE for gap in gaps)}/{len(gaps)}",
            f"{sum(answer.proven for answer in answers)}/{len(answers)}",
        ]
    last = [trial.last for trial in trials]
    proofs = [answer.settled_s or answer.wall_s for answer in last if answer.proven]
    return [
        *row,
        f"{sum(answer.optimal for answer in last)}/{len(last)}",
        milliseconds(trial.first.wall_s for trial in trials),
        milliseconds(answer.bound_s or answer.wall_s for answer in last),
        milliseconds(proofs) if proofs else "–",
        milliseconds(trial.baseline(LEXICOGRAPHIC).wall_s for trial in trials),
    ]


def strategies_table(run: Run) -> Table:
    """The solver against every greedy over all trials of a suite."""
    finest = _finest(run)
    header = ["strategy", "same gangs", "first gangs lost", "cost", "worst", "uplinks", finest, "intact.node", "ms"]
    trials = run.trials
    shown = run.limits[-1]
    rows = [
        [
            f"solver, ≤ {shown:g} s",
            f"{len(trials)}/{len(trials)}",
            "0",
            "0 %",
            "0 %",
            *["0"] * 3,
            milliseconds(trial.last.wall_s for trial in trials),
        ]
    ]
    rows += [_strategy_row(trials, row.name, finest) for row in trials[0].baselines]
    return Table(f"{run.title}: solver and greedies", run.stamp, header, rows, STRATEGIES_NOTE)


STRATEGIES_NOTE = (
    "Differences to the solver's plan (its own row is 0 by definition). *same gangs*: trials in which the same gangs "
    "start; *first gangs lost*: trials in which a gang that goes first waits where the solver starts it. The rest over "
    "trials of the same gangs: median and worst topology cost, means of shared uplinks, of intact domains of the "
    "finest level lost, of intact nodes lost; a negative figure is bought with a worse earlier tier. *ms*: median wall "
    "time."
)


def _finest(run: Run) -> str:
    names = [tier.name for tier in run.trials[0].last.tiers if tier.name.startswith("intact.")]
    return names[-2] if len(names) > 1 else names[-1]


def _strategy_row(trials: list[Trial], name: str, finest: str) -> list[str]:
    same = [trial for trial in trials if trial.baseline(name).vector == trial.vector]
    costs = excess(trials, name)
    row = [
        name,
        f"{len(same)}/{len(trials)}",
        str(sum(trial.baseline(name).vector < trial.vector for trial in trials)),
        _signed(costs),
        f"{max(costs):+.1%}" if costs else "–",
    ]
    row += [_difference(same, name, tier) for tier in ("uplinks", finest, "intact.node")]
    return [*row, milliseconds(trial.baseline(name).wall_s for trial in trials)]


def _difference(trials: list[Trial], name: str, tier: str) -> str:
    values = []
    for trial in trials:
        names = {t.name: t.value for t in trial.last.tiers}
        # Levels differ between snapshots of instances/: the finest one is then the snapshot's own.
        key = tier if tier in names else [t for t in names if t.startswith("intact.")][-2]
        values.append(trial.baseline(name).values[key] - names[key])
    return f"{statistics.mean(values):+.1f}" if values else "–"


def topology_gap(trial: Trial) -> float:
    """Cost above the best bound known of a trial, as a share: 0 is proven optimal."""
    bound = max(answer.tier(DISTANCE).bound for answer in trial.answers)
    return (trial.last.tier(DISTANCE).value - bound) / trial.last.units if trial.last.units else 0.0
