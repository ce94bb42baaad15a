"""Running suites: the solver against every greedy."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from benchmarks.machine import stamp
from benchmarks.measure import trial
from benchmarks.records import Run, Trial
from benchmarks.suites import SUITES

Say = Callable[[str], None]
"""Takes one line of progress."""


def run(name: str, say: Say, *, seeds: int | None, limit: float | None, quick: bool, command: str) -> Run:
    """One suite, setting by setting and seed by seed."""
    suite = SUITES[name]
    if quick:
        suite = replace(suite, limits=suite.limits[:1], repeats=1)
    if limit is not None:
        suite = replace(suite, limits=(limit,))
    count = 1 if suite.fixed else seeds or (suite.quick if quick else suite.seeds)
    mark = stamp(command)
    say(f"{name}: {suite.title}; {len(suite.settings)} settings × {count} seeds, limits {list(suite.limits)} s")
    trials = []
    for setting, make in suite.settings.items():
        for seed in range(count):
            one = trial(
                make(seed),
                suite=name,
                setting=setting,
                seed=seed,
                limits=suite.limits,
                all_tiers=suite.all_tiers,
                repeats=suite.repeats,
            )
            say(_line(one))
            trials.append(one)
    return Run(stamp=mark, suite=name, title=suite.title, limits=list(suite.limits), trials=trials)


def _line(one: Trial) -> str:
    last = one.last
    state = "proven" if last.proven else f"gap {last.gap:.2%}"
    lexicographic = one.baseline("lexicographic")
    wrong = f"; BOUND REFUTED: {', '.join(one.refuted())}" if one.refuted() else ""
    return (
        f"  {one.setting} seed {one.seed}: {last.admitted}/{one.pending} admitted, cost {last.units} "
        f"(lexicographic {lexicographic.units}), {state} after {last.wall_s:.2f} s, "
        f"first answer {one.first.wall_s * 1000:.0f} ms{wrong}"
    )
