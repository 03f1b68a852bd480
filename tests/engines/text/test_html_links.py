"""Words of sanitised HTML become links, and nothing else of it changes."""

import html
import re

from hypothesis import given
from hypothesis import strategies as st

from openvibe.engines.text.html_links import WordLink, link_matches, link_words, linkable_texts, title_links
from openvibe.engines.text.markdown import render_markdown


def link(words: str, occurrence: int = 0, shown: str = "") -> WordLink:
    return WordLink(words, occurrence, (("href", "/x?a=1&b=\"'<"), ("class", "chip")), shown)


def test_the_occurrence_that_is_meant_becomes_a_link() -> None:
    markup = render_markdown("`message 4` message 4, **message 4** and [message 4](https://a.b/) & message 4.")
    linked = link_words(markup, [link("message 4", 1)])
    opened = '<a href="/x?a=1&amp;b=&quot;&#x27;&lt;" class="chip">'
    assert linked == markup.replace("<strong>message 4</strong>", f"<strong>{opened}message 4</a></strong>")


def test_what_does_not_stand_there_is_left_out() -> None:
    markup = render_markdown("One message 4.")
    assert link_words(markup, [link("message 5"), link("message 4", 1), link("")]) == markup


def test_of_two_that_overlap_the_first_is_one() -> None:
    linked = link_words("<p>Ana, message 4</p>", [link("message 4"), link("Ana, message 4")])
    assert re.sub("<a[^>]*>", "<a>", linked) == "<p><a>Ana, message 4</a></p>"


def test_what_is_shown_in_place_of_words_is_escaped() -> None:
    assert ">&lt;b&gt;</a>" in link_words("<p>[x]</p>", [link("[x]", shown="<b>")])


def test_code_formulas_and_links_hold_no_text_for_links() -> None:
    markup = "<p>a<code>b</code><a href='>'>c</a><math><mi>d</mi></math>e</p><pre><code>f<span>g</span></code></pre>h"
    assert linkable_texts(markup) == ["a", "e", "h"]


def test_a_link_that_shows_its_address_gets_a_title() -> None:
    address = "https://a.b/w/x/t/1/"
    markup = render_markdown(f"{address} and [mine]({address}) and https://a.b/w/x/t/2/")
    titled = title_links(markup, lambda href: ("/w/x/t/1/", "R&D <b>") if href == address else None)
    assert titled.count('<a href="/w/x/t/1/" class="place-chip" dir="auto">') == 2
    assert ">R&amp;D &lt;b&gt;</a>" in titled
    assert ">mine</a>" in titled
    assert ">https://a.b/w/x/t/2/</a>" in titled


def test_matches_become_links_one_by_one() -> None:
    linked = link_matches(
        "<p>#a #b <code>#a</code></p>", re.compile("#[ab]"), lambda one: (("href", one[0]),) if one[0] == "#a" else None
    )
    assert linked == '<p><a href="#a">#a</a> #b <code>#a</code></p>'


TEXT = st.text(st.sampled_from("ab4 `*_[]()<>&\"'#\n|~-:/\u202e🦊é\xa0"), max_size=60)


@given(TEXT, TEXT, st.integers(0, 3))
def test_what_a_reader_reads_stays_the_same(body: str, words: str, occurrence: int) -> None:
    markup = render_markdown(body)
    linked = link_words(markup, [link(words, occurrence)])
    assert words_of(linked) == words_of(markup)
    assert linked.count("<a ") <= markup.count("<a ") + 1


def words_of(markup: str) -> str:
    return html.unescape(re.sub(r"""<(?:[^<>"']|"[^"]*"|'[^']*')*>""", "", markup))
