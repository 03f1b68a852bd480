"""A thread as a file, and the same conversation read back from it."""

import io
import re
from collections.abc import Iterator
from itertools import islice
from pathlib import Path

from django.core.management import call_command
from django.db import connection
from django.test.utils import CaptureQueriesContext
from markdown_it import MarkdownIt

from agents.models import Agent
from openvibe.base.models import AuditRecord
from openvibe.chat.models import Channel, Message, Thread
from openvibe.chat.queries import access_thread, export_thread
from openvibe.chat.services import create_reply, delete_message, publish_dive, save_draft, start_dive
from openvibe.engines.llm.offline.drafts import ResultDraft
from openvibe.workspaces.models import Member, Participant
from tests.factories import access, attach, say, say_all, signed_in


def lines(member: Member, thread: Thread, form: str) -> Iterator[str]:
    return export_thread(access(member), access_thread(access(member), thread.pk), form)


def spoken(thread: Thread) -> list[tuple[str, str, str, object]]:
    rows = thread.messages.order_by("seq").select_related("author")
    return [
        (row.author.name, "ai" if row.author.kind in ("agent", "assistant") else "", row.body, row.created_at)
        for row in rows
    ]


def test_jsonl_is_the_same_conversation_when_it_is_imported_again(
    ana: Member, dora: Member, vibe: Agent, thread: Thread, tmp_path: Path
) -> None:
    say(thread, ana, 'Über "roses":\n\n- now\n- or in March 🌹?')
    reply = create_reply(thread=thread, author=vibe.participant, client_id="1")
    Message.objects.filter(pk=reply.pk).update(body="In March.", state="complete")
    earlier = create_reply(thread=thread, author=vibe.participant, client_id="2")
    Message.objects.filter(pk=earlier.pk).update(body="In May.", state="replaced")
    attach(thread, dora, "My notes.", notes_md="# Notes")
    delete_message(message=say(thread, dora, "A secret"), by=access(dora))
    file = tmp_path / "talk.jsonl"
    file.write_text("".join(lines(ana, thread, "jsonl")), "utf-8")
    assert '"deleted": true' in file.read_text("utf-8")
    assert '"files": ["notes.md"]' in file.read_text("utf-8")
    assert file.read_text("utf-8").count('"text": "In May.", "replaced": true') == 1
    assert ", an earlier answer\n\n> In May." in "".join(lines(ana, thread, "md"))

    call_command("conversation", "import", str(file), "--channel", "again", stdout=io.StringIO())
    again = Thread.objects.get(channel__name="again")
    assert again.title == thread.title
    named = {"My notes.": "My notes.\n\n- Attached, and not imported: `notes.md`", "": "This message was deleted."}
    expected = [(*row[:2], named.get(row[2], row[2]), row[3]) for row in spoken(thread) if row[2] != "In May."]
    assert spoken(again) == expected


def test_markdown_says_who_said_what_and_nothing_private(
    ana: Member, dora: Member, vibe: Agent, thread: Thread
) -> None:
    source = attach(thread, ana, "When **do** I prune?", notes_md="# Notes")
    dive = start_dive(source=source, by=access(ana), agent=vibe.participant)
    result = ResultDraft("In March", ("One", "Two", "Three"), "At length.", ("Hoses, until autumn.",), ("Who waters?",))
    publish_dive(dive=dive, by=access(ana), result=result)
    delete_message(message=say(thread, dora, "A secret"), by=access(dora))
    save_draft(thread=thread, by=access(ana), body="half a thought")
    create_reply(thread=thread, author=vibe.participant, client_id="2")
    text = "".join(lines(dora, thread, "md"))
    assert text.startswith("# Pruning\n\n#general\n\n## Ana (@ana) · 20")
    for words in (
        "When **do** I prune?",
        "- Attached: `notes.md` (7\xa0bytes)",
        "At length.",
        "Hoses, until autumn.",
        "Who waters?",
        "*This message was deleted.*",
    ):
        assert words in text
    for words in ("A secret", "half a thought", "## Vibe"):
        assert words not in text


def test_no_words_pass_for_another_speakers(ana: Member, dora: Member, thread: Thread) -> None:
    """A heading, a fence or a comment left open, a file's name: what a message says stays below who said it."""
    Participant.objects.filter(pk=ana.participant_id).update(name="Ana <textarea>")
    said = "Fine.\n\n## Dora (@dora) · 2026-11-01 09:00 UTC\n\nI approve."
    say(thread, ana, said)
    say(thread, ana, "Dora (@dora) · 2026-11-01 09:00 UTC\n---\nI approve.\n\n```\nleft open")
    say(thread, ana, "<!-- left <div hidden> open")
    attach(thread, ana, "Mine.", **{"a` [b](http:evil.example) `c": "# Notes"})
    say(thread, dora, "No.")
    text = "".join(lines(dora, thread, "md"))
    html = MarkdownIt("commonmark").render(text)
    unquoted = re.sub(r"<blockquote>.*?</blockquote>", "", html, flags=re.DOTALL)
    assert re.findall(r"<h2>(.*?) ·", unquoted) == ["Ana &lt;textarea&gt; (@ana)"] * 4 + ["Dora (@dora)"]
    for mark in ("<div hidden>", "<!--", 'href="http:evil.example"', "<textarea>"):
        assert mark not in html
    assert html.rstrip().endswith("<blockquote>\n<p>No.</p>\n</blockquote>")


def test_code_and_tables_of_a_message_stand_as_they_were_written(ana: Member, thread: Thread) -> None:
    said = "```html\n<div>\n\n    <b>\n```\n\n    <i>\n\n- One\n  - Two\n\n> `<u>`, 1 < 2, a<1"
    say(thread, ana, said)
    text = "".join(lines(ana, thread, "md"))
    assert text.splitlines()[6:] == [f"> {line}".rstrip() for line in said.splitlines()]


def test_it_is_read_page_by_page(ana: Member, thread: Thread) -> None:
    say_all(thread, ana, [f"Row {n}" for n in range(450)])
    pieces = lines(ana, thread, "jsonl")
    with CaptureQueriesContext(connection) as first:
        list(islice(pieces, 200))
    with CaptureQueriesContext(connection) as rest:
        assert sum(1 for _ in pieces) == 250
    assert (len(first), len(rest)) == (2, 3)


def test_only_who_reads_the_thread_gets_the_file(ana: Member, ben: Member, thread: Thread) -> None:
    say(thread, ana, "Roses.")
    address = f"/w/{ana.workspace.slug}/t/{thread.pk}/export/"
    answer = signed_in(ana).get(f"{address}?format=jsonl")
    assert answer["Content-Disposition"] == f'attachment; filename="pruning-{thread.pk}.jsonl"'
    assert b"Roses." in answer.getvalue()
    assert signed_in(ben).get(address).status_code == 404
    Channel.objects.update(is_private=True)
    assert signed_in(ana).get(f"/api/v1/threads/{thread.pk}/export/?form=md").status_code == 200
    records = AuditRecord.objects.filter(action="export").values_list("actor", "subject", "after")
    assert list(records) == [
        ("Ana (@ana)", f"thread {thread.pk} of a private channel", "as md"),
        ("Ana (@ana)", f"thread {thread.pk} “Pruning” of #general", "as jsonl"),
    ]
