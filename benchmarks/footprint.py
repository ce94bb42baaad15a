"""A process of its own that reads and solves one snapshot, and says what that took.

`python -m benchmarks.footprint FILE LIMIT_S` prints one line of JSON: seconds to import, of the first answer, of a
second one and of a full solve, and the peak memory in MiB.
"""

from __future__ import annotations

import json
import resource
import sys
import time
from pathlib import Path


def peak_mib() -> float:
    """Most memory that this process ever held. `ru_maxrss` would count the parent's pages before exec too on Linux."""
    status = Path("/proc/self/status")
    if status.exists():
        for line in status.read_text(encoding="utf-8").splitlines():
            if line.startswith("VmHWM:"):
                return int(line.split()[1]) / 1024
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def main(path: str, limit_s: float) -> None:
    """Import, read, answer twice, solve."""
    laps = [time.perf_counter()]

    def lap() -> float:
        laps.append(time.perf_counter())
        return laps[-1] - laps[-2]

    from gangfit.models import Snapshot
    from gangfit.solver import solve

    figures = {"import_s": lap()}
    snapshot = Snapshot.model_validate_json(Path(path).read_bytes())
    snapshot = snapshot.model_copy(update={"policy": snapshot.policy.model_copy(update={"time_limit_s": limit_s})})
    figures["read_s"] = lap()
    solve(snapshot, search=False)
    figures["cold_first_s"] = lap()
    solve(snapshot, search=False)
    figures["warm_first_s"] = lap()
    figures["first_peak_mib"] = peak_mib()
    lap()
    solve(snapshot)
    figures["cold_full_s"] = lap()
    figures["peak_mib"] = peak_mib()
    print(json.dumps({key: round(value, 4) for key, value in figures.items()}))


if __name__ == "__main__":
    main(sys.argv[1], float(sys.argv[2]))
