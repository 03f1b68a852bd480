"""What people and agents wrote down that repeats a message: what memory adds to the places where its words may still
stand. Work, progress and approvals, what agents learned or would learn, blocks, notes, handoffs and summaries."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from django.db.models import Model, QuerySet
from django.urls import reverse

from memory.blocks.models import Block, ProfileNote
from memory.episodes.models import Episode, Feedback, Proposal
from memory.episodes.proposals import delete_proposal
from memory.episodes.queries import access_workspace_episode, visible_episodes, visible_proposals
from memory.episodes.services import delete_episode, withdraw_feedback
from memory.plugins.lcm.models import Summary
from memory.work.models import Approval, Handoff, ProgressEntry, WorkItem
from memory.work.services import delete_progress, may_erase_work, redact_work_item
from openvibe.base.problems import Missing, Refused
from openvibe.base.quotation import Quotation
from openvibe.chat.models import Message, Thread
from openvibe.chat.wiring import QuoteKind, QuotePlace, QuotingText
from openvibe.workspaces.access import Access

Describe = Callable[[Any, Access, str], QuotePlace]


def _texts_of(model: type[Model], fields: Sequence[str], owner: str, workspace: str, since: str) -> Any:
    """What reads the rows of a model that were written or changed since a message; its fields in words."""

    def texts(message: Message, quotation: Quotation) -> Iterator[QuotingText]:
        place = {workspace: message.thread.workspace_id, f"{since}__gte": quotation.since(message.created_at)}
        rows = model._default_manager.filter(**place).order_by()
        for pk, owner_id, *values in rows.values_list("pk", owner, *fields).iterator(500):
            words = (value if isinstance(value, str) else json.dumps(value, ensure_ascii=False) for value in values)
            yield QuotingText(pk, "\n\n".join(words), owner_id)

    return texts


def _places_of(visible: Callable[[Access], QuerySet[Any]], describe: Describe) -> Any:
    def places(access: Access, refs: Sequence[int], slug: str) -> Mapping[int, QuotePlace]:
        return {row.pk: describe(row, access, slug) for row in visible(access).filter(pk__in=refs)}

    return places


def _in_seen_threads(model: type[Model], *related: str, **conditions: Any) -> Callable[[Access], QuerySet[Any]]:
    def visible(access: Access) -> QuerySet[Any]:
        threads = Thread.objects.visible_to(access).order_by().values("pk")
        return model._default_manager.filter(thread__in=threads, **conditions).select_related("thread", *related)

    return visible


def _access_row(rows: QuerySet[Any], ref: int) -> Any:
    row = rows.filter(pk=ref).first()
    if row is None:
        raise Missing
    return row


def _refuse(advice: str) -> Callable[[int, Access], None]:
    def refuse(ref: int, by: Access) -> None:
        raise Refused(advice, code="not_here")

    return refuse


ASK_AUTHOR = "Whoever wrote it, or an admin, can delete it."
ASK_GIVER = "Whoever gave it can take it back."
_work_items = _in_seen_threads(WorkItem, "author")
_progress = _in_seen_threads(ProgressEntry, "author")


def _describe_work(row: WorkItem, access: Access, slug: str) -> QuotePlace:
    may_delete = may_erase_work(row.author, access)
    label = str(WorkItem.Kind(row.kind).label)
    href = reverse("thread-work", args=[slug, row.thread_id])
    return QuotePlace(f"{label} in “{row.thread.title}”", href, may_delete, "" if may_delete else ASK_AUTHOR)


def _describe_progress(row: ProgressEntry, access: Access, slug: str) -> QuotePlace:
    may_delete = may_erase_work(row.author, access)
    href = reverse("thread-work", args=[slug, row.thread_id])
    return QuotePlace(f"Progress log of “{row.thread.title}”", href, may_delete, "" if may_delete else ASK_AUTHOR)


DECISION_STAYS = "What was asked and decided is kept as it was: a decision is final."


def _describe_approval(row: Approval, access: Access, slug: str) -> QuotePlace:
    href = reverse("thread-work", args=[slug, row.thread_id])
    return QuotePlace(f"An approval in “{row.thread.title}”", href, False, DECISION_STAYS)


UNDO_FIRST = "It is in force. Undo it on the agent's page, then delete it."


def _describe_proposal(row: Proposal, access: Access, slug: str) -> QuotePlace:
    in_force = row.state == Proposal.State.ACCEPTED
    href = reverse("agent", args=[slug, row.agent.handle])
    return QuotePlace(
        f"What @{row.agent.handle} would learn",
        href,
        not in_force and access.administers,
        UNDO_FIRST if in_force else "",
    )


def _describe_episode(row: Episode, access: Access, slug: str) -> QuotePlace:
    is_own = row.feedback is not None and row.feedback.participant_id == access.participant_id
    what = "Feedback for" if row.kind == Episode.Kind.FEEDBACK_RECEIVED else "What was learned by"
    href = reverse("agent", args=[slug, row.agent.handle])
    return QuotePlace(f"{what} @{row.agent.handle}", href, access.administers or is_own, "")


def _visible_feedback(access: Access) -> QuerySet[Feedback]:
    """One's own, and for admins everybody's, on messages the asker sees."""
    visible_messages = Message.objects.visible_to(access).order_by().values("pk")
    feedback = Feedback.objects.filter(message__in=visible_messages).select_related("message__author", "participant")
    return feedback if access.administers else feedback.filter(participant=access.participant_id)


def _describe_feedback(row: Feedback, access: Access, slug: str) -> QuotePlace:
    is_own = row.participant_id == access.participant_id
    title = f"Feedback of {row.participant.label} on a message of {row.message.author.label}"
    return QuotePlace(title, reverse("message", args=[slug, row.message_id]), is_own, "" if is_own else ASK_GIVER)


def _withdraw_quoting_feedback(ref: int, by: Access) -> None:
    row = _access_row(_visible_feedback(by), ref)
    if row.participant_id != by.participant_id:
        raise Refused(ASK_GIVER)
    for episode in Episode.objects.filter(feedback=row):
        delete_episode(episode=episode, by=by)
    withdraw_feedback(message=row.message, by=by)


def _visible_blocks(access: Access) -> QuerySet[Block]:
    blocks = Block.objects.filter(agent__workspace_id=access.workspace_id).select_related("agent")
    if access.is_guest:
        return blocks.none()
    return blocks.filter(agent=access.participant_id) if access.is_agent else blocks


EDIT_BLOCK = "An admin can edit or delete the block."


def _describe_block(row: Block, access: Access, slug: str) -> QuotePlace:
    href = reverse("agent-blocks", args=[slug, row.agent.handle])
    return QuotePlace(f"Context block “{row.label}” of @{row.agent.handle}", href, False, EDIT_BLOCK)


def _visible_notes(access: Access) -> QuerySet[ProfileNote]:
    notes = ProfileNote.objects.filter(agent__workspace_id=access.workspace_id).select_related("agent", "person")
    if access.administers:
        return notes
    return notes.filter(agent=access.participant_id) if access.is_agent else notes.filter(person=access.participant_id)


CLEAR_NOTES = "An admin can edit them, and whom they are about can clear them."


def _describe_notes(row: ProfileNote, access: Access, slug: str) -> QuotePlace:
    href = reverse("agent-notes", args=[slug, row.agent.handle, row.person.handle])
    return QuotePlace(f"Notes of @{row.agent.handle} about {row.person.name}", href, False, CLEAR_NOTES)


_handoffs = _in_seen_threads(Handoff)


def _describe_handoff(row: Handoff, access: Access, slug: str) -> QuotePlace:
    href = reverse("work-handoff", args=[slug, row.thread_id, row.pk])
    advice = "" if access.administers else "An admin can delete it."
    return QuotePlace(f"Handoff in “{row.thread.title}”", href, access.administers, advice)


def _delete_handoff(ref: int, by: Access) -> None:
    if not by.administers:
        raise Refused("Only owners and admins delete a handoff.")
    _access_row(_handoffs(by), ref).delete()


def _visible_summaries(access: Access) -> QuerySet[Summary]:
    threads = Thread.objects.visible_to(access).exclude(access=Thread.Access.HUMAN_ONLY).order_by().values("pk")
    return Summary.objects.filter(conversation__thread__in=threads).select_related("conversation__thread")


def _quoting_summaries(message: Message, quotation: Quotation) -> Iterator[QuotingText]:
    """Summaries of the message's thread: no other thread's summaries are told of it."""
    since = quotation.since(message.created_at)
    rows = Summary.objects.filter(conversation__thread=message.thread_id, created_at__gte=since)
    return (QuotingText(pk, content, None) for pk, content in rows.order_by().values_list("pk", "content"))


REWRITTEN_BY_ITSELF = "It is written anew by itself, without the message; what other messages say of it stays."


def _describe_summary(row: Summary, access: Access, slug: str) -> QuotePlace:
    thread = row.conversation.thread
    title = f"Summary of messages {row.first_seq} to {row.last_seq} of “{thread.title}”"
    if row.stale:
        title += ", being written anew"
    return QuotePlace(title, reverse("thread-memory", args=[slug, thread.pk]), False, REWRITTEN_BY_ITSELF)


IN_THREAD = ("thread__workspace", "created_at")
OF_AGENT = "agent__workspace"

MEMORY_QUOTES = (
    QuoteKind(
        "work",
        "Work",
        _texts_of(WorkItem, ("text", "data"), "author", "thread__workspace", "updated_at"),
        _places_of(_work_items, _describe_work),
        lambda ref, by: redact_work_item(item=_access_row(_work_items(by), ref), by=by),
    ),
    QuoteKind(
        "progress",
        "Progress",
        _texts_of(
            ProgressEntry, ("checkpoint", "changed", "evidence", "open_issues", "next_action"), "author", *IN_THREAD
        ),
        _places_of(_progress, _describe_progress),
        lambda ref, by: delete_progress(entry=_access_row(_progress(by), ref), by=by),
    ),
    QuoteKind(
        "approval",
        "Approval",
        _texts_of(Approval, ("what", "reason", "note"), "requested_by", "thread__workspace", "updated_at"),
        _places_of(_in_seen_threads(Approval), _describe_approval),
        _refuse(DECISION_STAYS),
    ),
    QuoteKind(
        "proposal",
        "Proposal",
        _texts_of(Proposal, ("text", "before", "because"), "agent", OF_AGENT, "created_at"),
        _places_of(visible_proposals, _describe_proposal),
        lambda ref, by: delete_proposal(proposal=_access_row(visible_proposals(by), ref), by=by),
    ),
    QuoteKind(
        "episode",
        "Episode",
        _texts_of(Episode, ("summary", "learning"), "agent", OF_AGENT, "created_at"),
        _places_of(visible_episodes, _describe_episode),
        lambda ref, by: delete_episode(episode=access_workspace_episode(by, ref), by=by),
    ),
    QuoteKind(
        "feedback",
        "Feedback",
        _texts_of(Feedback, ("text",), "participant", "message__thread__workspace", "updated_at"),
        _places_of(_visible_feedback, _describe_feedback),
        _withdraw_quoting_feedback,
    ),
    QuoteKind(
        "block",
        "Context block",
        _texts_of(Block, ("content", "description"), "agent", OF_AGENT, "updated_at"),
        _places_of(_visible_blocks, _describe_block),
        _refuse(EDIT_BLOCK),
    ),
    QuoteKind(
        "notes",
        "Notes",
        _texts_of(ProfileNote, ("content",), "person", OF_AGENT, "updated_at"),
        _places_of(_visible_notes, _describe_notes),
        _refuse(CLEAR_NOTES),
    ),
    QuoteKind(
        "handoff",
        "Handoff",
        _texts_of(Handoff, ("sections",), "thread__created_by", *IN_THREAD),
        _places_of(_handoffs, _describe_handoff),
        _delete_handoff,
    ),
    QuoteKind(
        "summary",
        "Summary",
        _quoting_summaries,
        _places_of(_visible_summaries, _describe_summary),
        _refuse(REWRITTEN_BY_ITSELF),
    ),
)
"""Each kind: which texts it has, where they stand for whom, and how one is erased."""
