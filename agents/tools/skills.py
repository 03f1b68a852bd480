"""Taking skills up and putting them down."""

from functools import partial
from typing import Any

from agents.models import LoadedSkill
from agents.skills import MAX_LOADED_SKILLS, loaded_skills, skill_index, skill_text
from agents.tools.values import STRING_SCHEMA, Tool, ToolContext, tool_spec
from openvibe.base.problems import Problem

LOAD_SPEC = tool_spec(
    "load_skill",
    f"Take up a skill of your index, at most {MAX_LOADED_SKILLS}. Its text is the result.",
    required={"name": STRING_SCHEMA},
)
UNLOAD_SPEC = tool_spec("unload_skill", "Put down a skill you no longer need.", required={"name": STRING_SCHEMA})


def load_skill(context: ToolContext) -> Tool | None:
    """The tool, for agents that have skills."""
    return Tool(LOAD_SPEC, partial(_load_named, context)) if skill_index(context.agent) else None


def unload_skill(context: ToolContext) -> Tool | None:
    """The tool, for agents that have `load_skill`."""
    return Tool(UNLOAD_SPEC, partial(_unload_named, context)) if skill_index(context.agent) else None


def _load_named(context: ToolContext, arguments: dict[str, Any]) -> str:
    name = str(arguments["name"])
    text = skill_text(context.agent, name)
    if text is None:
        known = ", ".join(skill.name for skill in skill_index(context.agent))
        raise Problem(f"There is no skill {name[:80]!r}. Available: {known}.")
    loaded = [taken for taken, _ in loaded_skills(context.agent, context.thread.pk)]
    if name not in loaded and len(loaded) >= MAX_LOADED_SKILLS:
        raise Problem(f"You have taken up {', '.join(loaded)} already. Put one down with unload_skill first.")
    LoadedSkill.objects.get_or_create(agent=context.agent, thread=context.thread, name=name)
    return text


def _unload_named(context: ToolContext, arguments: dict[str, Any]) -> str:
    name = str(arguments["name"])
    gone, _ = LoadedSkill.objects.filter(agent=context.agent, thread=context.thread, name=name).delete()
    if not gone:
        loaded = ", ".join(taken for taken, _ in loaded_skills(context.agent, context.thread.pk)) or "none"
        raise Problem(f"You have not taken up {name[:80]!r} here. Taken up: {loaded}.")
    return f"{name} is put down."
