"""Correcting a summary by hand: what it said is kept with who corrected it and when, and what stands above it is
written anew."""

from django.db import connection, transaction
from django.db.models import F, Q

from memory.plugins.base import MAX_ENTRY_TOKENS, Session
from memory.plugins.lcm.integrity import forget_summaries
from memory.plugins.lcm.models import Conversation, Summary, SummaryCorrection
from memory.plugins.lcm.summary_sources import BUMP_VERSION
from openvibe.base.problems import Conflict, Problem
from openvibe.chat.services import clean_message_body
from openvibe.chat.wiring import ErasedText
from openvibe.engines.llm.tokens import count_tokens
from openvibe.engines.text.cleaning import has_visible_character
from openvibe.engines.text.masking import mask_secrets


def correct_summary(session: Session, summary: Summary, *, content: str, version: int) -> None:
    """Lets the summary say this. The same text again changes nothing.

    `version` is the one the writer saw. Raises Problem (empty, over MAX_ENTRY_TOKENS), and Conflict when the summary
    was rewritten meanwhile, or is waiting to be.
    """
    if "\x00" not in content and not has_visible_character(content):
        raise Problem("A summary needs some words. Nothing was changed.", code="empty", field="content")
    text = mask_secrets(clean_message_body(content)).strip()
    tokens = count_tokens(text)
    if tokens > MAX_ENTRY_TOKENS:
        raise Problem(
            f"A summary takes at most {MAX_ENTRY_TOKENS:,} tokens, and this has {tokens:,}. Nothing was changed:"
            " shorten it, and save it again.",
            code="too_long",
            field="content",
        )
    with transaction.atomic():
        Conversation.objects.select_for_update().get(pk=summary.conversation_id)
        summary.refresh_from_db()
        if summary.stale or summary.version != version:
            raise Conflict(
                "This summary was written anew while you were correcting it. Nothing was changed: look at what it says"
                " now, and correct that.",
                code="changed_meanwhile",
            )
        if text == summary.content:
            return
        SummaryCorrection.objects.create(
            summary=summary,
            author_id=session.access.participant_id,
            version=version + 1,
            previous=summary.content,
            content=text,
        )
        Summary.objects.filter(pk=summary.pk).update(
            content=text, token_count=tokens, level=Summary.Level.CORRECTED, version=F("version") + 1
        )
        with connection.cursor() as cursor:
            cursor.execute(BUMP_VERSION, {"conversation": summary.conversation_id})
        containers = list(summary.containers.values_list("pk", flat=True))
        if containers:
            forget_summaries(summary.conversation_id, containers)


def forget_quoting_summaries(erased: ErasedText) -> int:
    """Has those summaries of the thread written anew into which a person wrote a message that they were not made from;
    and those that had such a one as earlier context. Returns how many. How many.

    What a message is a source of lost its words in the moment of the change, by a trigger. What another summary repeats
    of it, messages that stand still say: written anew in each pass it would say the same.
    """
    of_thread = Summary.objects.filter(conversation__thread=erased.thread_id, stale=False).order_by("first_seq")
    corrected = (one for one in of_thread if one.level == Summary.Level.CORRECTED)
    quoting = [one for one in corrected if erased.quotation.is_in(one.content)]
    corrections = SummaryCorrection.objects.filter(summary__conversation__thread=erased.thread_id)
    later_corrections = corrections.filter(created_at__gte=erased.quotable_since)
    correction_texts = later_corrections.values_list("pk", "previous", "content")
    repeating = [pk for pk, *texts in correction_texts if erased.quotation.is_in("\n".join(texts))]
    corrections.filter(Q(pk__in=repeating) | Q(summary__in=quoting)).update(previous="", content="")
    if not quoting:
        return 0
    later = [
        one.pk for one in of_thread if any(one.source_from_seq <= other.last_seq < one.first_seq for other in quoting)
    ]
    forget_summaries(quoting[0].conversation_id, [*(one.pk for one in quoting), *later])
    return len(quoting)
