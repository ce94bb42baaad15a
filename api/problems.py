"""Errors as RFC 9457 problem documents."""

from __future__ import annotations

import json
import logging
import uuid
from collections.abc import Mapping
from http import HTTPStatus

from fastapi import FastAPI, Request, Response
from starlette.exceptions import HTTPException

from gangfit.api.faults import InputError
from gangfit.api.pool import BusyError, ClosedError, WorkerDiedError

MEDIA_TYPE = "application/problem+json"
RETRY_AFTER_S = 5
_RETRY = {"Retry-After": str(RETRY_AFTER_S)}
_TITLES = {413: "Content Too Large", 422: "Unprocessable Content"}
"""RFC 9110's names, which Python has from 3.13 on."""

_log = logging.getLogger("gangfit.api")


class ProblemError(Exception):
    """An answer other than 2xx."""

    def __init__(self, status: int, name: str, detail: str, headers: Mapping[str, str] | None = None) -> None:
        """`name` is the last part of the problem's type, such as `body-too-large`."""
        super().__init__(detail)
        self.status = status
        self.name = name
        self.detail = detail
        self.headers = dict(headers or {})
        self.errors: list[dict[str, object]] = []

    def response(self) -> Response:
        """The problem document."""
        document: dict[str, object] = {
            "type": f"urn:gangfit:problem:{self.name}",
            "title": _TITLES.get(self.status, HTTPStatus(self.status).phrase),
            "status": self.status,
            "detail": self.detail,
            "instance": uuid.uuid4().urn,
        }
        if self.errors:
            document["errors"] = self.errors
        return Response(json.dumps(document), self.status, self.headers, MEDIA_TYPE)


def bad_input(error: InputError) -> ProblemError:
    """400 for what is no JSON, 422 for JSON that says something impossible; every fault with its pointer."""
    if error.kind == "malformed":
        problem = ProblemError(400, "malformed-body", f"The body can't be read: {error}")
    else:
        listed = f"; the first {len(error.faults)} are listed" if error.total > len(error.faults) else ""
        count = "1 fault" if error.total == 1 else f"{error.total} faults"
        problem = ProblemError(422, "invalid-body", f"The body has {count}{listed}: {error}")
    problem.errors = [
        {"pointer": fault.pointer, "field": fault.field, "message": str(fault), "value": fault.value}
        for fault in error.faults
    ]
    return problem


def install(app: FastAPI) -> None:
    """Answer every error of the app with a problem document."""

    @app.exception_handler(ProblemError)
    async def _problem(request: Request, error: ProblemError) -> Response:
        return error.response()

    @app.exception_handler(InputError)
    async def _bad_input(request: Request, error: InputError) -> Response:
        return bad_input(error).response()

    @app.exception_handler(BusyError)
    async def _busy(request: Request, error: BusyError) -> Response:
        return busy().response()

    @app.exception_handler(ClosedError)
    async def _closed(request: Request, error: ClosedError) -> Response:
        return ProblemError(503, "shutting-down", "The service is shutting down.", _RETRY).response()

    @app.exception_handler(HTTPException)
    async def _http(request: Request, error: HTTPException) -> Response:
        detail = f"{request.method} {request.url.path}: {error.detail}"
        name = HTTPStatus(error.status_code).phrase.lower().replace(" ", "-")
        return ProblemError(error.status_code, name, detail, error.headers).response()

    @app.exception_handler(WorkerDiedError)
    async def _died(request: Request, error: WorkerDiedError) -> Response:
        detail = f"Two processes in a row died on this request, the last one: {error.reason}."
        return _logged(ProblemError(500, "worker-died", detail), request)

    @app.exception_handler(Exception)
    async def _unexpected(request: Request, error: Exception) -> Response:
        detail = "Something went wrong here, not in the request; the server's log has it under this instance."
        return _logged(ProblemError(500, "internal-error", detail), request)


def busy() -> ProblemError:
    """503: no worker free and no room in the queue."""
    detail = f"Every worker is busy and the queue is full; try again in {RETRY_AFTER_S} s."
    return ProblemError(503, "queue-full", detail, _RETRY)


def _logged(problem: ProblemError, request: Request) -> Response:
    # the traceback itself is logged by the server, which sees the exception too
    response = problem.response()
    instance = json.loads(bytes(response.body))["instance"]
    _log.error("%s %s: %s %s", request.method, request.url.path, instance, problem.detail)
    return response
