"""A running service for the tests: the real server on a free port, in a thread of this process."""

from __future__ import annotations

import json
import socket
import sys
import threading
from contextlib import contextmanager
from pathlib import Path

import httpx
import pytest
import uvicorn

from gangfit.api.app import create_app
from gangfit.api.settings import Settings

HERE = str(Path(__file__).parent)
if HERE not in sys.path:  # spawned children get this path too, and find child_workers on it
    sys.path.insert(0, HERE)

LIMIT = 2**20


@contextmanager
def running(app):
    """An httpx client of the app."""
    listener = socket.create_server(("127.0.0.1", 0))
    server = uvicorn.Server(uvicorn.Config(app, log_level="critical", timeout_graceful_shutdown=1))
    thread = threading.Thread(target=server.run, kwargs={"sockets": [listener]})
    thread.start()
    host, port = listener.getsockname()
    try:
        with httpx.Client(base_url=f"http://{host}:{port}", timeout=120) as client:
            yield client
    finally:
        server.should_exit = True
        thread.join()
        listener.close()


@pytest.fixture(scope="session")
def serving():
    """`with serving(app) as client`."""
    return running


@pytest.fixture(scope="session")
def service():
    """Client of the app as it ships, one worker, bodies of at most 1 MiB."""
    with running(create_app(Settings(workers=1, max_body_bytes=LIMIT))) as client:
        yield client


@pytest.fixture(scope="session")
def demo():
    """Two racks of two nodes, jobs of 16 and 8 GPUs, a job that doesn't fit; solved the same way every time."""
    return {
        "topology": {"levels": [{"name": "rack"}]},
        "nodes": [{"name": f"{rack}-[1-2]", "path": [rack], "gpus": 8} for rack in ("r1", "r2")],
        "pending": [
            {"name": "sixteen", "members": 2, "request": {"gpus": 8}},
            {"name": "eight", "members": 1, "request": {"gpus": 8}},
            {"name": "wide", "members": 9, "request": {"gpus": 8}},
        ],
        "policy": {"deterministic": True, "time_limit_s": 1},
    }


@pytest.fixture
def demo_file(demo, tmp_path):
    path = tmp_path / "demo.json"
    path.write_text(json.dumps(demo))
    return str(path)
