"""What a message shows about its feedback: the asker's own verdict, counts, and what became of each 👎."""

from collections.abc import Sequence
from dataclasses import dataclass, field

from memory.fates import fate_words
from memory.models import Episode, Feedback
from openvibe.chat.models import Message
from openvibe.workspaces.access import Access


@dataclass(frozen=True)
class Fate:
    """One 👎 and what became of it. `words` is the chip's text, `details` the whole sentence behind it."""

    episode_id: int
    words: str
    details: str
    is_open: bool
    may_settle: bool


@dataclass(frozen=True)
class FeedbackShown:
    """The feedback line of one message, for one asker. `verdict` is empty while they gave none."""

    verdict: str = ""
    tags: tuple[str, ...] = ()
    text: str = ""
    up: int = 0
    down: int = 0
    fates: tuple[Fate, ...] = ()
    tag_choices: tuple[tuple[str, str], ...] = field(
        default_factory=lambda: tuple((str(value), str(label)) for value, label in Feedback.Tag.choices)
    )


def feedback_of(messages: Sequence[Message], access: Access) -> dict[int, dict[str, object]]:
    """`feedback` for every message of an agent that people can judge. One query; nothing for agents who ask."""
    judged = [message for message in messages if _can_be_judged(message)]
    if access.is_agent or not judged:
        return {}
    given: dict[int, list[Feedback]] = {message.pk: [] for message in judged}
    rows = Feedback.objects.filter(message__in=list(given)).select_related("participant", "episode__applied_by")
    for feedback in rows.order_by("created_at", "id"):
        given[feedback.message_id].append(feedback)
    return {message_id: {"feedback": _shown(rows, access)} for message_id, rows in given.items()}


def _can_be_judged(message: Message) -> bool:
    is_answer = message.kind in (Message.Kind.TEXT, Message.Kind.DIVE_RESULT)
    return message.author.is_agent and is_answer and not message.is_deleted and message.state != Message.State.WRITING


def _shown(rows: list[Feedback], access: Access) -> FeedbackShown:
    own = next((row for row in rows if row.participant_id == access.participant_id), None)
    return FeedbackShown(
        verdict=own.verdict if own else "",
        tags=tuple(own.tags) if own else (),
        text=own.text if own else "",
        up=sum(row.verdict == Feedback.Verdict.UP for row in rows),
        down=sum(row.verdict == Feedback.Verdict.DOWN for row in rows),
        fates=tuple(fate for row in rows if (fate := _fate(row, access)) is not None),
    )


def _fate(feedback: Feedback, access: Access) -> Fate | None:
    episode: Episode | None = getattr(feedback, "episode", None)
    if episode is None or feedback.verdict != Feedback.Verdict.DOWN:
        return None
    may_settle = access.administers or feedback.participant_id == access.participant_id
    who = "You" if feedback.participant_id == access.participant_id else feedback.participant.name
    said = f"{who}: {episode.summary}"
    return Fate(episode.pk, fate_words(episode), said, episode.applied_at is None, may_settle)
