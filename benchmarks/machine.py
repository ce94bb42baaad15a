"""Where and when figures were measured: stands over every table."""

from __future__ import annotations

import datetime
import os
import platform
import subprocess
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

from pydantic import BaseModel

ROOT = Path(__file__).parents[1]


class Stamp(BaseModel, frozen=True):
    """Machine, versions, date, commit and command of one run."""

    machine: str
    """CPU model, cores, memory."""
    versions: str
    """Python and the libraries that matter."""
    date: str
    """Day and minute, UTC."""
    commit: str
    """Short hash; `+` if files of the product differ from it."""
    command: str
    """What was run."""
    load: float
    """Load average over the last minute when the run began: above 0.5 something else used the machine."""

    def line(self) -> str:
        """One line for the head of a table."""
        busy = f", load {self.load:.1f} at the start" if self.load > 0.5 else ""
        return f"{self.machine} · {self.versions} · {self.date} · commit {self.commit} · `{self.command}`{busy}"


def stamp(command: str) -> Stamp:
    """The stamp of a run that starts now."""
    return Stamp(
        machine=f"{_cpu()}, {len(os.sched_getaffinity(0))} cores, {_memory_gib():.0f} GiB",
        versions=", ".join([f"Python {platform.python_version()}", *map(_library, ("ortools", "numpy", "numba"))]),
        date=datetime.datetime.now(datetime.UTC).strftime("%Y-%m-%d %H:%M UTC"),
        commit=_commit(),
        command=command,
        load=round(os.getloadavg()[0], 1),
    )


def _cpu() -> str:
    path = Path("/proc/cpuinfo")
    lines = path.read_text(encoding="utf-8").splitlines() if path.exists() else []
    models = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    return models[0] if models else platform.processor() or platform.machine()


def _memory_gib() -> float:
    return float(os.sysconf("SC_PAGE_SIZE") * os.sysconf("SC_PHYS_PAGES")) / 2**30


def _library(name: str) -> str:
    try:
        return f"{name} {version(name)}"
    except PackageNotFoundError:
        return f"{name} –"


def _commit() -> str:
    def git(*words: str) -> str:
        return subprocess.run(["git", *words], cwd=ROOT, capture_output=True, text=True, check=False).stdout.strip()

    return (git("rev-parse", "--short", "HEAD") or "none") + (
        "+" if git("status", "--short", "models", "solver") else ""
    )
