"""What the workspace knows, for an agent that asks; and what it would have known, for people to decide."""

import hashlib
from typing import Any

from django.utils import timezone

from agents.agent.audience import CallSource, has_read_restricted, shown_to_readers
from agents.agent.models import ToolSource
from agents.prompts.assembler.sections.knowledge import entry_line
from agents.statistics.knowledge_uses import record_uses
from agents.tools.values import STRING_SCHEMA, ToolContext, ToolOutcome, tool_factory, tool_spec
from knowledge.models import MAX_TOPIC_CHARACTERS, Entry
from knowledge.queries import EntryHit, find_entries, parse_expiry
from knowledge.services import default_visibility, suggest_entry
from openvibe.base.params import MAX_ID
from openvibe.base.problems import Missing
from openvibe.workspaces.access import Access

DEFAULT_HITS, MAX_HITS = 5, 12
"""Entries of one search: unless said otherwise, and at most."""

RESULT_BUDGET = 3_000
"""Tokens of content that one search brings back."""

MAX_QUERY_CHARS = 2_000
"""Characters of a question that are looked at."""


def _search_knowledge(context: ToolContext, arguments: dict[str, Any]) -> str | ToolOutcome:
    """The same entries as a prompt would find, whole; each counts as used by the run."""
    query, topic = str(arguments["query"])[:MAX_QUERY_CHARS], str(arguments.get("topic", ""))[:MAX_TOPIC_CHARACTERS]
    max_hits = min(max(int(arguments.get("most", DEFAULT_HITS)), 1), MAX_HITS)
    hits = find_entries(_readers_access(context), query, budget=RESULT_BUDGET, most=max_hits, topic=topic).hits
    if not hits:
        under = f" under “{topic}”" if topic else ""
        return f"The workspace knows nothing{under} that bears on this, as far as you may read it."
    if context.run is not None:
        record_uses(run=context.run, entry_ids=[hit.entry.pk for hit in hits], how="tool")
    now = timezone.now()
    sources = tuple(_entry_source(hit.entry) for hit in hits)
    lines = (entry_line(hit.entry, now, _copy_count(hit)) for hit in hits)
    return ToolOutcome("".join(lines).rstrip(), sources=sources)


def _readers_access(context: ToolContext) -> Access:
    """What the agent may read and say here, at this moment: people come and go while a run is under way."""
    return shown_to_readers(context.access, context.thread.pk)


def _copy_count(hit: EntryHit) -> int:
    """How many near copies may be told to everybody who may read the hit."""
    is_shared = hit.entry.visibility == Entry.Visibility.SHARED
    return sum(copy.is_shared or not is_shared for copy in hit.copies)


def _entry_source(entry: Entry) -> CallSource:
    return CallSource(ToolSource.Kind.ENTRY, entry.pk, entry.version)


knowledge_search = tool_factory(
    tool_spec(
        "knowledge_search",
        "Look up what the workspace knows.",
        required={"query": STRING_SCHEMA},
        optional={"topic": STRING_SCHEMA, "most": {"type": "integer"}},
    ),
    _search_knowledge,
)


def _suggest_knowledge(context: ToolContext, arguments: dict[str, Any]) -> ToolOutcome:
    """Suggests an entry, which belongs to whoever asked, and stays among those who may read what it was made from."""
    run = context.run
    topic, content = str(arguments["topic"]), str(arguments["content"])
    fingerprint = hashlib.sha256(f"{topic}\x00{content}".encode()).hexdigest()[:16]
    entry = suggest_entry(
        by=context.access,
        topic=topic,
        content=content,
        kind=arguments.get("kind", Entry.Kind.FACT),
        visibility=_suggested_visibility(context),
        expires_at=parse_expiry(arguments.get("expires_at", ""), now=timezone.now()),
        why=str(arguments["why"]),
        supersedes=_access_superseded(context, arguments.get("supersedes")),
        source_message=run.trigger if run and not run.trigger.is_deleted else None,
        client_id=f"run-{run.pk}-{fingerprint}" if run else "",
        how="agent",
    )
    if entry.status != Entry.Status.PROPOSED:
        text = f"knowledge:{entry.pk} was decided already: {entry.get_status_display().lower()}."
    else:
        text = f"knowledge:{entry.pk} is proposed under “{entry.topic}”. @{entry.owner.handle} decides on it."
    return ToolOutcome(text, sources=(_entry_source(entry),))


def _suggested_visibility(context: ToolContext) -> str:
    """Returns the visibility of what people pin from the conversation; restricted where the agent has read restricted
    knowledge in it."""
    if has_read_restricted(context.access, context.thread.pk):
        return Entry.Visibility.RESTRICTED
    return default_visibility(context.thread)


knowledge_suggest = tool_factory(
    tool_spec(
        "knowledge_suggest",
        "Propose knowledge, with why; a person decides. expires_at: a date, 30d, 90d, 1y. supersedes: N of a ref "
        "knowledge:N.",
        required={"topic": STRING_SCHEMA, "content": STRING_SCHEMA, "why": STRING_SCHEMA},
        optional={"kind": STRING_SCHEMA, "expires_at": STRING_SCHEMA, "supersedes": {"type": "integer"}},
    ),
    _suggest_knowledge,
)


def _access_superseded(context: ToolContext, number: int | None) -> Entry | None:
    if number is None:
        return None
    entries = Entry.objects.visible_to(_readers_access(context)).current()
    entry: Entry | None = entries.filter(pk=number).first() if 0 < number <= MAX_ID else None
    if entry is None:
        raise Missing(f"There is no entry knowledge:{number} for you. Leave supersedes out.")
    return entry
