"""Workloads of public Kubernetes scheduler benchmarks."""

from __future__ import annotations

import numpy as np

from benchmarks.generators.fabric import GPU_NODE, Wire, gang, levels, racks, running, snapshot
from gangfit.models import Snapshot


def kube_gangs(gangs: int = 750, pods: int = 4, nodes: int = 5000, gpus: int = 0, seed: int = 0) -> Snapshot:
    """Empty nodes in racks of 100, gangs that have to sit in one rack each.

    With `gpus=0` the shapes of kubernetes/kubernetes test/integration/scheduler_perf/podgroup/tas: a node has 4 CPUs,
    32 GiB and room for 110 pods, a pod asks 100m and 100 MiB. Their throughput (pull request 140611: 492–630 pods/s
    with 4 pods a gang, 615–975 with 1,000) is of a whole scheduler with an API server, ours of the placement alone.
    With `gpus=1` every pod asks one GPU of an 8-GPU node, and one rack is preferred instead of required.
    """
    rng = np.random.default_rng([seed, gangs, pods, nodes, gpus])
    if gpus:
        fields: Wire = {"gpus": 8}
        request: Wire = {"gpus": gpus}
        topology = {"preferred": "rack"}
    else:
        fields = {"gpus": 0, "cpu_milli": 4_000, "memory_mib": 32_768, "resources": {"pods": 110}}
        request = {"cpu_milli": 100, "memory_mib": 100, "resources": {"pods": 1}}
        topology = {"required": "rack"}
    waits = [gang(rng, f"gang-{i}", pods, request, gangs - i, topology=topology) for i in range(gangs)]
    arguments = {"gangs": gangs, "pods": pods, "nodes": nodes, "gpus": gpus, "seed": seed}
    return snapshot("kube_gangs", arguments, levels(["rack"], None), racks(nodes, 100, [], **fields), [], waits)


def batch_50(nodes: int = 500, pods: int = 50, occ: float = 0.7, seed: int = 0) -> Snapshot:
    """One batch of 50 pods on a busy cluster of 500 nodes: the size of DCM's batches (Suresh et al., OSDI 2020).

    Pods come in gangs of 1, 2, 4 or 8 and ask 1, 2, 4 or 8 GPUs with CPU and memory; racks of 20 nodes. What runs are
    pods of their own on random nodes.
    """
    rng = np.random.default_rng([seed, nodes, pods, round(occ * 1000), 4])
    free = np.full(nodes, GPU_NODE["gpus"])
    holds: list[Wire] = []
    while free.sum() > (1 - occ) * GPU_NODE["gpus"] * nodes:
        size = int(rng.choice([1, 2, 4, 8]))
        node = int(rng.choice(np.flatnonzero(free >= size))) if (free >= size).any() else -1
        if node >= 0:
            free[node] -= size
            holds.append(running(rng, len(holds), {node: 1}, _request(size)))
    waits: list[Wire] = []
    while pods:
        members = min(pods, int(rng.choice([1, 1, 2, 4, 8])))
        pods -= members
        waits.append(gang(rng, f"pod{len(waits):02d}", members, _request(int(rng.choice([1, 2, 4, 8]))), 60))
    arguments = {"nodes": nodes, "occ": occ, "seed": seed}
    return snapshot("batch_50", arguments, levels(["rack"], None), racks(nodes, 20, [], **GPU_NODE), holds, waits)


def _request(gpus: int) -> dict[str, int]:
    return {"gpus": gpus, "cpu_milli": gpus * 12_000, "memory_mib": gpus * 98_304}
