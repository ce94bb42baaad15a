"""The five endpoints under /v1."""

from __future__ import annotations

from functools import partial
from typing import Protocol

from fastapi import APIRouter, Request, Response
from pydantic import BaseModel, ConfigDict

from gangfit.api import examples, worker
from gangfit.api.body import read_body
from gangfit.api.documents import CheckRequest, DefragmentRequest
from gangfit.api.openapi import answers, takes
from gangfit.api.pool import Job, Pool
from gangfit.api.problems import busy
from gangfit.api.settings import Settings
from gangfit.api.versions import Versions, versions
from gangfit.models import CheckReport, Defragmentation, Plan, Snapshot


class SolveWorker(Protocol):
    """Runs in a child process: snapshot JSON → plan JSON; a top-level function, so that it can be pickled."""

    def __call__(self, body: bytes, search: bool = True, warning: str | None = None) -> bytes:
        """Solve; with a warning, add it to the plan. Raises InputError."""


class Health(BaseModel):
    """How the service is doing."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    status: str = "ok"
    """`ok` as long as it answers."""
    workers: int
    """Processes that solve."""
    busy: int
    """Of these, at work now."""
    waiting: int
    """Requests in the queue."""
    rebuilt: int
    """Processes replaced since the start, because one died or overran."""


def router(pool: Pool, settings: Settings, solve_worker: SolveWorker) -> APIRouter:
    """Routes over one pool."""
    routes = APIRouter(prefix="/v1")

    async def body_of(request: Request) -> bytes:
        if pool.full:  # before a large body is read for nothing
            raise busy()
        return await read_body(request, settings.max_body_bytes)

    @routes.post(
        "/solve",
        summary="Snapshot in, plan out",
        response_class=Response,
        openapi_extra=takes(Snapshot, two_racks=examples.SNAPSHOT),
        responses=answers(Plan, "What starts where, how good that provably is, why the rest waits.", examples.PLAN),
    )
    async def solve(request: Request) -> Response:
        """Solve one snapshot. If the search process dies, the answer is the greedy plan with a warning."""
        body = await body_of(request)

        def greedy(reason: str) -> Job:
            warning = f"the search process died ({reason}); this is the greedy plan"
            return partial(solve_worker, body, search=False, warning=warning)

        return _json(await pool.run(partial(solve_worker, body), greedy))

    @routes.post(
        "/check",
        summary="Does a plan keep every rule?",
        response_class=Response,
        openapi_extra=takes(CheckRequest, own_plan={"snapshot": examples.SNAPSHOT, "plan": examples.DECISIONS}),
        responses=answers(CheckReport, "Violations, and the tier values recomputed.", examples.REPORT),
    )
    async def check(request: Request) -> Response:
        """Check any plan against its snapshot. Violations are an answer, not an error."""
        job = partial(worker.check, await body_of(request))
        return _json(await pool.run(job, lambda reason: job))

    @routes.post(
        "/defragment",
        summary="Which moves empty whole domains?",
        response_class=Response,
        openapi_extra=takes(DefragmentRequest, one_rack=examples.DEFRAGMENT),
        responses=answers(Defragmentation, "Domains, moves, and how few are possible.", examples.DEFRAGMENTATION),
    )
    async def defragment(request: Request) -> Response:
        """The fewest moves that leave so many domains of a level empty. Impossible is an answer, not an error."""
        job = partial(worker.defragment, await body_of(request))
        return _json(await pool.run(job, lambda reason: job))

    @routes.get("/health", summary="Is it up?")
    async def health() -> Health:
        """Workers, queue and how many processes had to be replaced."""
        return Health(workers=pool.workers, busy=pool.busy, waiting=pool.waiting, rebuilt=pool.rebuilt)

    @routes.get("/version", summary="Which versions answer?")
    async def version() -> Versions:
        """Versions of gangfit, OR-Tools and Python."""
        return versions()

    return routes


def _json(content: bytes) -> Response:
    return Response(content, media_type="application/json")
