"""Goals beside measured values. A goal whose figures are not there is marked as not measured."""

from __future__ import annotations

import statistics
from collections.abc import Callable
from dataclasses import dataclass

from benchmarks.records import Answer, Run, Series, Trial
from benchmarks.speed import medians
from benchmarks.tables import CLOSE, LEXICOGRAPHIC, excess, percent
from benchmarks.timings import exponent, figures, labels, percentile

Runs = dict[str, Run]
Timings = dict[str, Series]
Found = tuple[str, bool | None] | None
"""Measured value and whether it meets the goal (None: no threshold); None if not measured."""


MARKS = {True: "met", False: "**missed**", None: "–"}


@dataclass(frozen=True)
class Goal:
    """One line of the goals table."""

    workload: str
    aim: str
    measure: Callable[[Runs, Timings], Found]

    def row(self, runs: Runs, timings: Timings) -> list[str]:
        """Workload, aim, measured, mark."""
        found = self.measure(runs, timings)
        if found is None:
            return [self.workload, self.aim, "not measured", "–"]
        text, met = found
        return [self.workload, self.aim, text, MARKS[met]]


def _first_no_worse(runs: Runs, timings: Timings) -> Found:
    if "instances" not in runs:
        return None
    trials = runs["instances"].trials
    good = sum(trial.first_no_worse for trial in trials)
    return f"{good}/{len(trials)}", good == len(trials)


def _first_in_time(runs: Runs, timings: Timings) -> Found:
    if "instances" not in runs:
        return None
    trials = runs["instances"].trials
    good = sum(trial.first.wall_s <= 2 * trial.best.wall_s + 0.02 for trial in trials)
    per_node = statistics.median(1e6 * trial.first.wall_s / trial.nodes for trial in trials)
    return f"{good}/{len(trials)}; median {per_node:.0f} µs a node", good == len(trials)


def _instances_proven(runs: Runs, timings: Timings) -> Found:
    if "instances" not in runs:
        return None
    answers = [trial.at(0.3) for trial in runs["instances"].trials]
    good = sum(answer.optimal for answer in answers)
    return f"{good}/{len(answers)}", good >= 0.9 * len(answers)


def _default_policy(runs: Runs, timings: Timings) -> Found:
    if "instances-preempt" not in runs:
        return None
    answers = [trial.at(5.0) for trial in runs["instances-preempt"].trials]
    tiers = [tier for answer in answers for tier in answer.tiers]
    good = sum(answer.optimal for answer in answers)
    return f"{good}/{len(answers)} snapshots, {sum(tier.proven for tier in tiers)}/{len(tiers)} tiers", None


def _at(name: str, limit: float, judge: Callable[[Answer], bool], share: float) -> Callable[[Runs, Timings], Found]:
    """Share of a suite's trials whose answer at a limit passes."""

    def measure(runs: Runs, timings: Timings) -> Found:
        if name not in runs or limit not in runs[name].limits:
            return None
        answers = [trial.at(limit) for trial in runs[name].trials]
        good = sum(map(judge, answers))
        return f"{good}/{len(answers)}", good >= share * len(answers)

    return measure


def _against_lexicographic(name: str) -> Callable[[Runs, Timings], Found]:
    def measure(runs: Runs, timings: Timings) -> Found:
        if name not in runs:
            return None
        trials = runs[name].trials
        values = excess(trials, LEXICOGRAPHIC)
        lost = sum(trial.baseline(LEXICOGRAPHIC).vector < trial.vector for trial in trials)
        text = f"first gangs lost in {lost}/{len(trials)}"
        if values:
            text = f"cost {statistics.median(values):+.1%} (worst {max(values):+.1%}), {text}"
        return text, None

    return measure


def _reached(names: list[str]) -> Callable[[Runs, Timings], Found]:
    """Proven trials and the worst gap over suites."""

    def measure(runs: Runs, timings: Timings) -> Found:
        trials: list[Trial] = [trial for name in names if name in runs for trial in runs[name].trials]
        if not trials:
            return None
        gaps = [trial.last.gap for trial in trials]
        text = f"proven {sum(trial.last.proven for trial in trials)}/{len(trials)}, "
        return f"{text}gap median {percent(statistics.median(gaps))}, worst {percent(max(gaps))}", None

    return measure


def _pods(runs: Runs, timings: Timings) -> Found:
    if "pods" not in timings:
        return None
    series = timings["pods"]
    wanted = [label for label in labels(series) if label in ("750 gangs × 4 pods", "3 gangs × 1,000 pods")]
    rates = {label: statistics.median(figures(series, label, "first_pods_per_s")) for label in wanted}
    text = "; ".join(f"{label}: {rate:,.0f}" for label, rate in rates.items())
    return text, all(rate >= 20_000 for rate in rates.values())


def _batches(runs: Runs, timings: Timings) -> Found:
    if "batches" not in timings:
        return None
    first, full = (
        1000 * percentile(figures(timings["batches"], "50 pods", key), 0.95) for key in ("first_s", "full_s")
    )
    return f"first answer {first:.1f} ms, solve with 20 ms limit {full:.1f} ms", first <= 30


def _large(key: str, factor: float, unit: str, most: float) -> Callable[[Runs, Timings], Found]:
    """The worst label's median of a time, or the worst peak, of the 16,384-node series."""
    middle = max if key == "peak_mib" else statistics.median

    def measure(runs: Runs, timings: Timings) -> Found:
        if "large" not in timings:
            return None
        series = timings["large"]
        worst = factor * max(middle(figures(series, label, key)) for label in labels(series))
        return f"{worst:,.0f} {unit}", worst <= most

    return measure


