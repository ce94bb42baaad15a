"""Faults reported against public schedulers, each replayed with the answer that is right, by number of our list."""

from __future__ import annotations

from typing import Any

import pytest
from pydantic import ValidationError

from gangfit.models import Plan, Snapshot
from gangfit.solver import apply, check, solve

NOW = 100_000


class NotBuiltError(Exception):
    """The report asks for an ability that the plan has no field for yet."""


def answer(**request: Any) -> Plan:
    """The plan for a request in wire form, checked and proven."""
    return answered(Snapshot.model_validate(request))


def answered(snapshot: Snapshot) -> Plan:
    """The plan for a snapshot, checked and proven."""
    plan = solve(snapshot)
    report = check(snapshot, plan)
    assert report.ok, report.violations
    assert plan.status == "optimal"
    return plan


def gang(name: str, members: int = 1, gpus: int = 1, **facts: Any) -> dict[str, Any]:
    return {"name": name, "members": members, "request": {"gpus": gpus}, **facts}


def held(name: str, placement: dict[str, int], gpus: int = 1, **facts: Any) -> dict[str, Any]:
    """A running gang, an hour old."""
    members = sum(placement.values())
    return {**gang(name, members, gpus), "placement": placement, "started_s": NOW - 3_600, **facts}


def nodes(count: int, gpus: int, **facts: Any) -> list[dict[str, Any]]:
    """Nodes n1, n2, …"""
    return [{"name": f"n{i}", "gpus": gpus, **facts} for i in range(1, count + 1)]


def victims(plan: Plan) -> set[str]:
    return {preemption.gang for preemption in plan.preemptions}


def settled(snapshot: Snapshot, rounds: int = 4) -> list[Plan]:
    """Rounds at one instant until one starts and preempts nothing more; fails if none does."""
    plans = []
    for _ in range(rounds):
        plans.append(answered(snapshot))
        if not plans[-1].placements and not plans[-1].preemptions:
            return plans
        snapshot = apply(snapshot, plans[-1])
    raise AssertionError(f"still changing after {rounds} rounds: {plans[-1].preemptions}")


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
            pytest.param((8, 8), id="both partly used"),
            pytest.param((4, 2), id="both whole"),
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


class TestReport12ScatteredVictims:
    """kubernetes-sigs/kueue#5243, #1309, #6214: quota-driven preemption frees scattered GPUs and helps nobody."""

    def test_none_for_what_never_fits_and_one_for_the_next(self) -> None:
        high = [held(f"h{i}{j}", {f"n{i}": 1}, priority=10) for i in range(1, 5) for j in range(6)]
        low = [held(f"l{i}{j}", {f"n{i}": 1}) for i in range(1, 5) for j in range(2)]
        plan = answer(
            time_s=NOW,
            nodes=nodes(4, 8),
            running=[*high, *low],
            pending=[gang("big", 1, 8, priority=10, submitted_s=1), gang("small", priority=10, submitted_s=2)],
        )
        assert reasons(plan) == {"big": "protected"}
        assert list(placed(plan)) == ["small"]
        (preemption,) = plan.preemptions
        assert (preemption.gang[0], preemption.for_gang) == ("l", "small")


class TestReport15OneFromEachOfTenGangs:
    """volcano-sh/volcano#4607: a queue reclaims ten pods, one from each of ten gangs, which breaks all ten."""

    @pytest.mark.parametrize("seats", ["a node each", "scattered"])
    def test_one_gang_leaves_whole(self, seats: str) -> None:
        where = {
            f"job{j}": {f"n{j}": 10} if seats == "a node each" else {f"n{n}": 1 for n in range(1, 11)}
            for j in range(1, 11)
        }
        plan = answer(
            time_s=NOW,
            nodes=nodes(10, 10),
            tenants=[{"name": "mine", "quota": {"gpus": 10}}, {"name": "theirs", "quota": {"gpus": 90}}],
            running=[held(name, placement, tenant="theirs") for name, placement in where.items()],
            pending=[gang("new", 10, tenant="mine")],
        )
        assert list(placed(plan)) == ["new"]
        assert len(victims(plan)) == 1
        assert tier(plan, "broken") == 1


