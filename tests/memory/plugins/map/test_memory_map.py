"""The memory map: for whoever sees the thread, from the tail down to the messages, and what compaction did."""

import re
from collections import Counter
from collections.abc import Sequence
from datetime import datetime

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.models import Agent
from memory.plugins.compaction import execute_compaction
from memory.plugins.lcm.models import Summary, SummaryCorrection
from memory.plugins.lcm.provider import LcmProvider
from memory.plugins.models import Compaction, MemoryPlugin
from memory.plugins.services import correct_summary
from openvibe.chat.models import Thread
from openvibe.chat.services import add_to_channel, set_thread_access
from openvibe.engines.llm.tokens import count_tokens
from openvibe.workspaces.models import Member
from tests.factories import access, make_channel, make_thread, signed_in
from tests.memory.factories import CompactionFactory, MemoryPluginFactory
from tests.memory.plugins.lcm.factories import condensed, leaf, session_of, taken_in, told

HTMX = {"HX-Request": "true"}


def address(thread: Thread, more: str = "") -> str:
    return f"/w/{thread.workspace.slug}/t/{thread.pk}/memory/{more}"


def page_of(member: Member, thread: Thread, more: str = "", **headers: str) -> str:
    answer = signed_in(member).get(address(thread, more), headers=headers)
    assert answer.status_code == 200, answer.content
    return " ".join(answer.content.decode().split())


def remembered(thread: Thread, ana: Member, leaves: Sequence[tuple[int, int]] = ((1, 4), (5, 8))) -> list[Summary]:
    """Thirty messages; the first eight in leaves."""
    told(thread, ana.participant, *(f"Roses number {n} need <b>sun</b>." for n in range(1, 31)))
    conversation = taken_in(thread)
    return [leaf(conversation, first, last, f"They spoke of {first} to {last} <script>") for first, last in leaves]


def over(thread: Thread, **more: object) -> Compaction:
    row = {"trigger": "threshold", "state": "done", "tokens_before": 12_000, "tokens_after": 7_000, "created_count": 2}
    return CompactionFactory.create(
        **{"thread": thread, "plugin": "memory/lcm", "finished_at": timezone.now(), **row, **more}
    )


def numbers(pattern: str, page: str) -> list[int]:
    return [int(number.replace(",", "")) for number in re.findall(pattern, page)]


def test_a_conversation_has_one_size_wherever_the_page_says_it(ana: Member, thread: Thread) -> None:
    """Lines of ours, answers that failed and what says nothing are in no prompt, and counted nowhere."""
    told(thread, ana.participant, *(f"Roses number {n} need sun." for n in range(1, 31)))
    told(thread, ana.participant, "Ana added Dora.", kind="system")
    told(thread, ana.participant, "I could not", state="failed")
    told(thread, ana.participant, *[""] * 8)
    size = sum(count_tokens(f"Roses number {n} need sun.") + 12 for n in range(1, 31))
    page = page_of(ana, thread)
    assert f"30 messages need <strong>{size:,} tokens</strong>: the words, and who said them when." in page
    assert f"What was said: 30 messages, {size:,} tokens" in page
    shelves = page.partition('class="map-shelves"')[2]
    levels = re.findall(r'map-shelf"> <summary>.*?([\d,]+) messages · ([\d,]+) tokens', shelves)
    assert [sum(int(pair[at].replace(",", "")) for pair in levels) for at in (0, 1)] == [30, size]
    stats = (
        signed_in(ana)
        .get(f"/api/v1/memory/stats/?thread={thread.pk}", headers={"X-Workspace": ana.workspace.slug})
        .json()
    )
    assert (stats["messages"], stats["tokens"]) == (30, size)
    assert " 0 tokens" not in page


def test_summaries_have_one_size_too(ana: Member, thread: Thread) -> None:
    first, second = remembered(thread, ana)
    page = page_of(ana, thread)
    (held,) = numbers(r"need <strong>([\d,]+) tokens", page)
    shelves = page.partition('class="map-shelves"')[2].partition("Search this memory")[0]
    levels = re.findall(r'map-shelf"> <summary>.*?([\d,]+) messages · ([\d,]+) tokens', shelves)
    assert [sum(int(pair[at].replace(",", "")) for pair in levels) for at in (0, 1)] == [30, held]
    assert f"2 for 8 messages · {first.token_count + second.token_count + 24} tokens" in shelves
    inside = page_of(ana, thread, f"{first.pk}/?inside", **HTMX)
    assert f"4 messages in {first.token_count + 12} tokens" in inside
    assert f"→ {first.token_count + 12} tokens" in page  # on the map
    legend = page.partition('class="map-legend"')[2].partition("</ul>")[0]
    assert re.findall(r"</svg>\s*([A-Z][a-z ]+)</li>", legend) == ["Whole", "Summarised"]


