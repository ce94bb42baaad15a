"""Rules between fields: every message names the field, the value and what is allowed."""

from __future__ import annotations

from typing import Any

import pytest
from hand_made import gang, node, racks, running, snapshot
from pydantic import ValidationError

from gangfit.models import MAX_NODES, Policy, Snapshot, overcommitted
from gangfit.models.validation import MAX_FAULTS
from gangfit.solver import solve

Fault = tuple[str, Any, str]
"""Location, value, message."""


def faults(
    nodes: list[dict[str, Any]],
    pending: list[dict[str, Any]] | None = None,
    running: list[dict[str, Any]] | None = None,
    **facts: Any,
) -> list[Fault]:
    """Faults of a round; with a level `rack`, unless said otherwise."""
    with pytest.raises(ValidationError) as caught:
        snapshot(nodes, pending or [], running, **facts)
    return [(".".join(map(str, fault["loc"])), fault["input"], fault["msg"]) for fault in caught.value.errors()]


NODES = [node("a", "r"), node("b", "r")]


class TestTopology:
    def test_path_of_the_wrong_length(self) -> None:
        assert faults([node("a", "r"), node("b"), node("c", "r", "s")]) == [
            ("nodes.1.path", (), "path of node 'b' has 0 entries; the topology has 1 levels ('rack'), one entry each"),
            (
                "nodes.2.path", ("r", "s"),
                "path of node 'c' has 2 entries; the topology has 1 levels ('rack'), one entry each",
            ),
        ]  # fmt: skip

    def test_a_path_without_levels(self) -> None:
        (fault,) = faults([node("a", "r")], levels="")
        assert fault[2] == "path of node 'a' has 1 entries; the topology has 0 levels (none), one entry each"

    def test_two_levels_of_one_name(self) -> None:
        (fault,) = faults([node("a", "x", "y")], levels="rack rack")
        assert fault == ("topology.levels.1.name", "rack", "level 'rack' is listed twice; level names are unique")

    def test_a_level_called_node(self) -> None:
        (fault,) = faults([node("a", "x")], levels="node")
        assert fault == ("topology.levels.0.name", "node", "level name 'node' is taken by the implicit last level")

    def test_default_weights_that_grow_too_large(self) -> None:
        (fault,) = faults([node("a", *"x" * 16)], levels=" ".join(f"l{i}" for i in range(16)))
        assert fault[:2] == ("topology.levels", 4**16)
        assert "the limit is 1000000000" in fault[2]
        snapshot([node("a", *"x" * 14)], [], levels=" ".join(f"l{i}" for i in range(14)))

    def test_more_than_sixteen_levels(self) -> None:
        assert faults([node("a", *"x" * 17)], levels=" ".join(f"l{i}" for i in range(17)))[0][0] == "topology.levels"

    @pytest.mark.parametrize("field", ["required", "preferred"])
    @pytest.mark.parametrize("level", ["Rack", "spine", "rack "])
    def test_unknown_level(self, field: str, level: str) -> None:
        (fault,) = faults(NODES, [gang("g", **{field: level})])
        assert fault == (f"pending.0.topology.{field}", level, f"unknown level {level!r}; known: 'rack', 'node'")

    @pytest.mark.parametrize("level", ["rack", "node"])
    def test_known_levels(self, level: str) -> None:
        assert snapshot(NODES, [gang("g", required=level, preferred=level)]).pending[0].topology.required == level


