"""Standing instructions for summaries: what a workspace's admins want every summary to keep, and what they want where
one agent takes part. A line that begins with `@handle:` holds in the threads that this agent speaks in."""

import re
from collections.abc import Mapping
from typing import Any

from openvibe.chat.models import Message, Thread
from openvibe.engines.text.masking import mask_secrets
from openvibe.workspaces.models import Participant

_OF_AGENT = re.compile(r"@(?P<handle>[\w-]{1,64})\s*:\s*(?P<text>.+)", re.DOTALL)


def standing_instructions(config: Mapping[str, Any], thread: Thread) -> tuple[str, ...]:
    """Those of the workspace, then those of each agent that has spoken in the thread. One query, none without any of
    agents."""
    general, of_agents = [], list[tuple[str, str]]()
    for line in str(config.get("summary_instructions") or "").splitlines():
        match = _OF_AGENT.fullmatch(line.strip())
        if match:
            of_agents.append((match["handle"].lower(), mask_secrets(match["text"].strip())))
        elif line.strip():
            general.append(mask_secrets(line.strip()))
    texts = ["\n".join(general)] if general else []
    if of_agents:
        speakers = Message.objects.filter(thread=thread, author__kind=Participant.Kind.AGENT).order_by()
        handles = set(speakers.values_list("author__handle", flat=True).distinct())
        texts += [text for handle, text in of_agents if handle in handles]
    return tuple(texts)
