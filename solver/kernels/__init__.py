"""Compiled kernels: one self-contained file each, imported on first use, cached on disk.

numba's cache key is a kernel's own source file, bytecode and signature, so a kernel imports nothing of ours.
"""

from __future__ import annotations

import importlib
import os
import sys
import tempfile
import time
from functools import cache
from pathlib import Path
from typing import Any

NAMES = ("place", "min_plus", "outside", "balanced", "spine_fill", "ruin_recreate", "give_way")
"""Modules of this package; the entry point of each has the module's name."""


LOAD = 0.6
"""Seconds that loading numba and the kernels from disk may take."""


def ready(seconds: float) -> bool:
    """Whether the kernels can be had within so many seconds: loaded, or compiled on disk and time to load them.

    Compiling takes up to a minute, which no time limit has room for: that is `warmup`'s.
    """
    if "numba" in sys.modules and kernel.cache_info().currsize:
        return True
    if seconds < LOAD:
        return False
    _cache_directory()
    places = [Path(__file__).parent / "__pycache__"]
    if "NUMBA_CACHE_DIR" in os.environ:
        places = [Path(os.environ["NUMBA_CACHE_DIR"])]
    return os.environ.get("NUMBA_DISABLE_JIT") == "1" or all(
        any(any(place.rglob(f"{module}.{module}-*.nbi")) for place in places) for module in NAMES
    )


def at_hand() -> bool:
    """Whether kernels are in use in this process, so that one more costs no more than its own work.

    What numpy does as well waits for that: a single small round is done before numba is loaded.
    """
    return kernel.cache_info().currsize > 0


@cache
def kernel(module: str, name: str = "") -> Any:
    """A kernel's entry point; compiles on the first call with no cache."""
    _cache_directory()
    return getattr(importlib.import_module(f"gangfit.solver.kernels.{module}"), name or module)


def warmup() -> float:
    """Compile every kernel, or load it from the cache, by solving a small round with each; returns the seconds taken.

    For service start, image builds and `gangfit warmup`: later processes find the compiled kernels on disk.
    """
    started = time.perf_counter()
    importlib.import_module("gangfit.solver.rehearsal").rehearse()
    return time.perf_counter() - started


@cache
def _cache_directory() -> None:
    """Point numba at a writable cache before its first import: beside the kernels, else in the user's cache folder."""
    if "NUMBA_CACHE_DIR" in os.environ:
        return
    for place in (Path(__file__).parent / "__pycache__", Path.home() / ".cache" / "gangfit" / "kernels"):
        try:
            place.mkdir(parents=True, exist_ok=True)
            with tempfile.TemporaryFile(dir=place):
                pass
        except (OSError, RuntimeError):
            continue
        if place.parent != Path(__file__).parent:
            os.environ["NUMBA_CACHE_DIR"] = str(place)
        return
    # Nowhere to write for good: a folder of this process, so that numba doesn't refuse to load.
    os.environ["NUMBA_CACHE_DIR"] = tempfile.mkdtemp(prefix="gangfit-kernels-")
