"""What models and people write in answers, and that none of it is damaged."""

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openvibe.engines.text.markdown import plain_text, quote_markdown, render_growing, render_markdown
from tests.examples import examples


@pytest.mark.parametrize(
    "text",
    [
        r"C:\Users\_ana\.ssh\config",
        r"C:\*.txt and D:\_x",
        r"\\server\share\[old]",
        r"\d+\.\d+ and ^\[a-z\]+\w$",
        r"\*\.py, (a\|b), \bword\b, \w\*",
        r"\frac{a}{b} \\ \{x\} \alpha\_1 50\% A \& B",
        r"\$HOME\bin",
        r"{\"a\": \"b\\n\"}",
        r"one \\ two",
        "a\\",
        "\\",
        r"\(not closed and \{ \} \, \; \=",
        r"2024\-05\-01",
    ],
)
def test_a_backslash_that_is_no_escape_stays(text: str) -> None:
    assert plain_text(text) == text


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (r"\*no emphasis\*", "*no emphasis*"),
        (r"snake\_case\_name", "snake_case_name"),
        (r"1\. no list", "1. no list"),
        (r"\- no list", "- no list"),
        (r"\# no heading", "# no heading"),
        (r"\`no code\`", "`no code`"),
        (r"\[no link\](https://a.example)", "[no link](https://a.example)"),
        (r"\$5 and \$6", "$5 and $6"),
        (r"\\*emphasis*", r"\emphasis"),
        (r"\&amp; \:tada:", "&amp; :tada:"),
        ("\\> no quote", "> no quote"),
        ("| a\\|b |\n|---|\n| c |", "a|b c"),
    ],
)
def test_an_escape_is_not_shown(text: str, shown: str) -> None:
    assert plain_text(text) == shown


def test_a_backslash_that_ends_a_line() -> None:
    assert render_markdown("one\\\ntwo") == "<p>one<br>\ntwo</p>\n"
    assert render_markdown("docker run \\\n  -p 80") == "<p>docker run \\<br>\n-p 80</p>\n"
    assert render_markdown("cd C:\\\ndir") == "<p>cd C:\\<br>\ndir</p>\n"


@given(st.text(st.sampled_from("ab1 .(){}^+?/,;%\"'|\n-"), max_size=40), st.data())
@settings(max_examples=examples(200), deadline=None)
def test_backslashes_before_what_means_nothing_are_all_there(text: str, data: st.DataObject) -> None:
    at = data.draw(st.lists(st.integers(0, len(text)), max_size=5))
    written = "".join(("\\" if index in at else "") + sign for index, sign in enumerate(text))
    written = re.sub(r"(^|\n)([ \t]*)(\d*)\\([.)\-+=])", r"\1\2\3\4", written)  # escapes of a list's sign
    written = re.sub(r"\\\n", "\n", written).replace("\\(", "(").replace("|", "")

    assert render_markdown(f"word {written}").count("\\") == written.count("\\")


@pytest.mark.parametrize(
    ("text", "bold"),
    [
        ("**重要：**这里", "重要："),
        ("这是**“重要”**的", "“重要”"),
        ("これは**「重要」**です。", "「重要」"),
        ("**이 용어(This term)**를 강조", "이 용어(This term)"),
        ("中文**bold**中文", "bold"),
        ("**plain** words", "plain"),
    ],
)
def test_emphasis_beside_letters_without_blanks(text: str, bold: str) -> None:
    assert f"<strong>{bold}</strong>" in render_markdown(text)


def test_emphasis_of_other_languages_is_as_the_standard_has_it() -> None:
    assert "<em>" not in render_markdown("2 * 3 * 4, a*(b)*c")
    assert "<strong>" not in render_markdown("a**(b)**c")


def test_task_lists_are_boxes() -> None:
    markup = render_markdown("- [ ] to do\n- [x] **done**\n- [X] too\n- [y] no\n\n1. [ ] numbered\n\n   more")

    assert markup.count('<input type="checkbox" disabled="" aria-label="To do">') == 2
    assert markup.count('<input type="checkbox" disabled="" checked="" aria-label="Done">') == 2
    assert "<li>[y] no</li>" in markup
    assert plain_text("- [ ] a\n- [x] b") == "☐ a ☑ b"
    assert "<input" not in render_markdown("[ ] no list\n\n`- [ ] code`")


