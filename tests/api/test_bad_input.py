"""Every kind of bad input, over HTTP and on the command line: one clear error that names the field."""

from __future__ import annotations

import gzip
import json

import pytest
from typer.testing import CliRunner

from gangfit.api.cli import app

NODE = {"name": "n1", "path": ["r1"], "gpus": 8}
GANG = {"name": "g1", "members": 1, "request": {"gpus": 8}}


def snapshot(**changes):
    document = {
        "topology": {"levels": [{"name": "rack"}]},
        "nodes": [NODE, {**NODE, "name": "n2"}],
        "pending": [GANG],
    }
    return json.dumps({**document, **changes}).encode()


def node(**changes):
    return snapshot(nodes=[NODE, {**NODE, "name": "n2", **changes}])


def gang(**changes):
    return snapshot(pending=[{**GANG, **changes}])


def running(**changes):
    return snapshot(running=[{**GANG, "name": "r", "placement": {"n1": 1}, **changes}])


def meta(text):
    return b'{"nodes": [{"name": "n", "gpus": 1}], "meta": {"a": [0, {"b": ' + text + b"}]}}"


WHOLE = ""
LATIN = '{"nodes": [{"name": "Zürich", "gpus": 8}]}'.encode("latin-1")
GZ = gzip.compress(snapshot(), mtime=0)

# name: (body, HTTP status, pointer, part of the message)
TEXTS = {
    "empty": (b"", 400, WHOLE, "empty; a JSON object is expected"),
    "blank": (b" \n\t ", 400, WHOLE, "empty; a JSON object is expected"),
    "no JSON": (b"nodes: []", 400, WHOLE, "line 1, column 1: expecting value"),
    "cut off": (b'{"nodes":\n [{"name": "a"', 400, WHOLE, "line 2, column 15"),
    "trailing comma": (b'{"nodes": [],\n}', 400, WHOLE, "not JSON: line"),
    "two documents": (b"{} {}", 400, WHOLE, "line 1, column 4: extra data"),
    "raw control character": (b'{"a": "\x01"}', 400, WHOLE, "line 1, column 8: invalid control character"),
    "comment": (b"{ // nodes\n}", 400, WHOLE, "line 1, column 3"),
    "Latin-1": (LATIN, 400, WHOLE, "not UTF-8: byte 0xfc at offset 22"),
    "UTF-16": ('{"nodes": []}'.encode("utf-16"), 400, WHOLE, "not UTF-8: byte 0xff at offset 0"),
    "binary": (bytes(range(128, 256)), 400, WHOLE, "not UTF-8"),
    "deep arrays": (b"[" * 100_000, 400, WHOLE, "nested too deeply"),
    "deep objects": (b'{"a":' * 100_000, 400, WHOLE, "nested too deeply"),
    "deep meta": (meta(b"[" * 400 + b"]" * 400), 422, "/meta/a", "nested too deeply"),
    "5000 digits": (b'{"time_s": ' + b"9" * 5000 + b"}", 400, WHOLE, "over 4300"),
    "NaN": (snapshot(policy={"time_limit_s": float("nan")}), 400, "/policy/time_limit_s", "NaN is not JSON"),
    "Infinity": (snapshot(policy={"time_limit_s": float("inf")}), 400, "/policy/time_limit_s", "Infinity is not JSON"),
    "-Infinity in meta": (meta(b"-Infinity"), 400, "/meta/a/1/b", "-Infinity is not JSON"),
    "overflowing float": (meta(b"1e999"), 422, "/meta/a/1/b", "finite number"),
    "overflowing limit": (b'{"policy": {"time_limit_s": 1e999}}', 422, "/policy/time_limit_s", "finite number"),
    "doubled key": (b'{"nodes": [{"name": "a", "gpus": 1, "gpus": 2}]}', 422, "/nodes/0/gpus", "appears twice"),
    "doubled top key": (b'{"nodes": [{"a": 1, "a": 2}], "nodes": []}', 422, "/nodes", "appears twice"),
    "doubled label": (meta(b'{"x/y": 1, "x/y": 1}'), 422, "/meta/a/1/b/x~1y", "appears twice"),
    "half a surrogate pair": (meta(rb'"\ud800"'), 422, "/meta/a/1/b", "half of a surrogate pair"),
    "surrogate in a key": (meta(rb'{"\ud800": 1}'), 422, "/meta/a/1/b", "half of a surrogate pair"),
    "array": (b"[]", 422, WHOLE, "has to be a JSON object; this is an array"),
    "string": (b'"snapshot"', 422, WHOLE, "this is a string"),
    "number": (b"12", 422, WHOLE, "this is a number"),
    "null": (b"null", 422, WHOLE, "this is null"),
    "boolean": (b"true", 422, WHOLE, "this is a boolean"),
}

