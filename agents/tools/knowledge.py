"""What the workspace knows, for an agent that asks; and what it would have known, for people to decide."""

import hashlib
from typing import Any

from django.utils import timezone

from agents.tools.values import MadeTool, Setting, Tool
from knowledge.models import Entry
from knowledge.presets import expiry_of
from knowledge.services import suggest_entry, visibility_from
from openvibe.base.problems import Missing
from openvibe.llm.values import ToolSpec

TEXT = {"type": "string"}
SUGGEST = ToolSpec(
    "knowledge_suggest",
    "Propose knowledge, with why; a person decides. expires_at: a date, 30d, 90d, 1y. supersedes: N of a ref "
    "knowledge:N.",
    {
        "type": "object",
        "properties": {
            "topic": TEXT,
            "content": TEXT,
            "why": TEXT,
            "kind": TEXT,
            "expires_at": TEXT,
            "supersedes": {"type": "integer"},
        },
        "required": ["topic", "content", "why"],
    },
)


def knowledge_suggest(setting: Setting) -> Tool:
    return MadeTool(SUGGEST, lambda arguments: _suggest(setting, arguments))


def _suggest(setting: Setting, arguments: dict[str, Any]) -> str:
    """It belongs to whoever asked, and stays among those who may read the conversation it comes from."""
    run = setting.run
    topic, content = str(arguments["topic"]), str(arguments["content"])
    entry = suggest_entry(
        by=setting.access,
        topic=topic,
        content=content,
        kind=arguments.get("kind", Entry.Kind.FACT),
        visibility=visibility_from(setting.thread),
        expires_at=expiry_of(arguments.get("expires_at", ""), now=timezone.now()),
        why=str(arguments["why"]),
        supersedes=_to_supersede(setting, arguments.get("supersedes")),
        source_message=run.trigger if run and not run.trigger.is_deleted else None,
        client_id=f"run-{run.pk}-{_print_of(topic, content)}" if run else "",
        how="agent",
    )
    if entry.status != Entry.Status.PROPOSED:
        return f"knowledge:{entry.pk} was decided already: {entry.get_status_display().lower()}."
    return f"knowledge:{entry.pk} is proposed under “{entry.topic}”. @{entry.owner.handle} decides on it."


def _to_supersede(setting: Setting, number: int | None) -> Entry | None:
    if number is None:
        return None
    entries = Entry.objects.visible_to(setting.access).holding()  # type: ignore[attr-defined]
    entry: Entry | None = entries.filter(pk=number).first() if 0 < number < 2**63 else None
    if entry is None:
        raise Missing(f"There is no entry knowledge:{number} for you. Leave supersedes out.")
    return entry


def _print_of(topic: str, content: str) -> str:
    return hashlib.sha256(f"{topic}\x00{content}".encode()).hexdigest()[:16]
