"""Files (P1): what is attached to messages of the thread, and of a dive to the message it started from.

A small file that came with the request, or shortly before it, stands whole; of all others the name and the first
lines, or the name alone where room is short. Of a long one that is near, or that the request names, the pieces stand
that bear on the request, each with its page. Agents read on with the tool `read_file`."""

from collections.abc import Collection, Iterator, Sequence
from dataclasses import replace
from datetime import datetime
from itertools import zip_longest
from typing import Any, NamedTuple

from django.db.models import Case, Q, QuerySet, TextField, Value, When
from django.template.defaultfilters import pluralize

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
from openvibe.chat.queries import Piece, bearing_pieces, page_word, paged_text
from openvibe.engines.database.compiled_queries import CompiledQuery, array_literal, row_columns
from openvibe.engines.llm.transcripts import message_line, opening
from openvibe.engines.text.masking import mask_secrets
from openvibe.engines.text.words import query_terms

MAX_FILES = 20
"""Files that a prompt names, the newest."""

WHOLE_FILE_TOKENS = 2_000
"""Tokens of a file that may stand whole."""

NEAR_MESSAGES = 5
"""A file of the request, or of one of so many messages before it, may stand whole."""

SHOWN_CAP, SHOWN_DIVISOR, NAMES_CAP = 2_400, 3, 700
"""Tokens of the files that are shown, at most one in so many of the ceiling, and of those that are only named."""

MAX_CUT_FILES = 3
"""Long files of which pieces are looked for: the newest that are near or named."""

PIECE_CHARACTERS, MAX_PIECES = 1_600, 16
"""The most characters of a piece, some 400 tokens, and the most pieces of one file that may stand in a prompt."""

PIECES_CAP, PIECES_DIVISOR = 3_200, 4
"""Tokens of all pieces, at most one in so many of the ceiling."""

MAX_PIECES_OF_FILE = 100_000
"""More than a file has: pieces stand after their file, in its order."""

READ_TOOL = "read_file"

_OPENING = opening("untrusted", attached="yes")


class FileRow(NamedTuple):
    """A file and the message it belongs to. `content` is empty unless it may stand whole; `problem` says why it, or
    what is not in it, cannot be read."""

    pk: int
    name: str
    form: str
    pages: int | None
    problem: str
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
        form="format",
        pages="page_count",
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
    names = [_item(request, row, row.problem if not row.tokens else rest) for row in rows]
    frame = opening_tokens(request.counter, "dynamic", _OPENING)
    shown_cap = min(SHOWN_CAP, request.budget.ceiling // SHOWN_DIVISOR)
    pieces_cap = min(PIECES_CAP, request.budget.ceiling // PIECES_DIVISOR)
    sections = [
        section_candidates("files", forms, cap=shown_cap, beyond_layer_cap=True),
        section_candidates("files", names, cap=NAMES_CAP, beyond_layer_cap=True),
        section_candidates("files", _pieces(request, rows, near_seq), cap=pieces_cap, beyond_layer_cap=True),
    ]
    return [replace(section, frame=frame) for section in sections if section.groups]


def _shown_texts(row: FileRow, rest: str) -> Iterator[str]:
    """The fullest first. `rest` stands where something is left out."""
    if not row.tokens:
        yield row.problem
        return
    end = f"\n({row.problem})" if row.problem else ""
    if row.content or row.tokens <= EXTRACT_TOKENS:
        text = paged_text(row.content, row.form).text if row.content else row.extract
        yield f"The whole file:\n{text}{end}"
    if row.tokens <= EXTRACT_TOKENS:
        return
    yield f"Its first lines:\n{row.extract}\n{rest}{end}"


def _pieces(request: PromptRequest, rows: Sequence[FileRow], near_seq: int) -> list[Item]:
    """The pieces of long files that bear on the request: of all files together, the best of each first."""
    words = query_terms(request.message.text)
    asked = request.message.text.casefold()
    long_rows = [
        row
        for row in rows
        if row.tokens > max(EXTRACT_TOKENS, WHOLE_FILE_TOKENS)
        and (row.seq >= near_seq or row.thread_id != request.thread.thread_id or _stem(row.name) in asked)
    ][:MAX_CUT_FILES]
    if not words or not long_rows:
        return []
    contents = dict(_contents.rows(array_literal(row.pk for row in long_rows)))  # one may be gone meanwhile
    ranked = [
        [
            _piece_item(request, row, piece)
            for piece in bearing_pieces(
                contents.get(row.pk, ""), row.form, words, most=PIECE_CHARACTERS, count=MAX_PIECES
            )
        ]
        for row in long_rows
    ]
    return [item for items in zip_longest(*ranked) for item in items if item is not None]


@CompiledQuery
def _contents(ids: int) -> QuerySet[Any, Any]:
    return Attachment.objects.filter(id__any_of=ids).order_by().values_list("pk", "content")


def _stem(name: str) -> str:
    """A file's name without its ending."""
    return (name.rpartition(".")[0] or name).casefold()


def _item(request: PromptRequest, row: FileRow, text: str) -> Item:
    """The file as a line of a transcript: who attached it and its name stand where a speaker's name does."""
    place = _place(request, row)
    word = page_word(row.form)
    pages = f", {row.pages:,} {word}{pluralize(row.pages)}" if row.pages is not None else ""
    note = f"file of {place}, {format_minute(row.at)}{pages}, {row.tokens:,} tokens"
    key, source = f"file:{row.message_id}:{row.pk}", f"file of {place}"
    return _make_item(request, row, text, key=key, name=row.name, note=note, source=source)


def _piece_item(request: PromptRequest, row: FileRow, piece: Piece) -> Item:
    """A piece under the words by which it is cited: report.pdf, page 3."""
    words = f"{page_word(row.form)} {piece.page:,}" if piece.page else f"part {piece.number:,}"
    key, source = f"piece:{row.message_id}:{row.pk}:{piece.number}", f"{words} of {row.name}"
    name = f"{row.name}, {words}"
    return _make_item(request, row, piece.text, key=key, name=name, source=source, order=piece.number)


def _place(request: PromptRequest, row: FileRow) -> str:
    is_here = row.thread_id == request.thread.thread_id
    return f"message {row.seq}" if is_here else "the message this dive started from"


def _make_item(
    request: PromptRequest, row: FileRow, text: str, *, key: str, name: str, source: str, note: str = "", order: int = 0
) -> Item:
    return make_item(
        request.counter,
        section="files",
        key=key,
        text=message_line(f"attachment:{row.pk}", f"{row.author}, {name}", mask_secrets(text), note=note),
        trust="untrusted",
        source=source,
        author=row.author,
        ref=f"attachment:{row.pk}",
        order=row.pk * MAX_PIECES_OF_FILE + order,
        opening=_OPENING,
    )