class TestReport17FreeNodesAndEvictions:
    """volcano-sh/volcano#3291, #5131, KAI-Scheduler#1537: an empty node beside one that has to be freed."""

    def test_one_free_and_one_freed(self) -> None:
        plan = answer(
            time_s=NOW,
            nodes=nodes(2, 8),
            running=[held("low", {"n2": 1}, 8)],
            pending=[gang("high", 2, 8, priority=1)],
        )
        assert placed(plan) == {"high": {"n1": 1, "n2": 1}}
        assert victims(plan) == {"low"}

    @pytest.mark.parametrize("count", [2, 7, 40])
    def test_one_victim_on_each_of_many_nodes(self, count: int) -> None:
        plan = answer(
            time_s=NOW,
            nodes=nodes(count, 1),
            running=[held(f"low{i}", {f"n{i}": 1}) for i in range(1, count + 1)],
            pending=[gang("high", count, priority=1)],
        )
        assert len(victims(plan)) == count
        assert len(placed(plan)["high"]) == count


class TestReport18PackedClique:
    """kai-scheduler/KAI-Scheduler#1591: a filter looks at idle GPUs only, so a full domain is never freed."""

    @pytest.mark.parametrize("cheaper", ["c1", "c2"])
    def test_the_cheapest_clique_is_freed_exactly(self, cheaper: str) -> None:
        seats = [(f"{clique}-n{i}", clique) for clique in ("c1", "c2") for i in range(4)]
        plan = answer(
            time_s=NOW,
            topology={"levels": [{"name": "clique"}]},
            nodes=[{"name": name, "path": [clique], "gpus": 4} for name, clique in seats],
            running=[
                held(f"{name}-{j}", {name: 1}, 2, priority=50, started_s=NOW - (600 if clique == cheaper else 700))
                for name, clique in seats
                for j in range(2)
            ],
            pending=[gang("high", 4, 4, priority=90, topology={"required": "clique"})],
        )
        assert victims(plan) == {f"{name}-{j}" for name, clique in seats if clique == cheaper for j in range(2)}
        assert set(placed(plan)["high"]) == {name for name, clique in seats if clique == cheaper}
        assert tier(plan, "lost.p50") == 16 * (600 + 300)


class TestReport19MovesInsteadOfKills:
    """kai-scheduler/KAI-Scheduler#1939, kubernetes-sigs/kueue#14554: relocate what could run elsewhere."""

    def test_without_moves_it_waits(self) -> None:
        """Case (c): two racks, a small job in each, C needs a whole rack; nobody has a right to kill."""
        assert reasons(answer(**self.request())) == {"C": "topology"}

    def test_one_of_the_small_jobs_moves(self) -> None:
        plan = answer(**self.request(), policy={"moves": {"mode": "allowed"}})
        assert len(plan.moves) == 1
        assert not plan.preemptions
        assert list(placed(plan)) == ["C"]
        moved = plan.moves[0]
        assert {"A": "r2", "B": "r1"}[moved.gang] == next(iter(moved.nodes()))[:2]

    @pytest.mark.parametrize("mode", ["never", "allowed"])
    def test_a_cpu_job_on_a_gpu_node_goes_to_a_cpu_node(self, mode: str) -> None:
        """Case (a): where it runs on is a question of its own request, not of the gang that takes its place."""
        plan = answer(
            time_s=NOW,
            tenants=[{"name": "ours", "quota": {"gpus": 8}}, {"name": "theirs", "quota": {"gpus": 0}}],
            nodes=[
                {"name": "gpu", "gpus": 8, "cpu_milli": 8_000, "labels": {"kind": "gpu-node"}},
                {"name": "cpu", "gpus": 0, "cpu_milli": 8_000},
            ],
            running=[held("etl", {"gpu": 1}, 0, tenant="theirs", request={"cpu_milli": 6_000})],
            pending=[
                gang(
                    "train", 1, 0, tenant="ours", request={"gpus": 8, "cpu_milli": 4_000}, selector={"kind": "gpu-node"}
                )
            ],
            policy={"moves": {"mode": mode}},
        )
        assert set(placed(plan)) == ({"train"} if mode == "allowed" else set())
        assert {move.gang: move.nodes() for move in plan.moves} == ({"etl": {"cpu": 1}} if mode == "allowed" else {})
        assert not plan.preemptions

    @pytest.mark.parametrize(("quota", "ratio", "moved"), [(0, 16.0, 0), (64, 16.0, 2), (64, 0.5, 2), (64, 0.49, 0)])
    def test_a_tenant_over_its_share_moves_nobody_elses(self, quota: int, ratio: float, moved: int) -> None:
        """Case (b): relocation is disruption: it takes a claim of one's own, and is bounded."""
        plan = answer(
            time_s=NOW,
            tenants=[{"name": "big", "quota": {"gpus": quota}}, {"name": "small", "quota": {"gpus": 64}}],
            nodes=[{"name": f"n{n}", "gpus": 8} for n in range(4)],
            running=[held(f"s{n}-{i}", {f"n{n}": 1}, 2, tenant="small") for n in range(4) for i in range(2 + (n == 0))],
            pending=[gang("wide", 1, 8, tenant="big")],
            policy={"moves": {"mode": "allowed", "max_ratio": ratio}, "preemption": {"across": "never"}},
        )
        assert len(plan.moves) == moved
        assert bool(placed(plan)) is bool(moved)

    @staticmethod
    def request() -> dict[str, Any]:
        return {
            "time_s": NOW,
            "topology": {"levels": [{"name": "rack"}]},
            "nodes": [{"name": f"{rack}-n{i}", "path": [rack], "gpus": 8} for rack in ("r1", "r2") for i in range(4)],
            "running": [held("A", {"r1-n0": 1}, 8), held("B", {"r2-n0": 1}, 8)],
            "pending": [gang("C", 4, 8, topology={"required": "rack"})],
        }


