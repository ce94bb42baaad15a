"""What runs in a child process: bytes in, bytes out, so that the parent never parses a large body."""

from __future__ import annotations

import ctypes
import gc
import logging
import multiprocessing
import os
import signal
import threading

from gangfit.api import documents
from gangfit.models import Node, PendingGang, Policy, Request, Snapshot
from gangfit.solver import InvalidPlanError
from gangfit.solver import check as check_plan
from gangfit.solver import defragment as defragment_snapshot
from gangfit.solver import solve as solve_snapshot
from gangfit.solver.kernels import warmup

DETERMINISTIC_PATIENCE = 10
"""Wall seconds per deterministic second before the parent's watchdog thinks that a child hangs."""
_limit: ctypes.c_double | None = None


def start(limit: ctypes.c_double) -> None:
    """Set a child process up: warm the solver, die with the parent, leave Ctrl-C to it.

    `limit` is shared with the parent: the time limit of the running solve in seconds, 0 while unknown.
    """
    global _limit
    _limit = limit
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    threading.Thread(target=_follow_parent, daemon=True).start()
    gang = PendingGang(name="g", members=1, request=Request(gpus=1))
    solve_snapshot(Snapshot(nodes=(Node(name="n", gpus=1),), pending=(gang,)), search=False)
    threading.Thread(target=_warm_kernels, daemon=True).start()


def _warm_kernels() -> None:
    """Load the compiled kernels, or compile them once for all later processes, beside the first requests."""
    logging.getLogger("gangfit").info("kernels warm after %.1f s", warmup())
    # What is loaded now stays: looking through it for cycles, 0.1 s each time, would fall into some request.
    gc.freeze()


def announce(time_limit_s: float) -> None:
    """Tell the parent's watchdog how long the solve that begins now may take, in seconds."""
    if _limit is not None:
        _limit.value = time_limit_s


def patience(policy: Policy) -> float:
    """Seconds of wall time that a solve may well take; deterministic seconds are counted work, not time."""
    return policy.time_limit_s * (DETERMINISTIC_PATIENCE if policy.deterministic else 1)


def solve(body: bytes, search: bool = True, warning: str | None = None) -> bytes:
    """Snapshot JSON → plan JSON. With a warning the plan carries it and is not called optimal. Raises InputError."""
    snapshot = documents.snapshot(body)
    announce(patience(snapshot.policy))
    try:
        plan = solve_snapshot(snapshot, search=search)
    except InvalidPlanError as error:
        # A defect of ours: the caller still gets a plan that passes the checker, and is told.
        logging.getLogger("gangfit").error("the checker refused a plan: %s", error)
        plan = solve_snapshot(snapshot, search=False)
        warning = f"the searched plan broke a rule ({error}); this is the greedy plan. Please report it"
    if warning is not None:
        plan = plan.model_copy(update={"warnings": (*plan.warnings, warning), "status": "feasible"})
    return documents.dump(plan)


def check(body: bytes) -> bytes:
    """`{snapshot, plan}` JSON → check report JSON. Raises InputError."""
    request = documents.check_request(body)
    announce(request.snapshot.policy.time_limit_s)
    return documents.dump(check_plan(request.snapshot, request.plan))


def defragment(body: bytes) -> bytes:
    """`{snapshot, level, domains}` JSON → defragmentation JSON. Raises InputError."""
    request = documents.defragment_request(body)
    announce(patience(request.snapshot.policy))
    return documents.dump(defragment_snapshot(request.snapshot, request.level, request.domains))


def _follow_parent() -> None:
    parent = multiprocessing.parent_process()
    if parent is not None:
        parent.join()
        os._exit(1)
