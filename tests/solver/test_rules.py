"""One test class per rule of docs/model.md, of the same name: the answer keeps it, both formulations have it, the
checker flags a plan that breaks it. A rule that is taken out of a formulation fails its class.

Rules of tenants are in `test_rules_tenants.py`, those of victims in `test_rules_victims.py`.
"""

from __future__ import annotations

import ast
import inspect
import re
from pathlib import Path
from typing import ClassVar

import pytest
from formulations import ELIGIBILITY, forget, merged_answer, plain_answer
from hand_made import Json, broken_rules, gang, node, placed, plan, racks, rules_broken_by, running, snapshot
from vectors import tiers

import gangfit.solver.admission
from gangfit.models import Snapshot
from gangfit.solver import InvalidPlanError, assignment, check, eligibility, movers, oracle, solve, trim, victims
from gangfit.solver.checker import rules as checker_rules
from gangfit.solver.checker import tiers as checker_tiers
from gangfit.solver.joint import Joint
from gangfit.solver.merged import Merged
from gangfit.solver.plain import Plain

DOC = Path(__file__).parents[2] / "docs" / "model.md"


def values(snapshot: Snapshot) -> tuple[int, ...]:
    """Tier values after admission of a proven answer that preempts nobody."""
    answer = solve(snapshot)
    assert answer.status == "optimal"
    return tiers(answer)


class Hard:
    """What holds for each of rules 1–7."""

    rule: ClassVar[str]
    round: ClassVar[Snapshot]
    starts: ClassVar[tuple[str, ...]]
    """Gangs that start in the round."""
    too_many: ClassVar[list[str]]
    """Gangs that this rule alone keeps from starting together."""
    breaking: ClassVar[dict[str, dict[str, int]]]
    """Placements that break this rule."""

    def test_solve_keeps_it(self) -> None:
        answer = solve(self.round)
        assert tuple(placed(answer)) == self.starts
        assert answer.status == "optimal"
        assert check(self.round, answer).ok

    def test_plain_model_has_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        assert plain_answer(self.round).admitted == self.starts
        forget(monkeypatch, Plain, self.rule)
        assert plain_answer(self.round).admitted != self.starts

    @pytest.mark.parametrize("single", [False, True])
    def test_merged_model_has_it(self, monkeypatch: pytest.MonkeyPatch, single: bool) -> None:
        assert merged_answer(self.round, list(self.starts), single=single) is not None
        assert merged_answer(self.round, self.too_many, single=single) is None
        forget(monkeypatch, Merged, self.rule)
        assert merged_answer(self.round, self.too_many, single=single) is not None

    def test_checker_flags_it(self) -> None:
        assert self.rule in broken_rules(self.round, self.breaking)
        assert not check(self.round, plan(placed(solve(self.round)))).violations

    def test_a_plan_that_breaks_it_is_never_an_answer(self, monkeypatch: pytest.MonkeyPatch) -> None:
        if self.rule in ELIGIBILITY:
            forget(monkeypatch, Plain, self.rule)
            with pytest.raises(InvalidPlanError):
                solve(self.round)
        # Whatever led to it: no plan leaves `solve` that the checker refuses.
        monkeypatch.setattr("gangfit.solver.round.answer", lambda *_, **__: plan(self.breaking))
        with pytest.raises(InvalidPlanError):
            solve(self.round)


class TestWholeGang(Hard):
    rule = "whole_gang"
    round = snapshot(racks((8, 8)), [gang("three", 3), gang("two", 2)])
    starts = ("two",)
    too_many = ["three"]
    breaking = {"three": {"r0n0": 1, "r0n1": 1}}

    def test_more_members_than_asked(self) -> None:
        assert "whole_gang" in broken_rules(self.round, {"two": {"r0n0": 2, "r0n1": 1}})

    def test_placed_and_blocked(self) -> None:
        answer = solve(self.round)
        both = answer.model_copy(
            update={"blocked": (*answer.blocked, answer.blocked[0].model_copy(update={"gang": "two"}))}
        )
        assert "whole_gang" in {violation.rule for violation in check(self.round, both).violations}

    def test_placed_twice(self) -> None:
        once = plan({"two": {"r0n0": 1, "r0n1": 1}})
        twice = once.model_copy(update={"placements": once.placements * 2})
        assert "whole_gang" in {violation.rule for violation in check(self.round, twice).violations}