class TestNames:
    def test_two_nodes_of_one_name(self) -> None:
        (fault,) = faults([node("n[1-3]", "r"), node("n2", "r")])
        assert fault == ("nodes.1.name", "n2", "node 'n2' is also in nodes[0]; node names are unique")

    def test_a_hostlist_with_itself(self) -> None:
        (fault,) = faults([node("n[1,1]", "r")])
        assert fault[0] == "nodes.0.name"
        assert "node 'n1' is also in nodes[0]" in fault[2]

    def test_names_that_differ_by_padding_are_two(self) -> None:
        assert snapshot([node("n[1,01]", "r")], []).node_names == (("n1", "n01"),)

    def test_a_malformed_hostlist(self) -> None:
        (fault,) = faults([node("ok", "r"), node("n[1-]", "r")])
        assert fault[:2] == ("nodes.1.name", "n[1-]")
        assert "'1-' is neither a number nor a range such as 001-032" in fault[2]

    def test_too_many_nodes_in_all(self) -> None:
        half = MAX_NODES // 2
        found = faults([node(f"a[0-{half}]", "r"), node(f"b[0-{half}]", "r")])
        assert found == [("nodes.1.name", f"b[0-{half}]", f"more than {MAX_NODES} nodes in all; that is the limit")]

    @pytest.mark.parametrize(
        ("pending", "held", "at", "other"),
        [
            ([gang("g"), gang("g")], [], "pending.1.name", "pending[0]"),
            ([gang("g")], [running("g", {"a": 1})], "pending.0.name", "running[0]"),
            ([], [running("g", {"a": 1}), running("g", {"b": 1})], "running.1.name", "running[0]"),
        ],
    )
    def test_two_gangs_of_one_name(self, pending: list[Any], held: list[Any], at: str, other: str) -> None:
        assert faults(NODES, pending, running=held) == [(at, "g", f"gang 'g' is also {other}; names are unique")]

    def test_two_tenants_of_one_name(self) -> None:
        found = faults(NODES, tenants=[{"name": "t"}, {"name": "u"}, {"name": "t"}])
        assert {fault[0] for fault in found} >= {"tenants.2.name"}
        assert found[-1][1:] == ("t", "tenant 't' is listed twice; names are unique")

    def test_unknown_tenant(self) -> None:
        (fault,) = faults(NODES, [gang("g", tenant="x")], tenants=[{"name": "t"}])
        assert fault == ("pending.0.tenant", "x", "unknown tenant 'x'; known: 'default', 't'")

    def test_long_lists_are_cut(self) -> None:
        (fault,) = faults(NODES, [gang("g", tenant="x")], tenants=[{"name": f"t{i}"} for i in range(50)])
        assert fault[2].endswith("… (51 in all)")


class TestGangs:
    def test_a_member_that_asks_nothing(self) -> None:
        for request in ({}, {"gpus": 0}, {"resources": {"rdma": 0}}):
            (fault,) = faults(NODES, [gang("g", request=request)])
            assert fault[0] == "pending.0.request"
            assert "at least one of gpus, cpu_milli, memory_mib, resources" in fault[2]

    def test_what_all_gangs_ask_has_a_limit(self) -> None:
        message = "the gangs ask {} of memory_mib in all; the limit is " + str(2**40 - 1)
        (fault,) = faults(NODES, [gang("g", 10**6, request={"memory_mib": 10**10})])
        assert fault == ("pending", 10**16, message.format(10**16))
        halves = [gang(name, 2**9, request={"memory_mib": 2**30}) for name in "gh"]
        (fault,) = faults(NODES, halves)
        assert fault == ("pending", 2**40, message.format(2**40))
        most = [halves[0], gang("h", 2**9 - 1, request={"memory_mib": 2**30})]
        assert snapshot(NODES, most).pending[1].members == 2**9 - 1

    @pytest.mark.parametrize(
        ("toleration", "message"),
        [
            ({"key": "k", "value": "v"}, "value 'v' has no meaning with operator Exists; use Equal or leave it out"),
            ({"operator": "Equal", "value": "v"}, "operator Equal needs a key"),
        ],
    )
    def test_tolerations_that_mean_nothing(self, toleration: dict[str, str], message: str) -> None:
        (fault,) = faults(NODES, [gang("g", tolerations=[toleration])])
        assert fault[0] == "pending.0.tolerations.0"
        assert message in fault[2]

    def test_a_placement_that_misses_members(self) -> None:
        held = running("old", {"a": 1})
        (fault,) = faults(NODES, running=[{**held, "members": 3}])
        assert fault == ("running.0.placement", 1, "gang 'old' has 3 members, its placement has 1")

    def test_a_placement_on_an_unknown_node(self) -> None:
        (fault,) = faults(NODES, running=[running("old", {"c": 1})])
        assert fault == ("running.0.placement.c", "c", "unknown node 'c'; 2 nodes are known")

    def test_a_placement_names_single_nodes(self) -> None:
        (fault,) = faults([node("n[1-2]", "r")], running=[running("old", {"n[1-2]": 1})])
        assert "unknown node 'n[1-2]'" in fault[2]


