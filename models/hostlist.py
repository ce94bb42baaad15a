"""Hostlists: `node[001-032,040]` names many nodes at once (the bracket form of Slurm and ClusterShell)."""

from __future__ import annotations

import itertools
import re

from gangfit.models.scalars import MAX_NODES

_BRACKET = re.compile(r"\[([^\[\]]*)\]")
_RANGE = re.compile(r"([0-9]+)(?:-([0-9]+))?")


def expand(name: str) -> list[str]:
    """Single node names of a hostlist, in the order written; a name without brackets is itself.

    Every bracket holds comma-separated numbers or ranges; the first number's width is kept as zero padding.
    Raises ValueError for an empty or malformed bracket, a reversed range or more than `MAX_NODES` names.
    """
    if "[" not in name and "]" not in name:
        return [name]
    parts = _BRACKET.split(name)
    if any("[" in text or "]" in text for text in parts[::2]):
        raise ValueError(f"hostlist {name!r} has an unpaired bracket")
    choices = [[text] if i % 2 == 0 else _numbers(name, text) for i, text in enumerate(parts)]
    total = 1
    for choice in choices:
        total *= len(choice)
    if total > MAX_NODES:
        raise ValueError(f"hostlist {name!r} names {total} nodes; the limit is {MAX_NODES}")
    return ["".join(pieces) for pieces in itertools.product(*choices)]


def _numbers(name: str, text: str) -> list[str]:
    numbers: list[str] = []
    for piece in text.split(","):
        match = _RANGE.fullmatch(piece.strip())
        if match is None:
            raise ValueError(f"hostlist {name!r}: {piece!r} is neither a number nor a range such as 001-032")
        first, last = match[1], match[2] or match[1]
        low, high = int(first), int(last)
        if high < low:
            raise ValueError(f"hostlist {name!r}: range {piece!r} runs backwards")
        if high - low >= MAX_NODES:
            raise ValueError(f"hostlist {name!r}: range {piece!r} is longer than the limit of {MAX_NODES} nodes")
        numbers.extend(str(value).zfill(len(first)) for value in range(low, high + 1))
    return numbers
