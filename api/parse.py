"""Bytes → JSON object, strictly: UTF-8, finite numbers, every key once. Also gzip, with a limit."""

from __future__ import annotations

import gzip
import io
import json
import math
import re
import zlib
from collections.abc import Callable, Iterator
from typing import Any

from gangfit.api.faults import Fault, InputError, Location, has_surrogate, scalar, shown

GZIP_MAGIC = b"\x1f\x8b"
_SURROGATE_ESCAPE = re.compile(r"\\u[dD][89a-fA-F]")


class TooLargeError(Exception):
    """Decompressed data over the limit; `limit` in bytes."""

    def __init__(self, limit: int) -> None:
        super().__init__(f"more than {limit} bytes after decompression")
        self.limit = limit


def gunzip(data: bytes, limit: int) -> bytes:
    """Decompress, never holding more than `limit` bytes. Raises InputError, over the limit TooLargeError."""
    try:
        with gzip.GzipFile(fileobj=io.BytesIO(data)) as stream:
            plain = stream.read(limit + 1)
    except EOFError:
        raise malformed("gzip data is truncated") from None
    except (gzip.BadGzipFile, zlib.error) as error:
        reason = str(error).rpartition(" data: ")[2]  # zlib says "Error -3 while decompressing data: …"
        raise malformed(f"not valid gzip: {reason}") from None
    if len(plain) > limit:
        raise TooLargeError(limit)
    return plain


def malformed(message: str) -> InputError:
    """A fault of the text as a whole."""
    return InputError("malformed", (Fault((), message),))


def parse(data: bytes) -> dict[str, Any]:
    """Read one JSON object. Raises InputError that names line and column, or the field at fault."""
    text = _text(data)
    doubled: list[tuple[dict[str, Any], str]] = []
    constants: list[str] = []

    def unique(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
        entries = dict(pairs)
        if len(entries) != len(pairs):
            keys = [key for key, _ in pairs]
            doubled.append((entries, next(key for key in keys if keys.count(key) > 1)))
        return entries

    def constant(token: str) -> float:
        constants.append(token)
        return float(token)

    try:
        document = json.loads(text, object_pairs_hook=unique, parse_constant=constant)
    except json.JSONDecodeError as error:
        what = error.msg[:1].lower() + error.msg[1:]
        raise malformed(f"not JSON: line {error.lineno}, column {error.colno}: {what}") from None
    except RecursionError:
        raise malformed("not readable: arrays or objects are nested too deeply") from None
    except ValueError:  # the interpreter's limit on the digits of an integer
        raise malformed("not readable: an integer has more digits than any field takes (over 4300)") from None
    if constants:
        at = _find(document, lambda value: isinstance(value, float) and not math.isfinite(value))
        raise InputError("malformed", (Fault(at, f"{constants[0]} is not JSON; numbers have to be finite"),))
    if doubled:
        holder, key = doubled[-1]  # the outermost: no other doubled key can hide it
        at = (*_find(document, lambda value: value is holder), key)
        raise InputError("invalid", (Fault(at, "this key appears twice in its object", scalar(holder[key])),))
    if _SURROGATE_ESCAPE.search(text):
        _reject_surrogates(document)
    if not isinstance(document, dict):
        message = f"the document has to be a JSON object; this is {_kind(document)}"
        raise InputError("invalid", (Fault((), message, scalar(document)),))
    return document


def _text(data: bytes) -> str:
    if not data.strip():
        raise malformed("empty; a JSON object is expected")
    try:
        return data.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        byte = error.object[error.start]
        line = data.count(b"\n", 0, error.start) + 1
        raise malformed(f"not UTF-8: byte 0x{byte:02x} at offset {error.start} (line {line}): {error.reason}") from None


def _reject_surrogates(document: Any) -> None:
    """Texts that couldn't be written out again."""
    for location, value in _walk(document):
        texts = [value] if isinstance(value, str) else list(value) if isinstance(value, dict) else []
        for text in texts:
            if has_surrogate(text):
                message = f"{shown(text)} is not allowed: half of a surrogate pair is no character"
                raise InputError("invalid", (Fault(location, message, scalar(text)),))


def _walk(document: Any) -> Iterator[tuple[Location, Any]]:
    """Every value with its location, in document order."""
    stack: list[tuple[Location, Any]] = [((), document)]
    while stack:
        location, value = stack.pop()
        yield location, value
        if isinstance(value, dict):
            stack.extend(((*location, key), inner) for key, inner in reversed(value.items()))
        elif isinstance(value, list):
            stack.extend(((*location, i), value[i]) for i in range(len(value) - 1, -1, -1))


def _find(document: Any, wanted: Callable[[Any], bool]) -> Location:
    """Location of the first value that is wanted; the root if a doubled key hides it."""
    return next((location for location, value in _walk(document) if wanted(value)), ())


def _kind(value: object) -> str:
    kinds: dict[type, str] = {list: "an array", str: "a string", bool: "a boolean", type(None): "null"}
    return kinds.get(type(value), "a number")
