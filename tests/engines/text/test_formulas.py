import re
import time
from html.parser import HTMLParser

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openvibe.engines.text.markdown import plain_text, render_markdown
from openvibe.engines.text.mathml import MAX_FORMULA_CHARACTERS, MAX_FORMULA_TOTAL, render_formulas
from tests.examples import examples

INLINE, ALONE = re.compile(r"<math><semantics>"), re.compile(r'<math display="block"><semantics>')


def sources_of(markup: str) -> list[str]:
    """The TeX behind the formulas of some HTML."""

    class Reader(HTMLParser):
        sources: list[str] = []
        is_inside = False

        def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
            if tag == "annotation":
                assert dict(attrs) == {"encoding": "application/x-tex"}
                self.is_inside = True
                self.sources.append("")

        def handle_endtag(self, tag: str) -> None:
            self.is_inside = self.is_inside and tag != "annotation"

        def handle_data(self, data: str) -> None:
            if self.is_inside:
                self.sources[-1] += data

    reader = Reader()
    reader.sources = []
    reader.feed(markup)
    return reader.sources


@pytest.mark.parametrize(
    ("body", "tex"),
    [
        (r"So \(x^2 < 4\) holds.", [r"x^2 < 4"]),
        (r"So $x^2$ and $y_1$ hold.", ["x^2", "y_1"]),
        (r"It is $a < b$, or $2x$.", ["a < b", "2x"]),
        (r"With \[ y = 1 \] in a line.", ["y = 1"]),
        ("With $$\\frac{a}{b}$$ in a line.", [r"\frac{a}{b}"]),
        ("$$\nE = mc^2\n$$", ["E = mc^2"]),
        ("So:\n\\[\n\\sum_{i=1}^n i\n\\]\nand on.", [r"\sum_{i=1}^n i"]),
        ("1. First\n   \\[\n   x = 1\n   \\]\n2. Second", ["x = 1"]),
        ("> $$x^2$$", ["x^2"]),
        (r"| a |" + "\n|---|\n" + r"| \(x^2\) |", ["x^2"]),
        (r"**\(x\)** and *$y$*", ["x", "y"]),
        (r"\(\text{<b> & c}\)", [r"\text{<b> & c}"]),
    ],
)
def test_formulas_become_mathml_with_their_source_behind(body: str, tex: list[str]) -> None:
    markup = render_markdown(body)

    assert sources_of(markup) == tex
    assert "style=" not in markup
    assert all(each in plain_text(body) for each in tex)


@pytest.mark.parametrize("body", ["$$x^2$$", "\\[\nx^2\n\\]", r"a \[ x \] b"])
def test_what_stands_alone_is_shown_on_its_own_lines(body: str) -> None:
    assert ALONE.search(render_markdown(body))
    assert INLINE.search(render_markdown("a $x$ b"))


@pytest.mark.parametrize(
    "body",
    [
        "$5 and $10",
        "It costs $5, or $10 with tax.",
        "US$5 and AU$6, 7$ or 8$",
        "$20/month (or 15$)",
        "$5,000–$7,000",
        "$HOME is not $PATH",
        "echo $HOME/$USER",
        "between $3 million and 4$",
        "$$$ and $$",
        "$ x $",
        "$x",
        "a$b$c",
        "`$x$` and ``\\(x\\)``",
        "```\n$x$ \\(x\\)\n```",
        "\\$x\\$",
    ],
)
def test_prices_variables_and_code_are_no_formulas(body: str) -> None:
    markup = render_markdown(body)

    assert "<math" not in markup
    assert 'class="formula"' not in markup
    assert [sign for sign in plain_text(body) if sign in "$0123456789"] == [s for s in body if s in "$0123456789"]


def test_brackets_that_somebody_escaped_stay_brackets() -> None:
    assert render_markdown(r"See \[1\] and \[2\].") == "<p>See [1] and [2].</p>\n"
    assert "<math" not in render_markdown(r"\[no link\](https://a.example)")


@pytest.mark.parametrize(
    "tex",
    [
        r"\unknowncommand{x}",
        r"\frac{a}{",
        r"\newcommand{\a}{\a\a}\a",
        r"\def\a{\a}\a",
        "x+" * 10_000 + "x",
        "{" * 3_900,
    ],
    ids=lambda tex: tex[:12],
)
def test_what_is_no_tex_that_is_known_is_shown_as_it_was_written(tex: str) -> None:
    inline, alone = render_markdown(f"So \\({tex}\\) it is."), render_markdown(f"$$\n{tex}_\n$$")

    assert f'<code class="formula">\\({tex}\\)</code>' in inline
    assert f"$$\n{tex}_\n$$" in alone
    assert "<figcaption>TeX<" in alone


