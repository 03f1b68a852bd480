"""What pages are told of a reply that is being written."""

import re
import time

from hypothesis import given, settings
from hypothesis import strategies as st

from openvibe.chat.live.growing import NewHtml, NewWords, ReplyProgress, advance_reply, begin_reply
from openvibe.engines.text.markdown import render_growing
from tests.engines.text.test_answers import ANSWERS
from tests.examples import examples


class Page:
    """A page as `growing.js` keeps it: what is finished, the HTML of the last block, and the words after it."""

    def __init__(self, progress: ReplyProgress) -> None:
        self.done = render_growing(progress.body).done
        self.tail, self.words = progress.tail, ""

    @property
    def shown(self) -> str:
        """The HTML of the last block with the words that follow on its text."""
        ends = re.search(r"(?:</(?:p|li|ul|ol|h[1-6])>\n)*$", self.tail)
        at = ends.start() if ends and self.words else len(self.tail)
        return self.tail[:at] + self.words.rstrip(" ") + self.tail[at:]

    def take(self, news: NewWords | NewHtml) -> None:
        if isinstance(news, NewWords):
            self.words += news.words
            return
        units = self.tail.encode("utf-16-le")
        assert news.was * 2 == len(units)
        whole = (units[: news.kept * 2].decode("utf-16-le") + news.html).encode("utf-16-le")
        self.done += whole[: news.done * 2].decode("utf-16-le")
        self.tail, self.words = whole[news.done * 2 :].decode("utf-16-le"), ""


WORDS = st.lists(
    st.sampled_from(("Some words, ", "and more", " of it", ". ", "**bold** ", "`code` ", "\n- item with words", "\n\n"))
)


@given(ANSWERS | WORDS.map("".join), st.data())
@settings(max_examples=examples(200), deadline=None)
def test_a_page_that_is_told_all_holds_what_one_does_that_is_loaded(body: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=12)))
    progress = begin_reply("")
    page = Page(progress)
    for end in [*cuts, len(body)]:
        progress, news = advance_reply(progress, body[:end])
        page.take(news)
        assert page.shown.split() == render_growing(body[progress.tail_start : end]).tail.split()

    assert page.tail == progress.tail


def test_a_long_block_is_rendered_now_and_then_and_its_words_are_sent_meanwhile() -> None:
    body = "".join(f"- item {number} with some words\n" for number in range(400))
    progress, kinds = begin_reply(""), []
    for end in range(50, len(body), 50):
        progress, news = advance_reply(progress, body[:end])
        kinds.append(type(news))
        assert (news.start, news.end) == (end - 50, end)

    assert kinds[:70] == [NewHtml] * 70
    assert kinds[-40:].count(NewHtml) < 10
    assert progress.tail_start == 0


def test_a_block_costs_what_its_length_costs_however_it_comes() -> None:
    def seconds(count: int) -> float:
        body = "".join(f"- item {number} with some words\n" for number in range(count))
        progress, begun = begin_reply(""), time.process_time()
        for end in range(50, len(body), 50):
            progress, _ = advance_reply(progress, body[:end])
        return time.process_time() - begun

    seconds(100)
    small = max(seconds(150), 0.02)
    assert seconds(450) < 8 * small


def test_what_follows_on_long_code_is_no_code() -> None:
    code = "```python\n" + "x = 1\n" * 600
    progress, page = begin_reply(code), Page(begin_reply(code))
    progress, news = advance_reply(progress, code + "y")
    assert isinstance(news, NewWords)
    page.take(news)

    progress, news = advance_reply(progress, code + "y\n```\n\nSo **it** is.")
    page.take(news)

    assert page.done.startswith('<figure class="code-block is-long">')
    assert page.tail == progress.tail == "<p>So <strong>it</strong> is.</p>\n"


def test_of_a_block_that_is_finished_only_what_differs_is_sent() -> None:
    code = "```python\n" + "".join(f"rose_{number} = prune({number})\n" for number in range(12))
    _, news = advance_reply(begin_reply(code), code + "```\n\nSo **it** is.")

    assert isinstance(news, NewHtml)
    assert news.done == news.kept > 500
    assert len(news.html) < 200
