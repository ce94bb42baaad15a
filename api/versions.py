"""Which versions answer."""

from __future__ import annotations

import platform
from importlib.metadata import version

from pydantic import BaseModel, ConfigDict


class Versions(BaseModel):
    """Versions of gangfit and of what its answers depend on."""

    model_config = ConfigDict(frozen=True, use_attribute_docstrings=True)

    gangfit: str
    """gangfit itself."""
    ortools: str
    """OR-Tools, whose CP-SAT searches."""
    python: str
    """The interpreter."""


def versions() -> Versions:
    """Versions installed here."""
    return Versions(gangfit=version("gangfit"), ortools=version("ortools"), python=platform.python_version())
