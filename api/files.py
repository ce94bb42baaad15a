"""Files of the command line: read a snapshot or plan, write an answer, and say in one error what is wrong."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import TypeVar

from gangfit.api.faults import InputError, listing
from gangfit.api.parse import GZIP_MAGIC, TooLargeError, gunzip, malformed

STDIN = "-"
MAX_BYTES = 2**30
"""Most bytes of a file after decompression."""
MAX_LISTED = 10
"""Most faults that an error lists."""

Document = TypeVar("Document")


class RefusedError(Exception):
    """Something the command can't work with; the message names file, field, value and limit."""


def load(source: str, reader: Callable[[bytes], Document]) -> Document:
    """Read a file (`-`: standard input), plain or gzip, with a reader of `documents`. Raises RefusedError."""
    with refusals(named(source)):
        try:
            data = _read(source)
            if data.startswith(GZIP_MAGIC) or source.endswith(".gz"):
                data = gunzip(data, MAX_BYTES)
        except TooLargeError as error:
            raise malformed(str(error)) from None
        except OSError as error:
            raise malformed(f"can't be read: {error.strerror or error}") from None
        return reader(data)


def named(source: str) -> str:
    """What an error calls a source."""
    return "<stdin>" if source == STDIN else source


@contextmanager
def refusals(source: str) -> Iterator[None]:
    """Turn an InputError of this source into a RefusedError that lists its faults."""
    try:
        yield
    except InputError as error:
        lines = listing(error.faults, error.total, MAX_LISTED)
        if len(lines) == 1:
            raise RefusedError(f"{source}: {lines[0]}") from None
        raise RefusedError("\n  ".join([f"{source}: {error.total} faults", *lines])) from None


def writable(path: Path | None) -> None:
    """Raise RefusedError before the work is done, if it is plain that the file can't be written after it."""
    if path is not None and path.is_dir():
        raise RefusedError(f"{path}: can't be written: it is a directory")
    if path is not None and not path.parent.is_dir():
        raise RefusedError(f"{path}: can't be written: there is no directory {path.parent}")


def write(content: bytes, path: Path | None = None) -> None:
    """Write one document and a newline to a file, or to standard output. Raises RefusedError."""
    if path is None:
        sys.stdout.flush()
        sys.stdout.buffer.write(content + b"\n")
        sys.stdout.buffer.flush()
        return
    try:
        path.write_bytes(content + b"\n")
    except OSError as error:
        raise RefusedError(f"{path}: can't be written: {error.strerror or error}") from None


def _read(source: str) -> bytes:
    return sys.stdin.buffer.read() if source == STDIN else Path(source).read_bytes()