@pytest.mark.parametrize("headers", [{}, HTMX])
def test_page_and_panel_show_the_shelves(ana: Member, thread: Thread, headers: dict[str, str]) -> None:
    remembered(thread, ana)
    page = page_of(ana, thread, **headers)
    assert ("<html" in page) is (not headers)
    for words in (
        "Recent messages",
        "Not summarised yet",
        "Summaries of messages",
        "Compact now",
        "Compact everything",
        "messages 1–4",
        "2 for 8 messages",
        "need &lt;b&gt;sun&lt;/b&gt;",
    ):
        assert words in page
    assert "style=" not in page
    assert "They spoke of 1 to 4" not in page  # what a summary says comes when it is opened


def test_the_picture_of_an_earlier_step_has_the_size_a_summary_had_before_it_was_corrected(
    ana: Member, thread: Thread
) -> None:
    first, _ = remembered(thread, ana)
    before, size = timezone.now(), first.token_count
    for version, words in ((1, 1), (2, 40)):
        text = "They spoke. " * words
        correct_summary(thread=thread, by=access(ana), summary_id=first.pk, content=text, version=version)

    def sizes(at: datetime) -> list[int]:
        return [span.tokens for span in LcmProvider().summaries_at(session_of(thread, ana.participant), at)]

    first.refresh_from_db()
    assert sizes(before)[0] == size != first.token_count == sizes(timezone.now())[0]
    between = SummaryCorrection.objects.get(summary=first, version=2).created_at
    assert sizes(between)[0] == count_tokens("They spoke.")


def test_a_summary_opens_to_its_constituents_and_those_to_the_messages(ana: Member, thread: Thread) -> None:
    leaves = remembered(thread, ana)
    above = condensed(leaves[0].conversation, leaves, "All of it.")
    assert "Summaries of summaries, level 1" in page_of(ana, thread)
    page = page_of(ana, thread, f"{above.pk}/?inside", **HTMX)
    assert "All of it." in page
    assert f"/memory/{leaves[0].pk}/?inside" in page
    assert f"/memory/{leaves[1].pk}/?inside" in page
    messages = page_of(ana, thread, f"{leaves[0].pk}/?inside", **HTMX)
    assert "They spoke of 1 to 4 &lt;script&gt;" in messages
    assert all(f"Roses number {n} need" in messages for n in (1, 2, 3, 4))
    assert "Roses number 5" not in messages
    assert "<b>" not in messages


def test_a_summary_has_a_page_of_its_own_with_the_way_up(ana: Member, thread: Thread) -> None:
    leaves = remembered(thread, ana)
    above = condensed(leaves[0].conversation, leaves, "All of it.")
    page = page_of(ana, thread, f"{leaves[0].pk}/")
    assert "<html" in page
    assert f'/memory/{above.pk}/"' in page
    assert "Summary of messages 1–4" in page


def test_long_ones_come_in_parts(ana: Member, thread: Thread) -> None:
    told(thread, ana.participant, *(f"Message {n}: " + "roses " * 900 for n in range(1, 11)))
    first = leaf(taken_in(thread), 1, 10)
    page = page_of(ana, thread, f"{first.pk}/?inside", **HTMX)
    assert "Message 10:" not in page
    cursor = page.split("after=")[1].split('"')[0]
    rest = page_of(ana, thread, f"{first.pk}/?inside&after={cursor}", **HTMX)
    assert f"Message {int(cursor) + 1}:" in rest
    assert "Message 1:" not in rest
    assert "They spoke" not in rest


def test_only_who_sees_the_thread_sees_its_memory(
    ana: Member, dora: Member, ben: Member, cleo: Member, thread: Thread
) -> None:
    (first, _) = remembered(thread, ana)
    for more in ("", f"{first.pk}/", f"{first.pk}/?inside", "?part=state", "?part=search&q=roses"):
        assert signed_in(dora).get(address(thread, more)).status_code == 200
        assert signed_in(ben).get(address(thread, more)).status_code == 404
        assert signed_in(cleo).get(address(thread, more)).status_code == 404
        assert Client().get(address(thread, more)).status_code == 302
    for stranger in (ben, cleo):
        assert signed_in(stranger).post(address(thread, "compact/")).status_code == 404
    assert not Compaction.objects.exists()
    add_to_channel(channel=thread.channel, participant=ben.participant, by=access(ana))
    assert signed_in(ben).get(address(thread)).status_code == 200


def test_a_summary_of_another_thread_is_unknown_here(ana: Member, dora: Member, thread: Thread) -> None:
    private = make_thread(make_channel(ana, "private", private=True), ana)
    (secret, _) = remembered(private, ana)
    assert signed_in(ana).get(address(private, f"{secret.pk}/")).status_code == 200
    assert signed_in(ana).get(address(thread, f"{secret.pk}/")).status_code == 404
    assert signed_in(dora).get(address(thread, f"{secret.pk}/")).status_code == 404
    assert signed_in(ana).get(address(thread, f"{10**30}/")).status_code == 404


