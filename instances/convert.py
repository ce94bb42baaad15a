"""Neutral replay snapshot → gangfit's wire form: `python instances/convert.py FILE.json[.gz] [...]`.

Writes `<meta.name>.json.gz` beside this script, byte for byte the same for the same input. The neutral form is what
a trace replay writes: levels, nodes (cpu in cores, memory in GiB), tenants, running and pending gangs (ages in s).

* CPU in cores × 1000 → `cpu_milli`, GiB × 1024 → `memory_mib`, both rounded to integers.
* Traces have relative times. The moment of the snapshot becomes `TIME_S`, a round number that stands for nothing;
  submission and start are that many seconds before it, rounded. Gangs less than a second apart may tie: name decides.
* Default values are left out. Nothing else is added, except origin and licence in `meta`, and nothing is left out.
"""

from __future__ import annotations

import gzip
import json
import sys
from pathlib import Path
from typing import Any

from gangfit.models import Snapshot

TIME_S = 1_700_000_000
"""The moment of every converted snapshot, seconds since the epoch."""

TOPOGRAPH = "topology: NVIDIA/topograph (Apache-2.0)"
PHILLY = (
    "gangs: Philly trace, msr-fiddle/philly-traces (CC-BY-4.0), in the copy of siasosp23/artifacts (no licence file)"
)
PHILLY_DURATIONS = "durations: Philly trace, msr-fiddle/philly-traces (CC-BY-4.0), in the copy of siasosp23/artifacts"
PHILLY_WEIGHTS = "tenant weights: S-Lab-System-Group/HeliosArtifact philly_vc.csv (MIT)"
MURI = "gangs: Rivendile/Muri trace2 (Apache-2.0), derived from msr-fiddle/philly-traces (CC-BY-4.0)"
ACME = "gangs: InternLM/AcmeTrace, Kalos (CC-BY-4.0), in the copy of hyunnnchoi/AcmeTrace (CC-BY-4.0)"
ACME_SIZES = "gang sizes: distribution read from a figure of InternLM/AcmeTrace (CC-BY-4.0)"

ORIGINS: dict[str, tuple[str, list[str]]] = {
    "nvl72-72n": ("Apache-2.0 AND CC-BY-4.0 AND MIT", [TOPOGRAPH, PHILLY, PHILLY_WEIGHTS]),
    "topolarge-96n": ("Apache-2.0 AND CC-BY-4.0", [TOPOGRAPH, MURI]),
    "helios-earth-107n": (
        "MIT AND CC-BY-4.0",
        [
            "counts per virtual cluster: S-Lab-System-Group/HeliosArtifact (MIT), computed from the Helios traces, "
            "S-Lab-System-Group/HeliosData (CC-BY-4.0)"
        ],
    ),
    "gb200-ib-119n": ("Apache-2.0 AND CC-BY-4.0", [TOPOGRAPH, ACME, PHILLY]),
    "xclr-irregular-255n": ("Apache-2.0 AND CC-BY-4.0", [TOPOGRAPH, ACME, PHILLY]),
    "kalos-302n": ("CC-BY-4.0", [ACME, ACME_SIZES, PHILLY_DURATIONS]),
    "philly-352n": ("CC-BY-4.0 AND MIT", [PHILLY, PHILLY_WEIGHTS]),
    "lingjun-847n": (
        "Apache-2.0 AND CC-BY-4.0",
        [
            "topology: alibaba/alibaba-lingjun-dataset-2023 (Apache-2.0)",
            ACME_SIZES,
            "durations: InternLM/AcmeTrace (CC-BY-4.0)",
            PHILLY_DURATIONS,
        ],
    ),
    "llama3like-3072n": (
        "CC-BY-4.0",
        [
            "structure and the two large jobs: figures published for the Llama 3 training cluster (facts)",
            ACME_SIZES,
            "durations: InternLM/AcmeTrace (CC-BY-4.0)",
            PHILLY_DURATIONS,
        ],
    ),
}
"""Instance → licence (SPDX expression) and the sources that it covers, each with its own licence."""

