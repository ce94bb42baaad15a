"""The service as its callers see it: answers, limits, problem documents, OpenAPI."""

from __future__ import annotations

import gzip
import json
import os
import re
import signal
import subprocess
import sys
import time
from importlib.metadata import version
from pathlib import Path

import httpx
import pytest

from gangfit.api import examples
from gangfit.api.documents import CheckRequest
from gangfit.models import CheckReport, Plan, Snapshot

JSON = {"content-type": "application/json"}


def problem(answer, status, name):
    document = answer.json()
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.status_code == document["status"] == status
    assert document["type"] == f"urn:gangfit:problem:{name}"
    assert document["title"]
    assert document["instance"].startswith("urn:uuid:")
    return document


class TestSolve:
    def test_plan(self, service, demo):
        answer = service.post("/v1/solve", json=demo)
        assert answer.status_code == 200
        assert answer.headers["content-type"] == "application/json"
        plan = Plan.model_validate_json(answer.content)
        assert [placement.gang for placement in plan.placements] == ["eight", "sixteen"]
        assert [(blocked.gang, blocked.reason) for blocked in plan.blocked] == [("wide", "capacity")]

    def test_gzip_and_byte_order_mark_change_nothing(self, service, demo):
        body = json.dumps(demo).encode()
        plain = service.post("/v1/solve", content=body, headers=JSON).content
        packed = {**JSON, "content-encoding": "gzip"}
        assert service.post("/v1/solve", content=gzip.compress(body), headers=packed).content == plain
        assert service.post("/v1/solve", content=b"\xef\xbb\xbf" + body, headers=JSON).content == plain
        chunks = iter([body[:100], body[100:]])
        assert service.post("/v1/solve", content=chunks, headers=JSON).content == plain

    @pytest.mark.parametrize("content_type", ["application/json; charset=utf-8", "Application/JSON"])
    def test_content_type_spellings(self, service, demo, content_type):
        answer = service.post("/v1/solve", content=json.dumps(demo), headers={"content-type": content_type})
        assert answer.status_code == 200

    @pytest.mark.parametrize(
        "content_type", ["text/plain", "application/x-www-form-urlencoded", "application/json; charset=latin-1", "json"]
    )
    def test_other_content_types(self, service, content_type):
        answer = service.post("/v1/solve", content=b"{}", headers={"content-type": content_type})
        assert content_type in problem(answer, 415, "unsupported-media-type")["detail"]
        assert answer.headers["accept"] == "application/json"

    def test_no_content_type(self, service):
        answer = service.post("/v1/solve", content=b"{}")
        assert "is missing" in problem(answer, 415, "unsupported-media-type")["detail"]

    def test_unknown_encoding(self, service):
        answer = service.post("/v1/solve", content=b"{}", headers={**JSON, "content-encoding": "br"})
        assert "'br'" in problem(answer, 415, "unsupported-encoding")["detail"]

    def test_too_long(self, service):
        body = b" " * (2**20 + 1)
        detail = problem(service.post("/v1/solve", content=body, headers=JSON), 413, "body-too-large")["detail"]
        assert "1048576" in detail
        assert "1048577" in detail

    def test_too_long_without_content_length(self, service):
        chunks = (b" " * 2**16 for _ in range(17))
        problem(service.post("/v1/solve", content=chunks, headers=JSON), 413, "body-too-large")

    def test_zip_bomb(self, service):
        body = gzip.compress(bytes(2**28))
        answer = service.post("/v1/solve", content=body, headers={**JSON, "content-encoding": "gzip"})
        assert "after decompression" in problem(answer, 413, "body-too-large")["detail"]


class TestCheck:
    def test_a_callers_own_plan(self, service):
        body = {"snapshot": examples.SNAPSHOT, "plan": examples.DECISIONS}
        answer = service.post("/v1/check", json=body)
        assert answer.status_code == 200
        assert CheckReport.model_validate_json(answer.content).ok

    def test_violation_is_an_answer(self, service, demo):
        plan = {"placements": [{"gang": "eight", "roles": {"members": {"r1-9": 1}}}]}
        report = CheckReport.model_validate_json(
            service.post("/v1/check", json={"snapshot": demo, "plan": plan}).content
        )
        assert not report.ok
        assert any("r1-9" in violation.message for violation in report.violations)

    def test_plan_is_missing(self, service, demo):
        document = problem(service.post("/v1/check", json={"snapshot": demo}), 422, "invalid-body")
        assert document["errors"][0]["pointer"] == "/plan"


def test_own_plan_passes_the_check(service, demo):
    plan = service.post("/v1/solve", json=demo).json()
    assert service.post("/v1/check", json={"snapshot": demo, "plan": plan}).json()["ok"]


def test_health(service):
    health = service.get("/v1/health").json()
    assert health == {"status": "ok", "workers": 1, "busy": 0, "waiting": 0, "rebuilt": 0}


def test_version(service):
    answer = service.get("/v1/version").json()
    assert answer["gangfit"] == version("gangfit")
    assert answer["ortools"] == version("ortools")
    assert re.fullmatch(r"3\.\d+\.\d+.*", answer["python"])