def test_people_only_threads_say_so(ana: Member, thread: Thread) -> None:
    (first, _) = remembered(thread, ana)
    set_thread_access(thread=thread, by=access(ana), access="human_only")
    page = page_of(ana, thread)
    assert "This thread is for people only." in page
    assert "Compact now" not in page
    assert signed_in(ana).get(address(thread, f"{first.pk}/")).status_code == 404
    assert signed_in(ana).post(address(thread, "compact/")).status_code == 403


def test_with_simple_memory_it_says_what_there_is(ana: Member, thread: Thread) -> None:
    (first, _) = remembered(thread, ana)
    MemoryPlugin.objects.filter(workspace=ana.workspace).delete()
    MemoryPluginFactory.create(workspace=ana.workspace, name="memory/simple", enabled=True)
    page = page_of(ana, thread)
    assert "makes no summaries" in page
    assert "Recent messages" not in page
    assert signed_in(ana).get(address(thread, f"{first.pk}/")).status_code == 404


def test_compact_now_and_everything_ask_once(ana: Member, dora: Member, thread: Thread) -> None:
    remembered(thread, ana)
    assert signed_in(dora).post(address(thread, "compact/")).status_code == 302
    asked = Compaction.objects.get()
    assert (asked.trigger, asked.full, asked.requested_by) == ("hand", False, dora.participant)
    answer = signed_in(ana).post(address(thread, "compact/"), {"full": "1"}, headers=HTMX).content.decode()
    assert Compaction.objects.get().full
    assert "<html" not in answer
    assert "begins in a moment" in answer
    assert "<progress" in answer
    assert answer.count("aria-disabled") == 2
    second_page = signed_in(ana).post(address(thread, "compact/"), headers=HTMX).content.decode()
    assert "under way already" in second_page
    assert signed_in(ana).get(address(thread, "compact/")).status_code == 405


def test_compacting_the_same_again_is_answered_with_a_sentence(ana: Member, thread: Thread) -> None:
    remembered(thread, ana)
    signed_in(ana).post(address(thread, "compact/"), {"full": "1"})
    execute_compaction(Compaction.objects.get().pk)
    answer = signed_in(ana).post(address(thread, "compact/"), headers=HTMX)
    assert answer.status_code == 200
    assert "Nothing was said since the last compaction" in answer.content.decode()
    followed = signed_in(ana).post(address(thread, "compact/"), follow=True)
    assert "Nothing was said since the last compaction" in followed.content.decode()
    assert Compaction.objects.count() == 1


def test_a_guest_looks_and_does_not_compact(ana: Member, ben: Member, thread: Thread) -> None:
    remembered(thread, ana)
    add_to_channel(channel=thread.channel, participant=ben.participant, by=access(ana))
    page = page_of(ben, thread)
    assert "Recent messages" in page
    assert "Compact now" not in page
    assert signed_in(ben).post(address(thread, "compact/")).status_code == 403
    assert not Compaction.objects.exists()


def test_how_far_a_compaction_is(ana: Member, thread: Thread) -> None:
    CompactionFactory.create(
        thread=thread,
        plugin="memory/lcm",
        trigger="hand",
        full=True,
        state="running",
        done_messages=1_200,
        of_messages=4_000,
    )
    page = page_of(ana, thread, "?part=state", **HTMX)
    assert "1,200 of 4,000 messages" in page
    assert '<progress max="4000" value="1200"' in page
    assert "Recent messages" not in page


def test_before_and_after_and_why_it_failed_stand_there(ana: Member, thread: Thread) -> None:
    over(thread)
    assert "12,000 → 7,000 tokens" in page_of(ana, thread)
    over(thread, state="failed", tokens_before=None, tokens_after=None, error="The key was <refused>.")
    page = page_of(ana, thread)
    assert "The last compaction failed" in page
    assert "The key was &lt;refused&gt;." in page
    over(thread, state="nothing", tokens_after=12_000)
    assert "The last compaction failed" in page_of(ana, thread), "nobody asked, so nobody is told of nothing"
    over(thread, state="nothing", tokens_after=12_000, trigger="hand")
    assert "there was nothing to compact" in page_of(ana, thread)


def test_the_history_is_drawn_and_told(ana: Member, thread: Thread) -> None:
    assert "Each compaction is drawn here" in page_of(ana, thread)
    over(thread)
    over(thread, tokens_before=11_500, full=True, trigger="hand", requested_by=ana.participant)
    page = page_of(ana, thread)
    assert page.count('class="plot-mark"') == 2
    assert "Ana asked for it (everything)" in page
    assert "11,500" in page


