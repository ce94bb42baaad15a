"""The command line as its users see it."""

from __future__ import annotations

import gzip
import json
import os
import socket
import subprocess
import sys
from importlib.metadata import version
from pathlib import Path

import pytest
from typer.testing import CliRunner

from gangfit.api.cli import app
from gangfit.api.fold import fold
from gangfit.models import CheckReport, Plan, Snapshot, expand


def gangfit(*args, stdin=None):
    return CliRunner().invoke(app, [str(arg) for arg in args], input=stdin)


def refused(result):
    """The one error of a command that exits 2."""
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert "Traceback" not in result.stderr
    assert result.stderr.startswith("Error: ")
    return result.stderr.removeprefix("Error: ").rstrip("\n")


@pytest.fixture
def plan_file(demo_file, tmp_path):
    path = tmp_path / "plan.json"
    assert gangfit("solve", demo_file, "--json", "--output", path).exit_code == 0
    return path


@pytest.fixture
def contested_file(tmp_path):
    """Tenant `a` takes back one of the two nodes that `b` holds."""
    held = [
        {
            "name": name,
            "tenant": "b",
            "members": 1,
            "request": {"gpus": 8},
            "placement": {node: 1},
            "started_s": started,
        }
        for name, node, started in (("theirs", "n1", 100), ("older", "n2", 0))
    ]
    document = {
        "time_s": 1_000,
        "nodes": [{"name": "n[1-2]", "gpus": 8}],
        "tenants": [{"name": "a"}, {"name": "b"}],
        "running": held,
        "pending": [{"name": "mine", "tenant": "a", "members": 1, "request": {"gpus": 8}}],
        "policy": {"deterministic": True},
    }
    path = tmp_path / "contested.json"
    path.write_text(json.dumps(document))
    return path


