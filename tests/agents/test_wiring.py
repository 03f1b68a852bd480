"""What agents add to a handoff."""

from agents.models import Agent
from memory.work.handoff import (
    ACTIONS,
    INSTRUCTIONS,
    RESOURCES,
    create_handoff,
    render_handoff_markdown,
    render_sections,
)
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member
from tests.agents.factories import LoadedSkillFactory
from tests.agents.runs.scripted_runs import LOG, ask, calling, told


def test_skills_and_calls_are_named_and_nothing_is_quoted(ana: Member, vibe: Agent, thread: Thread) -> None:
    LoadedSkillFactory.create(agent=vibe, thread=thread, name="pruning")
    told(ask(thread, ana), calling(LOG, ("memory", {"action": "search", "query": "vault"}), ("spade", {})), "In March.")
    handoff = create_handoff(thread=thread, trigger="milestone")
    sections = {
        section.title: [line.text for line in section.lines] for section in render_sections(handoff, lambda ids: {})
    }
    assert "Vibe has taken up the skill pruning" in sections[INSTRUCTIONS]
    assert any(line.startswith("Vibe called log_progress") for line in sections[ACTIONS])
    assert any(line.startswith("Vibe called memory") for line in sections[RESOURCES])
    text = render_handoff_markdown(render_sections(handoff, lambda ids: {}))
    assert "spade" not in text
    assert "vault" not in text