class TestReport21FewestVictims:
    """ROCm/spur#888 and Slurm's preempt.shtml: no feasibility gate, and victims that weren't needed."""

    def test_eleven_jobs_for_two_gpus(self) -> None:
        plan = answer(
            time_s=NOW,
            nodes=nodes(11, 1),
            running=[held(f"job{i}", {f"n{i}": 1}, started_s=NOW - 3_600 * i) for i in range(1, 12)],
            pending=[gang("p1", priority=1), gang("p2", priority=1)],
        )
        assert victims(plan) == {"job1", "job2"}
        assert {node for on in placed(plan).values() for node in on} == {"n1", "n2"}

    def test_nobody_for_what_never_starts(self) -> None:
        plan = answer(
            time_s=NOW,
            nodes=nodes(11, 1),
            running=[held(f"job{i}", {f"n{i}": 1}) for i in range(1, 12)],
            pending=[gang("p1", 1, 2, priority=1)],
        )
        assert not plan.preemptions
        assert reasons(plan) == {"p1": "capacity"}

    def test_free_nodes_first(self) -> None:
        """Five nodes, low jobs on n1 to n3; the high job of three nodes needs one of theirs."""
        plan = answer(
            time_s=NOW,
            nodes=nodes(5, 8),
            running=[held(f"low{i}", {f"n{i}": 1}, 8) for i in (1, 2, 3)],
            pending=[gang("high", 3, 8, priority=1)],
        )
        assert len(plan.preemptions) == 1
        assert {"n4", "n5"} < set(placed(plan)["high"])

    @pytest.mark.parametrize(("age", "taken"), [(3_600, {"eight"}), (7_200, {"two", "four", "more"})])
    def test_two_four_eight(self, age: int, taken: set[str]) -> None:
        """A job of eight nodes: one victim of eight, unless the smaller ones lose less."""
        sizes = {"two": 2, "four": 4, "more": 2, "eight": 8}
        names, running = iter(range(1, 17)), []
        for name, size in sizes.items():
            seats = {f"n{next(names)}": 1 for _ in range(size)}
            running.append(held(name, seats, 8, started_s=NOW - (age if name == "eight" else 3_600)))
        plan = answer(time_s=NOW, nodes=nodes(16, 8), running=running, pending=[gang("high", 8, 8, priority=1)])
        assert victims(plan) == taken


