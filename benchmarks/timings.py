"""Tables of the speed series."""

from __future__ import annotations

import statistics
from collections.abc import Callable, Iterable

import numpy as np

from benchmarks.records import Point, Series
from benchmarks.speed import medians
from benchmarks.tables import Table, percent


def exponent(points: dict[float, float]) -> float:
    """Slope of log y over log x: 1 is linear growth."""
    x, y = np.log(list(points)), np.log(list(points.values()))
    return float(np.polyfit(x, y, 1)[0])


def labels(series: Series) -> list[str]:
    """The labels of a series in their order."""
    return list(dict.fromkeys(point.label for point in series.points))


def figures(series: Series, label: str, key: str) -> list[float]:
    """All values of one figure under a label."""
    return [point.values[key] for point in series.points if point.label == label]


def percentile(values: Iterable[float], share: float) -> float:
    """Percentile of a list; `share` 0 … 1."""
    return float(np.quantile(list(values), share))


def _ms(values: Iterable[float]) -> str:
    return f"{1000 * statistics.median(values):,.1f}"


def _pods(series: Series) -> Table:
    header = [
        "workload",
        "seeds",
        "admitted",
        "first answer ms",
        "pods/s",
        "gap",
        "1 s solve ms",
        "pods/s",
        "gap",
        "proven",
    ]
    header.append("greedy ms")
    rows = []
    for label in labels(series):
        column = _columns(series, label)
        rows.append(
            [
                label,
                str(len(column("first_s"))),
                f"{statistics.mean(column('admitted')):,.0f}",
                _ms(column("first_s")),
                f"{statistics.median(column('first_pods_per_s')):,.0f}",
                percent(statistics.median(column("first_gap"))),
                _ms(column("full_s")),
                f"{statistics.median(column('full_pods_per_s')):,.0f}",
                percent(statistics.median(column("full_gap"))),
                f"{sum(column('optimal')):.0f}/{len(column('optimal'))}",
                _ms(column("greedy_s")),
            ]
        )
    note = (
        "From parsed snapshot to checked plan with bounds. The shapes are those of Kubernetes' own benchmark of "
        "topology-aware gangs, whose 492–975 pods/s are of a whole scheduler with an API server on other hardware: a "
        "mark, no comparison. *greedy ms*: the quickest strategy, without bounds, explanation or check."
    )
    return Table(series.title, series.stamp, header, rows, note)


def _columns(series: Series, label: str) -> Callable[[str], list[float]]:
    return lambda key: figures(series, label, key)


def _batches(series: Series) -> Table:
    header = ["answer", "batches", "median ms", "p95 ms", "p99 ms", "worst ms", "proven"]
    rows = []
    for key, name in (("first_s", "first answer"), ("full_s", "solve, limit 20 ms")):
        values = figures(series, "50 pods", key)
        marks = [f"{1000 * percentile(values, share):.1f}" for share in (0.5, 0.95, 0.99, 1)]
        proven = f"{sum(figures(series, '50 pods', 'optimal')):.0f}/{len(values)}" if key == "full_s" else "–"
        rows.append([name, str(len(values)), *marks, proven])
    return Table(series.title, series.stamp, header, rows)


def _large(series: Series) -> Table:
    header = ["snapshot", "seeds", "first answer ms", "quickest greedy ms", "MB of JSON", "parse ms", "encode ms"]
    header += ["peak MiB, first answer", "peak MiB, full solve"]
    rows = []
    for label in labels(series):
        column = _columns(series, label)
        rows.append(
            [
                label,
                str(len(column("first_s"))),
                _ms(column("first_s")),
                _ms(column("greedy_s")),
                f"{statistics.median(column('bytes')) / 1e6:.1f}",
                _ms(column("parse_s")),
                _ms(column("encode_s")),
                f"{max(column('first_peak_mib')):,.0f}",
                f"{max(column('peak_mib')):,.0f}",
            ]
        )
    note = (
        "*parse*: JSON to validated snapshot; *encode*: snapshot to arrays. Peaks are of a process of its own, the "
        "worst of the seeds."
    )
    return Table(series.title, series.stamp, header, rows, note)


def _start(series: Series) -> Table:
    header = ["process", "import ms", "first round ms", "second round ms", "first full solve ms"]
    column = _columns(series, series.points[0].label)
    keys = ("import_s", "cold_first_s", "warm_first_s", "cold_full_s")
    rows = [[series.points[0].label, *(_ms(column(key)) for key in keys)]]
    return Table(series.title, series.stamp, header, rows, "Kernels come from the cache on disk if there is one.")


