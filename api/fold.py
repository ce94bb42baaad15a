"""Node names in short form: n1, n2, n3, n7 → n[1-3,7]."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

_NUMBERED = re.compile(r"(.*?)(\d+)(\D*)", re.DOTALL)


@dataclass
class _Range:
    prefix: str
    suffix: str
    first: str
    last: str
    count: int = 1

    def continues(self, prefix: str, number: str, suffix: str) -> bool:
        following = str(int(self.last) + 1).zfill(len(self.first))
        return (prefix, suffix) == (self.prefix, self.suffix) and number == following

    def __str__(self) -> str:
        return self.first if self.count == 1 else f"{self.first}-{self.last}"


def fold(names: Iterable[str], most: int | None = None) -> str:
    """Names folded over their last number; at most `most` ranges, then "… and N more"."""
    ranges: list[_Range] = []
    for prefix, number, suffix in sorted(map(_split, names), key=_order):
        if number and ranges and ranges[-1].continues(prefix, number, suffix):
            ranges[-1].last = number
            ranges[-1].count += 1
        else:
            ranges.append(_Range(prefix, suffix, number, number))
    kept = ranges[:most]
    groups: dict[tuple[str, str], list[_Range]] = {}
    for piece in kept:
        groups.setdefault((piece.prefix, piece.suffix), []).append(piece)
    texts = [_written(prefix, suffix, pieces) for (prefix, suffix), pieces in groups.items()]
    left = sum(piece.count for piece in ranges[len(kept) :])
    return ", ".join(texts) + (f" … and {left} more" if left else "")


def _split(name: str) -> tuple[str, str, str]:
    match = _NUMBERED.fullmatch(name)
    return (match[1], match[2], match[3]) if match else (name, "", "")


def _order(parts: tuple[str, str, str]) -> tuple[str, str, int, str]:
    prefix, number, suffix = parts
    return prefix, suffix, int(number or 0), number


def _written(prefix: str, suffix: str, pieces: list[_Range]) -> str:
    if len(pieces) == 1 and pieces[0].count == 1:
        return f"{prefix}{pieces[0].first}{suffix}"
    return f"{prefix}[{','.join(map(str, pieces))}]{suffix}"
