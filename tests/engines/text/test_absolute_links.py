"""Links to places of our own, as they are read elsewhere."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openvibe.engines.text.absolute_links import absolute_links, absolute_links_so_far

HERE = "https://vibe.example/"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("[Connect a model](/connect-model/) now.", "[Connect a model](https://vibe.example/connect-model/) now."),
        (
            "[a](/w/willow/t/12/)[b](/w/willow/m/3/)",
            "[a](https://vibe.example/w/willow/t/12/)[b](https://vibe.example/w/willow/m/3/)",
        ),
        ('[a](/w/willow/t/12/ "The thread")', '[a](https://vibe.example/w/willow/t/12/ "The thread")'),
        ("[a](</w/willow/t/12/>)", "[a](<https://vibe.example/w/willow/t/12/>)"),
        ("See [a][1].\n\n[1]: /w/willow/m/3/", "See [a][1].\n\n[1]: https://vibe.example/w/willow/m/3/"),
        ("[a](/w/willow/t/12/../../admin/)", "[a](/w/willow/t/12/../../admin/)"),
        ("[a](https://other.example/w/willow/t/12/)", "[a](https://other.example/w/willow/t/12/)"),
        (
            "[a](//other.example/) /w/willow/t/12/ stands as it is",
            "[a](//other.example/) /w/willow/t/12/ stands as it is",
        ),
    ],
)
def test_links_to_places_of_our_own_become_whole_addresses(text: str, expected: str) -> None:
    assert absolute_links(text, HERE) == expected
    assert absolute_links(expected, HERE) == expected


PIECES = ["[a]", "(", "/connect-model/", ")", "[1]: ", "\n", "/w/willow/t/1", "/", " ", "<", ">", "](", "x"]


@given(st.lists(st.sampled_from(PIECES), max_size=12).map("".join))
def test_what_is_given_of_a_growing_text_is_taken_back_never(text: str) -> None:
    given_text = ""
    for end in range(len(text) + 1):
        now = absolute_links_so_far(text[:end], HERE)
        assert now.startswith(given_text)
        given_text = now
    assert absolute_links(text, HERE).startswith(given_text)