FIELDS = {
    "no nodes": (b"{}", 422, "/nodes", "missing"),
    "empty nodes": (snapshot(nodes=[]), 422, "/nodes", "at least 1 item"),
    "nodes as object": (snapshot(nodes={}), 422, "/nodes", "should be an array"),
    "node as number": (snapshot(nodes=[NODE, 5]), 422, "/nodes/1", "5 is not allowed: input should be an object"),
    "unknown field": (snapshot(node=[]), 422, "/node", "unknown field"),
    "unknown field of a node": (node(gpu=8), 422, "/nodes/1/gpu", "unknown field"),
    "node without gpus": (snapshot(nodes=[{"name": "a"}]), 422, "/nodes/0/gpus", "missing"),
    "negative gpus": (
        node(gpus=-1),
        422,
        "/nodes/1/gpus",
        "-1 is not allowed: input should be greater than or equal to 0",
    ),
    "too many gpus": (node(gpus=5000), 422, "/nodes/1/gpus", "less than or equal to 4096"),
    "huge integer": (node(gpus=10**400), 422, "/nodes/1/gpus", "less than or equal to 4096"),
    "huge limit": (snapshot(policy={"time_limit_s": 10**400}), 422, "/policy/time_limit_s", "valid number"),
    "gpus as text": (node(gpus="8"), 422, "/nodes/1/gpus", '"8" is not allowed: input should be a valid integer'),
    "gpus as float": (node(gpus=8.0), 422, "/nodes/1/gpus", "valid integer"),
    "gpus as boolean": (node(gpus=True), 422, "/nodes/1/gpus", "true is not allowed"),
    "gpus null": (node(gpus=None), 422, "/nodes/1/gpus", "null is not allowed"),
    "empty name": (node(name=""), 422, "/nodes/1/name", "at least 1 character"),
    "long name": (node(name="x" * 300), 422, "/nodes/1/name", "at most 253 characters"),
    "control character": (node(name="a\x1b[31m"), 422, "/nodes/1/name", r'"a\u001b[31m" is not allowed'),
    "unknown state": (node(state="up"), 422, "/nodes/1/state", "'ready', 'cordoned' or 'down'"),
    "soft taint": (
        node(taints=[{"key": "k", "effect": "PreferNoSchedule"}]),
        422,
        "/nodes/1/taints/0/effect",
        "'NoSchedule' or 'NoExecute'",
    ),
    "label as number": (node(labels={"a.b/c": 1}), 422, "/nodes/1/labels/a.b~1c", "valid string"),
    "empty label key": (node(labels={"": "x"}), 422, "/nodes/1/labels/", "at least 1 character"),
    "doubled node": (node(name="n1"), 422, "/nodes/1/name", "node 'n1' is also in nodes[0]"),
    "bad hostlist": (node(name="n[3-1]"), 422, "/nodes/1/name", "runs backwards"),
    "endless hostlist": (node(name="n[1-999999]"), 422, "/nodes/1/name", "longer than the limit of 131072"),
    "short path": (node(path=[]), 422, "/nodes/1/path", "the topology has 1 levels"),
    "level named node": (
        snapshot(topology={"levels": [{"name": "node"}]}),
        422,
        "/topology/levels/0/name",
        "implicit last level",
    ),
    "unknown level": (gang(topology={"required": "rak"}), 422, "/pending/0/topology/required", "known: 'rack', 'node'"),
    "unknown tenant": (gang(tenant="t"), 422, "/pending/0/tenant", "known: 'default'"),
    "no members": (gang(members=0), 422, "/pending/0/members", "greater than or equal to 1"),
    "empty request": (gang(request={}), 422, "/pending/0/request", "has to ask at least one of"),
    "bad toleration": (
        gang(tolerations=[{"operator": "Equal"}]),
        422,
        "/pending/0/tolerations/0",
        "operator Equal needs a key",
    ),
    "doubled gang": (snapshot(pending=[GANG, GANG]), 422, "/pending/1/name", "is also pending[0]"),
    "running without placement": (snapshot(running=[GANG]), 422, "/running/0/placement", "missing"),
    "running elsewhere": (running(placement={"n9": 1}), 422, "/running/0/placement/n9", "unknown node 'n9'"),
    "running miscounted": (
        running(placement={"n1": 2}),
        422,
        "/running/0/placement",
        "has 1 members, its placement has 2",
    ),
    "overcommitted": (running(request={"gpus": 9}), 422, "/nodes/0/gpus", "take 9 of gpus, it has 8"),
    "no time": (snapshot(policy={"time_limit_s": 0}), 422, "/policy/time_limit_s", "greater than 0"),
    "too many workers": (snapshot(policy={"workers": 65}), 422, "/policy/workers", "less than or equal to 64"),
    "negative seed": (snapshot(policy={"seed": -1}), 422, "/policy/seed", "greater than or equal to 0"),
}

