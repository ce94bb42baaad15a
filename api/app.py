"""The HTTP service."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from fastapi import FastAPI

from gangfit.api import openapi, problems, worker
from gangfit.api.pool import Pool
from gangfit.api.routes import SolveWorker, router
from gangfit.api.settings import Settings
from gangfit.api.versions import versions


def create_app(settings: Settings | None = None, *, solve_worker: SolveWorker = worker.solve) -> FastAPI:
    """The app; its child processes live from startup to shutdown. `solve_worker` replaces what they run for a solve."""
    settings = settings or Settings()
    pool = Pool(settings.workers, settings.max_pending, settings.margin_s)

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        try:
            await pool.start()
            yield
        finally:
            await pool.close()

    app = FastAPI(
        title="gangfit",
        version=versions().gangfit,
        description="Placement solver for GPU gangs: snapshot in, proven plan out.",
        lifespan=lifespan,
        redirect_slashes=False,
    )
    app.include_router(router(pool, settings, solve_worker))
    problems.install(app)
    openapi.install(app)
    return app