def test_footnotes_have_ids_of_their_own() -> None:
    body = "One[^1], two[^note], again[^1], none[^x].\n\n[^1]: The *first*.\n[^note]: The second.\n\n    With more."

    markups = [render_markdown(body, anchor=anchor) for anchor in ("m1", "m2", "")]

    ids = [re.findall(r' id="([^"]+)"', markup) for markup in markups]
    assert ids[0] == ["fnref-m1-1", "fnref-m1-2", "fnref-m1-1-1", "fn-m1-1", "fn-m1-2"]
    assert len({each for some in ids for each in some}) == 15
    for markup, own in zip(markups, ids, strict=True):
        assert {target.removeprefix("#") for target in re.findall(r'href="(#[^"]+)"', markup)} == set(own)
    assert "none[^x]." in markups[0]
    assert "The <em>first</em>" in markups[0]
    assert 'target="_blank"' not in markups[0]
    assert plain_text(body) == "One, two, again, none[^x]. The first. The second. With more."
    assert render_markdown("x^[2] and [a](#fn-m1-1)") == "<p>x^[2] and [a](#fn-m1-1)</p>\n"


def test_details_are_opened_by_their_summary() -> None:
    body = "<details>\n<summary>More *here*</summary>\n\n- one\n\n```py\nx\n```\n</details>\n\nafter"

    markup = render_markdown(body)

    assert markup.startswith("<details>\n<summary>More <em>here</em></summary>\n<ul>\n<li>one</li>")
    assert markup.endswith("</details>\n<p>after</p>\n")
    assert plain_text(body) == "More here one x after"
    assert "<details>" in quote_markdown(body)
    assert "<p>two</p>\n</details>\n<p>three</p>" in render_markdown(
        "<details><summary>one</summary>two</details>three"
    )
    assert render_markdown("<details open>\nunclosed").startswith('<details open="">\n<summary>Details</summary>')
    assert "<details" not in render_markdown("<details onclick=x>\n<b>bold</b>\n`<details>`")
    nested = render_markdown("<details>\n\n<details>\ninner\n</details>\n\nouter\n</details>\nafter")
    assert nested.count("<details>") == nested.count("</details>") == 2
    assert nested.endswith("</details>\n<p>after</p>\n")


def test_details_end_with_what_they_stand_in() -> None:
    assert render_markdown("> <details>\n> in\n\nout").endswith("</blockquote>\n<p>out</p>\n")
    assert render_markdown("- <details>\n  in\n\nout").endswith("</ul>\n<p>out</p>\n")


def test_raw_html_is_quoted_but_for_details() -> None:
    quoted = quote_markdown("<details>\n<summary>a</summary>\n<script>x</script>\n</details>")

    assert "> <details>\n> <summary>a</summary>\n> &lt;script>x&lt;/script>" in quoted


def test_names_of_emoji() -> None:
    markup = render_markdown(
        ":tada: `:tada:` https://a.example/:tada:/x 10:30:45 :no_such: a:tada:b [:+1:](https://b.example)"
    )

    assert markup.count("🎉") == 1
    assert "👍</a>" in markup
    assert "<code>:tada:</code>" in markup
    assert 'href="https://a.example/:tada:/x"' in markup
    assert "10:30:45 :no_such: a:tada:b" in markup
    assert plain_text(":tada: done") == "🎉 done"


@pytest.mark.parametrize(
    ("info", "label"),
    [("python title=x", "Python"), ("js", "JavaScript"), ("mermaid", "Mermaid"), ("klingon", "klingon"), ("", "Code")],
)
def test_code_says_its_language_and_can_be_copied_and_wrapped(info: str, label: str) -> None:
    markup = render_markdown(f"```{info}\nx = 1\n```")

    assert f"<figcaption>{label}<button" in markup
    assert re.findall(r'data-code="(\w+)"', markup) == ["wrap", "copy"]


def test_long_code_is_folded_and_whole() -> None:
    short, long = ("```\n" + "\n".join(map(str, range(count))) + "\n```" for count in (40, 41))

    assert "is-long" not in render_markdown(short)
    assert '<figure class="code-block is-long">' in render_markdown(long)
    assert "Show all 41 lines" in render_markdown(long)
    assert "\n40\n</code>" in render_markdown(long)


