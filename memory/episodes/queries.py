"""Feedback, episodes and proposals as pages and the API show them to an asker."""

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple

from django.db.models import Q, QuerySet

from memory.episodes.models import Episode, Feedback, Proposal
from openvibe.base.problems import Missing
from openvibe.chat.models import Message, Thread
from openvibe.chat.queries import access_by, visible_threads
from openvibe.engines.database.compiled_queries import CompiledQuery, array_literal
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant


def status_label(episode: Episode) -> str:
    """The label: Recorded → In prompt 3× → Applied by Ana, or in SOUL version 4, or Withdrawn. `applied_by` should be
    loaded."""
    if episode.applied_how == "withdrawn":
        return "Withdrawn"
    if episode.applied_at is not None:
        by = episode.applied_by.label if episode.applied_by else "somebody who has left"
        return f"Applied in SOUL version {episode.soul_version}" if episode.soul_version else f"Applied by {by}"
    words = f"In prompt {episode.prompt_count}×" if episode.prompt_count else "Recorded"
    return f"{words}, suggested for the SOUL" if episode.suggested_at else words


class FeedbackStatus(NamedTuple):
    """One 👎 and what became of it. `words` is the chip's text, `details` the whole sentence behind it; `soul_version`
    is the number of the version that applied it."""

    episode_id: int
    words: str
    details: str
    is_open: bool
    may_settle: bool
    may_apply_always: bool
    may_suggest: bool
    soul_version: int | None


@dataclass(frozen=True)
class FeedbackSummary:
    """The feedback line of one message, for one asker. `verdict` is empty while they gave none. `statuses`: each 👎 and
    what became of it."""

    verdict: str = ""
    tags: tuple[str, ...] = ()
    text: str = ""
    up: int = 0
    down: int = 0
    statuses: tuple[FeedbackStatus, ...] = ()
    tag_choices = Feedback.Tag.choices


def feedback_by_message(messages: Sequence[Message], access: Access) -> dict[int, dict[str, object]]:
    """`feedback` for every message of an agent that people can judge. One query; nothing for agents who ask."""
    by_message: dict[int, list[Feedback]] = {
        message.pk: []
        for message in messages
        if message.author.is_agent
        and message.kind in (Message.Kind.TEXT, Message.Kind.DIVE_RESULT)
        and not message.is_deleted
        and message.state != Message.State.WRITING
    }
    if access.is_agent or not by_message:
        return {}
    for feedback in _feedback_on.objects(array_literal(by_message)):
        by_message[feedback.message_id].append(feedback)
    return {message_id: {"feedback": _summarize_feedback(rows, access)} for message_id, rows in by_message.items()}


@CompiledQuery
def _feedback_on(ids: int) -> QuerySet[Feedback]:
    rows = Feedback.objects.select_related("participant", "episode__applied_by").filter(message__id__any_of=ids)
    return rows.order_by("created_at", "id")


def feedback_givers(messages: Sequence[Message]) -> dict[int, set[int]]:
    """The people whose own verdict stands at each message. One query, none where no agent's is among them."""
    ids = [message.pk for message in messages if message.author.is_agent]
    givers: defaultdict[int, set[int]] = defaultdict(set)
    if ids:
        for message_id, giver in Feedback.objects.filter(message__in=ids).values_list("message_id", "participant_id"):
            givers[message_id].add(giver)
    return givers


def _summarize_feedback(rows: list[Feedback], access: Access) -> FeedbackSummary:
    own = next((row for row in rows if row.participant_id == access.participant_id), None)
    return FeedbackSummary(
        verdict=own.verdict if own else "",
        tags=tuple(own.tags) if own else (),
        text=own.text if own else "",
        up=sum(row.verdict == Feedback.Verdict.UP for row in rows),
        down=sum(row.verdict == Feedback.Verdict.DOWN for row in rows),
        statuses=tuple(status for row in rows if (status := _feedback_status(row, access)) is not None),
    )


def _feedback_status(feedback: Feedback, access: Access) -> FeedbackStatus | None:
    episode: Episode | None = getattr(feedback, "episode", None)
    if episode is None or feedback.verdict != Feedback.Verdict.DOWN:
        return None
    is_giver, is_open = feedback.participant_id == access.participant_id, episode.applied_at is None
    return FeedbackStatus(
        episode_id=episode.pk,
        words=status_label(episode),
        details=f"{'You' if is_giver else feedback.participant.label}: {episode.summary}",
        is_open=is_open,
        may_settle=is_giver or access.administers,
        may_apply_always=is_open and access.administers and bool(feedback.text),
        may_suggest=is_open
        and is_giver
        and not access.administers
        and bool(feedback.text)
        and not episode.suggested_at,
        soul_version=episode.soul_version,
    )


