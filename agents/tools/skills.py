"""Taking skills up and putting them down."""

from typing import Any

from agents.models import LoadedSkill
from agents.skills import LOADED_AT_ONCE, loaded_skills, skill_index, skill_text
from agents.tools.values import MadeTool, Setting, Tool
from openvibe.base.problems import Problem
from openvibe.llm.values import ToolSpec

_NAME = {"type": "object", "properties": {"name": {"type": "string"}}, "required": ["name"]}


def load_skill(setting: Setting) -> Tool | None:
    """Offered to agents that have skills."""
    if not skill_index(setting.agent):
        return None
    spec = ToolSpec(
        "load_skill",
        f"Take up a skill of your index, at most {LOADED_AT_ONCE}. Its text is the result.",
        _NAME,
    )
    return MadeTool(spec, lambda arguments: _load(setting, arguments))


def unload_skill(setting: Setting) -> Tool | None:
    """Offered together with `load_skill`."""
    if not skill_index(setting.agent):
        return None
    spec = ToolSpec("unload_skill", "Put down a skill you no longer need.", _NAME)
    return MadeTool(spec, lambda arguments: _unload(setting, arguments))


def _load(setting: Setting, arguments: dict[str, Any]) -> str:
    name = str(arguments["name"])
    text = skill_text(setting.agent, name)
    if text is None:
        known = ", ".join(skill.name for skill in skill_index(setting.agent))
        raise Problem(f"There is no skill {name[:80]!r}. Available: {known}.")
    loaded = [taken for taken, _ in loaded_skills(setting.agent, setting.thread.pk)]
    if name not in loaded and len(loaded) >= LOADED_AT_ONCE:
        raise Problem(f"You have taken up {', '.join(loaded)} already. Put one down with unload_skill first.")
    LoadedSkill.objects.get_or_create(agent=setting.agent, thread=setting.thread, name=name)
    return text


def _unload(setting: Setting, arguments: dict[str, Any]) -> str:
    name = str(arguments["name"])
    gone, _ = LoadedSkill.objects.filter(agent=setting.agent, thread=setting.thread, name=name).delete()
    if not gone:
        loaded = ", ".join(taken for taken, _ in loaded_skills(setting.agent, setting.thread.pk)) or "none"
        raise Problem(f"You have not taken up {name[:80]!r} here. Taken up: {loaded}.")
    return f"{name} is put down."