class TestInstants:
    """What has happened has happened by `time_s`."""

    @pytest.mark.parametrize(
        ("facts", "at", "field"),
        [
            ({"running": [running("x", {"a": 1}, started_s=101)]}, "running.0.started_s", "started_s"),
            (
                {"running": [running("x", {"a": 1}, checkpoint={"last_s": 101})]},
                "running.0.checkpoint.last_s",
                "last_s",
            ),
            ({"pending": [gang("x", checkpoint={"last_s": 101})]}, "pending.0.checkpoint.last_s", "last_s"),
            ({"pending": [gang("x", preempted_s=101)]}, "pending.0.preempted_s", "preempted_s"),
        ],
    )
    def test_none_is_later(self, facts: dict[str, Any], at: str, field: str) -> None:
        message = f"{field} is 101, after time_s 100; 100 is the latest"
        assert faults(NODES, **facts, time_s=100) == [(at, 101, message)]
        snapshot(NODES, facts.get("pending", []), facts.get("running"), time_s=101)

    def test_submission_and_end_may_be(self) -> None:
        leaving = running("x", {"a": 1}, phase="terminating", expected_end_s=200)
        snapshot(NODES, [gang("g", submitted_s=200)], [leaving], time_s=100)


class TestResources:
    @pytest.mark.parametrize("field", ["quota", "limit"])
    def test_quotas_and_limits_name_what_some_node_has(self, field: str) -> None:
        tenant = {"name": "t", field: {"gpus": 1, "resources": {"rdma": 1, "tpu": 2}}}
        nodes = [*NODES, node("c", "r", resources={"rdma": 0})]
        message = f"{field} of tenant 't' names resource 'tpu', which no node has; known: 'rdma'"
        assert faults(nodes, tenants=[tenant]) == [(f"tenants.0.{field}.resources.tpu", 2, message)]

    @pytest.mark.parametrize("overcommit", ["reject", "clamp"])
    def test_used_too(self, overcommit: str) -> None:
        nodes = [node("a", "r", used={"resources": {"tpu": 0}})]
        message = "used of node 'a' names resource 'tpu', which no node has; known: none"
        found = faults(nodes, policy={"overcommit": overcommit})
        assert found == [("nodes.0.used.resources.tpu", 0, message)]

    @pytest.mark.parametrize("name", ["gpus", "cpu_milli", "memory_mib"])
    def test_built_in_names_are_fields(self, name: str) -> None:
        for found in (
            faults([node("a", "r", resources={name: 1})]),
            faults([node("a", "r", used={"resources": {name: 1}})]),
            faults(NODES, [gang("g", request={"resources": {name: 1}})]),
            faults(NODES, tenants=[{"name": "t", "limit": {"resources": {name: 1}}}]),
        ):
            ((at, value, message),) = found
            assert at.endswith("resources")
            assert value == {name: 1}
            assert f"resource {name!r} is a field of its own" in message


