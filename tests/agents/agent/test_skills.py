"""Agent folders: what is found there, and what is not used, with the reason."""

import os
from pathlib import Path

import pytest
from django.db import connection
from django.test import Client
from django.test.utils import CaptureQueriesContext

from agents.agent.skills import Skill, folder_problems, loaded_skills, read_override, skill_index, skill_text
from agents.models import Agent
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member
from tests.agents.conftest import WriteFile
from tests.agents.factories import LoadedSkillFactory
from tests.factories import make_agent

LONG = "roses want water and mulch " * 600


def test_without_folders_there_is_nothing_and_nothing_is_asked(vibe: Agent, home: Path) -> None:
    home.rmdir()
    with CaptureQueriesContext(connection) as queries:
        assert skill_index(vibe) == ()
        assert read_override(vibe, "SYSTEM.md") is None
        assert folder_problems(vibe) == []
    assert len(queries) == 0


@pytest.mark.parametrize(
    ("text", "line", "body"),
    [
        (
            "# Pruning roses\n\nCut above an outward bud.\nMore.",
            "Pruning roses: Cut above an outward bud.",
            "# Pruning",
        ),
        ("---\nname: x\ndescription: When to cut\n---\nIn March.", "When to cut", "In March."),
        ("---\ntitle: Cuts\ndescription: >\n  When\n  to cut\n---\nIn March.", "Cuts: When to cut", "In March."),
        ("---\n: [broken\n---\n# Roses\nIn March.", "Roses: In March.", "# Roses"),
        ("In March.", "In March.", "In March."),
    ],
)
def test_a_skill_is_named_in_one_line(vibe: Agent, skill: WriteFile, text: str, line: str, body: str) -> None:
    skill("pruning", text)
    assert skill_index(vibe) == (Skill("pruning", line),)
    assert (skill_text(vibe, "pruning") or "").startswith(body)


def test_a_change_of_the_file_is_seen(vibe: Agent, skill: WriteFile) -> None:
    path = skill("pruning", "In March.")
    assert skill_text(vibe, "pruning") == "In March."
    path.write_text("In April.")
    os.utime(path, (1_000, 1_000))
    assert skill_text(vibe, "pruning") == "In April."
    skill("mulching", "In May.")
    assert [found.name for found in skill_index(vibe)] == ["mulching", "pruning"]


@pytest.mark.parametrize("name", ["..", "../../secret", "a/b", "", "Pruning", "x" * 81, "a\x00b", "."])
def test_names_that_are_not_plain_find_nothing(vibe: Agent, home: Path, skill: WriteFile, name: str) -> None:
    skill("pruning", "In March.")
    (home / "secret").mkdir()
    (home / "secret" / "SKILL.md").write_text("Secret.")
    assert skill_text(vibe, name) is None


def test_links_that_lead_out_are_not_followed(vibe: Agent, home: Path, skill: WriteFile, tmp_path: Path) -> None:
    skill("pruning", "In March.")
    outside = tmp_path / "outside"
    outside.mkdir()
    (outside / "SKILL.md").write_text("Secret.")
    (outside / "SOUL.md").write_text("Secret.")
    (home / "vibe" / "skills" / "stolen").symlink_to(outside)
    (home / "vibe" / "SOUL.md").symlink_to(outside / "SOUL.md")
    assert [found.name for found in skill_index(vibe)] == ["pruning"]
    assert skill_text(vibe, "stolen") is None
    assert read_override(vibe, "SOUL.md") is None
    assert "link" in " ".join(folder_problems(vibe))


@pytest.mark.parametrize(
    ("text", "why"),
    [(LONG.encode(), "tokens"), (b"x" * 70_000, "bytes"), (b"\xff\xfe\xff", "UTF-8"), (b"  \n", "empty")],
)
def test_what_cannot_be_used_is_left_out_and_said(
    vibe: Agent, home: Path, skill: WriteFile, text: bytes, why: str
) -> None:
    skill("pruning", "In March.").write_bytes(text)
    (home / "vibe" / "SYSTEM.md").write_bytes(text)
    assert skill_index(vibe) == ()
    assert skill_text(vibe, "pruning") is None
    assert read_override(vibe, "SYSTEM.md") is None
    said = folder_problems(vibe)
    assert len(said) == 2
    assert all(why in line for line in said)


def test_files_stand_in_place_of_a_layer(vibe: Agent, home: Path) -> None:
    (home / "vibe").mkdir()
    (home / "vibe" / "SYSTEM.md").write_text("You are \x00terse.\n")
    assert read_override(vibe, "SYSTEM.md") == "You are terse."
    assert read_override(vibe, "SOUL.md") is None
    with pytest.raises(ValueError, match=r"SOUL\.md"):
        read_override(vibe, "../SOUL.md")


def test_a_plain_folder_serves_nobody_once_two_workspaces_have_the_handle(
    ana: Member, cleo: Member, vibe: Agent, home: Path, skill: WriteFile
) -> None:
    skill("pruning", "In March.")
    assert skill_text(vibe, "pruning") == "In March."
    stranger = make_agent(cleo, "vibe")
    assert skill_text(vibe, "pruning") is None
    assert skill_text(stranger, "pruning") is None
    assert f"vibe@{ana.workspace.slug}" in folder_problems(vibe)[0]
    skill("pruning", "In April.", folder=f"vibe@{ana.workspace.slug}")
    assert skill_text(vibe, "pruning") == "In April."
    assert skill_text(stranger, "pruning") is None


def test_what_was_taken_up_and_is_gone_is_left_out(vibe: Agent, thread: Thread, skill: WriteFile) -> None:
    skill("pruning", "In March.")
    for name in ("pruning", "gone"):
        LoadedSkillFactory.create(agent=vibe, thread=thread, name=name)
    assert loaded_skills(vibe, thread.pk) == [("pruning", "In March.")]


def test_an_admin_reads_what_is_used_and_what_is_not(
    ana: Member, vibe: Agent, home: Path, skill: WriteFile, client: Client
) -> None:
    skill("pruning", "In March.")
    skill("long", LONG)
    client.force_login(ana.user)
    page = client.get(f"/w/{ana.workspace.slug}/agents/{vibe.handle}/settings/").content.decode()
    assert "Skills: pruning" in page
    assert "The skill long is not used: it has" in page
