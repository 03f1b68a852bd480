"""What agents add to a compaction's handoff: the skills they have taken up, and what they called last.

References and names only: what was said, asked or answered is read where it stands, so that nothing deleted lives on.
"""

from collections.abc import Mapping, Sequence

from agents.models import LoadedSkill, ToolCall
from memory.handoff import ACTIONS, INSTRUCTIONS, RESOURCES, Line

CALLS = 20
"""Tool calls named in one handoff, the newest."""

READING = ("memory", "knowledge_search")
"""Tools that look things up; all others change something."""


def handed_over(thread_id: int) -> Mapping[str, Sequence[Line]]:
    """Lines for the sections they belong to. Two queries."""
    skills = LoadedSkill.objects.filter(thread=thread_id).order_by("id").values_list("name", "agent__participant__name")
    calls = ToolCall.objects.filter(run__thread=thread_id, decision=ToolCall.Decision.ALLOWED).order_by("-id")
    rows = list(calls.values_list("pk", "name", "run__agent__participant__name", "result_tokens", "created_at")[:CALLS])
    lines = [
        (name, {"ref": f"call:{pk}", "text": f"{agent} called {name} ({at:%Y-%m-%d %H:%M} UTC, {tokens:,} tokens)"})
        for pk, name, agent, tokens, at in rows
    ]
    return {
        INSTRUCTIONS: [
            {"ref": f"skill:{name}", "text": f"{agent} has taken up the skill {name}"} for name, agent in skills
        ],
        RESOURCES: [line for name, line in lines if name in READING],
        ACTIONS: [line for name, line in lines if name not in READING],
    }