def _codec(runs: Runs, timings: Timings) -> Found:
    if "large" not in timings:
        return None
    points = timings["large"].points
    worst = 1000 * statistics.median(point.values["parse_s"] + point.values["encode_s"] for point in points)
    return f"{worst:.0f} ms", worst <= 150


def _large_gap(runs: Runs, timings: Timings) -> Found:
    if "large" not in runs:
        return None
    gaps = [trial.last.gap for trial in runs["large"].trials]
    good = sum(gap <= 0.01 for gap in gaps)
    text = f"≤ 1 % on {good}/{len(gaps)}, worst {percent(max(gaps))}"
    return text, good >= 0.8 * len(gaps) and max(gaps) <= 0.025


def _copies(runs: Runs, timings: Timings) -> Found:
    if "copies" not in timings:
        return None
    series = timings["copies"]
    label = series.points[0].label
    first, variables = (medians(series, label, key) for key in ("first_s", "variables"))
    low, high = min(first), max(first)
    times = f"first answer × {first[high] / first[low]:.1f} from {low:g} to {high:g} copies"
    grown = variables[high] > 1.1 * max(variables[low], 1)
    text = f"{times}, model {variables[low]:,.0f} → {variables[high]:,.0f} variables"
    return text, not grown and first[high] <= 2 * first[low]


def _growth(runs: Runs, timings: Timings) -> Found:
    if "growth" not in timings:
        return None
    series = timings["growth"]
    slopes = {
        f"{name} over {label}": exponent(medians(series, label, key))
        for label in labels(series)
        for key, name in (("first_s", "first answer"), ("bound_s", "bound"))
    }
    return "; ".join(f"{name} {slope:.2f}" for name, slope in slopes.items()), max(slopes.values()) <= 1.1


def _limits(runs: Runs, timings: Timings) -> Found:
    answers = [answer for run in runs.values() for trial in run.trials for answer in trial.answers if answer.limit_s]
    if not answers:
        return None
    late = [a for a in answers if a.wall_s > 1.1 * (a.limit_s or 0) + 0.05]
    worst = max((a.wall_s - 1.1 * (a.limit_s or 0) - 0.05 for a in answers), default=0.0)
    text = f"{len(answers) - len(late)}/{len(answers)}" + (f", worst {1000 * worst:.0f} ms beyond" if late else "")
    return text, not late


def _bounds(runs: Runs, timings: Timings) -> Found:
    trials = [trial for run in runs.values() for trial in run.trials]
    if not trials:
        return None
    wrong = [f"{trial.suite} {trial.setting} seed {trial.seed}" for trial in trials if trial.refuted()]
    text = f"{len(trials) - len(wrong)}/{len(trials)}" + (f"; wrong: {', '.join(wrong[:3])}" if wrong else "")
    return text, not wrong


def _reclaim(runs: Runs, timings: Timings) -> Found:
    if "reclaim" not in timings:
        return None
    series = timings["reclaim"]
    label = series.points[0].label
    times = figures(series, label, "full_s")
    proven, worse = (figures(series, label, key) for key in ("proven", "never_worse"))
    text = (
        f"median {statistics.median(times):.2f} s, worst {max(times):.2f} s, {sum(proven):.0f}/{len(proven)} proven, "
        f"never worse than greedy {sum(worse):.0f}/{len(worse)}; a public report of 12 minutes includes API and pod "
        "actions"
    )
    return text, max(times) <= 5 and all(worse)


GOALS = [
    Goal("instances/", "first answer at least as good as the best greedy, on all", _first_no_worse),
    Goal("instances/", "first answer within 2 × the best greedy + 20 ms, on all", _first_in_time),
    Goal("instances/", "all tiers proven in 0.3 s on ≥ 90 %", _instances_proven),
    Goal("instances/, default policy", "all tiers proven in 5 s", _default_policy),
    Goal("2,048 nodes", "topology gap ≤ 2 % in 1 s on 60/60", _at("runs", 1.0, lambda a: a.gap <= CLOSE, 1)),
    Goal("2,048 nodes", "topology tier proven in 1 s on ≥ 48/60", _at("runs", 1.0, lambda a: a.proven, 0.8)),
    Goal("2,048 nodes", "topology tier proven in 10 s on ≥ 54/60", _at("runs", 10.0, lambda a: a.proven, 0.9)),
    Goal("2,048 nodes", "lexicographic greedy against the solver", _against_lexicographic("runs")),
    Goal("5,000 nodes, 50 racks", "≥ 20,000 pods/s to a checked plan with a bound", _pods),
    Goal("500 nodes, batches of 50", "p95 ≤ 30 ms", _batches),
    Goal("16,384 nodes", "first answer ≤ 0.5 s", _large("first_s", 1000, "ms", 500)),
    Goal("16,384 nodes", "topology gap ≤ 1 % in 5 s on ≥ 80 %, ≤ 2.5 % on all", _large_gap),
    Goal("16,384 nodes", "peak memory ≤ 1.5 GiB", _large("peak_mib", 1, "MiB", 1536)),
    Goal("16,384 nodes", "parse, validate and encode ≤ 150 ms", _codec),
    Goal("trace-like", "exact or an honest bound", _reached(["trace"])),
    Goal("odd sizes, models, 3 levels", "exact or an honest bound", _reached(["odd"])),
    Goal("single nodes free", "exact or an honest bound", _reached(["scattered"])),
    Goal("many equal gangs; field report 34", "exact or an honest bound", _reached(["copies"])),
    Goal("equal gangs", "cost independent of the copies", _copies),
    Goal("growth", "exponents ≤ 1.1", _growth),
    Goal("500 nodes, 50 gangs reclaiming", "within 5 s of solve time", _reclaim),
    Goal("every solve", "time limit kept within 10 % + 50 ms", _limits),
    Goal("every solve", "no bound above a plan at hand (greedies, first answer)", _bounds),
]