class TestNodeCapacity(Hard):
    rule = "node_capacity"
    round = snapshot(racks((8,)), [gang("first", 2, 3), gang("second", 1, 4)])
    starts = ("first",)
    too_many = ["first", "second"]
    breaking = {"first": {"r0n0": 2}, "second": {"r0n0": 1}}

    @pytest.mark.parametrize(
        ("capacity", "asks"),
        [
            ({"cpu_milli": 999}, {"gpus": 1, "cpu_milli": 500}),
            ({"memory_mib": 1023}, {"gpus": 1, "memory_mib": 512}),
            ({"resources": {"rdma": 1}}, {"gpus": 1, "resources": {"rdma": 1}}),
            ({}, {"gpus": 1, "resources": {"rdma": 1}}),
        ],
    )
    def test_every_resource_binds(self, capacity: Json, asks: Json) -> None:
        round = snapshot([node("n", "r", **capacity)], [gang("pair", 2, request=asks)])
        assert not placed(solve(round))
        assert not plain_answer(round).admitted
        assert broken_rules(round, {"pair": {"n": 2}}) == {"node_capacity"}

    def test_running_gangs_and_used_take(self) -> None:
        nodes = [node("n", "r", used={"gpus": 2})]
        round = snapshot(nodes, [gang("one", 1, 4)], [running("old", {"n": 1}, 3)])
        assert not placed(solve(round))
        assert broken_rules(round, {"one": {"n": 1}}) == {"node_capacity"}

    def test_clamped_resource_hinders_only_those_who_ask_it(self) -> None:
        nodes = [node("n", "r", cpu_milli=1, used={"cpu_milli": 2})]
        asks = {"gpus": 1, "cpu_milli": 1}
        round = snapshot(nodes, [gang("asks", request=asks), gang("not")], policy={"overcommit": "clamp"})
        assert list(placed(solve(round))) == ["not"]
        assert plain_answer(round).admitted == ("not",)
        assert broken_rules(round, {"asks": {"n": 1}}) >= {"node_capacity"}


class TestNodeState(Hard):
    rule = "node_state"
    round = snapshot([node("up", "r"), node("off", "r", state="down")], [gang("a"), gang("b")])
    starts = ("a",)
    too_many = ["a", "b"]
    breaking = {"a": {"off": 1}}

    @pytest.mark.parametrize("state", ["cordoned", "down"])
    def test_no_state_but_ready(self, state: str) -> None:
        round = snapshot([node("n", "r", state=state)], [gang("a")])
        assert not placed(solve(round))
        assert broken_rules(round, {"a": {"n": 1}}) == {"node_state"}

    def test_running_members_stay_on_nodes_that_left(self) -> None:
        round = snapshot([node("n", "r"), node("off", "r", state="down")], [gang("a")], [running("old", {"off": 1})])
        assert placed(solve(round)) == {"a": {"n": 1}}


class TestNodeSelector(Hard):
    rule = "node_selector"
    round = snapshot(
        [node("in", "r", labels={"pool": "a"}), node("out", "r", labels={"pool": "b"})],
        [gang("a", selector={"pool": "a"}), gang("b", selector={"pool": "a"})],
    )
    starts = ("a",)
    too_many = ["a", "b"]
    breaking = {"a": {"out": 1}}

    @pytest.mark.parametrize(
        ("labels", "fits"),
        [({}, False), ({"pool": "a"}, False), ({"pool": "a", "zone": ""}, True), ({"pool": "A", "zone": ""}, False)],
    )
    def test_every_key_with_its_very_value(self, labels: dict[str, str], fits: bool) -> None:
        round = snapshot([node("n", "r", labels=labels)], [gang("a", selector={"pool": "a", "zone": ""})])
        assert bool(placed(solve(round))) is fits
        assert broken_rules(round, {"a": {"n": 1}}) == (set() if fits else {"node_selector"})


