"""Goals of the victim tier beside measured values."""

from __future__ import annotations

from collections.abc import Callable, Collection, Sequence
from dataclasses import dataclass

from benchmarks.goals import MARKS, Found
from benchmarks.records import VictimRun, VictimTrial
from benchmarks.tables import percent
from benchmarks.victim_tables import alike, ratios, weighted_ratio

MODERATE = (128, 512, 2048)
"""Nodes up to which a limit of 2 s is set."""
USUAL = ("run", "scat", "share")
"""Families with gangs that can't be preempted."""


@dataclass(frozen=True)
class VictimGoal:
    """One line of the goals table."""

    workload: str
    aim: str
    nodes: Collection[int]
    families: Collection[str]
    judge: Callable[[Sequence[VictimTrial]], Found]

    def row(self, run: VictimRun | None) -> list[str]:
        """Workload, aim, measured, mark."""
        trials = [] if run is None else [t for t in run.trials if t.nodes in self.nodes and t.family in self.families]
        found = self.judge(trials) if trials else None
        if found is None:
            return [self.workload, self.aim, "not measured", "–"]
        text, met = found
        return [self.workload, self.aim, text, MARKS[met]]


def never_worse(trials: Sequence[VictimTrial]) -> Found:
    """Admissions, and costs where the same gangs start, on 200 contended rounds or more."""
    contended = [one for one in trials if one.contended]
    if not contended:
        return None
    good = sum(one.never_worse for one in contended)
    running = [one.running for one in contended]
    same = len(alike(contended))
    text = (
        f"{good}/{len(contended)}, {min(running)} to {max(running):,} running gangs; "
        f"costs compared on the same gangs: {same}"
    )
    return text, good == len(contended) and len(contended) >= 200


def proven(share: float, limit_s: float) -> Callable[[Sequence[VictimTrial]], Found]:
    """Share of rounds whose losses and victims are proven least, within a limit of the whole solve."""

    def judge(trials: Sequence[VictimTrial]) -> Found:
        in_limit = [one for one in trials if one.limit_s <= limit_s]
        if not in_limit:
            return None
        good = sum(one.proven for one in in_limit)
        worst = max(one.gap for one in in_limit)
        losses = sum(one.losses_proven for one in in_limit)
        text = f"{good}/{len(in_limit)} ({good / len(in_limit):.1%}; losses alone {losses}), worst gap {percent(worst)}"
        return text, good >= share * len(in_limit)

    return judge


def bounded(trials: Sequence[VictimTrial]) -> Found:
    """Proven rounds and the worst gap where no share is asked."""
    good = sum(one.proven for one in trials)
    losses = sum(one.losses_proven for one in trials)
    worst = percent(max(one.gap for one in trials))
    return f"{good}/{len(trials)} (losses alone {losses}), worst gap {worst}", None


def fewer_lost(share: float) -> Callable[[Sequence[VictimTrial]], Found]:
    """GPU-seconds that the solver loses less than the greedy, in sum."""

    def judge(trials: Sequence[VictimTrial]) -> Found:
        ratio = weighted_ratio(trials)
        if ratio is None:
            return None
        text = f"{1 - 1 / ratio:.1%} fewer (greedy/solver {ratio:.3f}, worst round {max(ratios(trials)):.2f})"
        return text, 1 - 1 / ratio >= share

    return judge


def in_time(trials: Sequence[VictimTrial]) -> Found:
    """Rounds that kept the limit within 10 % + 50 ms."""
    late = [one for one in trials if not one.in_time]
    worst = max((one.wall_s - 1.1 * one.limit_s - 0.05 for one in late), default=0.0)
    text = f"{len(trials) - len(late)}/{len(trials)}" + (f", worst {1000 * worst:.0f} ms beyond" if late else "")
    return text, not late


def _any(trials: Sequence[VictimTrial]) -> Found:
    """As `never_worse`, however few rounds there are."""
    found = never_worse(trials)
    return None if found is None else (found[0], all(one.never_worse for one in trials if one.contended))


ALL = ("run", "scat", "share", "hard")
VICTIM_GOALS = [
    VictimGoal(
        "victims, 128 to 2,048 nodes",
        "never worse than the greedy preemptor on ≥ 200 contended rounds with 5 to 1,000 running gangs",
        MODERATE,
        ALL,
        never_worse,
    ),
    VictimGoal("victims, 8,192 nodes", "never worse than the greedy preemptor", (8192,), ALL, _any),
    VictimGoal("victims, to 2,048 nodes", "proven in 2 s on ≥ 95 % (`hard` apart)", MODERATE, USUAL, proven(0.95, 2.0)),
    VictimGoal("victims, to 2,048 nodes, `hard`", "exact or an honest bound", MODERATE, ("hard",), bounded),
    VictimGoal("victims, 8,192 nodes", "proven in 10 s on ≥ 85 % (`hard` apart)", (8192,), USUAL, proven(0.85, 10.0)),
    VictimGoal("victims, 8,192 nodes, `hard`", "exact or an honest bound", (8192,), ("hard",), bounded),
    VictimGoal(
        "victims, shared nodes, 2,048",
        "≥ 20 % fewer GPU-seconds lost, Σ over rounds",
        (2048,),
        ("share",),
        fewer_lost(0.2),
    ),
    VictimGoal("victims, every solve", "time limit kept within 10 % + 50 ms", (*MODERATE, 8192), ALL, in_time),
]
