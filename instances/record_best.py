"""Best known tier values: `python instances/record_best.py [--seconds 60] [NAME ...]`.

Solves and updates best_known.json. Instances are benchmarks of placement and state no policy of their own; here and
in the tests all gangs are one tenant's, so that priority and submission decide who is next, and nobody gives way.
An entry changes only if the new plan is better, tier by tier, or proves a tighter bound. A plan that the checker faults
is refused. A bound of a tier holds among plans that are equal on every earlier tier, so bounds of two runs are joined
only as far as their values agree; and only if both admitted a proven set, because the value of that tier counts gangs.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path
from typing import TypedDict

from gangfit.models import DEFAULT_TENANT, Plan, Policy, Snapshot
from gangfit.solver import check, solve

FOLDER = Path(__file__).parent
RECORD = FOLDER / "best_known.json"


PLACEMENT_ONLY = {"order": "priority", "preemption": {"within": "never", "across": "never"}}
"""What `best_known.json` is about."""


class Known(TypedDict):
    """One tier of one instance."""

    value: int
    bound: int
    proven: bool


Entry = dict[str, Known]
"""Tier name → what is known, in tier order."""


def load(name: str) -> Snapshot:
    """One instance by name; KeyError if there is none."""
    for path in (FOLDER / f"{name}.json.gz", FOLDER / f"{name}.json"):
        if path.exists():
            raw = path.read_bytes()
            return Snapshot.model_validate_json(gzip.decompress(raw) if path.suffix == ".gz" else raw)
    raise KeyError(f"no instance {name!r} in {FOLDER}")


def names() -> list[str]:
    """All instances, smallest file first."""
    paths = [*FOLDER.glob("*.json.gz"), FOLDER / "demo.json"]
    return [path.name.split(".json")[0] for path in sorted(paths, key=lambda path: path.stat().st_size)]


def placement_only(snapshot: Snapshot, seconds: float, workers: int = 2) -> Snapshot:
    """An instance as it is recorded: `PLACEMENT_ONLY`, all gangs of one tenant."""
    policy = Policy.model_validate({**PLACEMENT_ONLY, "time_limit_s": seconds, "workers": workers})
    running, pending = (
        tuple(gang.model_copy(update={"tenant": DEFAULT_TENANT}) for gang in gangs)
        for gangs in (snapshot.running, snapshot.pending)
    )
    return snapshot.model_copy(update={"policy": policy, "tenants": (), "running": running, "pending": pending})


def entry(plan: Plan) -> Entry:
    """What one plan shows; `broken` is 0 by policy and left out."""
    return {
        tier.name: Known(value=tier.value, bound=tier.bound, proven=tier.value == tier.bound)
        for tier in plan.tiers
        if tier.name != "broken"
    }


def rank(known: Entry) -> tuple[int, ...]:
    """Smaller is better: a proven admission first, then the tiers in order."""
    later = (tier["value"] for name, tier in known.items() if name != "admission")
    return (not known["admission"]["proven"], -known["admission"]["value"], *later)


def merged(old: Entry | None, new: Entry) -> Entry:
    """The better of two entries, with the tighter bounds of both as far as they are comparable."""
    if old is None:
        return new
    best, other = (new, old) if rank(new) < rank(old) else (old, new)
    if not (best["admission"]["proven"] and other["admission"]["proven"]):
        return best
    result = {name: Known(**tier) for name, tier in best.items()}
    for name, tier in result.items():
        if name != "admission":
            tier["bound"] = max(tier["bound"], other[name]["bound"])
            tier["proven"] = tier["value"] == tier["bound"]
        if tier["value"] != other[name]["value"]:
            break
    return result


def main() -> None:
    """Solve the named instances, all by default."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help="instances; all by default")
    parser.add_argument("--seconds", type=float, default=60.0, help="time limit per instance")
    parser.add_argument("--workers", type=int, default=2, help="search threads")
    options = parser.parse_args()
    for name in options.names or names():
        snapshot = placement_only(load(name), options.seconds, options.workers)
        plan = solve(snapshot)
        report = check(snapshot, plan)
        if not report.ok:
            raise SystemExit(f"{name}: refused, the checker faults the plan: {report.violations[:3]}")
        record: dict[str, Entry] = json.loads(RECORD.read_text()) if RECORD.exists() else {}
        before = record.get(name)
        record[name] = merged(before, entry(plan))
        if record[name] != before:
            RECORD.write_text(json.dumps(record, indent=1, sort_keys=False) + "\n")
        change = "unchanged" if record[name] == before else "recorded"
        tiers = ", ".join(f"{tier} {known['value']}/{known['bound']}" for tier, known in record[name].items())
        print(f"{name}: {change}; {tiers}", flush=True)


if __name__ == "__main__":
    main()
