"""Children that die, hang, raise or are slow: every caller gets an answer, and the service lives on."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import time
from concurrent.futures import ThreadPoolExecutor

import child_workers
import pytest

from gangfit.api.app import create_app
from gangfit.api.pool import ClosedError, Pool, WorkerDiedError
from gangfit.api.settings import Settings
from gangfit.models import Plan


@pytest.fixture(scope="module")
def frail(serving):
    """Two workers that do what the snapshot's `meta.do` says."""
    settings = Settings(workers=2, max_pending=1, margin_s=4)
    with serving(create_app(settings, solve_worker=child_workers.solve)) as client:
        yield client


@pytest.fixture
def asking(frail, demo):
    def ask(do=None, **meta):
        return frail.post("/v1/solve", json={**demo, "meta": {"do": do, **meta}})

    return ask


class Gate:
    """Where slow solves show that they run, and what lets them go on: the end of the `with` block."""

    def __init__(self, folder):
        self.here, self.opened = folder / "here", folder / "gate"
        self.paths = {"here": str(self.here), "gate": str(self.opened)}

    def reached(self):
        return self.here.exists()

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.opened.touch()


@pytest.fixture
def gate(tmp_path):
    return Gate(tmp_path)


def wait_for(condition):
    for _ in range(600):
        if condition():
            return
        time.sleep(0.05)
    pytest.fail("it never came")


def died(answer):
    """The warnings of a plan that greedy made in place of a search that died."""
    assert answer.status_code == 200
    plan = Plan.model_validate_json(answer.content)
    assert plan.status == "feasible"
    assert [placement.gang for placement in plan.placements] == ["eight", "sixteen"]
    return plan.warnings


def sound(answer):
    assert answer.status_code == 200
    return Plan.model_validate_json(answer.content).warnings == ()


def rebuilt(client):
    return client.get("/v1/health").json()["rebuilt"]


def test_a_search_that_aborts_gives_the_greedy_plan(frail, asking):
    before = rebuilt(frail)
    assert died(asking("abort")) == ("the search process died (SIGABRT); this is the greedy plan",)
    assert rebuilt(frail) == before + 1
    assert sound(asking())


def test_a_search_that_hangs_gives_the_greedy_plan(frail, asking):
    before = rebuilt(frail)
    assert died(asking("hang")) == ("the search process died (no answer within 4.2 s); this is the greedy plan",)
    assert rebuilt(frail) == before + 1
    assert sound(asking())


def test_others_in_flight_notice_nothing(frail, asking, gate):
    with ThreadPoolExecutor(2) as callers:
        slow = callers.submit(asking, "wait", **gate.paths)
        with gate:
            wait_for(gate.reached)
            assert died(asking("abort"))
            assert sound(asking())
            assert not slow.done()
        assert sound(slow.result())


def test_a_snapshot_that_always_kills_gets_500_and_the_service_lives_on(frail, asking):
    for _ in range(2):
        answer = asking("exit")
        assert answer.status_code == 500
        assert answer.json()["type"] == "urn:gangfit:problem:worker-died"
        assert "exit code 7" in answer.json()["detail"]
    assert sound(asking())


def test_a_worker_that_raises_says_nothing_about_the_inside(asking):
    answer = asking("raise")
    assert answer.status_code == 500
    assert answer.headers["content-type"] == "application/problem+json"
    assert answer.json()["type"] == "urn:gangfit:problem:internal-error"
    assert "secret" not in answer.text
    assert "Traceback" not in answer.text
    assert sound(asking())


def test_full_queue_gives_503_before_the_body_is_read(frail, asking, gate):
    with ThreadPoolExecutor(3) as callers:
        first = callers.submit(asking, "wait", **gate.paths)
        second = callers.submit(asking, "wait", **gate.paths)
        with gate:
            wait_for(lambda: frail.get("/v1/health").json()["busy"] == 2)
            third = callers.submit(asking)
            wait_for(lambda: frail.get("/v1/health").json()["waiting"] == 1)
            refused = asking()
            unread = frail.post("/v1/solve", content=b"", headers={"content-type": "application/json"})
        assert all(sound(answer.result()) for answer in (first, second, third))
    for answer in (refused, unread):
        assert answer.status_code == 503
        assert answer.headers["retry-after"] == "5"
        assert answer.json()["type"] == "urn:gangfit:problem:queue-full"


def test_a_deterministic_answer_is_the_same_from_every_worker(asking, demo):
    assert len({asking().content for _ in range(4)}) == 1


class TestPool:
    """The pool on its own, one loop each."""

    @staticmethod
    def run(scenario):
        async def inside():
            pool = Pool(workers=1, max_pending=4, margin_s=30)
            await pool.start()
            try:
                await scenario(pool)
            finally:
                await pool.close()

        asyncio.run(inside())

    @staticmethod
    def no_rescue(reason):
        raise AssertionError(reason)

    def test_an_idle_child_killed_from_outside_is_replaced_unnoticed(self):
        async def scenario(pool):
            first = await pool.run(child_workers.pid, self.no_rescue)
            os.kill(int(first), signal.SIGKILL)
            await asyncio.sleep(0.2)
            second = await pool.run(child_workers.pid, self.no_rescue)
            assert second != first
            assert pool.rebuilt == 1

        self.run(scenario)

    def test_a_caller_that_gives_up_frees_its_worker(self):
        async def scenario(pool):
            asleep = asyncio.create_task(pool.run(child_workers.sleep, self.no_rescue))
            while not pool.busy:
                await asyncio.sleep(0.01)
            queued = asyncio.create_task(pool.run(child_workers.pid, self.no_rescue))
            while not pool.waiting:
                await asyncio.sleep(0.01)
            asleep.cancel()
            assert int(await queued) != os.getpid()
            with pytest.raises(asyncio.CancelledError):
                await asleep
            assert pool.busy == pool.waiting == 0

        self.run(scenario)

    def test_close_ends_a_child_at_work(self):
        async def scenario(pool):
            pid = int(await pool.run(child_workers.pid, self.no_rescue))
            asleep = asyncio.create_task(pool.run(child_workers.sleep, lambda reason: child_workers.sleep))
            while not pool.busy:
                await asyncio.sleep(0.01)
            await pool.close()
            with pytest.raises((ClosedError, WorkerDiedError)):
                await asleep
            with pytest.raises(ProcessLookupError):
                os.kill(pid, 0)

        self.run(scenario)


def test_bodies_reach_the_worker_untouched():
    # the same function in this process: what the child would answer
    body = json.dumps({"nodes": [{"name": "n", "gpus": 1}], "policy": {"deterministic": True}}).encode()
    assert child_workers.solve(body) == child_workers.worker.solve(body)
