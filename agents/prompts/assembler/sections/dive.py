"""Dives in prompts: a dive's own source (P1), and for the thread the headlines of what its dives brought (P5).

A dive's context is its source message and its own messages, not the thread around it and not other dives.
"""

from collections.abc import Collection, Iterable, Iterator
from dataclasses import replace
from datetime import datetime
from functools import lru_cache
from typing import Any, NamedTuple

from django.db.models import QuerySet

from agents.prompts.assembler.items import (
    FitResult,
    Item,
    SectionCandidates,
    begin_transcript,
    data_block,
    format_minute,
    make_item,
    section_candidates,
    shorten_message,
)
from agents.prompts.assembler.sections.request import PromptRequest, author_trust
from openvibe.chat.models import DiveResult, Message
from openvibe.engines.database.compiled_queries import CompiledQuery, row_columns
from openvibe.engines.llm.offline.drafts import DRAFT_FORMAT, render_draft
from openvibe.engines.llm.tokens import TokenCounter
from openvibe.engines.llm.transcripts import message_line, one_line, opening

SOURCE_CAP_DIVISOR = 3
"""The source takes at most one in so many tokens of P1."""

SOURCE_LABEL = "the message this dive started from"

MAX_DIVE_RESULTS = 40
"""Results of dives whose headlines prompts show, the newest first."""


def draft_format_candidates(request: PromptRequest) -> SectionCandidates:
    """The format of a draft for the task `publish`: what a result is made of, trusted and in full."""
    entries = [_draft_format_item(request.counter)] if request.task == "publish" else []
    return section_candidates("instructions", entries, required=True)


@lru_cache(maxsize=16)
def _draft_format_item(counter: TokenCounter) -> Item:
    return make_item(
        counter,
        section="instructions",
        key="instructions:draft",
        text=f"## Instructions (this task)\n{DRAFT_FORMAT}",
        trust="trusted",
        source="how a result is drafted",
        order=9,
    )


def source_candidates(request: PromptRequest) -> SectionCandidates:
    """What the dive started from: the message, a result in all its parts. Nothing of a deleted one."""
    if request.thread.dive_source_id is None:
        return section_candidates("source", ())
    messages = Message.objects.visible_to(request.access).filter(pk=request.thread.dive_source_id, deleted_at=None)
    message = messages.select_related("author").first()
    return section_candidates("source", [_source_item(request, message)] if message else [])


def _source_item(request: PromptRequest, message: Message) -> Item:
    result = DiveResult.objects.filter(message=message).first()
    limit = (request.budget.caps["P1"] or request.budget.ceiling) // SOURCE_CAP_DIVISOR
    text = render_draft(result.parts) if result else message.body
    trust = author_trust(message.author.kind, is_own=message.author_id == request.agent.participant_id)
    ref = f"source:{message.seq}"
    words = shorten_message(text, limit, request.counter, ref=f"{message.seq} of the thread")
    line = make_item(
        request.counter,
        section="source",
        key=f"message:{message.pk}",
        text=message_line(ref, message.author.label, words, note=format_minute(message.created_at)),
        trust=trust,
        source=SOURCE_LABEL,
        author=message.author.label,
        ref=ref,
        opening=opening(trust, source=SOURCE_LABEL),
    )
    return begin_transcript(request.counter, line)


class DiveResultRow(NamedTuple):
    """The result of a dive of this thread."""

    message_id: int
    seq: int
    headline: str
    publisher: str
    at: datetime


@CompiledQuery
def _dive_results(thread_id: int) -> QuerySet[Any, Any]:
    """What dives of this thread brought, the newest first."""
    results = DiveResult.objects.filter(dive__parent=thread_id, message__deleted_at=None).order_by("-message_id")
    columns = row_columns(DiveResultRow, seq="message__seq", publisher="published_by__label", at="published_at")
    return results.values_list(*columns)[:MAX_DIVE_RESULTS]


def headline_candidates(request: PromptRequest) -> SectionCandidates:
    """Results of this thread's dives that stand before the request, the newest first.

    A result whose message is in view itself is not named a second time: the two share their key. Nothing for those
    whose level keeps results out.
    """
    rows = _dive_results.rows(request.thread.thread_id) if request.access.reads_dive_results else []
    earlier = (result for result in map(DiveResultRow._make, rows) if result.seq < request.end_seq)
    return section_candidates("dives", (_headline_item(request.counter, result) for result in earlier))


def without_headlines(
    sections: Iterable[SectionCandidates], fit_result: FitResult, result_keys: Collection[str]
) -> Iterator[SectionCandidates]:
    """The sections without the headlines of these results, which stand in the prompt themselves. No other headline
    takes their place, so that what is added for them fits."""
    kept_keys = {item.key for item in fit_result.included}.difference(result_keys)
    for section in sections:
        if section.section != "dives":
            yield section
            continue
        kept = tuple(group for group in section.groups if group.items[0].key in kept_keys)
        others = tuple(group for group in section.groups if group.items[0].key not in kept_keys)
        yield from (replace(section, groups=kept), replace(section, groups=others, cap=0))


@lru_cache(maxsize=2_048)
def _headline_item(counter: TokenCounter, result: DiveResultRow) -> Item:
    ref = str(result.seq)
    block = data_block(
        one_line(result.headline),
        source="dive result",
        ref=ref,
        author=result.publisher,
        trust="semi_trusted",
        time=format_minute(result.at),
    )
    return make_item(
        counter,
        section="dives",
        key=f"message:{result.message_id}",
        text=block,
        trust="semi_trusted",
        source=f"result of a dive, message {ref}",
        author=result.publisher,
        ref=ref,
        order=result.seq,
    )