class TestSolve:
    def test_table(self, demo_file):
        result = gangfit("solve", demo_file)
        assert result.exit_code == 0
        assert result.stderr == ""
        assert result.stdout.splitlines()[0] == "optimal: 2 gangs placed, 1 wait"
        rows = [" ".join(line.split()) for line in result.stdout.splitlines()]
        assert "admission 2 2 0 bound" in rows
        assert any(row.startswith("sixteen 2 rack 1, node 2 r") and row.endswith("-[1-2]") for row in rows)
        assert any(row.startswith("wide capacity 9 members of 8 gpus") for row in rows)

    def test_json_is_what_http_answers(self, demo, demo_file, service):
        answer = service.post("/v1/solve", json=demo)
        assert gangfit("solve", demo_file, "--json").stdout_bytes == answer.content + b"\n"

    def test_inputs(self, demo, demo_file, tmp_path):
        body = json.dumps(demo).encode()
        packed = tmp_path / "demo.json.gz"
        packed.write_bytes(gzip.compress(body))
        expected = gangfit("solve", demo_file, "--json").stdout
        assert Plan.model_validate_json(expected).placements
        assert gangfit("solve", packed, "--json").stdout == expected
        assert gangfit("solve", "-", "--json", stdin=body).stdout == expected
        assert gangfit("solve", "-", "--json", stdin=gzip.compress(body)).stdout == expected

    def test_output(self, demo_file, tmp_path):
        path = tmp_path / "plan.json"
        result = gangfit("solve", demo_file, "-o", path)
        assert "Placements" in result.stdout
        assert path.read_bytes() == gangfit("solve", demo_file, "--json").stdout_bytes

    def test_options_override_the_policy(self, demo, tmp_path):
        path = tmp_path / "free.json"
        path.write_text(json.dumps({**demo, "policy": {}}))
        assert Plan.model_validate_json(gangfit("solve", path, "--json").stdout).stats.seconds
        options = ["--deterministic", "--time-limit", "0.5", "--seed", "3", "--workers", "1"]
        assert Plan.model_validate_json(gangfit("solve", path, "--json", *options).stdout).stats.seconds is None

    @pytest.mark.parametrize(
        ("options", "message"),
        [
            (["--time-limit", "0"], "options: time_limit_s: 0.0 is not allowed: input should be greater than 0"),
            (["--time-limit", "nan"], "options: time_limit_s: NaN is not allowed: input should be a finite number"),
            (["--workers", "0"], "options: workers: 0 is not allowed: input should be greater than or equal to 1"),
            (["--seed", "-1"], "options: seed: -1 is not allowed: input should be greater than or equal to 0"),
        ],
    )
    def test_impossible_options(self, demo_file, options, message):
        assert refused(gangfit("solve", demo_file, *options)) == message

    def test_names_are_printed_as_they_are(self, tmp_path):
        names = ["[red]x", "[/bold]", ":smile:", "[link=http://x]y[/link]", "日本", "\\[b]"]
        document = {
            "nodes": [{"name": ":boom:", "gpus": 8}],
            "pending": [{"name": name, "members": 1, "request": {"gpus": 1}} for name in names[:3]]
            + [{"name": name, "members": 1, "request": {"gpus": 9}} for name in names[3:]],
        }
        path = tmp_path / "[red].json"
        path.write_text(json.dumps(document))
        result = gangfit("solve", path)
        assert result.exit_code == 0
        for name in [*names, ":boom:"]:
            assert name in result.stdout
        path.write_text(json.dumps({**document, "nodes": [{"name": "[bold]", "gpus": -1, "[red]z": 1}]}))
        message = refused(gangfit("solve", path))
        assert message.startswith(f"{path}: 2 faults")
        assert 'nodes[0]["[red]z"]: unknown field' in message

    def test_who_gives_way_and_what_tenants_hold(self, contested_file):
        result = gangfit("solve", contested_file)
        assert result.exit_code == 0
        rows = [" ".join(line.split()) for line in result.stdout.splitlines()]
        assert "gang members touches nodes starts after" in rows
        assert "mine 1 node 1 n1 +300 s" in rows
        assert "gang for reason lost GPU-s kill" in rows
        assert "theirs mine reclaim 9600 +300 s" in rows
        assert "tenant dominant resource share before after" in rows
        assert "a gpus 0.0% 50.0%" in rows
        assert "b gpus 100.0% 50.0%" in rows

    def test_nothing_of_it_where_nobody_gives_way(self, demo_file):
        text = gangfit("solve", demo_file).stdout
        assert not any(word in text for word in ("Preemptions", "Fairness", "starts after", "Promised"))

    def test_what_is_promised(self, tmp_path):
        old = {"name": "old", "members": 1, "request": {"gpus": 8}, "placement": {"a1": 1}, "expected_end_s": 100}
        big = {"name": "big", "members": 2, "request": {"gpus": 8}}
        path = tmp_path / "ends.json"
        document = {"nodes": [{"name": "a[1-2]", "gpus": 8}], "running": [old], "pending": [big]}
        path.write_text(json.dumps(document))
        rows = [" ".join(line.split()) for line in gangfit("solve", path).stdout.splitlines()]
        assert "Promised" in rows
        assert "gang starts nodes" in rows
        assert "big +100 s a[1-2]" in rows

    def test_nothing_but_the_plan_on_standard_output(self, contested_file):
        """Solvers that print banners of their own do so past Python's `sys.stdout`, so this asks a real process."""
        command = [Path(sys.executable).parent / "gangfit", "solve", str(contested_file), "--json"]
        result = subprocess.run(command, capture_output=True, check=True)
        assert Plan.model_validate_json(result.stdout).preemptions
        assert result.stderr == b""

    def test_long_tables_are_cut(self, tmp_path):
        gangs = [{"name": f"g{i:02}", "members": 1, "request": {"gpus": 8}} for i in range(50)]
        path = tmp_path / "many.json"
        path.write_text(json.dumps({"nodes": [{"name": "n[1-25]", "gpus": 8}], "pending": gangs}))
        short, whole = gangfit("solve", path).stdout, gangfit("solve", path, "--all").stdout
        assert short.count("… and 5 more (--all shows them)") == 2
        assert "g24" not in short
        assert "more" not in whole
        assert all(gang["name"] in whole for gang in gangs)


