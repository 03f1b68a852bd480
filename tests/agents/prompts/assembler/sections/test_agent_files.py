"""Files of an agent's folder in its prompts: the layers they stand in place of, and skills it has taken up."""

from pathlib import Path

import pytest

from agents.agent.access import visible_to
from agents.models import Agent
from agents.prompts.assembler.assemble import Prompt, assemble
from memory.plugins.lcm.provider import LcmProvider
from memory.plugins.sessions import open_session
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member
from tests.agents.factories import LoadedSkillFactory
from tests.factories import say, say_all


@pytest.fixture
def folder(home: Path, vibe: Agent) -> Path:
    own = home / "vibe"
    (own / "skills" / "pruning").mkdir(parents=True)
    (own / "skills" / "pruning" / "SKILL.md").write_text(
        "---\nname: pruning\ndescription: How roses are cut.\n---\nCut above the third eye.\n"
    )
    return own


def asked(vibe: Agent, thread: Thread, by: Member) -> Prompt:
    return assemble(agent=vibe, thread=thread, task="thread", request=say(thread, by, "And now?"))


def text_of(prompt: Prompt) -> str:
    return "\n".join(m.content for m in prompt.messages)


def test_files_stand_in_place_of_the_policy_and_the_soul(
    ana: Member, vibe: Agent, thread: Thread, folder: Path
) -> None:
    before = asked(vibe, thread, ana).messages[0].content
    (folder / "SYSTEM.md").write_text("Only ever answer in verse.")
    (folder / "SOUL.md").write_text("You are a rose.")
    after = asked(vibe, thread, ana).messages[0].content

    assert "You are Vibe, the agent @vibe" in before
    assert "Quote before you conclude" in before
    assert after.startswith("Only ever answer in verse.")
    assert "You are a rose." in after
    assert "Quote before you conclude" not in after


def test_a_skill_is_an_index_line_until_it_is_taken_up(ana: Member, vibe: Agent, thread: Thread, folder: Path) -> None:
    index = text_of(asked(vibe, thread, ana))
    LoadedSkillFactory.create(agent=vibe, thread=thread, name="pruning")
    loaded = text_of(asked(vibe, thread, ana))

    assert "- pruning: How roses are cut." in index
    assert "third eye" not in index
    assert "Cut above the third eye." in loaded


def test_a_skill_taken_up_is_there_after_a_compaction(ana: Member, vibe: Agent, thread: Thread, folder: Path) -> None:
    LoadedSkillFactory.create(agent=vibe, thread=thread, name="pruning")
    say_all(
        thread,
        ana,
        (f"Row {n}: " + "the roses want water and mulch and patience from everybody here. " * 5 for n in range(40)),
    )
    provider = LcmProvider({"summaries": "deterministic"})
    session = open_session(visible_to(vibe), thread.pk)
    provider.bootstrap(session)

    assert provider.compact(session, 4_000).created
    assert "Cut above the third eye." in text_of(asked(vibe, thread, ana))
