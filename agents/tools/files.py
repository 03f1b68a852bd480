"""Reading files that are attached to messages, in pieces."""

from functools import partial
from typing import Any

from agents.prompts.assembler.sections.files import READ_TOOL
from agents.tools.values import STRING_SCHEMA, Tool, ToolContext, thread_source, tool_spec
from openvibe.base.params import MAX_ID
from openvibe.base.problems import Missing
from openvibe.chat.models import Attachment
from openvibe.chat.queries import attachments_of_thread, has_attachments, page_word, read_attachment

DEFAULT_PIECE_TOKENS, MAX_PIECE_TOKENS = 2_000, 3_800
"""Tokens of one piece: unless said otherwise, and at most, so that a result holds it with what is said about it."""

MAX_WORDS = 200
"""Characters of the words that are looked for."""

READ_SPEC = tool_spec(
    READ_TOOL,
    "Read attachment:id from character offset or page (slide, sheet), at most limit tokens; find: from the next line "
    "with it.",
    required={"id": {"type": "integer"}},
    optional={
        "offset": {"type": "integer"},
        "page": {"type": "integer"},
        "limit": {"type": "integer"},
        "find": STRING_SCHEMA,
    },
)


def read_file(context: ToolContext) -> Tool | None:
    """The tool, in threads that have files. What it tells of is the thread: its files are for who sees it."""
    if not has_attachments(context.access, context.thread.pk):
        return None
    return Tool(READ_SPEC, partial(_read_piece, context), sources=thread_source(context.thread))


def _read_piece(context: ToolContext, arguments: dict[str, Any]) -> str:
    file = _access_file(context, arguments["id"])
    offset = min(max(arguments.get("offset", 0), 0), MAX_ID)
    limit = min(max(arguments.get("limit", DEFAULT_PIECE_TOKENS), 1), MAX_PIECE_TOKENS)
    if not file.content:
        return f"{file.name}: {file.problem}"
    piece = read_attachment(
        file, offset=offset, limit=limit, words=arguments.get("find", "")[:MAX_WORDS], page=arguments.get("page")
    )
    page = f"{page_word(file.format)} {piece.page}, " if piece.page else ""
    place = f"{page}characters {piece.start:,} to {piece.end:,} of {piece.total:,}"
    end = f"This is its end. {file.problem}".strip()
    rest = end if piece.next_offset is None else f"Go on with offset {piece.next_offset}."
    return f"{file.name}, {place}. {rest}\n{piece.text}"


def _access_file(context: ToolContext, number: int) -> Attachment:
    """The file of this thread with that number: an id from elsewhere is answered as an unknown one."""
    files = attachments_of_thread(context.access, context.thread.pk).defer(None)  # read whole: it may go at any time
    file = files.filter(pk=number).first() if 0 < number <= MAX_ID else None
    if file is None:
        raise Missing(f"There is no attachment:{number} in this thread.")
    return file