KNOWN = {
    "snapshot": {"levels", "nodes", "tenants", "running", "pending", "meta"},
    "node": {"name", "path", "gpus", "cpu", "mem_gib"},
    "tenant": {"name", "weight"},
    "gang": {"name", "tenant", "priority", "members", "gpus_per_member", "cpu_per_member", "mem_per_member"},
}


def snapshot(neutral: dict[str, Any]) -> dict[str, Any]:
    """Wire form of one neutral snapshot; raises ValueError for a field it has no meaning for."""
    _only(neutral, KNOWN["snapshot"])
    name = neutral["meta"]["name"]
    licence, attribution = ORIGINS[name]
    return {
        "time_s": TIME_S,
        "topology": {"levels": [{"name": level} for level in neutral["levels"]]},
        "nodes": [_node(node) for node in neutral["nodes"]],
        "tenants": [_tenant(tenant) for tenant in neutral["tenants"]],
        "running": [
            _gang(gang, {"nodes", "started_s_ago"})
            | {"placement": gang["nodes"], "started_s": round(TIME_S - gang["started_s_ago"])}
            for gang in neutral["running"]
        ],
        "pending": [
            _gang(gang, {"submitted_s_ago"}) | {"submitted_s": round(TIME_S - gang["submitted_s_ago"])}
            for gang in neutral["pending"]
        ],
        "meta": {
            **neutral["meta"],
            "licence": licence,
            "attribution": attribution,
            "time": f"times are relative in the source; the moment of the snapshot is written as {TIME_S}",
        },
    }


def _only(fields: dict[str, Any], known: set[str]) -> None:
    if unknown := set(fields) - known:
        raise ValueError(f"no wire form for {sorted(unknown)} of {fields.get('name')!r}; known: {sorted(known)}")


def _node(node: dict[str, Any]) -> dict[str, Any]:
    _only(node, KNOWN["node"])
    return {
        "name": node["name"],
        "path": node["path"],
        "gpus": node["gpus"],
        "cpu_milli": round(node["cpu"] * 1000),
        "memory_mib": round(node["mem_gib"] * 1024),
    }


def _tenant(tenant: dict[str, Any]) -> dict[str, Any]:
    _only(tenant, KNOWN["tenant"])
    return {"name": tenant["name"]} | ({"weight": tenant["weight"]} if tenant["weight"] != 1 else {})


def _gang(gang: dict[str, Any], more: set[str]) -> dict[str, Any]:
    _only(gang, KNOWN["gang"] | more)
    request = {
        "gpus": gang["gpus_per_member"],
        "cpu_milli": round(gang["cpu_per_member"] * 1000),
        "memory_mib": round(gang["mem_per_member"] * 1024),
    }
    return {
        "name": gang["name"],
        "tenant": gang["tenant"],
        **({"priority": gang["priority"]} if gang["priority"] else {}),
        "members": gang["members"],
        "request": {resource: amount for resource, amount in request.items() if amount},
    }


def main(paths: list[str]) -> None:
    """Convert every file named on the command line."""
    if not paths:
        raise SystemExit(__doc__)
    for path in paths:
        raw = Path(path).read_bytes()
        neutral = json.loads(gzip.decompress(raw) if path.endswith(".gz") else raw)
        text = json.dumps(snapshot(neutral), ensure_ascii=False, separators=(",", ":"))
        Snapshot.model_validate_json(text)
        target = Path(__file__).with_name(f"{neutral['meta']['name']}.json.gz")
        target.write_bytes(gzip.compress(text.encode(), compresslevel=9, mtime=0))
        print(f"{path} -> {target.name} ({target.stat().st_size} bytes)")


if __name__ == "__main__":
    main(sys.argv[1:])