class TestReport22PingPong:
    """kubernetes-sigs/kueue#3779, #14543, #2821, #6947; volcano#377, #561: gangs that evict each other for ever."""

    @staticmethod
    def cpu(name: str, milli: int, tenant: str, **facts: Any) -> dict[str, Any]:
        return {"name": name, "members": 1, "request": {"cpu_milli": milli}, "tenant": tenant, **facts}

    def test_best_effort_is_not_preempted_over_and_over(self) -> None:
        """#3779: A1 = 250 of a guarantee of 150 and BE1 = 50 run, A2 = 50 waits: A is above what it may reclaim for."""
        tenants = [
            {"name": "A", "quota": {"cpu_milli": 150}},
            {"name": "B", "quota": {"cpu_milli": 150}},
            {"name": "BE", "quota": {"cpu_milli": 0}},
        ]
        running = [
            {**self.cpu("A1", 250, "A"), "placement": {"n": 1}},
            {**self.cpu("BE1", 50, "BE"), "placement": {"n": 1}},
        ]
        snapshot = Snapshot.model_validate(
            {
                "time_s": NOW,
                "nodes": [{"name": "n", "gpus": 0, "cpu_milli": 300}],
                "tenants": tenants,
                "running": running,
                "pending": [self.cpu("A2", 50, "A")],
            }
        )
        (only,) = settled(snapshot)
        assert reasons(only) == {"A2": "protected"}

    def test_what_never_fits_preempts_nobody(self) -> None:
        """#6947: w1 makes way for w3 once; w4, of 4, can't start in a cluster of 3."""
        snapshot = Snapshot.model_validate(
            {
                "time_s": NOW,
                "nodes": [{"name": "n", "gpus": 3}],
                "tenants": [{"name": "A", "quota": {"gpus": 3}}, {"name": "B", "quota": {"gpus": 0}}],
                "running": [held("w1", {"n": 1}, tenant="B")],
                "pending": [
                    gang("w4", 1, 4, tenant="A", submitted_s=1),
                    gang("w3", 1, 3, tenant="A", submitted_s=2),
                ],
            }
        )
        first, second = settled(snapshot)
        assert victims(first) == {"w1"}
        assert list(placed(first)) == ["w3"]
        assert reasons(first) == {"w4": "capacity"}
        assert reasons(second) == {"w4": "capacity", "w1": "protected"}

    def test_equal_jobs_leave_each_other_alone(self) -> None:
        """volcano#377: twelve slots, twenty-four equal jobs, of one queue or of two."""
        for tenants in (["one"], ["one", "two"]):
            running = [held(f"r{i:02}", {"n": 1}, tenant=tenants[i % len(tenants)]) for i in range(12)]
            pending = [gang(f"p{i:02}", tenant=tenants[i % len(tenants)]) for i in range(12)]
            snapshot = Snapshot.model_validate(
                {
                    "time_s": NOW,
                    "nodes": [{"name": "n", "gpus": 12}],
                    "tenants": [{"name": name} for name in tenants],
                    "running": running,
                    "pending": pending,
                }
            )
            (only,) = settled(snapshot)
            assert set(reasons(only).values()) == {"protected"}

    def test_all_of_one_queue_make_way_for_the_other_once(self) -> None:
        """Twelve slots held by one of two equal queues: the other takes its half, and that is the end."""
        snapshot = Snapshot.model_validate(
            {
                "time_s": NOW,
                "nodes": [{"name": "n", "gpus": 12}],
                "tenants": [{"name": "one"}, {"name": "two"}],
                "running": [held(f"r{i:02}", {"n": 1}, tenant="one") for i in range(12)],
                "pending": [gang(f"p{i:02}", tenant="two") for i in range(12)],
            }
        )
        first, second = settled(snapshot)
        assert len(first.preemptions) == len(first.placements) == 6
        assert len(second.blocked) == 12


