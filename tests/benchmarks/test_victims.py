"""The victims benchmark on rounds that take milliseconds: records, tables, goals and the page."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import storage
from benchmarks import victims as givers
from benchmarks.charts import draw
from benchmarks.generators import contended
from benchmarks.machine import Stamp, stamp
from benchmarks.records import Side, TierOutcome, VictimRun, VictimTrial
from benchmarks.report import page
from benchmarks.victim_goals import VICTIM_GOALS, bounded, fewer_lost, in_time, never_worse, proven
from benchmarks.victim_tables import losses_table, proofs_table, ratios, weighted_ratio


@pytest.fixture(scope="module")
def mark() -> Stamp:
    return stamp("python -m benchmarks victims")


@pytest.fixture(scope="module")
def measured() -> VictimTrial:
    return givers.measure(contended("share", 64, 4, 0), family="share", seed=0, limit_s=2.0)


def side(lost: int, evicted: int, *, vector: tuple[int, ...] = (1, 1)) -> Side:
    admitted = [f"g{i}" for i, y in enumerate(vector) if y]
    return Side(admitted=admitted, vector=list(vector), lost={0: lost} if lost else {}, evicted=evicted)


def made(solver: Side, greedy: Side, *, bound: int | None = None, wall_s: float = 1.0) -> VictimTrial:
    least = solver.total if bound is None else bound
    tiers = [
        TierOutcome(name="admission", value=2, bound=2, proven=True),
        TierOutcome(name="lost.p0", value=solver.total, bound=least, proven=bound is None),
        TierOutcome(name="broken", value=solver.evicted, bound=solver.evicted, proven=True),
        TierOutcome(name="distance", value=9, bound=1, proven=False),
    ]
    return VictimTrial(
        family="share",
        seed=0,
        nodes=2048,
        pending=2,
        running=9,
        candidates=7,
        limit_s=2.0,
        wall_s=wall_s,
        seconds={"admission": 0.5},
        tiers=tiers,
        undecided=0,
        solver=solver,
        greedy=greedy,
        greedy_s=0.1,
    )


class TestTrial:
    def test_measured_round_is_proven_and_never_worse(self, measured: VictimTrial) -> None:
        assert measured.contended
        assert measured.never_worse
        assert measured.proven
        assert measured.gap == 0

    def test_earlier_gangs_count_more(self) -> None:
        late = made(side(0, 0, vector=(0, 1)), side(0, 0, vector=(1, 0)))
        assert not late.admits_no_worse
        assert late.differs_at == 0
        assert late.costs_no_worse
        assert made(side(5, 1, vector=(1, 0)), side(0, 0, vector=(0, 1))).never_worse

    def test_losses_count_before_numbers(self) -> None:
        assert made(side(5, 3), side(6, 1)).costs_no_worse
        assert not made(side(5, 3), side(5, 2)).costs_no_worse
        assert not made(side(6, 1), side(5, 3)).costs_no_worse

    def test_higher_priorities_count_before_lower_ones(self) -> None:
        ours = Side(admitted=["g"], vector=[1], lost={0: 90}, evicted=1)
        theirs = Side(admitted=["g"], vector=[1], lost={1: 5}, evicted=1)
        assert made(ours, theirs).costs_no_worse
        assert not made(theirs, ours).costs_no_worse

    def test_proof_and_gap_of_the_victim_tiers_alone(self) -> None:
        assert made(side(8, 1), side(8, 1)).proven
        unsure = made(side(8, 1), side(8, 1), bound=6)
        assert not unsure.proven
        assert unsure.gap == pytest.approx(0.25)

    def test_solver_asked_for_the_greedys_gangs_is_compared(self) -> None:
        alone = made(side(10, 1), side(9, 1, vector=(1, 0)))
        assert alone.pair is None
        assert alone.costs_no_worse
        cheaper, dearer = (alone.model_copy(update={"matched": side(lost, 1, vector=(1, 0))}) for lost in (6, 12))
        assert cheaper.pair == (cheaper.matched, cheaper.greedy)
        assert cheaper.costs_no_worse
        assert not dearer.costs_no_worse
        assert weighted_ratio([cheaper]) == pytest.approx(1.5)
        assert alone.model_copy(update={"matched": side(6, 1)}).pair is None

    def test_rounds_with_other_gangs_are_measured_on_the_same(self) -> None:
        """A round in which the greedy preemptor starts others than the solver, who goes first by the order."""
        one = givers.measure(contended("share", 128, 40, 0), family="share", seed=0, limit_s=5.0)
        assert not one.same_gangs
        assert one.matched is not None
        assert one.matched.admitted == one.greedy.admitted
        assert one.never_worse


class TestFigures:
    def test_weighted_ratio_leaves_out_other_gangs(self) -> None:
        trials = [
            made(side(10, 1), side(15, 1)),
            made(side(30, 1), side(30, 1)),
            made(side(1, 1), side(900, 1, vector=(1, 0))),
        ]
        assert weighted_ratio(trials) == pytest.approx(45 / 40)
        assert ratios(trials) == [pytest.approx(1.5), pytest.approx(1.0)]
        assert weighted_ratio(trials[2:]) is None

    def test_judges(self) -> None:
        good, bad = made(side(10, 1), side(15, 1)), made(side(10, 1), side(9, 1), bound=4, wall_s=2.3)
        assert never_worse([good] * 200) == (
            "200/200, 9 to 9 running gangs; costs compared on the same gangs: 200",
            True,
        )
        for trials in ([good] * 199, [good] * 200 + [bad]):
            found = never_worse(trials)
            assert found is not None
            assert found[1] is False
        tiers = [one.model_copy(update={"bound": 0, "proven": one.name != "broken"}) for one in good.tiers]
        counted = good.model_copy(update={"tiers": tiers})
        text = "1/3 (33.3%; losses alone 2), worst gap 100.0%"
        assert proven(0.5, 2.0)([good, bad, counted]) == (text, False)
        assert bounded([good, bad, counted]) == ("1/3 (losses alone 2), worst gap 100.0%", None)
        assert proven(0.5, 1.0)([good, bad]) is None
        assert fewer_lost(0.2)([good]) == ("33.3% fewer (greedy/solver 1.500, worst round 1.50)", True)
        assert in_time([good, bad]) == ("1/2, worst 50 ms beyond", False)


class TestPage:
    def test_rows_are_as_long_as_the_header(self, mark: Stamp, measured: VictimTrial) -> None:
        run = VictimRun(stamp=mark, trials=[measured, made(side(6, 1), side(5, 1))])
        for table in (losses_table(run), proofs_table(run)):
            assert {len(row) for row in table.rows} == {len(table.header)}
        assert [row[0] for row in losses_table(run).rows] == ["share 64/4", "share 2,048/2", "share, all", "all"]
        assert losses_table(run).rows[1][7] == "**0/1**"

    def test_saved_drawn_and_shown(self, mark: Stamp, measured: VictimTrial, tmp_path: Path) -> None:
        run = VictimRun(stamp=mark, trials=[measured])
        storage.save(run, tmp_path)
        assert storage.victims(tmp_path) == run
        assert storage.runs(tmp_path) == {}
        charts = draw({}, {}, tmp_path, run)
        assert [path.name for path in charts] == ["victims.png"]
        text = page({}, {}, charts, tmp_path / "benchmarks.md", run)
        assert "## Victims" in text
        assert "![victims](victims.png)" in text
        assert "## Victims" not in page({}, {}, [])

    def test_goals_without_figures_are_marked(self) -> None:
        for goal in VICTIM_GOALS:
            assert goal.row(None)[2:] == ["not measured", "–"]

    def test_a_run_goes_on_where_it_was_left(self) -> None:
        kept: list[VictimRun] = []
        arguments = {"families": ["run"], "nodes": [64], "pending": [2], "limit": 1.0, "command": "x"}
        first = givers.run(lambda _: None, seeds=1, keep=kept.append, **arguments)
        assert [len(run.trials) for run in kept] == [1]
        lines: list[str] = []
        again = givers.run(lines.append, seeds=2, known=first, **arguments)
        assert again.trials[0] == first.trials[0]
        assert len(lines) == 2
        other = first.model_copy(update={"stamp": first.stamp.model_copy(update={"commit": "other"})})
        givers.run(lines.append, seeds=1, known=other, **arguments)
        assert len(lines) == 4

    def test_quick_run(self) -> None:
        lines: list[str] = []
        run = givers.run(lines.append, families=["run"], nodes=[64], pending=[2], seeds=2, limit=1.0, command="x")
        assert [(one.nodes, one.pending, one.seed, one.limit_s) for one in run.trials] == [
            (64, 2, 0, 1.0),
            (64, 2, 1, 1.0),
        ]
        assert len(lines) == 3
