"""What an agent asks once the result of its dive was published, by whatever door: should this be workspace
knowledge?"""

import structlog
from django.db import transaction

from agents.agent.access import agent_access
from agents.agent.audience import has_read_restricted
from knowledge.models import Entry
from knowledge.services import default_visibility, suggest_result
from openvibe.base.problems import Problem
from openvibe.chat.models import Dive, Message
from openvibe.workspaces.queries import participant_access

log = structlog.get_logger(__name__)

MIN_SUGGESTING_LEVEL = 2
"""The trust level from which on agents suggest knowledge themselves; for those below, whoever published does."""


def ask_to_keep_result(*, dive: Dive, message: Message) -> Entry | None:
    """The question, as a suggestion that people accept or decline; None where nobody may ask it or decide on it.
    Publishing never fails for it."""
    agent = agent_access(dive.agent)
    publisher = participant_access(message.author)
    by = agent if agent is not None and (agent.level or 0) >= MIN_SUGGESTING_LEVEL else publisher
    if by is None:
        return None
    visibility = default_visibility(dive.parent)
    if agent is not None and has_read_restricted(agent, dive.thread_id):
        visibility = Entry.Visibility.RESTRICTED
    try:
        with transaction.atomic():
            return suggest_result(by=by, message=message, visibility=visibility, publisher=publisher)
    except Problem as problem:
        log.info("result_not_suggested", dive_id=dive.pk, reason=problem.code)
        return None
