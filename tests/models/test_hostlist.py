"""Hostlists: what they expand to, and what is no hostlist."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from gangfit.models import MAX_NODES, expand


@pytest.mark.parametrize(
    ("text", "names"),
    [
        ("node", ["node"]),
        ("n[1-3]", ["n1", "n2", "n3"]),
        ("n[3]", ["n3"]),
        ("n[2,1]", ["n2", "n1"]),
        ("n[1-2,5,7-8]", ["n1", "n2", "n5", "n7", "n8"]),
        ("n[1, 3-4]", ["n1", "n3", "n4"]),
        ("n[008-011]", ["n008", "n009", "n010", "n011"]),
        ("n[8-11]", ["n8", "n9", "n10", "n11"]),
        ("n[00-01,2]", ["n00", "n01", "n2"]),
        ("n[0]", ["n0"]),
        ("r[1-2]n[01-02]", ["r1n01", "r1n02", "r2n01", "r2n02"]),
        ("[1-2]", ["1", "2"]),
        ("n[1-2].site-[7]", ["n1.site-7", "n2.site-7"]),
        ("a[1][2][3]b", ["a123b"]),
    ],
)
def test_expands(text: str, names: list[str]) -> None:
    assert expand(text) == names


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("n[]", "'' is neither a number nor a range"),
        ("n[1,]", "'' is neither"),
        ("n[1-]", "'1-' is neither"),
        ("n[-1]", "'-1' is neither"),
        ("n[a-c]", "'a-c' is neither"),
        ("n[1-2-3]", "'1-2-3' is neither"),
        ("n[1.5]", "'1.5' is neither"),
        ("n[1 2]", "'1 2' is neither"),
        ("n[3-1]", "range '3-1' runs backwards"),
        ("n[1", "unpaired bracket"),
        ("n1]", "unpaired bracket"),
        ("n[1]]", "unpaired bracket"),
        ("n[[1]]", "unpaired bracket"),
        ("n[1[2]3]", "unpaired bracket"),
        ("]1[", "unpaired bracket"),
        (f"n[0-{MAX_NODES}]", f"longer than the limit of {MAX_NODES} nodes"),
        ("n[0-99999999999999999999]", f"longer than the limit of {MAX_NODES} nodes"),
        (f"n[0-{MAX_NODES - 1},0]", f"names {MAX_NODES + 1} nodes; the limit is {MAX_NODES}"),
        ("n[1-9999]x[1-9999]", f"names 99980001 nodes; the limit is {MAX_NODES}"),
        ("n" + "[0-9]" * 40, f"nodes; the limit is {MAX_NODES}"),
    ],
)
def test_refuses(text: str, message: str) -> None:
    with pytest.raises(ValueError) as caught:
        expand(text)
    assert message in str(caught.value)
    assert repr(text) in str(caught.value)


def test_as_many_as_allowed() -> None:
    assert len(expand(f"n[1-{MAX_NODES}]")) == MAX_NODES


@pytest.mark.parametrize("text", ["n[１-３]", "n[٣]"])
def test_other_digits_are_no_numbers(text: str) -> None:
    with pytest.raises(ValueError):
        expand(text)


@given(st.integers(0, 10**6), st.integers(0, 50), st.integers(1, 9))
def test_padding_is_the_width_of_the_first(first: int, more: int, width: int) -> None:
    text = str(first).zfill(width)
    names = expand(f"n[{text}-{first + more}]")
    assert [int(name[1:]) for name in names] == list(range(first, first + more + 1))
    assert all(len(name) - 1 == max(len(text), len(str(int(name[1:])))) for name in names)


@given(st.text(st.characters(codec="utf-8", exclude_characters="[]"), max_size=40))
def test_a_name_without_brackets_is_itself(name: str) -> None:
    assert expand(name) == [name]


@given(st.text("n[]0123456789,- ", max_size=20))
def test_any_text_is_names_or_one_clear_error(text: str) -> None:
    try:
        names, message = expand(text), ""
    except ValueError as error:
        names, message = [], str(error)
    assert repr(text) in message if message else 1 <= len(names) <= MAX_NODES