GZIPPED = {
    "no gzip": (snapshot(), 400, WHOLE, "not valid gzip"),
    "empty gzip": (gzip.compress(b""), 400, WHOLE, "empty; a JSON object is expected"),
    "truncated gzip": (GZ[: len(GZ) // 2], 400, WHOLE, "truncated"),
    "broken gzip": (GZ[:20] + b"\xff" * 10 + GZ[30:], 400, WHOLE, "not valid gzip"),
    "bad checksum": (GZ[:-8] + bytes(8), 400, WHOLE, "not valid gzip: CRC check failed"),
    "gzip and more": (GZ + b"more", 400, WHOLE, "not valid gzip"),
    "gzip of a fault": (gzip.compress(node(gpus=-1)), 422, "/nodes/1/gpus", "-1 is not allowed"),
}

CASES = [
    *((name, "plain", *case) for name, case in {**TEXTS, **FIELDS}.items()),
    *((name, "gzip", *case) for name, case in GZIPPED.items()),
]


def dotted(pointer):
    """The last key of a pointer, as it stands in the dotted form."""
    last = pointer.rpartition("/")[2].replace("~1", "/")
    return f"[{last}]" if last.isdecimal() else last


@pytest.mark.parametrize(
    ("encoding", "body", "status", "pointer", "message"), [case[1:] for case in CASES], ids=[case[0] for case in CASES]
)
def test_one_clear_error(encoding, body, status, pointer, message, service, tmp_path):
    headers = {"content-type": "application/json"} | ({"content-encoding": "gzip"} if encoding == "gzip" else {})
    answer = service.post("/v1/solve", content=body, headers=headers)
    problem = answer.json()
    assert answer.status_code == problem["status"] == status
    assert answer.headers["content-type"] == "application/problem+json"
    found = [error for error in problem["errors"] if error["pointer"] == pointer]
    assert len(found) == 1, problem
    assert message in found[0]["message"]
    assert found[0]["message"].startswith(found[0]["field"])
    assert "Traceback" not in answer.text

    path = tmp_path / ("bad.json.gz" if encoding == "gzip" else "bad.json")
    path.write_bytes(body)
    result = CliRunner().invoke(app, ["solve", str(path)])
    assert result.exit_code == 2, result.output
    assert result.stdout == ""
    assert result.stderr.startswith(f"Error: {path}: ")
    assert result.stderr.count("Error") == 1
    assert message in result.stderr
    assert dotted(pointer) in result.stderr
    assert "Traceback" not in result.stderr


def test_a_long_list_of_faults_is_cut(service, tmp_path):
    body = snapshot(nodes=[{**NODE, "name": f"n{i}", "gpus": -1} for i in range(150)])
    problem = service.post("/v1/solve", content=body, headers={"content-type": "application/json"}).json()
    assert len(problem["errors"]) == 100
    assert "150 faults; the first 100 are listed" in problem["detail"]
    path = tmp_path / "bad.json"
    path.write_bytes(body)
    result = CliRunner().invoke(app, ["solve", str(path)])
    lines = result.stderr.splitlines()
    assert lines[0] == f"Error: {path}: 150 faults"
    assert len(lines) == 12
    assert lines[1] == "  nodes[0].gpus: -1 is not allowed: input should be greater than or equal to 0"
    assert lines[-1] == "  … and 140 more"


def test_the_same_fault_in_a_check_is_named_under_its_part(service):
    body = {"snapshot": json.loads(node(gpus=-1)), "plan": {"placements": [{"gang": "g1"}]}}
    problem = service.post("/v1/check", json=body).json()
    assert [error["pointer"] for error in problem["errors"]] == ["/snapshot/nodes/1/gpus", "/plan/placements/0/roles"]
