"""What a child process does in the tests in place of a solve: `meta.do` of the snapshot says it."""

import json
import os
import time
from pathlib import Path

from gangfit.api import worker

DEADLINE_S = 60


def solve(body, search=True, warning=None):
    meta = json.loads(body).get("meta", {})
    do = meta.get("do")
    if do == "abort" and search:
        os.abort()
    if do == "exit":
        os._exit(7)
    if do == "hang" and search:
        worker.announce(0.1)
        time.sleep(DEADLINE_S)
    if do == "raise":
        raise RuntimeError("secret of the server")
    if do == "wait":
        worker.announce(DEADLINE_S)
        Path(meta["here"]).touch()
        until = time.monotonic() + DEADLINE_S
        while not Path(meta["gate"]).exists() and time.monotonic() < until:
            time.sleep(0.01)
    return worker.solve(body, search, warning)


def pid():
    return str(os.getpid()).encode()


def sleep():
    worker.announce(DEADLINE_S)
    time.sleep(DEADLINE_S)
    return b""
