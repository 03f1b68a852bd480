"""A thread's memory through time: every prompt and every compaction is a step with an address and a picture."""

import re

from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from agents.models import Agent, Run, Snapshot
from agents.prompts.snapshots.store import load_content
from agents.runs.executor import execute_run
from memory.models import Compaction
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member
from tests.agents.runs.scripted_runs import ask
from tests.factories import make_channel, make_thread, say, say_all, signed_in
from tests.memory.factories import CompactionFactory
from tests.memory.plugins.lcm.factories import leaf, taken_in


def read_page(thread: Thread, member: Member, path: str = "", status: int = 200) -> str:
    answer = signed_in(member).get(f"/w/{thread.workspace.slug}/t/{thread.pk}/memory/{path}")
    assert answer.status_code == status
    return " ".join(answer.content.decode().split())


def answered(thread: Thread, by: Member) -> Run:
    run = ask(thread, by)
    execute_run(run.pk)
    return run


def compacted(thread: Thread, first: int, last: int) -> Compaction:
    leaf_summary = leaf(taken_in(thread), first, last)
    return CompactionFactory.create(
        thread=thread,
        plugin="memory/lcm",
        trigger="hand",
        state="done",
        finished_at=timezone.now(),
        tokens_before=500,
        tokens_after=200,
        created_count=1,
        summary_ids=[leaf_summary.pk],
        at_seq=thread.last_seq,
    )


def test_steps_lead_from_prompt_to_compaction_and_back(ana: Member, vibe: Agent, thread: Thread) -> None:
    assert "No agent has read this thread yet" in read_page(thread, ana)
    for n in range(12):
        say(thread, ana, f"Roses number {n}.")
    first = answered(thread, ana)
    thread.refresh_from_db()
    compaction = compacted(thread, 1, 8)
    second = answered(thread, ana)
    newest = read_page(thread, ana)
    assert "1 summary of 8 older ones" in newest
    assert f'/memory/compactions/{compaction.pk}/" aria-keyshortcuts="ArrowLeft" data-step>← Earlier' in newest
    assert 'role="link" aria-disabled="true" tabindex="-1">Later →' in newest
    assert newest.count("data-step") == 1
    middle = read_page(thread, ana, f"compactions/{compaction.pk}/")
    assert "1 new summary: 500 → 200 tokens. After it, memory held" in middle
    assert "Summary of messages 1–8, new:" in middle
    assert f'/memory/prompts/{first.pk}/" aria-keyshortcuts="ArrowLeft" data-step>← Earlier' in middle
    assert f'/memory/prompts/{second.pk}/" aria-keyshortcuts="ArrowRight" data-step>Later →' in middle
    oldest = read_page(thread, ana, f"prompts/{first.pk}/?part=picture")
    assert "Word for word, messages 1–" in oldest
    assert "Summary of" not in oldest
    assert "style=" not in newest


def test_the_middle_of_a_long_message_counts_as_recalled(ana: Member, vibe: Agent, thread: Thread) -> None:
    padding = "Roses want water and mulch. " * 300
    say(thread, ana, f"{padding}The spare key of the Harbour roof hangs behind the pump. {padding}")
    run = ask(thread, ana, "@vibe where is the spare key of the Harbour roof?")
    execute_run(run.pk)
    middle = next(item for item in load_content(Snapshot.objects.get(run=run))["items"] if item["section"] == "recall")
    page = read_page(thread, ana, f"prompts/{run.pk}/?part=picture")
    assert "2 messages word for word, 1 recalled for this question." in page
    tokens = middle["tokens"] + middle["opening_tokens"]
    assert f"Recalled for this question, message 1: {tokens:,} tokens" in page


def test_a_prompt_whose_text_is_gone_says_so(ana: Member, vibe: Agent, thread: Thread) -> None:
    run = answered(thread, ana)
    Snapshot.objects.update(content=None)
    page = read_page(thread, ana, f"prompts/{run.pk}/")
    assert "is no longer kept: it is removed after 30 days" in page
    assert "map-drawing" not in page


def test_steps_of_other_threads_are_unknown(ana: Member, dora: Member, vibe: Agent, thread: Thread) -> None:
    run = answered(thread, ana)
    other = make_thread(make_channel(ana, "other"), ana, "Other")
    compaction = compacted(thread, 1, 1)
    for path, words in (
        (f"prompts/{run.pk}/", "This thread has no such prompt."),
        (f"prompts/{10**30}/", "This thread has no such prompt."),
        (f"compactions/{compaction.pk}/", "This thread has no such compaction."),
        (f"compactions/{10**30}/", "This thread has no such compaction."),
    ):
        assert f"<h1>Nothing here</h1> <p>{words}</p>" in read_page(other, ana, path, 404)
    private = make_thread(make_channel(ana, "secret", private=True), ana, "Secret")
    page = read_page(private, dora, f"prompts/{run.pk}/", 404)
    assert "<h1>Nothing here</h1> <p>There is nothing here, or it is not visible to you.</p>" in page
    assert "Secret" not in page


def test_the_same_statements_however_long_the_thread(ana: Member, vibe: Agent, thread: Thread) -> None:
    browser = signed_in(ana)

    def statements() -> int:
        address = f"/w/{thread.workspace.slug}/t/{thread.pk}/memory/prompts/{answers[0].pk}/?part=picture"
        with CaptureQueriesContext(connection) as queries:
            assert browser.get(address, headers={"HX-Request": "true"}).status_code == 200
        return len(queries)

    answers = [answered(thread, ana), answered(thread, ana)]
    thread.refresh_from_db()
    compacted(thread, 1, 1)
    statements()
    few = statements()
    say_all(thread, ana, (f"Roses number {n}." for n in range(30)))
    answers.append(answered(thread, ana))
    thread.refresh_from_db()
    compacted(thread, 2, 9)
    assert statements() == few
    assert len(re.findall('<rect class="map-whole', read_page(thread, ana))) > 2
