"""Faults of an input: where (JSON pointer and dotted field), which value, what is allowed. HTTP and CLI share them."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Literal

from pydantic import ValidationError

Location = tuple[str | int, ...]
Scalar = str | int | float | bool | None
Kind = Literal["malformed", "invalid"]
"""malformed: no JSON text; invalid: JSON, but not what it has to say."""

MAX_LISTED = 100
"""Most faults that one answer lists."""
MAX_SHOWN = 60
"""Most characters of a value in a message."""

_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_-]*")
_EXPECTED = {
    "model_type": "input should be an object",
    "dict_type": "input should be an object",
    "tuple_type": "input should be an array",
    "recursion_depth_exceeded": "input is nested too deeply",
    "recursion_loop": "input is nested too deeply",
    "string_pattern_mismatch": "input should have no control characters",
}


@dataclass(frozen=True)
class Fault:
    """One thing wrong with an input."""

    location: Location
    """Keys and indices from the root to the field at fault; empty: the whole document."""
    message: str
    """What is wrong, with value and limit, without the field."""
    value: Scalar = None
    """The value at fault; of arrays, objects and overlong values a short description."""

    @property
    def pointer(self) -> str:
        """RFC 6901 JSON pointer, such as `/pending/0/topology/required`."""
        return "".join("/" + str(part).replace("~", "~0").replace("/", "~1") for part in self.location)

    @property
    def field(self) -> str:
        """Dotted form, such as `pending[0].topology.required`; keys that are no plain words stand in brackets."""
        text = ""
        for part in self.location:
            if isinstance(part, str) and _PLAIN_KEY.fullmatch(part):
                text += f".{part}" if text else part
            else:
                text += f"[{shown(part)}]"
        return text

    def __str__(self) -> str:
        return f"{self.field}: {self.message}" if self.location else self.message


class InputError(Exception):
    """An input that can't be taken, with its faults. Survives pickling, so that a child process can raise it."""

    def __init__(self, kind: Kind, faults: tuple[Fault, ...], total: int | None = None) -> None:
        """`total` counts all faults when `faults` lists only the first `MAX_LISTED`."""
        super().__init__(kind, faults, total)
        self.kind = kind
        self.faults = faults
        self.total = len(faults) if total is None else total

    def __str__(self) -> str:
        more = f" (and {self.total - 1} more)" if self.total > 1 else ""
        return f"{self.faults[0]}{more}"


def from_validation(error: ValidationError) -> InputError:
    """Translate pydantic's errors; repeats that only follow from other errors are left out."""
    errors = [entry for entry in error.errors(include_url=False) if not _follows(entry)]
    return InputError("invalid", tuple(_fault(entry) for entry in errors[:MAX_LISTED]), len(errors))


def shown(value: object) -> str:
    """A value as a message shows it: JSON, cut to `MAX_SHOWN` characters; arrays and objects by their size."""
    if isinstance(value, (list, tuple)):
        return f"an array of {len(value)}"
    if isinstance(value, Mapping):
        return f"an object of {len(value)}"
    if isinstance(value, str) and len(value) > MAX_SHOWN:
        return json.dumps(value[:MAX_SHOWN], ensure_ascii=not value.isprintable()) + "…"
    # isprintable: names stay readable in any script, control characters and lone surrogates come escaped
    text = json.dumps(value, ensure_ascii=isinstance(value, str) and not value.isprintable(), default=repr)
    return text if len(text) <= MAX_SHOWN + 2 else f"{text[:MAX_SHOWN]}…"


def listing(faults: Iterable[Fault], total: int, most: int) -> list[str]:
    """One line per fault, at most `most`, then "… and N more"."""
    lines = [str(fault) for fault in faults][:most]
    return [*lines, f"… and {total - len(lines)} more"] if total > len(lines) else lines


def has_surrogate(text: str) -> bool:
    """Whether a text holds half of a surrogate pair, which is no character and can't be written as UTF-8."""
    return any("\ud800" <= char <= "\udfff" for char in text)


def scalar(value: object) -> Scalar:
    """A value that is safe in any JSON reader: scalars as they are, everything else described by `shown`."""
    if isinstance(value, str):
        return value if len(value) <= MAX_SHOWN and not has_surrogate(value) else shown(value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, (int, float)) and abs(value) < 2**53:
        return value
    return shown(value)


def _follows(entry: Mapping[str, Any]) -> bool:
    """Pydantic calls an array too short when its items are only invalid."""
    return entry["type"] == "too_short" and bool(entry["input"])


def _fault(entry: Mapping[str, Any]) -> Fault:
    kind, value = entry["type"], entry["input"]
    location = _without_tags(entry["loc"], nested=kind.startswith("recursion"))
    if kind == "missing":
        return Fault(location, "missing; this field has to be given")
    if kind == "extra_forbidden":
        return Fault(location, "unknown field; it is not part of this object", scalar(value))
    if kind == "snapshot":
        return Fault(location, entry["msg"], scalar(value))
    message = entry["msg"].removeprefix("Value error, ")
    if kind == "value_error":
        return Fault(location, message, scalar(value))
    message = message.replace("Tuple should", "Array should").replace("Dictionary should", "Object should")
    message = message.replace(" after validation", "")
    allowed = _EXPECTED.get(kind, message[:1].lower() + message[1:])
    return Fault(location, f"{shown(value)} is not allowed: {allowed}", scalar(value))


def _without_tags(location: Location, *, nested: bool) -> Location:
    """Drop what pydantic adds to a location: `[key]` for a bad key, and inside `meta` a type tag before each step."""
    if location and location[-1] == "[key]":
        location = location[:-1]
    start = location.index("meta") if "meta" in location[:2] else None
    if start is None:
        return location
    free = () if nested else location[start + 3 :: 2]
    return (*location[: start + 2], *free)
