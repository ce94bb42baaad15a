"""Faults reported against public schedulers, each replayed with the answer that is right, by number of our list."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from gangfit.models import Plan, Snapshot
from gangfit.solver import check, solve

NO_TIER_DECIDES = pytest.mark.xfail(
    raises=AssertionError,
    strict=True,
    reason="tier 5 counts whole nodes only: two partly used nodes, or two whole ones, are equal to it whatever is free",
)


def answer(**request: Any) -> Plan:
    """The plan for a request in wire form, checked."""
    snapshot = Snapshot.model_validate(request)
    plan = solve(snapshot)
    report = check(snapshot, plan)
    assert report.ok, report.violations
    return plan


def placed(plan: Plan) -> dict[str, dict[str, int]]:
    return {placement.gang: placement.nodes() for placement in plan.placements}


def reasons(plan: Plan) -> dict[str, str]:
    return {blocked.gang: blocked.reason for blocked in plan.blocked}


def tier(plan: Plan, name: str) -> int:
    return next(tier.value for tier in plan.tiers if tier.name == name)


class TestReport1SmallWorkIntoSmallHoles:
    """kubernetes-sigs/kueue#4474, #3756, #4329: A takes x1 because it fits whole there, and B pends."""

    @pytest.mark.parametrize("size", [None, 4], ids=["whole nodes", "partly used nodes"])
    def test_both_start_in_one_solve(self, size: int | None) -> None:
        free = {"x1": 2, "x2": 1, "x3": 1}
        plan = answer(
            nodes=[
                {"name": name, "gpus": size or gpus, "used": {"gpus": size - gpus if size else 0}}
                for name, gpus in free.items()
            ],
            pending=[
                {"name": "A", "submitted_s": 1, "members": 2, "request": {"gpus": 1}},
                {"name": "B", "submitted_s": 2, "members": 1, "request": {"gpus": 2}},
            ],
        )
        assert placed(plan) == {"A": {"x2": 1, "x3": 1}, "B": {"x1": 1}}
        assert plan.status == "optimal"

    @pytest.mark.parametrize(
        "sizes",
        [
            pytest.param((4, 4), id="one node whole"),
            pytest.param((8, 8), id="both partly used", marks=NO_TIER_DECIDES),
            pytest.param((4, 2), id="both whole", marks=NO_TIER_DECIDES),
        ],
    )
    def test_the_tight_node_is_taken(self, sizes: tuple[int, int]) -> None:
        """Related minimum: 4 and 2 GPUs free, a pod of 2 takes the node with 2, however the nodes are called."""
        for roomy, tight in (("x1", "x2"), ("x2", "x1")):
            plan = answer(
                nodes=[
                    {"name": roomy, "gpus": sizes[0], "used": {"gpus": sizes[0] - 4}},
                    {"name": tight, "gpus": sizes[1], "used": {"gpus": sizes[1] - 2}},
                ],
                pending=[{"name": "pod", "members": 1, "request": {"gpus": 2}}],
            )
            assert placed(plan) == {"pod": {tight: 1}}


class TestReport2SmallWorkKeepsRacksWhole:
    """kubernetes-sigs/kueue#10406, #10878, marin-community/marin#8247: single-GPU and CPU-only work strands racks."""

    @pytest.mark.parametrize("broken", ["r1", "r2", "r3"])
    def test_two_racks_remain_completely_free(self, broken: str) -> None:
        racks = ["r1", "r2", "r3"]
        node = {"gpus": 4, "cpu_milli": 64_000, "memory_mib": 512 * 1024}
        pods = [
            {"name": f"pod-{i}", "submitted_s": i, "members": 1, "request": {"gpus": 1, "cpu_milli": 4_000}}
            for i in range(8)
        ]
        hog = {
            "name": "hog",
            "submitted_s": 4,
            "members": 1,
            "request": {"cpu_milli": 51_200, "memory_mib": 460 * 1024},
        }
        plan = answer(
            topology={"levels": [{"name": "rack"}]},
            nodes=[
                {"name": f"{rack}-n{i}", "path": [rack], **node, "used": {"gpus": int(rack == broken and i == 0)}}
                for rack in racks
                for i in range(4)
            ],
            pending=[*pods, hog],
        )
        assert len(plan.placements) == 9
        touched = {name.split("-")[0] for nodes in placed(plan).values() for name in nodes}
        assert touched == {broken}
        # 3 free GPUs on the broken node, so 5 pods more: two whole nodes; the hog joins nodes already broken
        assert tier(plan, "intact.rack") == 0
        assert tier(plan, "intact.node") == 2
        assert [(intact.before, intact.after) for intact in plan.fragmentation if intact.level == "rack"] == [(2, 2)]