@pytest.mark.parametrize("path", ["/", "/v1", "/v1/solve/", "/v2/solve"])
def test_unknown_path(service, path):
    assert path in problem(service.post(path, json={}), 404, "not-found")["detail"]


def test_wrong_method(service):
    answer = service.get("/v1/solve")
    problem(answer, 405, "method-not-allowed")
    assert answer.headers["allow"] == "POST"


@pytest.fixture(scope="module")
def document(service):
    return service.get("/openapi.json").json()


def without_null(value):
    if isinstance(value, dict):
        return {key: without_null(item) for key, item in value.items() if item is not None}
    return [without_null(item) for item in value] if isinstance(value, list) else value


class TestOpenApi:
    def test_structure(self, document):
        assert document["openapi"].startswith("3.1")
        assert document["info"]["version"] == version("gangfit")
        assert set(document["paths"]) == {
            "/v1/solve", "/v1/check", "/v1/defragment", "/v1/health", "/v1/version",
        }  # fmt: skip
        operations = [operation for path in document["paths"].values() for operation in path.values()]
        assert len({operation["operationId"] for operation in operations}) == len(operations)
        for operation in operations:
            assert operation["summary"]
            for status, response in operation["responses"].items():
                assert status == "200" or list(response["content"]) == ["application/problem+json"]
                assert response["description"]
                assert all("schema" in media for media in response["content"].values())

    def test_every_reference_resolves(self, document):
        references = set(re.findall(r'"\$ref": "([^"]*)"', json.dumps(document)))
        assert len(references) > 20
        for reference in references:
            part = document
            for key in reference.removeprefix("#/").split("/"):
                part = part[key]
            assert isinstance(part, dict)

    def test_every_wire_field_is_described(self, document):
        schemas = document["components"]["schemas"]
        bare = [
            f"{name}.{field}"
            for name, schema in schemas.items()
            for field, value in schema.get("properties", {}).items()
            if "description" not in value
        ]
        assert bare == []

    def test_errors_are_declared(self, document):
        for path in ("/v1/solve", "/v1/check", "/v1/defragment"):
            declared = document["paths"][path]["post"]["responses"]
            assert set(declared) == {"200", "400", "413", "415", "422", "500", "503"}

    def test_examples_are_valid(self, document, service):
        solve, check = (document["paths"][path]["post"] for path in ("/v1/solve", "/v1/check"))
        (snapshot,) = solve["requestBody"]["content"]["application/json"]["examples"].values()
        (request,) = check["requestBody"]["content"]["application/json"]["examples"].values()
        Snapshot.model_validate(snapshot["value"])
        CheckRequest.model_validate(request["value"])
        CheckReport.model_validate(check["responses"]["200"]["content"]["application/json"]["example"])
        plan = solve["responses"]["200"]["content"]["application/json"]["example"]
        answer = service.post("/v1/solve", json=snapshot["value"]).json()
        # The document leaves out what is null.
        assert plan == without_null({key: answer[key] for key in plan})
        defragment = document["paths"]["/v1/defragment"]["post"]
        (wanted,) = defragment["requestBody"]["content"]["application/json"]["examples"].values()
        moved = service.post("/v1/defragment", json=wanted["value"]).json()
        assert without_null(moved) == defragment["responses"]["200"]["content"]["application/json"]["example"]
        sample = check["responses"]["422"]["content"]["application/problem+json"]["example"]
        assert set(sample) == {"type", "title", "status", "detail", "instance", "errors"}


def children_of(pid):
    return [int(child) for child in Path(f"/proc/{pid}/task/{pid}/children").read_text().split()]


def alive(pid):
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except OSError:
        return False


def until(condition):
    for _ in range(600):
        if condition():
            return True
        time.sleep(0.05)
    return False


@pytest.mark.skipif(not Path("/proc/self/task").exists(), reason="looks for processes in /proc")
@pytest.mark.parametrize("ending", [signal.SIGTERM, signal.SIGINT, signal.SIGKILL])
def test_serve_answers_and_leaves_no_process_behind(ending, demo, tmp_path):
    log = tmp_path / "log"
    command = [sys.executable, "-c", "from gangfit.api.cli import main; main()", "serve", "--port", "0", "--workers=1"]
    with log.open("wb") as stderr, subprocess.Popen(command, stderr=stderr, stdout=stderr) as server:
        try:
            assert until(lambda: "startup complete" in log.read_text()), log.read_text()
            url = re.search(r"http://127\.0\.0\.1:\d+", log.read_text())[0]
            children = children_of(server.pid)
            assert children
            answer = httpx.post(f"{url}/v1/solve", json=demo, timeout=60)
            assert answer.status_code == 200
            assert Plan.model_validate_json(answer.content).placements
        finally:
            os.kill(server.pid, ending)
            server.wait(60)
    assert until(lambda: not any(alive(child) for child in children))
    assert "Traceback" not in log.read_text()
