"""Kept HTML is that of equal values, and values are equal only where they are of one type."""

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from decimal import Decimal
from itertools import permutations
from typing import NamedTuple

import pytest
from django.utils.safestring import mark_safe

from openvibe.chat.wiring import LinkPreview
from openvibe.engines.serving import fragments
from openvibe.engines.serving.fragments import render_fragment, typed_key


@pytest.fixture(autouse=True)
def nothing_kept() -> Iterator[None]:
    fragments._html_cache.clear()
    yield
    fragments._html_cache.clear()


def test_safe_and_unsafe_text_never_share_their_html() -> None:
    for text in (mark_safe("<b>Roses</b>"), "<b>Roses</b>", mark_safe("<b>Roses</b>")):
        html = render_fragment("chat/_link_preview.html", link=LinkPreview(text, "Ana", text))
        assert ("<b>Roses" in html) == hasattr(text, "__html__")
        assert ("&lt;b&gt;Roses" in html) != hasattr(text, "__html__")
    assert len(fragments._html_cache) == 2, "each is kept"


@dataclass(frozen=True)
class Shown:
    value: object


@dataclass(frozen=True, slots=True)
class ShownTwice:
    value: object
    name: str = "n"


class ShownRow(NamedTuple):
    value: object


EQUAL_AND_OTHERWISE_SHOWN = [
    [1, True, 1.0, Decimal(1), Decimal("1.0"), Decimal("1.00")],
    [0, False, 0.0, -0.0, Decimal(0), Decimal("-0")],
    ["a", mark_safe("a")],
    [(1, "a"), (True, "a"), (1, mark_safe("a")), ShownRow((1, "a")), (1.0, "a")],
]
PLACES: list[Callable[[object], object]] = [
    lambda value: value,
    Shown,
    ShownTwice,
    ShownRow,
    lambda value: (value, "b"),
    lambda value: frozenset([value]),
    lambda value: Shown((ShownTwice(value), 1)),
]


@pytest.mark.parametrize("values", EQUAL_AND_OTHERWISE_SHOWN)
@pytest.mark.parametrize("place", PLACES)
def test_keys_tell_types_apart(values: list[object], place: Callable[[object], object]) -> None:
    for one, other in permutations(values, 2):
        assert typed_key([place(one)]) != typed_key([place(other)]), (one, other)


def test_kinds_of_rows_are_told_apart() -> None:
    assert len({typed_key([kind("a")]) for kind in (Shown, ShownTwice, ShownRow, lambda value: (value,))}) == 4


@pytest.mark.parametrize("place", PLACES)
def test_equal_values_of_one_type_have_one_key(place: Callable[[object], object]) -> None:
    for make in (lambda: "".join(["a", "b"]), lambda: 10**6, lambda: 0.5, lambda: datetime(2026, 3, 1, tzinfo=UTC)):
        assert {typed_key([place(make())])} == {typed_key([place(make())])}
