"""A fresh installation has something to look at, once, and a way in."""

import io
import stat
from pathlib import Path

import pytest
from django.core.management import call_command
from pytest_django.fixtures import Settings

from agents.access import visible_to
from agents.assembler.assemble import assemble
from agents.management.commands.demo import MEETING_MESSAGES, VIBE_SOUL, create_demo_workspace
from agents.models import Agent, Run
from agents.services import check_soul
from openvibe.chat.models import Channel, Message, Thread
from openvibe.llm.offline import OfflineModel
from openvibe.workspaces.models import Member, User, Workspace


@pytest.fixture(autouse=True)
def var(settings: Settings, tmp_path: Path) -> Path:
    settings.VAR = tmp_path
    return tmp_path


def demo(**options: object) -> str:
    output = io.StringIO()
    call_command("demo", stdout=output, **options)
    return output.getvalue().strip()


def test_the_printed_sign_in_opens_the_admin_too(db: None, var: Path) -> None:
    said = demo(url="http://localhost:1/")
    assert said.startswith("Sign in: http://localhost:1/ as ana@openvibe.local with password ")
    ana = User.objects.get(email="ana@openvibe.local")
    assert ana.check_password(said.rpartition(" ")[2])
    assert (ana.is_staff, ana.is_superuser) == (True, True)
    assert Member.objects.get(user=ana).role == "owner"
    assert stat.S_IMODE((var / "sign-in.txt").stat().st_mode) == 0o600


def test_the_address_is_the_one_that_is_set(db: None, settings: Settings) -> None:
    settings.PUBLIC_URL = "https://vibe.example.org"
    assert demo().startswith("Sign in: https://vibe.example.org/ as ")


@pytest.mark.parametrize(
    ("holder", "url"), [("17\nhttp://localhost:8100/\n", "http://localhost:8100/"), ("17\n", "http://localhost:8000/")]
)
def test_the_address_is_that_of_the_one_that_runs(
    db: None, var: Path, settings: Settings, holder: str, url: str
) -> None:
    settings.PUBLIC_URL = "http://localhost:8000"
    (var / "serve.lock").write_text(holder)
    assert demo().startswith(f"Sign in: {url} as ")


def test_a_second_time_changes_nothing_and_prints_no_password(db: None, var: Path) -> None:
    password = demo().rpartition(" ")[2]
    counted = Message.objects.count(), Thread.objects.count()
    again = demo()
    assert again == demo(if_empty=True)
    assert again.endswith(f"the first password stands in {var}/sign-in.txt.")
    assert password not in again
    assert password in (var / "sign-in.txt").read_text()
    assert (Message.objects.count(), Thread.objects.count()) == counted
    assert Workspace.objects.get().slug == "willow"


def test_what_goes_into_a_log_names_the_file_of_the_password(db: None, var: Path) -> None:
    said = demo(url="http://localhost:1/", no_password=True)
    assert said.endswith(f"as ana@openvibe.local; the first password stands in {var}/sign-in.txt.")
    password = (var / "sign-in.txt").read_text().rpartition("password: ")[2].strip()
    assert User.objects.get().check_password(password)


def test_a_password_of_ones_own_is_not_printed(db: None) -> None:
    demo()
    ana = User.objects.get()
    ana.set_password("something of my own")
    ana.save()
    assert "with the password you have set" in demo()


def test_if_empty_leaves_another_workspace_alone(ana: Member) -> None:
    assert demo(if_empty=True, url="http://here/") == "Sign in: http://here/ with the account you made."
    assert Workspace.objects.count() == 1


def test_the_agent_is_in_both_channels_and_nothing_waits_for_an_answer(db: None) -> None:
    create_demo_workspace(password="x" * 12)
    vibe = Agent.objects.get(participant__handle="vibe")
    assert vibe.level == 2
    assert set(Channel.objects.filter(participants=vibe.participant).values_list("name", flat=True)) == {
        "general",
        "meetings",
    }
    assert not Run.objects.exists()
    assert Thread.objects.get(title="Spring planting").last_seq == len(MEETING_MESSAGES) + 1  # and the result of a dive


def test_the_soul_is_neither_thin_nor_long() -> None:
    _, tokens = check_soul(VIBE_SOUL)
    assert 200 <= tokens <= 600


def test_the_question_of_the_welcome_is_answered_from_the_meeting(db: None) -> None:
    create_demo_workspace(password="x" * 12)
    thread = Thread.objects.get(title="Spring planting")
    question = "@vibe when do we prune the roses, and who brings the mulch?"
    vibe = Agent.objects.get(participant__handle="vibe")
    prompt = assemble(agent=vibe, thread=thread, task="mention", request=question)
    answer = OfflineModel().complete(prompt.messages).text
    assert "last week of March" in answer
    assert "I bring the mulch" in answer


def test_what_was_decided_in_one_channel_is_known_in_another(db: None) -> None:
    create_demo_workspace(password="x" * 12)
    welcome = Thread.objects.get(title="Welcome to OpenVibe")
    for handle, knows in (("fern", True), ("vibe", False)):
        agent = Agent.objects.get(participant__handle=handle)
        prompt = assemble(agent=agent, thread=welcome, task="mention", request="When do we prune the roses?")
        assert ("the last week of March" in OfflineModel().complete(prompt.messages).text) == knows


def test_the_welcome_says_what_is_so(db: None) -> None:
    """What it names stands on the page under that name, and what it says of an agent is what that agent may see."""
    create_demo_workspace(password="x" * 12)
    welcome = Thread.objects.get(title="Welcome to OpenVibe")
    steps = welcome.messages.order_by("seq")[0].body
    assert "**Why this answer?**" in steps
    assert "**Context**" not in steps
    fern = Agent.objects.get(participant__handle="fern")
    assert Thread.objects.visible_to(visible_to(fern)).filter(title="Spring planting").exists()
    assert "never reads" not in steps
    asked_here = assemble(agent=fern, thread=welcome, task="mention", request="When do we prune the roses?")
    assert "Nothing heavy before that." not in "".join(message.content for message in asked_here.messages)