def test_all_formulas_of_a_text_together_are_bounded() -> None:
    formulas = [(f"x_{{{number}}}" + "+y" * 400, False) for number in range(100)]

    rendered = render_formulas(formulas)

    assert 0 < len(rendered) < len(formulas)
    assert sum(len(tex) for tex, _ in rendered) <= MAX_FORMULA_TOTAL


NESTING = (
    *("{", "\\sqrt{", "\\frac{", "x_{", "\\left(", "\\begin{matrix}", "\\sqrt ", "\\overline ", "\\text{", "\\mathbf{"),
    *(
        "\\underbrace{",
        "\\color{red}",
        "\\displaystyle ",
        "{x \\over ",
        "(",
        "[",
        "\\left.",
        "\\not ",
        "\\stackrel{a}{",
    ),
    *("\\begin{array}{c}", "\\mathop", "^", "_", "'", "\\\\", "&", "\\middle|", "\\sqrt[", "\\binom{", "\\boxed{"),
)


@pytest.mark.parametrize("opening", NESTING)
def test_whatever_stands_within_itself_takes_no_longer_than_its_length(opening: str) -> None:
    closing = "}" if "{" in opening else ")"
    half = MAX_FORMULA_CHARACTERS // (len(opening) + 1)
    begun = time.process_time()

    render_formulas(
        [(opening * (MAX_FORMULA_CHARACTERS // len(opening)), True), (opening * half + closing * half, False)]
    )

    assert time.process_time() - begun < 3.0  # 0.1 on an ordinary machine; what doubles with each level takes for ever


TEX = st.lists(
    st.sampled_from(
        [
            *NESTING,
            "}",
            "x",
            "1",
            " ",
            "+",
            "\\alpha",
            "\\end{matrix}",
            "\\right)",
            "<",
            "&",
            '"',
            "é",
            "数",
            "#",
            "%",
            "~",
        ]
    ),
    max_size=60,
).map("".join)


@given(TEX, st.sampled_from(["\\({}\\)", "${}$", "$${}$$", "\\[\n{}\n\\]", "$$\n{}\n$$", "- a\n  $$\n  {}\n  $$"]))
@settings(max_examples=examples(300), deadline=None)
def test_no_formula_raises_and_none_has_a_script_or_style(tex: str, place: str) -> None:
    markup = render_markdown(place.replace("{}", tex))

    assert not re.search(
        r"<(?!/?(?:m[a-z]+|annotation|semantics|p|div|section|span|code|pre|figure|figcaption|button|br|em|strong|ul|ol|li|h[1-6]|hr|blockquote|table|thead|tbody|tr|t[hd]|a|s)\b)[a-z]",
        markup,
    )
    assert not re.search(r" (?:style|on[a-z]+)=", markup)


def test_a_text_full_of_formulas_costs_little_more_than_prose() -> None:
    prose = ("Ordinary words stand here, with *emphasis* and `code`.\n\n" * 1_800)[:100_000]

    def seconds(body: str) -> float:
        begun = time.process_time()
        render_markdown(body)
        return time.process_time() - begun

    shapes = ["$a$ " * 25_000, "\\(a\\) " * 16_000, "\\(" * 50_000, "\\[" * 50_000, "$" * 100_000, "$a " * 33_000]
    shapes.append(" ".join(f"$a_{{{number}}}$" for number in range(11_000)))
    shapes += [
        "$$ a\n" * 20_000,
        "$$\n" * 33_000,
        "\\[ a\n" * 16_000,
        "\\" * 100_000,
        "a\\*" * 33_000,
        "C:\\a " * 20_000,
    ]
    shapes += ["<details>\n" * 10_000, "<details>\n</details>\n" * 4_700, "[^1]" * 25_000, "[^1]: a\n" * 12_000]
    shapes += ["- [ ] a\n" * 12_000, ":tada:" * 16_000, ":a" * 50_000, "**重：**" * 16_000]
    ordinary = min(seconds(prose[turn:]) for turn in range(3))
    for body in shapes:
        if seconds(body) > 6 * ordinary:
            ordinary = max(ordinary, seconds(prose[len(body) % 997 + 5 :]))
            assert min(seconds(body + "x" * turn) for turn in (1, 2)) < 6 * ordinary, body[:20]


def test_the_library_is_asked_once_for_what_was_asked_before() -> None:
    first = render_formulas([(r"\alpha_{42}", False)])

    assert render_formulas([(r"\alpha_{42}", False)])[(r"\alpha_{42}", False)] is first[(r"\alpha_{42}", False)]
