"""Seeded generators of snapshots: the same arguments always give the same snapshot."""

from benchmarks.generators import fabric
from benchmarks.generators.contended import FAMILIES, contended, reclaimed
from benchmarks.generators.copies import equal_gangs, field_report_34
from benchmarks.generators.kubernetes import batch_50, kube_gangs
from benchmarks.generators.odd import odd_sizes
from benchmarks.generators.runs import contiguous_runs, scattered_free
from benchmarks.generators.trace import trace_like

__all__ = [
    "FAMILIES",
    "batch_50",
    "contended",
    "contiguous_runs",
    "equal_gangs",
    "fabric",
    "field_report_34",
    "kube_gangs",
    "odd_sizes",
    "reclaimed",
    "scattered_free",
    "trace_like",
]
