"""A thread as a file: Markdown for people, JSONL that `conversation import` reads again. Read in pages, so that ten
thousand messages are never in memory at once."""

import json
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from datetime import UTC
from typing import Any

from django.template.defaultfilters import filesizeformat
from django.utils.text import slugify

from openvibe.chat.models import DiveResult, Message, Thread
from openvibe.chat.queries.conversations import list_messages
from openvibe.engines.llm.offline.drafts import render_draft
from openvibe.engines.text.markdown import quote_markdown
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant

EXPORT_TYPES: dict[str, str] = {"md": "text/markdown; charset=utf-8", "jsonl": "application/x-ndjson"}
PAGE_SIZE = 200
"""Messages."""
DELETED_TEXT = "This message was deleted."


def export_filename(thread: Thread, form: str) -> str:
    return f"{slugify(thread.title)[:60] or 'thread'}-{thread.pk}.{form}"


def export_thread(access: Access, thread: Thread, form: str) -> Iterator[str]:
    """The file in pieces, a message each. `thread` was read with its channel, for the asker.

    It holds what everybody who reads the thread sees: no draft, no verdict, nothing of the reader's own. Deleted
    messages keep their places, and answers that a later one took the place of, which are named so; files are named; a
    reply that is being written is left out. Two queries a page."""
    write: Callable[[Message, str], str] = _markdown if form == "md" else _jsonl_writer(thread.title)
    if form == "md":
        yield f"# {_one_line(thread.title)}\n\n{thread.channel}\n"
    seq = 0
    while page := list_messages(access, thread.pk, after_seq=seq, limit=PAGE_SIZE):
        seq = page[-1].seq
        pks = [message.pk for message in page if message.kind == Message.Kind.DIVE_RESULT]
        results = {each.message_id: each for each in DiveResult.objects.filter(message__in=pks)} if pks else {}
        for message in page:
            if message.state != Message.State.WRITING:
                yield write(message, _text(message, results.get(message.pk)))


def _text(message: Message, result: DiveResult | None) -> str:
    """All that the message says; of a result its full text, too, and what was put off and is open."""
    if message.is_deleted:
        return DELETED_TEXT
    rest = render_draft(replace(result.parts, headline="", bullets=())) if result else ""
    return f"{message.body}\n\n{rest}" if rest else message.body


def _one_line(text: str) -> str:
    """A title or a name, for a heading."""
    return " ".join(text.split()).replace("<", "&lt;")


def _markdown(message: Message, text: str) -> str:
    """The text as a quotation, so that no words of it pass for another speaker's."""
    author, at = message.author, message.created_at.astimezone(UTC)
    if message.is_deleted:
        text = f"*{text}*"
    elif message.kind in (Message.Kind.TOOL_CALL, Message.Kind.TOOL_RESULT):
        text = "\n".join(f"    {line}" for line in text.splitlines())
    names = ((file["name"].replace("`", "'"), filesizeformat(file["size"])) for file in message.attached)
    files = "".join(f"\n- Attached: `{name}` ({size})" for name, size in names)
    files += "".join(map(_image_line, message.pictured))
    edited = ", edited" if message.edited_at and not message.is_deleted else ""
    earlier = ", an earlier answer" if message.state == Message.State.REPLACED and not message.is_deleted else ""
    heading = f"{_one_line(author.name)} (@{author.handle}) · {at:%Y-%m-%d %H:%M} UTC{edited}{earlier}"
    return f"\n## {heading}\n\n{quote_markdown(text)}\n{files}" + ("\n" if files else "")


def _image_line(image: Mapping[str, Any]) -> str:
    name, description = image["name"].replace("`", "'"), image["description"]
    return f"\n- Image: `{name}`" + (f", described as: {_one_line(description)}" if description else "")


def _jsonl_writer(title: str) -> Callable[[Message, str], str]:
    def write(message: Message, text: str) -> str:
        author = message.author
        is_agent = author.is_agent or author.kind == Participant.Kind.ASSISTANT
        line = {
            "thread": title,
            "seq": message.seq,
            "author": author.name,
            "handle": author.handle,
            "role": "assistant" if is_agent else "user",
            "kind": message.kind,
            "time": message.created_at.astimezone(UTC).isoformat(),
            "text": text,
        }
        if message.is_deleted:
            line["deleted"] = True
        elif message.edited_at:
            line["edited"] = message.edited_at.astimezone(UTC).isoformat()
        if message.state == Message.State.REPLACED and not message.is_deleted:
            line["replaced"] = True
        if message.attached:
            line["files"] = [file["name"] for file in message.attached]
        if message.pictured:
            line["images"] = [{name: image[name] for name in ("name", "description")} for image in message.pictured]
        return json.dumps(line, ensure_ascii=False) + "\n"

    return write
