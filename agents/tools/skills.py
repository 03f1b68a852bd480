"""Taking skills up and putting them down."""

from typing import Any

from agents.models import LoadedSkill
from agents.skills import MAX_LOADED_SKILLS, loaded_skills, skill_index, skill_text
from agents.tools.values import FunctionTool, Tool, ToolContext
from openvibe.base.problems import Problem
from openvibe.llm.values import ToolSpec

_NAME_SCHEMA = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def load_skill(context: ToolContext) -> Tool | None:
    """The tool, for agents that have skills."""
    if not skill_index(context.agent):
        return None
    spec = ToolSpec(
        "load_skill",
        f"Take up a skill of your index, at most {MAX_LOADED_SKILLS}. Its text is the result.",
        _NAME_SCHEMA,
    )
    return FunctionTool(spec, lambda arguments: _load_named(context, arguments))


def unload_skill(context: ToolContext) -> Tool | None:
    """The tool, for agents that have `load_skill`."""
    if not skill_index(context.agent):
        return None
    spec = ToolSpec("unload_skill", "Put down a skill you no longer need.", _NAME_SCHEMA)
    return FunctionTool(spec, lambda arguments: _unload_named(context, arguments))


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
