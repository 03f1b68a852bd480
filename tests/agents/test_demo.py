"""A fresh installation has something to look at, once, and a way in."""

import html
import io
import stat
from pathlib import Path

import pytest
from django.core.management import call_command
from django.utils import timezone
from pytest_django.fixtures import Settings

from agents.agent.access import visible_to
from agents.agent.services import check_soul
from agents.connect.first_steps import SAMPLE_QUESTIONS, list_first_steps, sample_questions
from agents.management.commands.demo import MEETING_MESSAGES, VIBE_SOUL, create_demo_workspace
from agents.models import Agent, Run
from agents.prompts.assembler.assemble import assemble
from agents.runs.executor import execute_run
from openvibe.chat.models import Channel, Message, Thread
from openvibe.chat.services import delete_message, open_direct_messages
from openvibe.engines.llm.offline.offline import OfflineModel
from openvibe.workspaces.models import Member, User, Workspace
from tests.factories import access, make_member, say, signed_in


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


@pytest.mark.parametrize(
    ("question", "words"),
    list(zip(SAMPLE_QUESTIONS, ("last week of March", "twelve bags", "Buy the valve"), strict=True)),
)
def test_each_question_of_the_sample_thread_is_answered(db: None, question: str, words: str) -> None:
    owner = create_demo_workspace(password="x" * 12)
    thread = Thread.objects.get(title="Spring planting")
    client, url = signed_in(owner), f"/w/willow/t/{thread.pk}/"
    assert list_first_steps(owner, access(owner))[0].href == url
    assert question in html.unescape(client.get(url).content.decode())
    client.post(url, {"body": question})
    run = Run.objects.get()
    execute_run(run.pk)
    assert words in Message.objects.get(run=run).body


def test_a_question_is_offered_until_one_asked_it_oneself(db: None) -> None:
    owner = create_demo_workspace(password="x" * 12)
    thread = Thread.objects.get(title="Spring planting")
    ben = make_member("Ben", owner.workspace, role="member")
    first, second, third = SAMPLE_QUESTIONS
    signed_in(owner).post(f"/w/willow/t/{thread.pk}/", {"body": second})
    assert sample_questions(thread, owner) == [first, third]
    assert sample_questions(thread, ben) == [first, second, third]
    delete_message(message=Message.objects.get(body=second), by=access(owner))
    assert sample_questions(thread, owner) == [first, second, third]
    for question in (first, second, third):
        signed_in(owner).post(f"/w/willow/t/{thread.pk}/", {"body": question})
    assert "Ask with one click" not in signed_in(owner).get(f"/w/willow/t/{thread.pk}/").content.decode()


def test_no_question_is_offered_that_nobody_would_answer(db: None) -> None:
    owner = create_demo_workspace(password="x" * 12)
    thread = Thread.objects.get(title="Spring planting")
    Agent.objects.filter(participant__handle="vibe").update(deactivated_at=timezone.now())
    assert list(sample_questions(thread, owner)) == []


def test_in_direct_messages_it_offers_the_thread_that_knows(db: None) -> None:
    owner = create_demo_workspace(password="x" * 12)
    thread = Thread.objects.get(title="Spring planting")
    vibe = Agent.objects.get(participant__handle="vibe")
    direct = open_direct_messages(by=access(owner), recipient=vibe.participant)[0]
    answers = []
    for body in ("Who has seen the leaking irrigation valve?", "What can you do?"):
        execute_run(Run.objects.get(trigger=say(direct, owner, body)).pk)
        answers.append(Message.objects.filter(thread=direct).latest("seq").body)
    assert [f"(/w/willow/t/{thread.pk}/)" in answer for answer in answers] == [True, True], answers
    page = signed_in(owner).get(f"/w/willow/t/{direct.pk}/", follow=True).content.decode()
    assert f'href="/w/willow/t/{thread.pk}/"' in page


def test_it_offers_no_thread_that_the_asker_does_not_read(db: None) -> None:
    owner = create_demo_workspace(password="x" * 12)
    Channel.objects.filter(name__in=("meetings", "general")).update(is_private=True)
    dora = make_member("Dora", owner.workspace)
    vibe = Agent.objects.get(participant__handle="vibe")
    direct = open_direct_messages(by=access(dora), recipient=vibe.participant)[0]
    execute_run(Run.objects.get(trigger=say(direct, dora, "Who has seen the leaking irrigation valve?")).pk)
    answer = Message.objects.filter(thread=direct).latest("seq").body
    assert "ask me there" not in answer
    assert "I was shown" in answer


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
