"""Instructions for agents in a channel or a thread: trusted. Only admins write them; whoever reads there sees them."""

from django.db import transaction

from openvibe.base.events import emit
from openvibe.base.problems import Problem, Refused
from openvibe.base.text import MAX_BODY_CHARACTERS, TextRefused, clean_body
from openvibe.chat.models import Channel, Thread
from openvibe.chat.services.permissions import check_not_dive
from openvibe.llm.tokens import count_tokens
from openvibe.workspaces.access import Access
from openvibe.workspaces.services import MAX_INSTRUCTION_TOKENS


@transaction.atomic
def set_instructions(*, scope: Channel | Thread, by: Access, text: str) -> None:
    """What agents are told in a channel or a thread, and in its dives; empty takes it away. From the next prompt on.

    Raises Refused for all but admins and for a dive, Problem for more than MAX_INSTRUCTION_TOKENS tokens.
    """
    if not by.administers or by.workspace_id != scope.workspace_id:
        raise Refused("Only owners and admins write instructions for agents: they are trusted. Ask one of them.")
    if isinstance(scope, Thread):
        check_not_dive(scope)
    scope.instructions = _clean_instructions(text)
    scope.save(update_fields=["instructions", "updated_at"])
    is_thread = isinstance(scope, Thread)
    emit(
        "thread_changed" if is_thread else "channel_changed",
        workspace_id=scope.workspace_id,
        channel_id=scope.channel_id if isinstance(scope, Thread) else scope.pk,
        thread_id=scope.pk if is_thread else None,
    )


def _clean_instructions(text: str) -> str:
    if not text.strip():
        return ""
    try:
        cleaned = clean_body(text, max_characters=MAX_BODY_CHARACTERS).strip()
    except TextRefused as error:
        raise Problem(error.message, code=error.code, field="instructions") from None
    if (tokens := count_tokens(cleaned)) > MAX_INSTRUCTION_TOKENS:
        message = (
            f"These instructions are {tokens:,} tokens; at most {MAX_INSTRUCTION_TOKENS:,} fit. Nothing was saved: "
            "shorten them."
        )
        raise Problem(message, code="too_long", field="instructions")
    return cleaned