class TestReport23BigGangsStarve:
    """KAI-Scheduler#1969, volcano#13, #947, #748, kueue#8309, #4809: freed nodes go to small work, one by one."""

    def test_a_domain_is_reserved_and_only_short_work_goes_before(self) -> None:
        """15 of 16 nodes end soon, one is free: the 16-node gang gets a start, and only shorter work fills in."""
        for seconds, starts in ((600, ["filler"]), (601, []), (None, [])):
            plan = answer(
                time_s=NOW,
                nodes=nodes(16, 8),
                running=[held(f"job{i}", {f"n{i}": 1}, 8, expected_end_s=NOW + 40 * i) for i in range(1, 16)],
                pending=[
                    gang("big", 16, 8, submitted_s=1),
                    gang("filler", 1, 8, submitted_s=2, expected_duration_s=seconds),
                ],
            )
            assert list(placed(plan)) == starts
            reserved = plan.blocked[0].reservation
            assert reserved is not None
            assert (plan.blocked[0].gang, reserved.start_s) == ("big", NOW + 600)
            assert reserved.nodes == {f"n{i}": 1 for i in range(1, 17)}
            assert reserved.proof

    def test_a_concrete_domain_not_just_a_number_of_nodes(self) -> None:
        """KAI-Scheduler#1987: two racks of two; the gang needs one whole. Work without end keeps out of that one."""
        racks = [{"name": f"n{i}", "path": [f"r{(i + 1) // 2}"], "gpus": 8} for i in range(1, 5)]
        plan = answer(
            time_s=NOW,
            topology={"levels": [{"name": "rack"}]},
            nodes=racks,
            running=[held("a", {"n1": 1}, 8, expected_end_s=NOW + 600), held("b", {"n3": 1}, 8)],
            pending=[
                gang("big", 2, 8, submitted_s=1, topology={"required": "rack"}),
                gang("long", 1, 8, submitted_s=2),
                gang("longer", 1, 8, submitted_s=3),
            ],
        )
        reserved = plan.blocked[0].reservation
        assert reserved is not None
        assert (reserved.start_s, reserved.nodes) == (NOW + 600, {"n1": 1, "n2": 1})
        assert placed(plan) == {"long": {"n4": 1}}
        assert reasons(plan)["longer"] == "competing"

    def test_a_job_that_needs_more_than_is_free_now_is_not_skipped(self) -> None:
        """ROCm/spur PR#732: 2 of 4 nodes are free, the first job needs 3; the others have no claim on its third."""
        plan = answer(
            time_s=NOW,
            nodes=nodes(4, 8),
            running=[
                held("soon", {"n1": 1}, 8, expected_end_s=NOW + 300),
                held("late", {"n2": 1}, 8, expected_end_s=NOW + 900),
            ],
            pending=[
                gang("first", 3, 8, submitted_s=1, expected_duration_s=3_600),
                *(gang(f"small{i}", 1, 8, submitted_s=2, expected_duration_s=3_600) for i in range(4)),
            ],
        )
        assert not placed(plan)
        reserved = plan.blocked[0].reservation
        assert reserved is not None
        assert (plan.blocked[0].gang, reserved.start_s, sorted(reserved.nodes)) == (
            "first",
            NOW + 300,
            ["n1", "n3", "n4"],
        )

    def test_with_known_ends_the_queue_lends_until_then(self) -> None:
        """kueue#4809 again: `a2` is promised the node for when `a1` ends; B is lent 100m for so long and no longer."""
        cpu = TestReport22PingPong.cpu
        for seconds, starts in ((600, ["b1"]), (601, []), (None, [])):
            plan = answer(
                time_s=NOW,
                nodes=[{"name": "n", "gpus": 0, "cpu_milli": 200}],
                tenants=[{"name": "A", "quota": {"cpu_milli": 200}}, {"name": "B", "quota": {"cpu_milli": 0}}],
                running=[{**cpu("a1", 100, "A"), "placement": {"n": 1}, "expected_end_s": NOW + 600}],
                pending=[cpu("a2", 200, "A"), {**cpu("b1", 100, "B"), "expected_duration_s": seconds}],
                policy={"preemption": {"across": "never"}},
            )
            assert list(placed(plan)) == starts
            reserved = plan.blocked[0].reservation
            assert reserved is not None
            assert (plan.blocked[0].gang, reserved.start_s) == ("a2", NOW + 600)

    def test_what_a_queue_does_not_use_is_lent(self) -> None:
        """kueue#4809: 200m, 100m of it running and a job of 200m waiting; the other queue's 100m start meanwhile.

        Nothing is known to end, so nothing can be promised: what is idle is lent.
        """
        cpu = TestReport22PingPong.cpu
        plan = answer(
            time_s=NOW,
            nodes=[{"name": "n", "gpus": 0, "cpu_milli": 200}],
            tenants=[{"name": "A", "quota": {"cpu_milli": 200}}, {"name": "B", "quota": {"cpu_milli": 0}}],
            running=[{**cpu("a1", 100, "A"), "placement": {"n": 1}}],
            pending=[cpu("a2", 200, "A"), cpu("b1", 100, "B")],
        )
        assert list(placed(plan)) == ["b1"]
        assert reasons(plan) == {"a2": "protected"}


class TestReport27TerminatingGangsAreReused:
    """kubernetes-sigs/kueue#15211, #14187, #15263: new victims although earlier ones are still leaving."""

    def test_their_space_comes_first_and_the_start_waits_for_it(self) -> None:
        plan = answer(
            time_s=NOW,
            nodes=nodes(2, 8),
            running=[
                held("leaving", {"n1": 1}, 8, phase="terminating", expected_end_s=NOW + 120),
                held("low", {"n2": 1}, 8, started_s=NOW),
            ],
            pending=[gang("high", 1, 8, priority=1)],
        )
        assert not plan.preemptions
        assert [(p.gang, p.nodes(), p.starts_after_s) for p in plan.placements] == [("high", {"n1": 1}, NOW + 120)]

    def test_what_is_free_on_a_node_being_freed_goes_to_the_first(self) -> None:
        plan = answer(
            time_s=NOW,
            nodes=nodes(1, 16),
            running=[held("leaving", {"n1": 1}, 8, phase="terminating")],
            pending=[gang("now", 1, 8, priority=1), gang("later", 1, 8)],
        )
        assert [(p.gang, p.starts_after_s) for p in plan.placements] == [("now", None), ("later", NOW + 300)]


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