class TestReport5UnresolvableLevel:
    """volcano-sh/volcano#5189: a tier name that can't be resolved drops the hard constraint."""

    nodes = [{"name": f"n{i}", "path": [f"n{i}"], "gpus": 0, "cpu_milli": 2_000} for i in (1, 2, 3)]

    def request(self, cpu_milli: int, level: str) -> dict[str, Any]:
        return {
            "topology": {"levels": [{"name": "hypernode"}]},
            "nodes": self.nodes,
            "pending": [
                {"name": "pods", "members": 2, "request": {"cpu_milli": cpu_milli}, "topology": {"required": level}}
            ],
        }

    def test_two_pods_that_cannot_share_a_domain_wait(self) -> None:
        plan = answer(**self.request(2_000, "hypernode"))
        assert placed(plan) == {}
        assert reasons(plan) == {"pods": "topology"}

    def test_two_pods_that_can_share_a_domain_start(self) -> None:
        (nodes,) = placed(answer(**self.request(1_000, "hypernode"))).values()
        assert list(nodes.values()) == [2]

    def test_an_unknown_level_is_an_error(self) -> None:
        with pytest.raises(ValidationError, match=r"unknown level 'volcano\.sh/hypernode'") as caught:
            Snapshot.model_validate(self.request(1_000, "volcano.sh/hypernode"))
        (error,) = caught.value.errors()
        assert error["loc"] == ("pending", 0, "topology", "required")


class TestReport30UnusableNodesAreNoCapacity:
    """kubernetes-sigs/kueue#6868, #3401: tainted and not-ready nodes are counted as capacity."""

    def test_nodes_that_are_not_ready(self) -> None:
        plan = answer(
            nodes=[
                {"name": "a", "gpus": 8},
                {"name": "b", "gpus": 8, "state": "down"},
                {"name": "c", "gpus": 8, "state": "cordoned"},
            ],
            pending=[{"name": "gang", "members": 2, "request": {"gpus": 8}}],
        )
        assert reasons(plan) == {"gang": "capacity"}
        (blocked,) = plan.blocked
        assert blocked.counters["not_ready"] == 2

    @pytest.mark.parametrize("effect", ["NoSchedule", "NoExecute"])
    def test_a_tainted_node(self, effect: str) -> None:
        nodes = [
            {"name": "a", "gpus": 8},
            {"name": "b", "gpus": 8, "taints": [{"key": "maintenance", "effect": effect}]},
        ]
        gang = {"name": "gang", "members": 2, "request": {"gpus": 8}}
        assert reasons(answer(nodes=nodes, pending=[gang])) == {"gang": "taint"}
        tolerant = {**gang, "tolerations": [{"key": "maintenance", "effect": effect}]}
        assert placed(answer(nodes=nodes, pending=[tolerant])) == {"gang": {"a": 1, "b": 1}}


class TestReport40UnknownDomainsAreNotOneDomain:
    """NeMo-RL PR#2924: nodes without a known NVLink domain are merged into one domain "unknown"."""

    unknown = [{"name": f"u{i}", "path": [None], "gpus": 4} for i in (1, 2, 3)]

    def test_a_required_level_is_not_met_by_unknown_domains(self) -> None:
        gang = {"name": "gang", "members": 2, "request": {"gpus": 4}, "topology": {"required": "nvlink"}}
        levels = {"levels": [{"name": "nvlink"}]}
        assert reasons(answer(topology=levels, nodes=self.unknown, pending=[gang])) == {"gang": "topology"}
        known = [{"name": f"k{i}", "path": ["d1"], "gpus": 4} for i in (1, 2)]
        plan = answer(topology=levels, nodes=[*self.unknown, *known], pending=[gang])
        assert placed(plan) == {"gang": {"k1": 1, "k2": 1}}

    def test_a_single_node_of_an_unknown_domain_does_not_serve_either(self) -> None:
        gang = {"name": "gang", "members": 1, "request": {"gpus": 4}, "topology": {"required": "nvlink"}}
        plan = answer(topology={"levels": [{"name": "nvlink"}]}, nodes=self.unknown, pending=[gang])
        assert reasons(plan) == {"gang": "topology"}

    def test_distance_counts_each_unknown_domain(self) -> None:
        gang = {"name": "gang", "members": 2, "request": {"gpus": 4}, "topology": {"preferred": "nvlink"}}
        plan = answer(topology={"levels": [{"name": "nvlink"}]}, nodes=self.unknown, pending=[gang])
        assert tier(plan, "preferred") == 1
        assert tier(plan, "distance") == 4 + 1