class TestFiles:
    @pytest.mark.parametrize("command", ["solve", "compare"])
    def test_missing(self, command, tmp_path):
        path = tmp_path / "absent.json"
        assert refused(gangfit(command, path)) == f"{path}: can't be read: No such file or directory"

    def test_directory(self, tmp_path):
        assert refused(gangfit("solve", tmp_path)) == f"{tmp_path}: can't be read: Is a directory"

    def test_unreadable(self, demo_file, monkeypatch):
        def denied(self):
            raise PermissionError(13, "Permission denied")

        monkeypatch.setattr(Path, "read_bytes", denied)
        assert refused(gangfit("solve", demo_file)) == f"{demo_file}: can't be read: Permission denied"

    def test_standard_input_has_a_name(self):
        assert refused(gangfit("solve", "-", stdin=b"")).startswith("<stdin>: empty")

    def test_too_large(self, tmp_path, monkeypatch):
        monkeypatch.setattr("gangfit.api.files.MAX_BYTES", 1000)
        path = tmp_path / "bomb.json.gz"
        path.write_bytes(gzip.compress(bytes(10**6)))
        assert refused(gangfit("solve", path)) == f"{path}: more than 1000 bytes after decompression"

    @pytest.mark.parametrize("target", [".", "absent/plan.json", "demo.json/plan.json"])
    def test_output_that_cant_be_written(self, demo_file, tmp_path, target):
        path = tmp_path / target
        assert refused(gangfit("solve", demo_file, "--output", path)).startswith(f"{path}: can't be written: ")

    def test_output_on_a_full_disk(self, demo_file):
        if not Path("/dev/full").exists():
            pytest.skip("no /dev/full here")
        result = gangfit("solve", demo_file, "--output", "/dev/full")
        assert refused(result) == "/dev/full: can't be written: No space left on device"


class TestCheck:
    def test_own_plan(self, demo_file, plan_file):
        result = gangfit("check", demo_file, plan_file)
        assert result.exit_code == 0
        assert result.stdout.startswith("ok: every rule holds")
        assert gangfit("check", demo_file, "-", stdin=plan_file.read_bytes()).exit_code == 0
        assert gangfit("check", "-", plan_file, stdin=Path(demo_file).read_bytes()).exit_code == 0

    def test_violations(self, demo_file):
        plan = {"placements": [{"gang": "eight", "roles": {"members": {"r9": 1}}}]}
        result = gangfit("check", demo_file, "-", stdin=json.dumps(plan))
        assert result.exit_code == 1
        assert result.stdout.startswith("not ok: ")
        assert "r9" in result.stdout
        report = gangfit("check", demo_file, "-", "--json", stdin=json.dumps(plan))
        assert report.exit_code == 1
        assert not CheckReport.model_validate_json(report.stdout).ok

    def test_bad_plan(self, demo_file):
        message = refused(gangfit("check", demo_file, "-", stdin='{"placements": [{"gang": 1, "roles": {}}]}'))
        assert message == "<stdin>: placements[0].gang: 1 is not allowed: input should be a valid string"

    def test_snapshot_and_plan_from_one_stream(self):
        assert "both" in refused(gangfit("check", "-", "-", stdin="{}"))


class TestApply:
    def test_next_snapshot(self, demo_file, plan_file, tmp_path):
        result = gangfit("apply", demo_file, plan_file, "-o", tmp_path / "next.json")
        assert result.exit_code == 0
        following = Snapshot.model_validate_json(result.stdout)
        assert [gang.name for gang in following.running] == ["eight", "sixteen"]
        assert [gang.name for gang in following.pending] == ["wide"]
        again = gangfit("solve", tmp_path / "next.json", "--json")
        assert Plan.model_validate_json(again.stdout).placements == ()

    def test_plan_of_another_snapshot(self, demo_file):
        plan = {"placements": [{"gang": "other", "roles": {"members": {"r1-1": 1}}}]}
        message = refused(gangfit("apply", demo_file, "-", stdin=json.dumps(plan)))
        assert message == "<stdin>: the plan places 'other', which isn't pending in the snapshot"

    def test_plan_that_doesnt_fit(self, demo_file):
        roles = {"members": {"r1-1": 2}}
        plan = {"placements": [{"gang": "sixteen", "roles": roles}]}
        message = refused(gangfit("apply", demo_file, "-", stdin=json.dumps(plan)))
        assert (
            message
            == "<stdin>: the plan can't be applied, node_capacity: node 'r1-1': gang sixteen takes 16 gpus, 8 are free"
        )


