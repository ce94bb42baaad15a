"""What an operator may set on the service."""

from __future__ import annotations

import os
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Settings:
    """Limits of one service process."""

    workers: int = field(default_factory=lambda: max(1, (os.cpu_count() or 1) // 2))
    """Child processes that solve, each one request at a time; 1 or more."""
    max_pending: int = 32
    """Most requests that wait while all workers are busy; 0 or more."""
    max_body_bytes: int = 64 * 2**20
    """Most bytes of a request body, before and after decompression."""
    margin_s: float = 30.0
    """Seconds that a solve may take beyond twice its time limit before its process is ended."""