class TestOvercommit:
    over = [running("old", {"r0n0": 1}, 5), running("more", {"r0n0": 1}, 2)]

    def test_refused_by_default(self) -> None:
        (fault,) = faults(racks((6, 8)), running=self.over)
        assert fault[:2] == ("nodes.0.gpus", 9)
        assert fault[2].startswith("node 'r0n0': running gangs and `used` take 9 of gpus, it has 8; ")
        assert "policy.overcommit 'clamp'" in fault[2]

    @pytest.mark.parametrize(
        ("facts", "resource", "taken", "limit"),
        [
            ({"used": {"gpus": 9}}, "gpus", 9, 8),
            ({"cpu_milli": 3, "used": {"cpu_milli": 4}}, "cpu_milli", 4, 3),
            ({"memory_mib": 0, "used": {"memory_mib": 1}}, "memory_mib", 1, 0),
            ({"resources": {"x": 1}, "used": {"resources": {"x": 2}}}, "resources.x", 2, 1),
            ({"used": {"resources": {"x": 1}}}, "resources.x", 1, 0),
        ],
    )
    def test_of_every_resource(self, facts: dict[str, Any], resource: str, taken: int, limit: int) -> None:
        (fault,) = faults([node("n", "r", **facts), node("m", "r", resources={"x": 9})])
        assert f"take {taken} of {resource}, it has {limit}" in fault[2]
        clamped = snapshot(
            [node("n", "r", **facts), node("m", "r", resources={"x": 9})], [], policy={"overcommit": "clamp"}
        )
        assert overcommitted(clamped, {"n": 0}) == [("n", resource, taken, limit)]

    def test_exactly_full_is_fine(self) -> None:
        snapshot([node("n", "r", cpu_milli=1, used={"gpus": 8, "cpu_milli": 1})], [])

    def test_without_limit_there_is_no_too_much(self) -> None:
        snapshot([node("n", "r", used={"cpu_milli": 10**9, "memory_mib": 10**10})], [])

    def test_clamped_nodes_are_full_and_named(self) -> None:
        clamped = snapshot(racks((6, 8)), [gang("g", 1, 1)], self.over, policy={"overcommit": "clamp"})
        answer = solve(clamped)
        assert answer.placements[0].nodes() == {"r0n1": 1}
        assert answer.warnings == ("node 'r0n0': gpus overcommitted by 1, taken as full",)

    def test_other_faults_come_first(self) -> None:
        """What the free space is can't be said while names are in doubt."""
        found = faults(racks((6, 8)), [gang("g", tenant="x")], running=self.over)
        assert [fault[0] for fault in found] == ["pending.0.tenant"]


class TestMany:
    def test_all_faults_in_one_answer(self) -> None:
        found = faults([node("a"), node("a", "r")], [gang("g", tenant="x", required="y"), gang("g")])
        assert [fault[0] for fault in found] == [
            "nodes.1.name", "nodes.0.path", "pending.0.tenant", "pending.0.topology.required", "pending.1.name",
        ]  # fmt: skip

    def test_but_no_more_than_the_limit(self) -> None:
        assert len(faults(NODES, [gang(f"g{i}", tenant="x") for i in range(500)])) == MAX_FAULTS

    def test_nothing_is_dropped(self) -> None:
        document = snapshot(racks((8, 4)), [gang("g", required="rack")], [running("old", {"r0n0": 1})])
        assert Snapshot.model_validate(document.model_dump()) == document


def test_a_duration_is_a_second_or_more() -> None:
    waiting = {"name": "g", "members": 1, "request": {"gpus": 1}, "expected_duration_s": 0}
    with pytest.raises(ValidationError, match="expected_duration_s"):
        Snapshot.model_validate({"nodes": [{"name": "n", "gpus": 1}], "pending": [waiting]})


def test_leximin_reserves_nothing() -> None:
    policy = {"order": "leximin", "preemption": {"within": "never", "across": "never"}}
    assert not Policy.model_validate(policy).reserves
    assert Policy().reserves
    assert not Policy(reservation="never").reserves
    with pytest.raises(ValidationError, match="order 'leximin' has no first gang that waits"):
        Policy.model_validate({**policy, "reservation": "head"})