def test_text_from_right_to_left_has_its_direction_block_by_block() -> None:
    markup = render_markdown("# שלום\n\nEnglish `x = 1`\n\n- עברית `code`\n\n```py\nx\n```")

    assert '<h1 dir="auto">' in markup
    assert '<p dir="auto">English <code dir="ltr">' in markup
    assert '<ul dir="auto">\n<li dir="auto">' in markup
    assert "dir=" not in render_markdown("# Hello\n\n- one `two`")


PARTS = (
    *(
        "# Title\n\n",
        "Some **bold** and *italic* words with `code`.\n\n",
        "- one\n- two\n  - three\n\n",
        "1. one\n2. two\n\n",
    ),
    *(
        "```python\ndef f():\n    return 1\n```\n\n",
        "| a | b |\n|---|---|\n| 1 | 2 |\n\n",
        "> quoted\n> words\n\n",
        "---\n\n",
    ),
    *(
        "\\[\nx = 1\n\\]\n\n",
        "- [ ] todo\n- [x] done\n\n",
        "<details>\n<summary>More</summary>\n\ninside\n</details>\n\n",
    ),
    *("    indented\n\n", "**重要：**这里 :tada:\n\n", "Price $5, formula $x^2$.\n\n", "1. a\n\n   b\n\n2. c\n\n"),
)
ANSWERS = st.lists(st.sampled_from(PARTS), min_size=1, max_size=8).map("".join)


def grown(body: str, cuts: list[int]) -> str:
    """The HTML that a page holds at the end, of an answer that came up to these cuts, one after the other."""
    done, start = "", 0
    for end in [*sorted(cuts), len(body)]:
        growing = render_growing(body[start:end])
        done += growing.done
        start += growing.tail_start
    return done + growing.tail


@given(ANSWERS, st.data())
@settings(max_examples=examples(150), deadline=None)
def test_an_answer_looks_at_its_end_as_it_does_when_it_is_whole(body: str, data: st.DataObject) -> None:
    body = body.strip()
    cuts = data.draw(st.lists(st.integers(0, len(body)), max_size=12))

    ours, whole = grown(body, cuts), render_markdown(body)

    assert visible(ours) == visible(whole)


def visible(markup: str) -> list[str]:
    """The elements and words of some HTML, without what parts lists of one kind that stand side by side."""
    flat = re.sub(r"</ul>\s*<ul>|</ol>\s*<ol(?: start=\"\d+\")?>", "", markup)
    flat = re.sub(r"(<li[^>]*>)\s*<p>(.*?)</p>\s*", r"\1\2", flat, flags=re.DOTALL)
    return re.findall(r"<[^>]+>|[^<\s]+", flat)


@given(st.text(st.sampled_from("ab1 \n`*_-#|>[]()$\\<:~!^"), max_size=200) | ANSWERS, st.integers(0, 200))
@settings(max_examples=examples(300), deadline=None)
def test_no_beginning_of_a_text_raises(body: str, end: int) -> None:
    growing = render_growing(body[:end])

    assert 0 <= growing.tail_start <= end
    assert "<script" not in growing.done + growing.tail


@pytest.mark.parametrize(
    ("body", "tail"),
    [
        ("So **bo", "<p>So <strong>bo</strong></p>\n"),
        ("So **", "<p>So </p>\n"),
        ("So `co", "<p>So <code>co</code></p>\n"),
        ("## Hea", "<h2>Hea</h2>\n"),
        ("- one\n- tw", "<ul>\n<li>one</li>\n<li>tw</li>\n</ul>\n"),
        ("one\n\n[^1]: note", "<p>[^1]: note</p>\n"),
    ],
)
def test_the_last_block_is_read_as_far_as_it_goes(body: str, tail: str) -> None:
    assert render_growing(body).tail == tail


def test_an_open_fence_is_code_from_its_first_line() -> None:
    growing = render_growing("Look:\n\n```python\ndef f(")

    assert growing.done == "<p>Look:</p>\n"
    assert "<figcaption>Python<button" in growing.tail
    assert '<span class="k">def</span>' in growing.tail


def test_forty_open_fences_and_two_hundred_columns() -> None:
    assert render_growing("```\na\n" * 40).tail
    wide = "|" + "a|" * 200 + "\n|" + "-|" * 200 + "\n|" + "1|" * 200
    assert render_markdown(wide).count("<td>") == 200
    assert render_markdown(wide).startswith('<section class="table-scroller" tabindex="0"><table>')