def test_compare(demo_file):
    from gangfit.solver.greedy import STRATEGIES

    result = gangfit("compare", demo_file)
    assert result.exit_code == 0
    lines = [line.split() for line in result.stdout.splitlines()]
    (solver,) = [line for line in lines if "solver" in line]
    assert solver[:3] == ["best", "solver", "2"]
    assert "broken" not in result.stdout
    for name in STRATEGIES:
        assert any(name in line for line in lines)


def test_compare_with_victims(contested_file, monkeypatch):
    monkeypatch.setenv("COLUMNS", "200")
    lines = [line.split() for line in gangfit("compare", contested_file).stdout.splitlines()]
    assert ["strategy", "admission", "lost.p0", "broken", "preferred"] in [line[:5] for line in lines]
    assert next(line for line in lines if "solver" in line)[:6] == ["best", "solver", "1", "9600", "1", "0"]
    assert next(line for line in lines if "bottom_up" in line)[:5] == ["bottom_up", "0", "0", "0", "0"]


def test_version():
    assert gangfit("--version").stdout == f"gangfit {version('gangfit')}\n"
    lines = gangfit("version").stdout.splitlines()
    assert lines[0] == f"gangfit {version('gangfit')}"
    assert [line.split()[0] for line in lines] == ["gangfit", "ortools", "python"]


@pytest.mark.parametrize("command", ["", "solve", "check", "compare", "apply", "serve", "version"])
def test_every_command_explains_itself(command):
    result = gangfit(*command.split(), "--help")
    assert result.exit_code == 0
    assert "Usage:" in result.stdout
    listed = [line for line in result.stdout.splitlines() if line.startswith("  -")]
    assert listed


def test_usage_errors_exit_2():
    for args in (["solve"], ["nonsense"], ["solve", "x", "--nonsense"], ["serve", "--port", "99999"]):
        result = gangfit(*args)
        assert result.exit_code == 2
        assert "Traceback" not in result.output


@pytest.mark.parametrize("host", ["127.0.0.1", "no.such.host.invalid"])
def test_serve_where_it_cant_listen(host):
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
        message = refused(gangfit("serve", "--host", host, "--port", port))
    assert message.startswith(f"can't listen on {host} port {port}: ")


@pytest.mark.parametrize("options", [["--json"], ["--all"]])
def test_a_reader_that_leaves_early_gets_no_noise(options, tmp_path):
    gangs = [{"name": f"gang-{i}", "members": 1, "request": {"gpus": 1}} for i in range(3000)]
    path = tmp_path / "many.json"
    document = {"nodes": [{"name": "n[1-500]", "gpus": 8}], "pending": gangs, "policy": {"time_limit_s": 0.01}}
    path.write_text(json.dumps(document))
    command = [sys.executable, "-c", "from gangfit.api.cli import main; main()", "solve", str(path), *options]
    reading, writing = os.pipe()
    with subprocess.Popen(command, stdout=writing, stderr=subprocess.PIPE) as process:
        os.close(writing)
        os.read(reading, 100)
        os.close(reading)
        assert process.stderr.read() == b""


@pytest.mark.parametrize(
    ("names", "short"),
    [
        (["n1", "n2", "n3", "n7"], "n[1-3,7]"),
        (["n8", "n9", "n10", "n11"], "n[8-11]"),
        (["n099", "n100", "n098"], "n[098-100]"),
        (["n1", "n01"], "n[01,1]"),
        (["r1-a", "r2-a", "r1-b"], "r[1-2]-a, r1-b"),
        (["login"], "login"),
        (["rack1-gpu3", "rack1-gpu4", "rack2-gpu3"], "rack1-gpu[3-4], rack2-gpu3"),
        ([], ""),
    ],
)
def test_fold(names, short):
    assert fold(names) == short
    assert sorted(name for part in short.split(", ") if part for name in expand(part)) == sorted(names)


def test_fold_stops_somewhere():
    assert fold([f"n{i}" for i in range(0, 40, 2)], 3) == "n[0,2,4] … and 17 more"
