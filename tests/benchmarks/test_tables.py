"""Measuring, tables, goals and the page, on rounds that take milliseconds."""

from __future__ import annotations

from pathlib import Path

import pytest

from benchmarks import generators, storage
from benchmarks.goals import GOALS
from benchmarks.machine import Stamp, stamp
from benchmarks.measure import Timeline, trial
from benchmarks.records import Answer, Point, Run, Series, TierOutcome, Trial
from benchmarks.report import page
from benchmarks.tables import Table, excess, solver_table, strategies_table
from benchmarks.timings import exponent, percentile, series_table


@pytest.fixture(scope="module")
def mark() -> Stamp:
    return stamp("python -m benchmarks quality")


@pytest.fixture(scope="module")
def one() -> Trial:
    snapshot = generators.contiguous_runs(128, 0.7, 6, 1)
    return trial(snapshot, suite="runs", setting="0.7/6", seed=1, limits=(0.2,), all_tiers=False, repeats=1)


@pytest.fixture(scope="module")
def run(mark: Stamp, one: Trial) -> Run:
    return Run(stamp=mark, suite="runs", title="Small", limits=[0.2], trials=[one])


def answer(value: int, bound: int, units: int, proven: bool) -> Answer:
    tiers = [
        TierOutcome(name="admission", value=3, bound=3, proven=True),
        TierOutcome(name="distance", value=value, bound=bound, proven=proven),
    ]
    return Answer(limit_s=1.0, wall_s=0.5, optimal=False, admitted=3, units=units, tiers=tiers, seconds={}, sizes={})


class TestAnswer:
    def test_gap_is_relative_to_units(self) -> None:
        assert answer(12, 10, 40, False).gap == pytest.approx(0.05)
        assert answer(10, 10, 40, True).gap == 0
        assert answer(0, 0, 0, True).gap == 0

    def test_proof_of_the_topology_tier(self) -> None:
        assert answer(10, 10, 40, True).proven
        assert not answer(12, 10, 40, False).proven


class TestTrial:
    def test_solver_is_no_worse_than_any_greedy(self, one: Trial) -> None:
        for row in one.baselines:
            assert row.vector <= one.vector
            if row.vector == one.vector:
                assert row.units >= one.last.units

    def test_units_are_distance_and_one_domain_of_each_level_per_gang(self, one: Trial) -> None:
        # Weights rack 1, spine 3: each admitted gang of two members or more touches at least one of each.
        multi = (one.last.units - one.last.tier("distance").value) / 4
        assert multi == int(multi)
        assert 0 < multi <= one.last.admitted

    def test_first_answer_competes_with_the_best_greedy(self, one: Trial) -> None:
        assert one.first_no_worse

    def test_a_bound_above_a_plan_at_hand_is_refuted(self, one: Trial) -> None:
        assert one.refuted() == []
        row = one.baselines[0]
        beaten = row.model_copy(update={"vector": one.vector, "values": {**row.values, "distance": -1}})
        assert one.model_copy(update={"baselines": [beaten]}).refuted() == ["distance"]
        elsewhere = beaten.model_copy(update={"vector": []})
        assert one.model_copy(update={"baselines": [elsewhere]}).refuted() == []

    def test_excess_leaves_out_other_gangs(self, one: Trial) -> None:
        other = one.model_copy(update={"vector": [1 - y for y in one.vector]})
        assert excess([other], "lexicographic") == []
        assert len(excess([one, other], "lexicographic")) == 1


class TestTimeline:
    def test_reads_progress_lines(self) -> None:
        timeline = Timeline()
        timeline.lines = [(0.1, "admission: 3 of 4"), (0.2, "distance: 9, bound 7"), (0.5, "uplinks: 4, bound 2")]
        assert timeline.bound_s("distance", 7) == 0.2
        assert timeline.bound_s("distance", 8) is None
        assert timeline.turn_s(["uplinks", "intact.rack"]) == 0.5
        assert timeline.turn_s(["intact.rack"]) is None


class TestTables:
    def test_markdown(self, mark: Stamp) -> None:
        text = Table("Title", mark, ["a", "b"], [["x", "1"]], "A note.").markdown()
        assert text.splitlines()[0] == "### Title"
        assert mark.line() in text
        assert "| a | b |\n|---|---:|\n| x | 1 |\n\nA note." in text

    def test_rows_are_as_long_as_the_header(self, run: Run) -> None:
        for table in (solver_table(run), strategies_table(run)):
            assert {len(row) for row in table.rows} == {len(table.header)}

    def test_every_greedy_has_a_row(self, run: Run, one: Trial) -> None:
        names = [row[0] for row in strategies_table(run).rows]
        assert names[1:] == [row.name for row in one.baselines]

    def test_stamp_names_machine_and_command(self, mark: Stamp) -> None:
        for word in ("cores", "Python", "ortools", "UTC", "commit", "`python -m benchmarks quality`"):
            assert word in mark.line()


class TestTimings:
    def test_exponent_of_a_power(self) -> None:
        assert exponent({x: 3 * x**1.5 for x in (1.0, 2.0, 8.0, 64.0)}) == pytest.approx(1.5)

    def test_percentile(self) -> None:
        assert percentile(range(101), 0.95) == 95

    def test_growth_table(self, mark: Stamp) -> None:
        points = [
            Point(label="nodes", x=x, values={"first_s": x / 1e5, "bound_s": x / 1e5, "greedy_s": x / 1e6, "gap": 0.0})
            for x in (512, 1024, 2048)
        ]
        row = series_table(Series(stamp=mark, name="growth", title="Growth", points=points)).rows[0]
        assert row[:6] == ["nodes", "512", "2,048", "1.00", "1.00", "1.00"]


class TestPage:
    def test_goals_without_figures_are_marked(self) -> None:
        for goal in GOALS:
            assert goal.row({}, {})[2:] == ["not measured", "–"]

    def test_results_survive_saving(self, run: Run, tmp_path: Path) -> None:
        storage.save(run, tmp_path)
        assert storage.runs(tmp_path) == {"runs": run}
        assert storage.series(tmp_path) == {}

    def test_page_has_goals_and_tables(self, run: Run, tmp_path: Path) -> None:
        text = page({"runs": run}, {}, [tmp_path / "cost-runs.png"], tmp_path / "benchmarks.md")
        assert "## Goals" in text
        assert "### Small" in text
        assert "![cost-runs](cost-runs.png)" in text
        assert str(tmp_path) not in text
