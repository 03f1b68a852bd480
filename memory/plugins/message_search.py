"""Search in messages for the memory tool, and reading them in pieces: the search of the search page
(`openvibe.chat.queries`), in the session's thread, or in all that its asker sees and its readers may.

What memory ignores, and what is for people only, is found in no other thread. What an agent finds elsewhere is for
everybody who reads its answers (`SHOWN_MESSAGES`)."""

import unicodedata
from collections.abc import Callable
from typing import Any, Final

from django.db.models import QuerySet
from django.urls import reverse

from memory.plugins.base import MemoryHit, MessagePiece, Session, TextPiece
from memory.plugins.sessions import messages_for_prompts, prompt_messages
from memory.plugins.thread_modes import unremembered_threads
from openvibe.base.params import MAX_ID
from openvibe.base.problems import Missing
from openvibe.chat.queries import MessageQuery, best_messages, cut_excerpt, parse_message_query, search_messages
from openvibe.engines.registers import Register
from openvibe.engines.search.expressions import parse_expression
from openvibe.engines.search.lexemes import find_matches
from openvibe.workspaces.access import Access

MAX_SNIPPET_CHARACTERS: Final = 500
MAX_HITS: Final = 100
MAX_PIECE_TOKENS: Final = 3_000
"""Tokens of one piece of a message: with what is said about it, an answer of the tool holds it."""

SEARCHED_KINDS: Final = ("text", "dive_result", "tool_call", "tool_result")

Messages = QuerySet[Any, Any]
ShownMessages = Callable[[Messages, Access, int], Messages]
SHOWN_MESSAGES: Register[ShownMessages] = Register("memory.plugins.message_search.SHOWN_MESSAGES")
"""Narrows messages of other threads to those that everybody may see who reads what an agent answers in a thread."""


class SearchMixin:
    """Searcher and MessageReader over the messages themselves, the same for every plugin."""

    def search(self, session: Session, query: str, limit: int = 20) -> list[MemoryHit]:
        return find_in_thread(session, parse_message_query(query), limit)

    def search_everywhere(self, session: Session, query: str, limit: int = 20) -> list[MemoryHit]:
        return _find(session, _messages_everywhere(session), parse_message_query(query), limit)

    def read_message(
        self, session: Session, number: int, *, offset: int = 0, thread_id: int | None = None
    ) -> MessagePiece:
        messages = _messages_here(session) if thread_id is None else _messages_everywhere(session)
        message = (
            messages.filter(thread=thread_id or session.thread_id, seq=min(number, MAX_ID))
            .select_related("thread__workspace", "thread__channel", "author")
            .first()
        )
        if message is None:
            raise Missing(f"There is no message #{number} to read there.")
        piece = cut_excerpt(message.body, offset, MAX_PIECE_TOKENS)
        (hit,) = _hits(session, [message], lambda body: piece.text)
        return MessagePiece(hit, TextPiece(piece.text, piece.start, piece.end, piece.total))


def find_in_thread(session: Session, query: MessageQuery, limit: int) -> list[MemoryHit]:
    """Messages of the session's thread. See `_find`."""
    return _find(session, _messages_here(session), query, limit)


def _find(session: Session, messages: Messages, query: MessageQuery, limit: int) -> list[MemoryHit]:
    """Those that hold all that is asked for, in any form of the words, the best first; where none does, those that bear
    on it. Without words the newest. At most `limit`, and MAX_HITS."""
    limit = min(limit, MAX_HITS)
    if query.is_empty or limit < 1:
        return []
    access = session.access
    asked = messages & _asked_messages(access, query, query.words)
    found = _best(access, query.words, asked, limit)
    if len(found) < limit:  # what the ranking looks at has an end
        others = asked.exclude(pk__in=[message.pk for message in found])
        found += others.select_related("thread__workspace", "thread__channel", "author")[: limit - len(found)]
    if not found:
        found = _best(access, query.words, messages & _asked_messages(access, query, ""), limit)
    literal = normalized(query.words.strip('"“”„'))
    found.sort(key=lambda message: literal not in normalized(message.body))  # what stands there sign by sign, first
    return _hits(session, found, lambda body: make_snippet(body, query.words))


def _asked_messages(access: Access, query: MessageQuery, words: str) -> Messages:
    found = search_messages(access, words, author=query.author, since=query.since, until=query.until)
    return found.select_related(None)


def _best(access: Access, words: str, messages: Messages, limit: int) -> list[Any]:
    related = messages.select_related("thread__workspace", "thread__channel", "author")
    return best_messages(access, words, related, max_hits=limit, kinds=SEARCHED_KINDS, are_few=True, has_operators=True)


def _messages_here(session: Session) -> Messages:
    return prompt_messages(session) & search_messages(session.access, "")


def _messages_everywhere(session: Session) -> Messages:
    """Messages of this thread, and of others that are remembered, as far as asker and readers see them."""
    access = session.access
    elsewhere = messages_for_prompts(access, thread__workspace_id=access.workspace_id)
    elsewhere = elsewhere.exclude(thread=session.thread_id).exclude(
        thread__in=unremembered_threads(access.workspace_id)
    )
    if access.is_agent:
        elsewhere = SHOWN_MESSAGES.only()(elsewhere, access, session.thread_id)
    return (prompt_messages(session) | elsewhere) & search_messages(access, "")


def _hits(session: Session, messages: list[Any], shorten: Callable[[str], str]) -> list[MemoryHit]:
    """The messages as hits; those of other threads say where they stand."""
    hits = []
    for message in messages:
        is_here = message.thread_id == session.thread_id
        hits.append(
            MemoryHit(
                "message",
                message.pk,
                message.seq,
                message.author.label,
                message.created_at.isoformat(),
                shorten(message.body),
                thread_id=None if is_here else message.thread_id,
                place="" if is_here else f"{message.thread.channel}, “{message.thread.title}”",
                link="" if is_here else reverse("message", args=[message.thread.workspace.slug, message.pk]),
            )
        )
    return hits


def normalized(text: str) -> str:
    """The text with composed characters, whatever its case."""
    return unicodedata.normalize("NFC", text).casefold()


def make_snippet(text: str, words: str) -> str:
    """A snippet of at most MAX_SNIPPET_CHARACTERS around the first place where what is asked for stands."""
    if len(text) <= MAX_SNIPPET_CHARACTERS:
        return text
    expression = parse_expression(words)
    position, end = next(iter(find_matches(text, expression.question, *expression.prefixes)), (0, 0))
    room = max(1, (MAX_SNIPPET_CHARACTERS - (end - position)) // 3)
    start = max(0, min(position - room, len(text) - MAX_SNIPPET_CHARACTERS))
    before, after = "…" if start else "", "…" if start + MAX_SNIPPET_CHARACTERS < len(text) else ""
    return before + text[start + len(before) : start + MAX_SNIPPET_CHARACTERS - len(after)] + after
