"""Services that put emoji on messages and take them away. A reaction is not feedback: no prompt holds it."""

from __future__ import annotations

from django.db import transaction

from openvibe.base.events import emit
from openvibe.base.problems import Missing, Problem, Refused
from openvibe.chat.models import MAX_EMOJI_CODE_POINTS, MAX_EMOJI_OF_MESSAGE, Message, Reaction
from openvibe.chat.services.permissions import check_not_archived
from openvibe.workspaces.access import Access

OFFERED_EMOJI = ("👍", "❤️", "😄", "🎉", "👀", "🙏", "✅", "🚀")
"""What a page offers; any other can be typed."""


def clean_emoji(text: str) -> str:
    """One emoji in its fully qualified form: of ❤ and ❤️, and of `:heart:`, the second. Raises Problem."""
    import emoji as catalogue  # 7 MB: only in processes where somebody reacts

    stripped_text = text.strip()
    if stripped_text.startswith(":"):
        stripped_text = catalogue.emojize(stripped_text[:80].lower(), language="alias")
    status = catalogue.EMOJI_DATA.get(stripped_text, {}).get("status", catalogue.STATUS["component"])
    if status == catalogue.STATUS["component"] or len(stripped_text) > MAX_EMOJI_CODE_POINTS:
        raise Problem("React with one emoji, such as 👍 or :tada:.", code="bad_emoji", field="emoji")
    return str(catalogue.emojize(catalogue.demojize(stripped_text)))


@transaction.atomic
def add_reaction(*, message: Message, by: Access, emoji: str) -> Reaction:
    """Puts an emoji on a message that `by` sees; there already, it stays.

    Raises Problem for what is no emoji, Refused in an archived thread and for one more than a message may have.
    """
    cleaned = clean_emoji(emoji)
    current = _lock_message(message)
    emoji_in_use = set(Reaction.objects.filter(message=current).values_list("emoji", flat=True).distinct())
    if cleaned not in emoji_in_use and len(emoji_in_use) >= MAX_EMOJI_OF_MESSAGE:
        raise Refused(
            f"A message has at most {MAX_EMOJI_OF_MESSAGE} different emoji. Join one that is there.",
            code="too_many_emoji",
        )
    own = Reaction.objects.select_related("participant")
    reaction, is_new = own.get_or_create(message=current, participant_id=by.participant_id, emoji=cleaned)
    if is_new:
        _emit_reactions_changed(current)
    return reaction


@transaction.atomic
def remove_reaction(*, message: Message, by: Access, emoji: str) -> str:
    """Takes one's own emoji away; not there, nothing happens. Returns it as it was kept. Raises as `add_reaction`."""
    cleaned = clean_emoji(emoji)
    current = _lock_message(message)
    own = Reaction.objects.filter(message=current, participant_id=by.participant_id, emoji=cleaned)
    if own.delete()[0]:
        _emit_reactions_changed(current)
    return cleaned


def _lock_message(message: Message) -> Message:
    messages = Message.objects.select_for_update(of=("self",), no_key=True).select_related("thread__channel")
    current = messages.defer("body", "search").get(pk=message.pk)
    if current.is_deleted:
        raise Missing("This message was deleted.")
    check_not_archived(current.thread)
    return current


def _emit_reactions_changed(message: Message) -> None:
    emit(
        "reactions_changed",
        workspace_id=message.thread.workspace_id,
        channel_id=message.thread.channel_id,
        thread_id=message.thread_id,
        message_id=message.pk,
    )
