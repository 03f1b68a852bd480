"""What pages are told of a reply that is being written."""

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

    def take(self, news: NewWords | NewHtml) -> None:
        if isinstance(news, NewWords):
            self.words += news.words
            return
        units = self.tail.encode("utf-16-le")
        assert news.was * 2 == len(units)
        self.tail = units[: news.kept * 2].decode("utf-16-le") + news.html
        self.done, self.words = self.done + news.done, ""


@given(ANSWERS, st.data())
@settings(max_examples=examples(100), deadline=None)
def test_a_page_that_is_told_all_holds_what_one_does_that_is_loaded(body: str, data: st.DataObject) -> None:
    cuts = sorted(data.draw(st.lists(st.integers(0, len(body)), max_size=12)))
    progress = begin_reply("")
    page = Page(progress)
    for end in [*cuts, len(body)]:
        progress, news = advance_reply(progress, body[:end])
        page.take(news)

    tail = render_growing(body[progress.tail_start :])
    assert (page.tail, page.words) == (tail.tail, "")
    assert progress.tail == page.tail


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