def test_search_finds_messages_and_summaries_to_the_letter(ana: Member, thread: Thread) -> None:
    (first, _) = remembered(thread, ana)
    page = page_of(ana, thread, "?part=search&q=number+7", **HTMX)
    seventh = thread.messages.get(seq=7)
    assert f'/m/{seventh.pk}/">Ana, message 7</a>' in page
    assert "<b>sun" not in page
    assert f"/memory/{first.pk}/" in page_of(ana, thread, "?q=spoke+1+to")
    assert "Nothing holds all of these words" in page_of(ana, thread, "?q=100%25_")


def test_summaries_written_anew_are_not_called_new(ana: Member, thread: Thread) -> None:
    remembered(thread, ana)
    over(thread, trigger="changed", created_count=0, tokens_before=2_864, tokens_after=4_043, at_seq=30)
    page = page_of(ana, thread)
    assert "After a change" in page
    assert "Summaries were written anew, because something they were made from was changed: 2,864 → 4,043" in page
    assert "0 new summaries" not in page


def test_search_says_how_many_it_found_and_when_there_are_more(ana: Member, thread: Thread) -> None:
    told(thread, ana.participant, *(f"Rose bed {n}." for n in range(20)))
    taken_in(thread)
    assert "20 found." in page_of(ana, thread, "?q=rose")
    told(thread, ana.participant, "Rose bed 20.")
    taken_in(thread)
    page = page_of(ana, thread, "?q=rose")
    assert "More than 20 found: the newest 20 are shown. Another word narrows it." in page
    assert page.partition('class="map-found"')[2].count('class="map-excerpt"') == 20


def test_no_reader_finds_what_was_said_where_they_may_not_read(ana: Member, dora: Member, thread: Thread) -> None:
    private = make_thread(make_channel(ana, "private", private=True), ana)
    remembered(private, ana)
    assert "Nothing holds all" in page_of(dora, thread, "?q=Roses")


def test_the_thread_leads_to_its_memory(ana: Member, thread: Thread) -> None:
    page = signed_in(ana).get(f"/w/{ana.workspace.slug}/t/{thread.pk}/").content.decode()
    assert f'href="{address(thread)}" data-panel' in page


def test_the_same_queries_for_one_and_three(ana: Member, thread: Thread) -> None:
    remembered(thread, ana, [(1, 4)])
    over(thread)
    client = signed_in(ana)

    def cost() -> int:
        with CaptureQueriesContext(connection) as queries:
            client.get(address(thread, "?q=roses"))
        return len(queries)

    cost()  # a first search learns of the space that serves and how frequent words are
    few = cost()
    conversation = taken_in(thread)
    leaf(conversation, 5, 8)
    leaf(conversation, 9, 10)
    for _ in range(2):
        over(thread, requested_by=ana.participant)
    assert cost() == few


@pytest.mark.parametrize(("more", "headers"), [("", {}), ("?part=state", HTMX), ("?part=picture", HTMX)])
def test_nothing_is_read_twice_for_one_look(ana: Member, thread: Thread, more: str, headers: dict[str, str]) -> None:
    remembered(thread, ana)
    over(thread)
    client = signed_in(ana)
    client.get(address(thread, more), headers=headers)
    with CaptureQueriesContext(connection) as queries:
        client.get(address(thread, more), headers=headers)
    statements = Counter(query["sql"] for query in queries)
    assert [sql for sql, count in statements.items() if count > 1] == []
    assert sum(sql.startswith('SELECT "chat_thread"') for sql in statements) == 1
    assert not any('FROM "workspaces_workspace"' in sql for sql in statements)


def test_a_change_is_told_but_not_drawn(ana: Member, thread: Thread) -> None:
    over(thread, trigger="changed", tokens_before=500, tokens_after=480)
    page = page_of(ana, thread)
    assert "summaries were looked at anew" in page
    assert "plot-mark" not in page


def test_all_of_it_after_a_real_compaction(ana: Member, vibe: Agent, thread: Thread) -> None:
    told(thread, ana.participant, *(f"Message {n}. " + "Roses like sun and rain. " * 60 for n in range(60)))
    signed_in(ana).post(address(thread, "compact/"), {"full": "1"})
    assert execute_compaction(Compaction.objects.get().pk) is None
    page = page_of(ana, thread)
    done = Compaction.objects.get()
    assert f"{done.tokens_before:,} → {done.tokens_after:,} tokens" in page
    assert "Not summarised yet" not in page
    opened = page
    while "Message 0." not in opened:
        summary = re.search(rf"{address(thread)}(\d+)/\?inside", opened)
        assert summary is not None
        opened = page_of(ana, thread, f"{summary[1]}/?inside", **HTMX)
    assert "map-original" in opened
