"""Tables of the victim tier, and the figures that its goals and chart share."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable, Sequence

from benchmarks.records import Side, VictimRun, VictimTrial
from benchmarks.tables import Table, percent


def alike(trials: Iterable[VictimTrial]) -> list[VictimTrial]:
    """Contended trials in which both start the same gangs, if need be asked for those: losses compare."""
    return [one for one in trials if one.contended and one.pair is not None]


def rivals(trials: Iterable[VictimTrial]) -> list[tuple[Side, Side]]:
    """(solver, greedy) of the trials whose losses compare."""
    return [one.pair for one in trials if one.contended and one.pair is not None]


def weighted_ratio(trials: Iterable[VictimTrial]) -> float | None:
    """GPU-seconds lost, Σ greedy / Σ solver, where both start the same gangs."""
    same = rivals(trials)
    solver = sum(ours.total for ours, _ in same)
    return sum(theirs.total for _, theirs in same) / solver if solver else None


def ratios(trials: Iterable[VictimTrial]) -> list[float]:
    """GPU-seconds lost, greedy / solver, trial by trial, where the solver loses any."""
    return [theirs.total / ours.total for ours, theirs in rivals(trials) if ours.total]


def grouped(run: VictimRun) -> dict[tuple[str, int, int], list[VictimTrial]]:
    """(Family, nodes, pending) → trials, in the order in which they were measured."""
    groups: dict[tuple[str, int, int], list[VictimTrial]] = {}
    for one in run.trials:
        groups.setdefault((one.family, one.nodes, one.pending), []).append(one)
    return groups


def losses_table(run: VictimRun) -> Table:
    """Who starts and what that loses, per family, nodes and pending gangs; then per family; then all."""
    header = ["family", "rounds", "running", "admitted", "greedy", "differs at", "vector never worse"]
    header += [
        "cost never worse",
        "lost: greedy/solver",
        "median",
        "worst",
        "lost, median",
        "worst",
        "evicted",
        "greedy",
    ]
    return Table(f"Victims against the greedy preemptor; {_limits(run)}", run.stamp, header, _rows(run, _losses), NOTE)


NOTE = (
    "Means of gangs admitted and evicted. *differs at*: earliest position in considered order at which the admissions "
    "differ (in how many rounds); *vector never worse*: rounds in which no gang that goes first waits under the solver "
    "and starts under the greedy preemptor. *cost never worse*: of the rounds in which somebody gives way and both "
    "start the same gangs (of their own accord, or the solver asked for the greedy's alone), those in which "
    "GPU-seconds lost by priority, then gangs evicted, are lexicographically no more. *lost: greedy/solver*: "
    "GPU-seconds on those rounds: Σ / Σ, median and worst round; *lost*: millions of GPU-seconds that the solver's "
    "plans lose on them. *evicted*: on them."
)


def proofs_table(run: VictimRun) -> Table:
    """How long it takes and how much of it is proven, in the same rows."""
    header = ["family", "rounds", "proven", "gap", "worst", "undecided", "victims ms", "worst", "total ms", "worst"]
    header += ["CPU ms", "worst", "in time", "greedy ms", "worst"]
    return Table(f"Victims: proofs and times; {_limits(run)}", run.stamp, header, _rows(run, _proofs), PROOFS_NOTE)


PROOFS_NOTE = (
    "*proven*: every `lost` tier and `broken`; *gap*: share of the losses above the bound, median of all rounds. "
    "*undecided*: gangs whose question ended at the limit, in sum. *victims*: the plan's stage that admits gangs and "
    "chooses victims; *total*: from parsed snapshot to checked plan, all tiers; *CPU*: its processor time, "
    "less than *total* where others used the machine; *in time*: rounds that kept the limit "
    "within 10 % + 50 ms. Medians and worst rounds."
)


def _limits(run: VictimRun) -> str:
    sizes: dict[float, set[int]] = {}
    for one in run.trials:
        sizes.setdefault(one.limit_s, set()).add(one.nodes)
    return ", ".join(
        f"limit {limit:g} s at {min(nodes):,}" + (f" to {max(nodes):,}" if len(nodes) > 1 else "") + " nodes"
        for limit, nodes in sorted(sizes.items())
    )


def _rows(run: VictimRun, row: Callable[[Sequence[VictimTrial]], list[str]]) -> list[list[str]]:
    groups = {f"{family} {nodes:,}/{pending}": trials for (family, nodes, pending), trials in grouped(run).items()}
    if len(groups) > 1:
        for one in run.trials:
            groups.setdefault(f"{one.family}, all", []).append(one)
        groups["all"] = run.trials
    return [[name, str(len(trials)), *row(trials)] for name, trials in groups.items()]


def _losses(trials: Sequence[VictimTrial]) -> list[str]:
    same, pairs = alike(trials), rivals(trials)
    found = [one.differs_at for one in trials if one.differs_at is not None]
    each, ratio = ratios(trials), weighted_ratio(trials)
    running = sorted(one.running for one in trials)
    return [
        f"{running[0]:,}–{running[-1]:,}" if running[0] < running[-1] else f"{running[0]:,}",
        f"{statistics.mean(len(one.solver.admitted) for one in trials):.1f}",
        f"{statistics.mean(len(one.greedy.admitted) for one in trials):.1f}",
        f"{min(found) + 1} ({len(found)})" if found else "–",
        _kept(one.admits_no_worse for one in trials),
        _kept(one.costs_no_worse for one in same),
        f"{ratio:.3f}" if ratio is not None else "–",
        f"{statistics.median(each):.3f}" if each else "–",
        f"{max(each):.2f}" if each else "–",
        f"{statistics.median(ours.total for ours, _ in pairs) / 1e6:.2f}" if pairs else "–",
        f"{max(ours.total for ours, _ in pairs) / 1e6:.2f}" if pairs else "–",
        f"{statistics.mean(ours.evicted for ours, _ in pairs):.1f}" if pairs else "–",
        f"{statistics.mean(theirs.evicted for _, theirs in pairs):.1f}" if pairs else "–",
    ]


def _proofs(trials: Sequence[VictimTrial]) -> list[str]:
    gaps = [one.gap for one in trials]
    return [
        f"{sum(one.proven for one in trials)}/{len(trials)}",
        percent(statistics.median(gaps)),
        percent(max(gaps)),
        str(sum(one.undecided for one in trials)),
        *_times([one.victim_s for one in trials]),
        *_times([one.wall_s for one in trials]),
        *_times([one.cpu_s for one in trials]),
        _kept(one.in_time for one in trials),
        *_times([one.greedy_s for one in trials]),
    ]


def _times(values: Sequence[float]) -> list[str]:
    """Median and worst in ms."""
    return [f"{1000 * statistics.median(values):,.0f}", f"{1000 * max(values):,.0f}"]


def _kept(values: Iterable[bool]) -> str:
    """How often an assertion held; in bold if not always."""
    listed = list(values)
    text = f"{sum(listed)}/{len(listed)}"
    return text if all(listed) else f"**{text}**"
