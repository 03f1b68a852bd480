"""What the workspace knows, for an agent that asks; and what it would have known, for people to decide."""

import hashlib
from datetime import datetime
from typing import Any

from django.utils import timezone

from agents.assembler.wording import knowledge_block, minute
from agents.tools.values import MadeTool, Setting, Tool
from agents.usage import record_uses
from knowledge.finding import find_entries
from knowledge.freshness import freshness
from knowledge.models import TOPIC, Entry
from knowledge.presets import expiry_of
from knowledge.services import suggest_entry, visibility_from
from openvibe.base.problems import Missing
from openvibe.base.secrets import mask_secrets
from openvibe.llm.values import ToolSpec

USUAL, MOST = 5, 12
"""Entries of one search: unless said otherwise, and at most."""

BUDGET = 3_000
"""Tokens of content that one search brings back."""

LONGEST = 2_000
"""Characters of a question that are looked at."""

TEXT = {"type": "string"}
SEARCH = ToolSpec(
    "knowledge_search",
    "Look up what the workspace knows.",
    {
        "type": "object",
        "properties": {"query": TEXT, "topic": TEXT, "most": {"type": "integer"}},
        "required": ["query"],
    },
)
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


def knowledge_search(setting: Setting) -> Tool:
    return MadeTool(SEARCH, lambda arguments: _search(setting, arguments))


def knowledge_suggest(setting: Setting) -> Tool:
    return MadeTool(SUGGEST, lambda arguments: _suggest(setting, arguments))


def _search(setting: Setting, arguments: dict[str, Any]) -> str:
    """The same entries as a prompt would find, whole; each counts as used by the run."""
    query, topic = str(arguments["query"])[:LONGEST], str(arguments.get("topic", ""))[:TOPIC]
    most = min(max(int(arguments.get("most", USUAL)), 1), MOST)
    hits = find_entries(setting.access, query, budget=BUDGET, most=most, topic=topic).hits
    if not hits:
        under = f" under “{topic}”" if topic else ""
        return f"The workspace knows nothing{under} that bears on this, as far as you may read it."
    if setting.run is not None:
        record_uses(run=setting.run, entry_ids=[hit.entry.pk for hit in hits], how="tool")
    now = timezone.now()
    return "\n\n".join(_said(hit.entry, now) for hit in hits)


def _said(entry: Entry, now: datetime) -> str:
    """An entry as prompts show it, as data."""
    return knowledge_block(
        entry.pk,
        mask_secrets(f"{entry.topic}\n\n{entry.content}"),
        kind=entry.kind,
        decided_by=(entry.decided_by or entry.author).name,
        decided=minute(entry.decided_at or entry.created_at),
        fresh=freshness(entry, now).words,
    )


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
    entries = Entry.objects.visible_to(setting.access).holding()
    entry: Entry | None = entries.filter(pk=number).first() if 0 < number < 2**63 else None
    if entry is None:
        raise Missing(f"There is no entry knowledge:{number} for you. Leave supersedes out.")
    return entry


def _print_of(topic: str, content: str) -> str:
    return hashlib.sha256(f"{topic}\x00{content}".encode()).hexdigest()[:16]
