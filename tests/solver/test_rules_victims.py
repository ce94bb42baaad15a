"""Rules of victims, a test class each, as in `test_rules.py`: who may be one, for whom, and what is lost."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
import pytest
from hand_made import Json, gang, node, placed, racks, rules_broken_by, running, snapshot
from ortools.sat.python import cp_model

from gangfit.models import Plan, Snapshot
from gangfit.solver import InvalidPlanError, check, oracle, solve, victims
from gangfit.solver import admission as admission_module
from gangfit.solver import rights as rights_module
from gangfit.solver import round as round_module
from gangfit.solver.engine import Budget
from gangfit.solver.joint import Joint
from gangfit.solver.problem import encode


class TestVictimEligible:
    """One node, held by `old`; `new` outranks it."""

    @staticmethod
    def held(policy: Json | None = None, **facts: Any) -> Snapshot:
        old = running("old", {"r0n0": 1}, **{"started_s": 10_000, **facts})
        return snapshot(racks((8,)), [gang("new", priority=1)], [old], time_s=20_000, policy=policy or {})

    PROTECTED: ClassVar[dict[str, tuple[Json, int | None]]] = {
        "not preemptible": ({"preemptible": False}, None),
        "young": ({"min_runtime_s": 10_001}, 20_001),
        "guard by interval": ({"preemptions": 3, "checkpoint": {"interval_s": 10_500}}, 20_500),
        "guard without interval": ({"preemptions": 3, "started_s": 16_401}, 20_001),
        "guard by minimum run": ({"preemptions": 3, "started_s": 15_000, "min_runtime_s": 5_001}, 20_001),
    }
    """What protects → fields of `old`, and when that ends."""
    FREE: ClassVar[dict[str, Json]] = {
        "preemptible": {},
        "old enough": {"min_runtime_s": 10_000},
        "guard not reached": {"preemptions": 2, "checkpoint": {"interval_s": 10_500}},
        "an interval has passed": {"preemptions": 3, "checkpoint": {"interval_s": 10_000}},
        "an hour has passed": {"preemptions": 9, "started_s": 16_400},
    }

    @pytest.mark.parametrize("case", PROTECTED)
    def test_solve_keeps_it(self, case: str) -> None:
        facts, ends = self.PROTECTED[case]
        answer = solve(self.held(**facts))
        assert not answer.preemptions
        assert [(blocked.reason, blocked.retry_at_s) for blocked in answer.blocked] == [("protected", ends)]

    @pytest.mark.parametrize("case", FREE)
    def test_nobody_else_is_protected(self, case: str) -> None:
        assert [(p.gang, p.for_gang) for p in solve(self.held(**self.FREE[case])).preemptions] == [("old", "new")]

    @pytest.mark.parametrize("case", PROTECTED)
    def test_the_protection_ends_when_it_says(self, case: str) -> None:
        facts, ends = self.PROTECTED[case]
        if ends is not None:
            later = self.held(**facts).model_copy(update={"time_s": ends})
            assert [p.gang for p in solve(later).preemptions] == ["old"]
            assert not solve(later.model_copy(update={"time_s": ends - 1})).preemptions

    @pytest.mark.parametrize("guard", [1, 2, 4])
    def test_the_guard_is_the_policys(self, guard: int) -> None:
        round = self.held({"preemption": {"guard": guard}}, preemptions=2, checkpoint={"interval_s": 10_500})
        assert bool(solve(round).preemptions) is (guard > 2)

    def test_a_terminating_gang_is_no_victim(self) -> None:
        answer = solve(self.held(phase="terminating", expected_end_s=20_100))
        assert not answer.preemptions
        assert [(p.gang, p.starts_after_s) for p in answer.placements] == [("new", 20_100)]

    @pytest.mark.parametrize("case", PROTECTED)
    def test_the_model_has_it(self, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
        monkeypatch.setattr(victims, "victim_eligible", lambda *_: True)
        with pytest.raises(InvalidPlanError, match="'old'"):
            solve(self.held(**self.PROTECTED[case][0]))

    @pytest.mark.parametrize("facts", [*(facts for facts, _ in PROTECTED.values()), {"phase": "terminating"}])
    def test_checker_flags_it(self, facts: Json) -> None:
        wanted = solve(self.held())
        assert check(self.held(), wanted).ok
        assert "victim_eligible" in rules_broken_by(self.held(**facts), wanted)


class TestVictimRight:
    """Who may take from whom, on one node of 8 GPUs, full; `new` of tenant `a` asks."""

    @staticmethod
    def full(
        held: list[Json], asks: int, *, priority: int = 1, quota: tuple[int, int] = (0, 0), across: str = "reclaim",
        within: str = "priority", **facts: Any,
    ) -> Snapshot:  # fmt: skip
        return snapshot(
            racks((8,)),
            [gang("new", 1, asks, tenant="a", priority=priority, **facts)],
            held,
            tenants=[{"name": name, "quota": {"gpus": gpus}} for name, gpus in zip("ab", quota, strict=True)],
            time_s=5_000,
            policy={"preemption": {"across": across, "within": within}},
        )

    @classmethod
    def rounds(cls) -> dict[str, tuple[Snapshot, str | None]]:
        """Case → round, and by which right `new` starts in it (None: by none)."""
        mine, other = running("old", {"r0n0": 1}, tenant="a"), running("old", {"r0n0": 1}, tenant="b")
        halves = [running("b1", {"r0n0": 1}, 4, tenant="b"), running("b2", {"r0n0": 1}, 1, tenant="b")]
        return {
            "own, lower": (cls.full([mine], 8), "own"),
            "own, equal": (cls.full([mine], 8, priority=0), None),
            "own, higher": (cls.full([mine], 8, priority=-1), None),
            "own, never": (cls.full([mine], 8, within="never"), None),
            "settling": (cls.full([mine], 8, preempted_s=4_401), None),
            "settled": (cls.full([mine], 8, preempted_s=4_400), "own"),
            "other, lower": (cls.full([other], 8, across="priority"), "priority"),
            "other, equal": (cls.full([other], 8, priority=0, across="priority"), None),
            "other, never": (cls.full([other], 8, across="never", quota=(8, 0)), None),
            "reclaim": (cls.full([other], 8, priority=-5, quota=(8, 0)), "reclaim"),
            "reclaim, settling": (cls.full([other], 8, quota=(8, 0), preempted_s=5_000), None),
            "not within": (cls.full([other], 8, quota=(7, 0)), None),
            "not above": (cls.full([other], 8, quota=(8, 8)), None),
            "the last is taken whole": (cls.full([other], 8, quota=(8, 7)), "reclaim"),
            "one too many": (cls.full(halves, 8, quota=(8, 4)), None),
        }

    CASES: ClassVar[list[str]] = [
        "own, lower", "own, equal", "own, higher", "own, never", "settling", "settled", "other, lower", "other, equal",
        "other, never", "reclaim", "reclaim, settling", "not within", "not above", "the last is taken whole",
        "one too many",
    ]  # fmt: skip

    @pytest.mark.parametrize("case", CASES)
    def test_solve_keeps_it(self, case: str) -> None:
        round, right = self.rounds()[case]
        answer = solve(round)
        assert answer.status == "optimal"
        assert {p.reason for p in answer.preemptions} == ({right} if right else set())
        assert list(placed(answer)) == (["new"] if right else [])
        assert [blocked.reason for blocked in answer.blocked] == ([] if right else ["protected"])

    def test_cases_are_all(self) -> None:
        assert list(self.rounds()) == self.CASES

    @pytest.mark.parametrize("case", ["own, equal", "settling", "other, equal", "not within", "not above"])
    def test_the_rights_have_it(self, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
        """With a right over everybody `new` starts, and the checker won't have it."""

        def everybody(problem: Any, gang: int, *_: Any) -> rights_module.Right:
            over = np.ones(len(problem.victims.gangs), dtype=np.bool_)
            return rights_module.Right(gang, over, ~over, rights_module.started(problem, [gang]))

        monkeypatch.setattr(rights_module, "_right", everybody)
        monkeypatch.setattr(admission_module, "may_take", lambda *_: True)
        with pytest.raises(InvalidPlanError, match="'old' gives way to 'new' by"):
            solve(self.rounds()[case][0])

    @pytest.mark.parametrize(
        ("case", "shortcut"), [("not within", "_may_be_within"), ("not above", "_may_lend"), ("one too many", None)]
    )
    def test_joint_model_has_it(self, monkeypatch: pytest.MonkeyPatch, case: str, shortcut: str | None) -> None:
        """The joint model rules out what the shortcut would let pass; without its rows nobody does."""
        round, _ = self.rounds()[case]
        if shortcut is not None:
            monkeypatch.setattr(rights_module, shortcut, lambda *_: True)
            assert not solve(round).preemptions
        for module in (admission_module, oracle):
            monkeypatch.setattr(module, "attainable", lambda problem, held, broken: held[-1])
        monkeypatch.setattr(Joint, "victim_right", lambda *_: None)
        monkeypatch.setattr(Joint, "budget", lambda *_: None)  # it counts claims of that rule's rows
        # Where nobody has a right there is none to state in the plan either.
        with pytest.raises((InvalidPlanError, IndexError)):
            solve(round)

    @pytest.mark.parametrize("case", CASES)
    def test_checker_flags_it(self, case: str) -> None:
        round, right = self.rounds()[case]
        names = [gang.name for gang in round.running]
        wish = solve(self.full([running(n, {"r0n0": 1}, 8 // len(names), tenant="a") for n in names], 8))
        assert len(wish.preemptions) == len(names)
        reason = right or ("own" if case.startswith("own") else "reclaim" if "other" not in case else "priority")
        given = tuple(p.model_copy(update={"reason": reason}) for p in wish.preemptions)
        taken = Plan(placements=wish.placements, preemptions=given)
        broken = {v.rule for v in check(round, taken).violations} - {"claims"}
        assert broken == (set() if right else {"victim_right"})

    @pytest.mark.parametrize("reason", ["own", "priority", "reclaim"])
    def test_checker_flags_a_wrong_reason(self, reason: str) -> None:
        for case, right in (("own, lower", "own"), ("other, lower", "priority"), ("reclaim", "reclaim")):
            answer = solve(self.rounds()[case][0])
            stated = answer.preemptions[0].model_copy(update={"reason": reason})
            broken = rules_broken_by(self.rounds()[case][0], answer.model_copy(update={"preemptions": (stated,)}))
            assert broken == (set() if reason == right else {"victim_right"})


class TestVictimNeeded:
    """`a` may hold 4 GPUs. It would have to stop `small` to be within quota, and `small` is in nobody's way."""

    round = snapshot(
        [node("n0", "r", gpus=4), node("n1", "r", gpus=1)],
        [gang("new", 1, 4, tenant="a", priority=1)],
        [running("small", {"n1": 1}, 1, tenant="a"), running("big", {"n0": 1}, 4, tenant="b")],
        tenants=[{"name": "a", "quota": {"gpus": 4}}, {"name": "b", "quota": {"gpus": 0}}],
    )
    allowed = round.model_copy(
        update={"tenants": (round.tenants[0].model_copy(update={"quota": None}), round.tenants[1])}
    )

    def test_solve_keeps_it(self) -> None:
        answer = solve(self.round)
        assert not answer.preemptions
        assert answer.status == "optimal"
        assert answer.blocked[0].reason == "protected"

    def test_with_one_gpu_more_of_quota_only_the_other_stops(self) -> None:
        tenants = [{"name": "a", "quota": {"gpus": 5}}, {"name": "b", "quota": {"gpus": 0}}]
        roomy = Snapshot.model_validate({**self.round.model_dump(), "tenants": tenants})
        assert [p.gang for p in solve(roomy).preemptions] == ["big"]

    def test_an_own_victim_that_makes_room_may_also_make_entitled(self) -> None:
        """Both leave: the space of both is needed."""
        whole = snapshot(
            [node("n", "r", gpus=5)],
            [gang("new", 1, 5, tenant="a", priority=1)],
            [running("small", {"n": 1}, 1, tenant="a"), running("big", {"n": 1}, 4, tenant="b")],
            tenants=[{"name": "a", "quota": {"gpus": 5}}, {"name": "b", "quota": {"gpus": 0}}],
        )
        assert [(p.gang, p.reason) for p in solve(whole).preemptions] == [("big", "reclaim"), ("small", "own")]

    def test_the_model_has_it(self, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(oracle, "needed", lambda problem, gangs, held, victims, budget: victims)
        # Trimmed of `small`, who is needless, the plan has nobody with a right to `big`.
        with pytest.raises((InvalidPlanError, IndexError)):
            solve(self.round)

    def test_checker_flags_it(self) -> None:
        taken = snapshot(
            [node("n0", "r", gpus=4), node("n1", "r", gpus=1)],
            [gang("new", 1, 4, tenant="a", priority=1)],
            [running("small", {"n1": 1}, 1, tenant="a"), running("big", {"n0": 1}, 4, tenant="a")],
            tenants=[{"name": "a"}, {"name": "b"}],
        )
        answer = solve(taken)
        (first,) = answer.preemptions
        more = (first, first.model_copy(update={"gang": "small"}))
        assert "victim_needed" in rules_broken_by(taken, answer.model_copy(update={"preemptions": more}))


class TestLostProgress:
    """Two nodes, each held by gangs of lower priority; `new` needs one node."""

    @staticmethod
    def held(*gangs: Json) -> Snapshot:
        return snapshot(racks((8, 8)), [gang("new", priority=9)], list(gangs), time_s=10_000)

    ROUNDS: ClassVar[dict[str, tuple[tuple[Json, ...], set[str], dict[str, int]]]] = {
        "the youngest": (
            (running("x", {"r0n0": 1}, started_s=1_000), running("y", {"r0n1": 1}, started_s=9_000)),
            {"y"},
            {"lost.p0": 8 * 1_300, "broken": 1},
        ),
        "since the last checkpoint": (
            (
                running("x", {"r0n0": 1}, started_s=1_000, checkpoint={"last_s": 9_900}),
                running("y", {"r0n1": 1}, started_s=9_000),
            ),
            {"x"},
            {"lost.p0": 8 * 400, "broken": 1},
        ),
        "a checkpoint in the grace window": (
            (
                running("x", {"r0n0": 1}, checkpoint={"bytes": 3_000_000_000_000, "write_gbps": 10.0}),
                running("y", {"r0n1": 1}, started_s=9_999),
            ),
            {"x"},
            {"lost.p0": 8 * 300, "broken": 1},
        ),
        "one byte too much for the grace window": (
            (
                running("x", {"r0n0": 1}, checkpoint={"bytes": 3_000_000_000_001, "write_gbps": 10.0}),
                running("y", {"r0n1": 1}, started_s=9_999),
            ),
            {"y"},
            {"lost.p0": 8 * 301, "broken": 1},
        ),
        "the lower priority, whatever it loses": (
            (running("x", {"r0n0": 1}), running("y", {"r0n1": 1}, started_s=9_999, priority=1)),
            {"x"},
            {"lost.p0": 8 * 10_300, "broken": 1},
        ),
        "fewest gangs among equals": (
            (
                *(running(f"x{i}", {"r0n0": 1}, 2, started_s=9_000) for i in range(4)),
                running("y", {"r0n1": 1}, started_s=9_000),
            ),
            {"y"},
            {"lost.p0": 8 * 1_300, "broken": 1},
        ),
        "what it loses before how many": (
            (
                *(running(f"x{i}", {"r0n0": 1}, 2, started_s=9_001) for i in range(4)),
                running("y", {"r0n1": 1}, started_s=9_000),
            ),
            {"x0", "x1", "x2", "x3"},
            {"lost.p0": 8 * 1_299, "broken": 4},
        ),
    }

    @staticmethod
    def mirrored(gangs: tuple[Json, ...]) -> tuple[Json, ...]:
        """The same with the nodes exchanged and the gangs named the other way round."""
        seats, names = str.maketrans("01", "10"), str.maketrans("xy", "yx")
        return tuple(
            {
                **held,
                "name": held["name"].translate(names),
                "placement": {on[:-1] + on[-1].translate(seats): count for on, count in held["placement"].items()},
            }
            for held in gangs
        )

    @pytest.mark.parametrize("case", ROUNDS)
    def test_solve_keeps_it(self, case: str) -> None:
        gangs, wanted, lost = self.ROUNDS[case]
        for held in (gangs, self.mirrored(gangs)):
            answer = solve(self.held(*held))
            assert answer.status == "optimal"
            names = {name.translate(str.maketrans("xy", "yx")) if held is not gangs else name for name in wanted}
            assert {p.gang for p in answer.preemptions} == names
            values = {tier.name: tier.value for tier in answer.tiers}
            assert {name: values.get(name) for name in lost} == lost
            assert all(tier.bound == tier.value for tier in answer.tiers)

    @pytest.mark.parametrize("case", [case for case in ROUNDS if case != "fewest gangs among equals"])
    def test_joint_model_has_it(self, monkeypatch: pytest.MonkeyPatch, case: str) -> None:
        """Without the objective, and greedy that would know, one of the mirrored rounds is answered with others."""
        gangs, wanted, _ = self.ROUNDS[case]
        monkeypatch.setattr(admission_module, "victims_for", lambda *_: None)
        monkeypatch.setattr(round_module, "no_dearer", lambda problem, admission, *_: admission)
        monkeypatch.setattr(Joint, "lost_progress", lambda *_: cp_model.LinearExpr.sum([]))
        mirrored = {name.translate(str.maketrans("xy", "yx")) for name in wanted}
        taken = [{p.gang for p in solve(self.held(*held)).preemptions} for held in (gangs, self.mirrored(gangs))]
        assert taken != [wanted, mirrored]

    @pytest.mark.parametrize(("sign", "taken"), [(1, {"y"}), (-1, {"x0", "x1", "x2", "x3"})])
    def test_joint_model_counts_gangs_broken(self, sign: int, taken: set[str]) -> None:
        problem = encode(self.held(*self.ROUNDS["fewest gangs among equals"][0]))
        held, budget = rights_module.rights(problem, [0], {0}), Budget(problem.snapshot.policy)

        def most(model: Joint) -> None:
            model.model.add(model.lost_progress(0) <= 8 * 1_300)
            model.model.minimize(sign * model.broken())

        found = oracle.settle(problem, [0], held, [], most, None, budget)
        assert {problem.victims.gangs[v].name for v in found.victims} == taken

    def test_cpu_only_gangs_count_by_cpu(self) -> None:
        """16 GPUs to 16,000 millicores: 2,500 millicores are 2 GPUs."""
        nodes = [node(f"n{i}", "r", cpu_milli=8_000) for i in range(2)]
        held = [running(f"v{i}", {f"n{i}": 1}, request={"cpu_milli": 2_500}, started_s=9_000 + i) for i in range(2)]
        round = snapshot(nodes, [gang("new", request={"cpu_milli": 8_000}, priority=1)], held, time_s=10_000)
        answer = solve(round)
        assert [(p.gang, p.drain.lost_gpu_s) for p in answer.preemptions] == [("v1", 2 * 1_299)]

    @pytest.mark.parametrize("tier", ["lost.p0", "broken"])
    def test_checker_flags_it(self, tier: str) -> None:
        round = self.held(*self.ROUNDS["the youngest"][0])
        answer = solve(round)
        for change in (-1, 1):
            tiers = tuple(
                t.model_copy(update={"value": t.value + change, "bound": t.bound + change}) if t.name == tier else t
                for t in answer.tiers
            )
            assert "claims" in rules_broken_by(round, answer.model_copy(update={"tiers": tiers}))