def list_feedback(access: Access) -> QuerySet[Feedback]:
    """Verdicts on answers in threads the asker sees, newest first, with who gave them and what became of them; none for
    who does not administer the workspace."""
    if not access.administers:
        return Feedback.objects.none()
    rows = Feedback.objects.filter(visible_threads(access, "message__thread__"))
    return rows.select_related("participant", "message__author", "episode__applied_by").order_by("-id")


def count_open_feedback(access: Access) -> int:
    """How many thumbs down, in threads the asker sees, are neither applied nor archived."""
    rows = Episode.objects.filter(visible_threads(access, "thread__"), kind=Episode.Kind.FEEDBACK_RECEIVED)
    return rows.filter(applied_at=None, archived_at=None).count()


def visible_episodes(access: Access) -> QuerySet[Episode]:
    """An agent's own; all agents' for admins; for others those their own feedback made.

    Whatever was learned in a thread the asker may not see (any more) is not among them.
    """
    threads = Thread.objects.visible_to(access)
    episodes = Episode.objects.filter(Q(thread=None) | Q(thread__in=threads), agent__workspace_id=access.workspace_id)
    episodes = episodes.filter(archived_at=None).select_related("agent", "feedback")
    if access.is_agent:
        return episodes.filter(agent_id=access.participant_id)
    return episodes if access.administers else episodes.filter(feedback__participant_id=access.participant_id)


access_episode = access_by("pk", visible_episodes)


def access_feedback_episode(access: Access, agent: Participant, episode_id: int) -> Episode:
    """Feedback on an answer of the agent, for who may settle it: admins, and whoever gave it. Raises Missing."""
    episode = access_episode(access, episode_id)
    if episode.agent_id != agent.pk or episode.kind != Episode.Kind.FEEDBACK_RECEIVED:
        raise Missing
    return episode


def newest_open_feedback(agent: Participant, limit: int) -> set[int]:
    """The ids of that many pieces of feedback that the agent's next prompts hold."""
    return set(Episode.objects.of(agent).open_feedback().values_list("pk", flat=True)[:limit])


def visible_proposals(access: Access) -> QuerySet[Proposal]:
    """An agent's own; all agents' for admins; nobody else's. Only from threads the asker sees now."""
    threads = Thread.objects.visible_to(access)
    proposals = Proposal.objects.filter(agent__workspace_id=access.workspace_id, thread__in=threads)
    proposals = proposals.select_related("agent", "person", "decided_by")
    if access.is_agent:
        return proposals.filter(agent_id=access.participant_id)
    return proposals if access.administers else proposals.none()


access_proposal = access_by("pk", visible_proposals)


def access_workspace_episode(access: Access, episode_id: int) -> Episode:
    """An episode of the asker's workspace, learned where she may read. Raises Missing."""
    episode = (
        Episode.objects.filter(pk=episode_id, agent__workspace_id=access.workspace_id)
        .select_related("agent", "feedback__message__thread", "feedback__message__author")
        .first()
    )
    if episode is None:
        raise Missing
    threads = Thread.objects.visible_to(access)
    if episode.thread_id is not None and not threads.filter(pk=episode.thread_id).exists():
        raise Missing
    return episode


MAX_PROPOSALS = 30


@dataclass(frozen=True)
class ProposalList:
    """Those that wait first, then the newest decided; `hidden` were learned where the asker may not read."""

    waiting: QuerySet[Proposal]
    decided: QuerySet[Proposal]
    hidden: int


def list_proposals(agent: Participant, access: Access) -> ProposalList | None:
    """What the agent proposed to learn, for admins; None for everybody else. Three queries."""
    if not access.administers:
        return None
    rows = visible_proposals(access).filter(agent=agent).select_related("thread")
    waiting_proposals = rows.filter(state=Proposal.State.PROPOSED)
    decided_proposals = rows.exclude(state=Proposal.State.PROPOSED).order_by("-decided_at", "-id")
    hidden_count = Proposal.objects.filter(agent=agent).exclude(thread__in=Thread.objects.visible_to(access)).count()
    return ProposalList(waiting_proposals[:MAX_PROPOSALS], decided_proposals[:MAX_PROPOSALS], hidden_count)
