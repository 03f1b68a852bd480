"""Files (P1): what is attached to messages of the thread, and of a dive to the message it started from.

A small file that came with the request, or shortly before it, stands whole; of all others the name and the first
lines, or the name alone where room is short. Agents read on with the tool `read_file`."""

from collections.abc import Collection, Iterator
from dataclasses import replace
from datetime import datetime
from typing import Any, NamedTuple

from django.db.models import Case, Q, QuerySet, TextField, Value, When

from agents.prompts.assembler.items import (
    Item,
    SectionCandidates,
    format_minute,
    make_item,
    opening_tokens,
    section_candidates,
)
from agents.prompts.assembler.sections.request import PromptRequest
from openvibe.chat.models import EXTRACT_TOKENS, Attachment, Message
from openvibe.engines.database.compiled_queries import CompiledQuery, row_columns
from openvibe.engines.llm.transcripts import message_line, opening
from openvibe.engines.text.masking import mask_secrets

MAX_FILES = 20
"""Files that a prompt names, the newest."""

WHOLE_FILE_TOKENS = 2_000
"""Tokens of a file that may stand whole."""

NEAR_MESSAGES = 5
"""A file of the request, or of one of so many messages before it, may stand whole."""

SHOWN_CAP, SHOWN_DIVISOR, NAMES_CAP = 2_400, 3, 700
"""Tokens of the files that are shown, at most one in so many of the ceiling, and of those that are only named."""

READ_TOOL = "read_file"

_OPENING = opening("untrusted", attached="yes")


class FileRow(NamedTuple):
    """A file and the message it belongs to. `content` is empty unless it may stand whole."""

    pk: int
    name: str
    tokens: int
    extract: str
    content: str
    thread_id: int
    message_id: int
    seq: int
    author: str
    at: datetime


@CompiledQuery
def _newest_files(thread_id: int, source_id: int, near_seq: int) -> QuerySet[Any, Any]:
    """Files of the thread and of the message it started from; whole those of that message, and from `near_seq` on."""
    files = Attachment.objects.filter(
        Q(thread=thread_id) | Q(message=source_id), message__kind=Message.Kind.TEXT, message__deleted_at=None
    )
    is_near = Q(message__seq__gte=near_seq) | Q(message=source_id)
    whole = When(is_near, token_count__lte=WHOLE_FILE_TOKENS, then="content")
    newest = files.annotate(whole=Case(whole, default=Value(""), output_field=TextField()))
    columns = row_columns(
        FileRow,
        tokens="token_count",
        content="whole",
        seq="message__seq",
        author="message__author__label",
        at="message__created_at",
    )
    return newest.order_by("-message_id", "position").values_list(*columns)[:MAX_FILES]


def file_candidates(request: PromptRequest, tools: Collection[str]) -> list[SectionCandidates]:
    """The newest first, each in the fullest form that fits: whole, its first lines, its name.

    `tools`: the names of those offered.
    """
    thread, near_seq = request.thread, request.end_seq - NEAR_MESSAGES
    rows = list(map(FileRow._make, _newest_files.rows(thread.thread_id, thread.dive_source_id or 0, near_seq)))
    rest = f"[… read on with {READ_TOOL} …]" if READ_TOOL in tools else "[… the rest is not shown …]"
    forms = [_item(request, row, text) for row in rows for text in _shown_texts(row, rest)]
    names = [_item(request, row, rest) for row in rows]
    frame = opening_tokens(request.counter, "dynamic", _OPENING)
    shown_cap = min(SHOWN_CAP, request.budget.ceiling // SHOWN_DIVISOR)
    excerpt_candidates = section_candidates("files", forms, cap=shown_cap, beyond_layer_cap=True)
    name_candidates = section_candidates("files", names, cap=NAMES_CAP, beyond_layer_cap=True)
    return [replace(excerpt_candidates, frame=frame), replace(name_candidates, frame=frame)] if rows else []


def _shown_texts(row: FileRow, rest: str) -> Iterator[str]:
    """The fullest first. `rest` stands where something is left out."""
    if row.tokens <= EXTRACT_TOKENS:
        yield f"The whole file:\n{row.extract}"
        return
    if row.content:
        yield f"The whole file:\n{row.content}"
    yield f"Its first lines:\n{row.extract}\n{rest}"


def _item(request: PromptRequest, row: FileRow, text: str) -> Item:
    """The file as a line of a transcript: who attached it and its name stand where a speaker's name does."""
    is_here = row.thread_id == request.thread.thread_id
    place = f"message {row.seq}" if is_here else "the message this dive started from"
    note = f"file of {place}, {format_minute(row.at)}, {row.tokens:,} tokens"
    return make_item(
        request.counter,
        section="files",
        key=f"file:{row.message_id}:{row.pk}",
        text=message_line(f"attachment:{row.pk}", f"{row.author}, {row.name}", mask_secrets(text), note=note),
        trust="untrusted",
        source=f"file of {place}",
        author=row.author,
        ref=f"attachment:{row.pk}",
        order=row.pk,
        opening=_OPENING,
    )