class TestNodeTaints(Hard):
    rule = "node_taints"
    round = snapshot([node("bare", "r"), node("hot", "r", taints=[{"key": "hot"}])], [gang("a"), gang("b")])
    starts = ("a",)
    too_many = ["a", "b"]
    breaking = {"a": {"hot": 1}}

    @pytest.mark.parametrize(
        ("tolerations", "fits"),
        [
            ([], False),
            ([{"key": "k"}], True),
            ([{"key": "other"}], False),
            ([{"operator": "Exists"}], True),
            ([{"key": "k", "operator": "Equal", "value": "v"}], True),
            ([{"key": "k", "operator": "Equal", "value": ""}], False),
            ([{"key": "other", "operator": "Equal", "value": "v"}], False),
            ([{"key": "k", "effect": "NoExecute"}], True),
            ([{"key": "k", "effect": "NoSchedule"}], False),
            ([{"operator": "Exists", "effect": "NoSchedule"}], False),
            ([{"key": "other"}, {"key": "k"}], True),
        ],
    )
    def test_what_tolerates_what(self, tolerations: list[Json], fits: bool) -> None:
        taints = [{"key": "k", "value": "v", "effect": "NoExecute"}]
        round = snapshot([node("n", "r", taints=taints)], [gang("a", tolerations=tolerations)])
        assert bool(placed(solve(round))) is fits
        assert broken_rules(round, {"a": {"n": 1}}) == (set() if fits else {"node_taints"})

    def test_one_taint_of_two_is_not_enough(self) -> None:
        round = snapshot([node("n", "r", taints=[{"key": "k"}, {"key": "l"}])], [gang("a", tolerations=[{"key": "k"}])])
        assert not placed(solve(round))
        assert broken_rules(round, {"a": {"n": 1}}) == {"node_taints"}


class TestGpuModel(Hard):
    rule = "gpu_model"
    round = snapshot(
        [node("new", "r", gpu_model="H100"), node("old", "r", gpu_model="A100")],
        [gang("a", gpu_model="H100"), gang("b", gpu_model="H100")],
    )
    starts = ("a",)
    too_many = ["a", "b"]
    breaking = {"a": {"old": 1}}

    def test_a_node_of_unknown_model_serves_nobody_who_names_one(self) -> None:
        round = snapshot([node("n", "r")], [gang("names", gpu_model="H100"), gang("any")])
        assert list(placed(solve(round))) == ["any"]
        assert "gpu_model" in broken_rules(round, {"names": {"n": 1}})


class TestRequiredLevel(Hard):
    rule = "required_level"
    round = snapshot(racks((8,), (8,)), [gang("pair", 2, required="rack", priority=1), gang("one")])
    starts = ("one",)
    too_many = ["pair"]
    breaking = {"pair": {"r0n0": 1, "r1n0": 1}}

    def test_required_node_is_one_node(self) -> None:
        round = snapshot(racks((8, 8)), [gang("pair", 2, 5, required="node"), gang("fits", 2, 4, required="node")])
        assert list(placed(solve(round))) == ["fits"]
        assert len(placed(solve(round))["fits"]) == 1
        assert "required_level" in broken_rules(round, {"pair": {"r0n0": 1, "r0n1": 1}})

    def test_required_node_found_by_search_is_one_node(self) -> None:
        """The admission model merges alike nodes; a gang that needs one node must not be handed two of them."""
        round = snapshot(racks((8, 8)), [gang("a", 2, 2, required="node", priority=1), gang("b", 2, 5)])
        answer = solve(round)
        assert answer.considered[1].decided_by == "search"
        assert [len(on) for on in placed(answer).values()] == [1]

    def test_a_domain_is_its_whole_path(self) -> None:
        nodes = [node("x", "s0", "r0"), node("y", "s1", "r0")]
        round = snapshot(nodes, [gang("pair", 2, required="rack")], levels="spine rack")
        assert not placed(solve(round))
        assert broken_rules(round, {"pair": {"x": 1, "y": 1}}) == {"required_level"}

    @pytest.mark.parametrize("path", [(None, "r0"), ("s0", None), (None, None)])
    def test_an_unknown_domain_serves_nobody_who_requires_it(self, path: tuple[str | None, ...]) -> None:
        round = snapshot([node("n", *path)], [gang("one", required="rack"), gang("any")], levels="spine rack")
        assert list(placed(solve(round))) == ["any"]
        assert plain_answer(round).admitted == ("any",)
        assert "required_level" in broken_rules(round, {"one": {"n": 1}})

    def test_a_known_prefix_is_enough(self) -> None:
        round = snapshot([node("n", "s0", None)], [gang("one", required="spine")], levels="spine rack")
        assert placed(solve(round)) == {"one": {"n": 1}}


