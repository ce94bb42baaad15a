"""Many gangs of one shape."""

from __future__ import annotations

import numpy as np

from benchmarks.generators.fabric import Wire, gang, levels, racks, snapshot
from benchmarks.generators.runs import contiguous_runs
from gangfit.models import Snapshot


def equal_gangs(copies: int = 100, members: int = 10, gpus: int = 2, nodes: int = 1024, seed: int = 0) -> Snapshot:
    """`copies` jobs of one shape, several members a node, beside `contiguous_runs` at one half; default weights.

    10 members of 2 GPUs take 2½ nodes: the rest of the third is another job's.
    """
    base = contiguous_runs(nodes, 0.5, 0, seed, None)
    rng = np.random.default_rng([seed, copies, members, gpus, nodes])
    waits: list[Wire] = [gang(rng, f"copy{i:04d}", members, {"gpus": gpus}, copies - i) for i in range(copies)]
    arguments = {"copies": copies, "members": members, "gpus": gpus, "nodes": nodes, "seed": seed}
    wire = base.model_dump(mode="json", exclude_defaults=True, include={"nodes", "running", "topology"})
    return snapshot("equal_gangs", arguments, wire["topology"], wire["nodes"], wire["running"], waits)


def field_report_34(nodes: int = 1000, domain: int = 10, seed: int = 0) -> Snapshot:
    """volcano-sh/volcano#4899: 1,000 nodes in 100 domains of 10, 100 gangs of 10 whole nodes, each in one domain.

    An exact fit: all of them start, every domain takes one, and nothing stays over.
    """
    rng = np.random.default_rng([seed, nodes, domain])
    topology = {"required": "rack"}
    waits = [
        gang(rng, f"gang{i:03d}", domain, {"gpus": 8}, nodes - i, topology=topology) for i in range(nodes // domain)
    ]
    arguments = {"nodes": nodes, "domain": domain, "seed": seed}
    return snapshot("field_report_34", arguments, levels(["rack"], None), racks(nodes, domain, [], gpus=8), [], waits)