def _growth(series: Series) -> Table:
    header = ["against", "from", "to", "first answer", "to bound", "quickest greedy", "first answer ms at the end"]
    rows = []
    for label in labels(series):
        first = medians(series, label, "first_s")
        slopes = [exponent(medians(series, label, key)) for key in ("first_s", "bound_s", "greedy_s")]
        low, *_, high = first
        ends = [f"{low:,.0f}", f"{high:,.0f}"]
        rows.append([label, *ends, *(f"{slope:.2f}" for slope in slopes), f"{1000 * first[high]:,.0f}"])
    note = (
        "Exponents of a log-log fit through medians; 1 is linear. Nodes with 100 gangs pending, gangs on 16,384 nodes."
    )
    return Table(series.title, series.stamp, header, rows, note)


def _copies(series: Series) -> Table:
    header = ["copies", "first answer ms", "settled ms", "full solve ms", "model variables", "gap"]
    label = series.points[0].label
    by = {key: medians(series, label, key) for key in ("first_s", "settled_s", "full_s", "variables", "gap")}
    rows = [
        [
            f"{x:g}",
            *(f"{1000 * by[key][x]:,.1f}" for key in ("first_s", "settled_s", "full_s")),
            f"{by['variables'][x]:,.0f}",
            percent(by["gap"][x]),
        ]
        for x in by["first_s"]
    ]
    return Table(f"{series.title}: {label}", series.stamp, header, rows, "A limit of 1 s; medians over seeds.")


def _curves(series: Series) -> Table:
    limits = sorted({point.x for point in series.points})
    header = ["setting", *(f"{limit:g} s" for limit in limits)]
    rows = []
    for label in labels(series):
        gaps, proven = medians(series, label, "gap"), medians(series, label, "proven")
        rows.append([label, *(percent(gaps[x]) + (" ✓" if proven[x] == 1 else "") for x in limits)])
    return Table(series.title, series.stamp, header, rows, "Median gap of the topology tier at a time limit; ✓ proven.")


def _reclaim(series: Series) -> Table:
    header = ["workload", "seeds", "running", "admitted", "greedy", "evicted", "greedy", "lost, greedy/solver"]
    header += ["never worse", "proven", "gap (worst)", "undecided", "victims ms", "total ms", "worst ms", "greedy ms"]
    rows = []
    for label in labels(series):
        column = _columns(series, label)
        seeds = len(column("full_s"))
        lost = sum(column("lost"))
        means = (
            f"{statistics.mean(column(key)):.1f}"
            for key in ("running", "admitted", "greedy_admitted", "evicted", "greedy_evicted")
        )
        rows.append(
            [
                label,
                str(seeds),
                *means,
                f"{sum(column('greedy_lost')) / lost:.3f}" if lost else "–",
                f"{sum(column('never_worse')):.0f}/{seeds}",
                f"{sum(column('proven')):.0f}/{seeds}",
                f"{percent(statistics.median(column('gap')))} ({percent(max(column('gap')))})",
                f"{sum(column('undecided')):.0f}",
                _ms(column("victims_s")),
                _ms(column("full_s")),
                f"{1000 * max(column('full_s')):,.0f}",
                _ms(column("greedy_s")),
            ]
        )
    note = (
        "Two tenants with half the GPUs as quota each: one holds everything in preemptible gangs, the other submits 50 "
        "gangs of 2 to 8 nodes. A public report tells of 12 minutes for 50 gangs reclaiming on 500 nodes; that "
        "includes API calls and the pods' own actions, this is solve time alone: a mark, no comparison. Means of "
        "gangs, medians of times; *lost* is Σ / Σ over all seeds, different gangs included; *never worse*: admissions "
        "in considered order and, where the same gangs start, the lexicographic cost."
    )
    return Table(series.title, series.stamp, header, rows, note)


_TABLES: dict[str, Callable[[Series], Table]] = {
    "pods": _pods,
    "batches": _batches,
    "large": _large,
    "start": _start,
    "growth": _growth,
    "copies": _copies,
    "curves": _curves,
    "reclaim": _reclaim,
}


def series_table(series: Series) -> Table:
    """The table of one series."""
    return _TABLES[series.name](series)


def worst_points(points: Iterable[Point], key: str) -> float:
    """Largest value of one figure."""
    return max(point.values[key] for point in points)