class TestAdmission:
    round = snapshot(racks((8, 8)), [gang("big", 2, priority=1), gang("x"), gang("y")])
    """Two small gangs would be more in number; the one that goes first decides."""
    joint = snapshot(racks((8,), (4, 4)), [gang("a", 2, 4, priority=1), gang("b")])
    """`a` alone would sit on the one node that `b` needs."""

    @pytest.mark.parametrize("placings", [0, 600])
    def test_solve_keeps_it(self, placings: int, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(gangfit.solver.admission, "PLACINGS", placings)
        assert list(placed(solve(self.round))) == ["big"]
        assert placed(solve(self.joint)) == {"a": {"r1n0": 1, "r1n1": 1}, "b": {"r0n0": 1}}
        assert solve(self.joint).considered[1].decided_by == ("greedy" if placings else "search")

    def test_plain_model_has_it(self) -> None:
        assert plain_answer(self.round).admitted == ("big",)
        assert plain_answer(self.joint).admitted == ("a", "b")

    def test_merged_model_has_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        """Without its answer `b` waits, and nobody claims to know why."""
        monkeypatch.setattr(gangfit.solver.admission, "PLACINGS", 0)
        monkeypatch.setattr(oracle, "MODEL_LIMIT", -1)
        answer = solve(self.joint)
        assert list(placed(answer)) == ["a"]
        assert answer.blocked[0].reason == "undecided"
        assert answer.status == "feasible"

    def test_checker_flags_it(self) -> None:
        assert broken_rules(self.round, {}) == {"admission"}
        assert broken_rules(self.round, {"x": {"r0n0": 1}}) == {"admission"}
        assert not broken_rules(self.round, {"x": {"r0n0": 1}, "y": {"r0n1": 1}})

    def test_checker_flags_a_wrong_order(self) -> None:
        answer = solve(self.round)
        swapped = answer.model_copy(update={"considered": answer.considered[::-1]})
        assert "considered_order" in {violation.rule for violation in check(self.round, swapped).violations}


class Soft:
    """What holds for each tier."""

    rule: ClassVar[str]
    round: ClassVar[Snapshot]
    """One in which later tiers want another plan than this one."""
    best: ClassVar[tuple[int, ...]]
    tier: ClassVar[int]
    """Place in `best`."""

    def test_solve_keeps_it(self) -> None:
        assert values(self.round) == self.best

    def test_plain_model_has_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        answer = plain_answer(self.round)
        assert answer.stated == answer.real == self.best
        self.forget(monkeypatch, Plain)
        forgotten = plain_answer(self.round)
        assert forgotten.admitted == answer.admitted
        assert forgotten.real[: self.tier] == self.best[: self.tier]
        assert forgotten.real[self.tier] > self.best[self.tier]

    @pytest.mark.parametrize("single", [False, True])
    def test_merged_model_has_it(self, monkeypatch: pytest.MonkeyPatch, single: bool) -> None:
        names = [waiting.name for waiting in self.round.pending]
        answer = merged_answer(self.round, names, single=single)
        assert answer is not None
        assert answer.stated == answer.real == self.best
        self.forget(monkeypatch, Merged)
        forgotten = merged_answer(self.round, names, single=single)
        assert forgotten is not None
        assert forgotten.real[: self.tier] == self.best[: self.tier]
        assert forgotten.real[self.tier] > self.best[self.tier]

    def test_checker_flags_it(self) -> None:
        answer = solve(self.round)
        report = check(self.round, answer)
        assert tuple(tier.value for tier in report.tiers[2:]) == self.best
        better = answer.tiers[2 + self.tier].model_copy(update={"value": self.best[self.tier] - 1})
        claimed = (*answer.tiers[: 2 + self.tier], better, *answer.tiers[3 + self.tier :])
        assert rules_broken_by(self.round, answer.model_copy(update={"tiers": claimed})) == {"claims"}

    def forget(self, monkeypatch: pytest.MonkeyPatch, formulation: type[Plain] | type[Merged]) -> None:
        forget(monkeypatch, formulation, self.rule)


class TestPreferredLevel(Soft):
    """Two nodes of two racks instead of three nodes of one."""

    rule = "preferred_level"
    tier = 0
    round = snapshot(racks((8, 4, 4), (8,)), [gang("a", 4, 4, preferred="node")])
    best = (1, 5, 0, 1, 2)


class TestTreeDistance(Soft):
    """Two whole nodes instead of three broken ones."""

    rule = "tree_distance"
    tier = 1
    round = snapshot(racks((8, 8), (4, 4, 4)), [gang("a", 3, 4)])
    best = (0, 1, 0, 1, 2)

    def test_weights_decide(self) -> None:
        """A rack that weighs less than a node is crossed for one node less."""
        nodes = racks((8, 4, 4), (8,))
        for weight, distance in ((0, 1), (1, 2), (2, 2)):
            topology = {"levels": [{"name": "rack", "weight": weight}]}
            assert values(snapshot(nodes, [gang("a", 4, 4)], topology=topology))[1] == distance

    def test_unknown_domains_are_one_each(self) -> None:
        nodes = [node("x", None), node("y", None), node("z", "r")]
        assert values(snapshot(nodes, [gang("a", 3)]))[1] == 2 * 4 + 2


class TestSharedUplinks(Soft):
    """A gang that has to leave its rack shares the uplink of one rack, not of two, at the price of a whole rack."""

    rule = "shared_uplinks"
    tier = 2
    round = snapshot(
        racks((8, 8), (8, 8), (8,)), [gang("a", 2, required=None)], [running("old", {"r0n0": 1, "r1n0": 1})]
    )
    best = (0, 5, 1, 1, 2)

    def test_three_gangs_on_one_uplink_count_two(self) -> None:
        nodes = racks((8, 8, 8), (8,), (8,), (8,))
        round = snapshot(nodes, [gang("a", 2), gang("b", 2), gang("c", 2)])
        assert values(round) == plain_answer(round).stated


class TestIntactDomains(Soft):
    """Two whole nodes of a rack that is broken already instead of one node that is a rack of its own."""

    rule = "intact_domains"
    tier = 3
    round = snapshot(
        [node("r0n0", "r0", gpus=16), *racks((), (8, 8, 4))], [gang("a", 2, 5)], topology={"node_weight": 0}
    )
    best = (0, 0, 0, 0, 2)

    def forget(self, monkeypatch: pytest.MonkeyPatch, formulation: type[Plain] | type[Merged]) -> None:
        """The tier of the racks only: the nodes' tier is the one that wants another plan."""
        original = formulation.intact_domains
        monkeypatch.setattr(formulation, self.rule, lambda model, level: original(model, level) if level else 0)

    def test_every_level_counts(self, monkeypatch: pytest.MonkeyPatch) -> None:
        round = snapshot(racks((8, 4)), [gang("a")])
        assert values(round) == plain_answer(round).stated == (0, 0, 0, 0, 1)
        forget(monkeypatch, Plain, self.rule)
        assert plain_answer(round).stated == (0, 0, 0, 0, 0)

    def test_a_member_without_gpus_breaks_a_node_too(self) -> None:
        round = snapshot(racks((8, 4)), [gang("a", request={"memory_mib": 1})])
        assert placed(solve(round)) == {"a": {"r0n1": 1}}
        only = snapshot(racks((8,)), [gang("a", request={"memory_mib": 1})])
        assert values(only) == plain_answer(only).stated == (0, 0, 0, 1, 1)

    def test_used_without_gpus_leaves_a_node_intact(self) -> None:
        nodes = [node("n", "r", cpu_milli=9, used={"cpu_milli": 5})]
        assert solve(snapshot(nodes, [])).fragmentation[-1].before == 1


WITHOUT_VICTIMS = {"tenant_limit", "closed_upward", "reservation", "considered_order", "admission"}
"""Rules that the plain model takes from the order it admits gangs in, or from second columns of the round: they decide
who is asked, not where he sits."""
WITH_VICTIMS = {"victim_eligible", "victim_right", "victim_needed", "lost_progress"}
"""Rules that the plain model doesn't have: it is for rounds in which nobody gives way. Brute force is their oracle."""
WITH_MOVES = {"move_eligible", "move_right", "move_needed"}
"""The same of rounds in which nobody moves."""


def rule_functions(of: type) -> set[str]:
    """Public functions of a formulation that aren't its mechanics."""
    mechanics = {
        "members_on",
        "build",
        "tiers",
        "objective",
        "hint",
        "decode",
        "back",
        "budget",
        "broken",
        "cut",
        "leaving",
        "leaves",
        "gone",
        "held",
        "minimize",
    }
    return {name for name, _ in inspect.getmembers(of, inspect.isfunction) if name[0] != "_"} - mechanics


class TestNames:
    """The page, the formulations, the checker and the tests of rules name the same rules."""

    numbered = re.findall(r"^\d+\. \*\*(\w+)\*\*", DOC.read_text(), flags=re.MULTILINE)
    names = ("considered_order", *numbered)

    def test_the_page_names_each_once(self) -> None:
        assert len(self.numbered) == len(set(self.numbered)) == 22
        bold = re.findall(r"\*\*(\w+_\w+)\*\*", DOC.read_text())
        assert sorted(bold) == sorted(set(self.names) - {"admission", "reservation"})

    def test_classes_of_these_files(self) -> None:
        """Each class once, in one of the files."""
        parsed = [ast.parse(path.read_text()) for path in sorted(Path(__file__).parent.glob("test_rules*.py"))]
        classes = [entry.name for file in parsed for entry in file.body if isinstance(entry, ast.ClassDef)]
        wanted = ["TestNames", *("Test" + name.title().replace("_", "") for name in self.names)]
        assert sorted(name for name in classes if name.startswith("Test")) == sorted(wanted)

    @pytest.mark.parametrize("formulation", [Plain, Merged])
    def test_functions_of_the_models_without_victims(self, formulation: type) -> None:
        local = {name for name, value in vars(eligibility).items() if inspect.isfunction(value) and name[0] != "_"}
        assert local == set(ELIGIBILITY)
        assert rule_functions(formulation) | local == set(self.names) - WITHOUT_VICTIMS - WITH_VICTIMS - WITH_MOVES

    def test_functions_of_the_model_with_victims(self) -> None:
        more = {"tenant_limit", "victim_right", "lost_progress"}
        assert rule_functions(Joint) - rule_functions(Merged) == more
        assert WITH_VICTIMS - more == {"victim_eligible", "victim_needed"}
        assert callable(victims.victim_eligible)
        assert "Rule 11" in (oracle.needed.__doc__ or "")
        assert callable(victims.move_eligible)
        assert callable(movers.move_right)
        assert "16" in (trim.__doc__ or "")

    def test_functions_of_the_values(self) -> None:
        assert set(self.numbered[18:]) <= set(vars(assignment))
        assert callable(victims.lost_progress)
        assert callable(gangfit.solver.admission.admit)

    def test_functions_of_the_checker(self) -> None:
        beyond = {"reference", "blocked_reason", "claims"}
        assert {rule.__name__ for rule in checker_rules.RULES} == {"considered_order", *self.numbered[:17], *beyond}
        tiers = {name for name, value in vars(checker_tiers).items() if inspect.isfunction(value) and name[0] != "_"}
        assert set(self.numbered[17:]) <= tiers