class TestReport34HundredSubgroups:
    """volcano-sh/volcano#4899: 1,000 nodes in 100 tier-1 domains of 10, 100 subgroups of 10 members, each in a domain.

    The scheduler tried domains one by one and the job waited. An exact fit: every subgroup starts, one per domain.
    """

    @pytest.mark.parametrize("shuffled", [False, True])
    def test_all_start_one_per_domain(self, shuffled: bool) -> None:
        subgroups = [
            gang(f"g{i:03d}", 10, 8, topology={"required": "tier1"}, submitted_s=(i * 37) % 100 if shuffled else i)
            for i in range(100)
        ]
        racks = [{"name": f"n[{10 * d:04d}-{10 * d + 9:04d}]", "path": [f"d{d:03d}"], "gpus": 8} for d in range(100)]
        plan = answer(
            time_s=NOW,
            topology={"levels": [{"name": "tier1"}]},
            nodes=racks,
            pending=subgroups,
            policy={"deterministic": True},
        )
        assert {step.decided_by for step in plan.considered} == {"greedy"}
        assert len(placed(plan)) == 100
        domains = [{int(node[1:]) // 10 for node in spread} for spread in placed(plan).values()]
        assert all(len(touched) == 1 for touched in domains)
        assert len(set().union(*domains)) == 100
        assert tier(plan, "distance") == 100 * 9  # ten nodes each, in one domain

    def test_one_domain_short_of_a_node(self) -> None:
        """With one node gone one subgroup waits, and no other."""
        racks = [{"name": f"n[{10 * d:04d}-{10 * d + 9:04d}]", "path": [f"d{d:03d}"], "gpus": 8} for d in range(99)]
        racks.append({"name": "n[0990-0998]", "path": ["d099"], "gpus": 8})
        plan = answer(
            time_s=NOW,
            topology={"levels": [{"name": "tier1"}]},
            nodes=racks,
            pending=[gang(f"g{i:03d}", 10, 8, topology={"required": "tier1"}, submitted_s=i) for i in range(100)],
            policy={"deterministic": True},
        )
        assert len(placed(plan)) == 99
        assert list(reasons(plan)) == ["g099"]


class TestReport36NeverAcross:
    """kubernetes-sigs/kueue#3210: a gang of another queue is preempted although that is switched off."""

    @pytest.mark.parametrize("quota", [None, {"gpus": 8}])
    def test_no_victim_of_another_tenant_whatever_the_priority(self, quota: dict[str, int] | None) -> None:
        plan = answer(
            time_s=NOW,
            nodes=nodes(1, 8),
            tenants=[{"name": "A", "quota": quota}, {"name": "B"}],
            running=[held("theirs", {"n1": 1}, 8, tenant="B", priority=-5)],
            pending=[gang("mine", 1, 8, tenant="A", priority=1_000)],
            policy={"preemption": {"across": "never"}},
        )
        assert not plan.preemptions
        assert reasons(plan) == {"mine": "protected"}


class TestReport39MinimumRun:
    """kubernetes-sigs/kueue#9876, #9596: a victim younger than its minimum run, and nobody says when to try again."""

    def test_it_is_left_alone_and_the_answer_says_until_when(self) -> None:
        request: dict[str, Any] = {
            "nodes": nodes(2, 8),
            "running": [
                held("young", {"n1": 1}, 8, started_s=NOW - 100, min_runtime_s=7_200),
                held("younger", {"n2": 1}, 8, started_s=NOW - 50, min_runtime_s=7_200),
            ],
            "pending": [gang("high", 1, 8, priority=1)],
        }
        plan = answer(time_s=NOW, **request)
        assert not plan.preemptions
        (blocked,) = plan.blocked
        assert (blocked.reason, blocked.retry_at_s) == ("protected", NOW + 7_100)
        assert not answer(time_s=NOW + 7_099, **request).preemptions
        assert victims(answer(time_s=NOW + 7_100, **request)) == {"young"}


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
