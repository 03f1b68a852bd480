"""What a stranger comes to do: twelve things, as somebody who has just joined, and more of them as Ana.

Each begins on the inbox, and is done by what can be read on the page, in at most four clicks; typing is not counted.
The clicks of each stand in docs/interface.md, which these tests compare."""

import io
import json
import re
import time
import zipfile
from collections.abc import Callable, Iterator, Mapping
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.engines.llm.model_server import Answer, Asked, serving
from tests.journeys.conftest import People
from tests.journeys.installation import Installation
from tests.journeys.test_permissions import Wren

PAGE = Path(__file__).parents[2] / "docs" / "interface.md"
MAX_CLICKS = 4
BEGIN = """
from datetime import UTC, datetime, time, timedelta
from django.utils import timezone
from agents.models import Agent
from agents.agent.services import set_trust_level
from knowledge.models import Entry
from knowledge.services import create_entry, pin_result
from openvibe.chat.models import Channel, Message
from openvibe.chat.services import create_thread, post_message
from openvibe.workspaces.models import Member
from openvibe.workspaces.queries import member_access
import json
ana = member_access(Member.objects.get(workspace__slug="willow", participant__handle="ana"))
vibe = Agent.objects.get(workspace__slug="willow", participant__handle="vibe")
general = Channel.objects.get(workspace__slug="willow", name="general")
"""
SCENE = """
tomorrow = timezone.now() + timedelta(days=1)
over = create_entry(by=ana, topic="Winter tariff", content="A visit costs 4 euros.", expires_at=tomorrow)
Entry.objects.filter(pk=over.pk).update(expires_at=timezone.now() - timedelta(hours=1), status="active")
print({"level": vibe.level, "daily_token_budget": vibe.daily_token_budget})
set_trust_level(agent=vibe, by=ana, level=3, note="Good answers")
decided = create_thread(channel=general, by=ana, title="Meeting of the board")
said = post_message(thread=decided, by=ana, body="Decided: the pergola is built of larch wood.")
Message.objects.filter(pk=said.pk).update(created_at=datetime(2026, 3, 12, 9, tzinfo=UTC))
pinned = create_thread(channel=general, by=ana, title="Opening times of the kiosk")
said = post_message(thread=pinned, by=ana, body="The kiosk opens at eleven.")
pin_result(message=said, by=ana, topic="Kiosk hours", content=said.body)
"""
STATE = """
print(json.dumps({
    "level": Agent.objects.get(pk=vibe.pk).level,
    "budget": Agent.objects.get(pk=vibe.pk).daily_token_budget,
    "kiosk": Entry.objects.get(topic="Kiosk hours").status,
    "tariff": Entry.objects.get(topic="Winter tariff").status,
}))
"""
AS_BEFORE = """
Agent.objects.filter(pk=vibe.pk).update(**{before})
"""
NEWCOMER = """
from agents.agent.services import create_agent
from knowledge.maintenance import expire_entries
from memory.models import Episode
from memory.episodes.services import give_feedback
from openvibe.chat.services import add_to_channel, create_channel, open_direct_messages
from openvibe.engines.llm.models import Endpoint
from openvibe.engines.text.dates import find_dates
ilse_member = Member.objects.get(workspace__slug="willow", participant__handle="ilse")
ilse = member_access(ilse_member)

def talk(title, *bodies, by=ilse, channel=general):
    thread = create_thread(channel=channel, by=by, title=title)
    return thread, [post_message(thread=thread, by=by, body=body) for body in bodies][-1]
"""
NEWCOMERS_SCENE = """
talk("When the medlar is picked", "The medlar is picked in the second week of November, after the first frost.",
     "@vibe when is the medlar picked?")
talk("Opening times of the hut", "The hut opens at eleven.", "@vibe when does the hut open?")
orchard = create_channel(by=ana, name="orchard", description="Apples and pears")
for participant in (ilse_member.participant, vibe.participant):
    add_to_channel(channel=orchard, participant=participant, by=ana)
_, said = talk("Meeting of the orchard", "We decided: the ladder is made of ash wood.", channel=orchard)
(march,) = find_dates("in March", timezone.localdate())
Message.objects.filter(pk=said.pk).update(created_at=datetime.combine(march.first, time(12), UTC))
talk("What March is like", "It was decided long ago that March is windy.", channel=orchard)
tariff = create_entry(by=ilse, topic="Summer tariff", content="A visit costs 6 euros.",
                      expires_at=timezone.now() + timedelta(days=40))
Entry.objects.filter(pk=tariff.pk).update(expires_at=timezone.now() - timedelta(hours=1))
expire_entries()
finch = create_agent(by=ana, workspace=general.workspace, handle="finch", name="Finch",
                     soul="identity: {name: Finch, role: Mends what leaks}")
Agent.objects.filter(pk=finch.pk).update(answers_itself=True, level=3)
add_to_channel(channel=orchard, participant=finch.participant, by=ana)
_, said = talk("Mend the watering", "@finch mend the watering", channel=orchard)
direct, _ = open_direct_messages(by=ana, recipient=ilse_member.participant)
post_message(thread=direct, by=ana, body="Will you water the medlar tomorrow?")
print(said.pk)
"""
FEEDBACK = """
reply = Message.objects.get(thread__title="Opening times of the hut", author=vibe.participant)
give_feedback(message=reply, by=ilse, verdict="down", text="Name the season it holds for.")
post_message(thread=reply.thread, by=ilse, body="@vibe and when does it close?")
"""
LONG_ANSWER = """
talk("Every bed of the garden", "@vibe describe every bed of the garden")
"""
NEWCOMERS_STATE = """
print(json.dumps({
    "quill": Agent.objects.filter(participant__handle="quill").exists(),
    "tariff": Entry.objects.get(topic="Summer tariff").status,
    "models": list(Endpoint.objects.filter(workspace=general.workspace).values_list("model", flat=True)),
    "hedge": Message.objects.get(body="Yes, hornbeam.").thread.channel.name,
    "direct": Message.objects.filter(thread__channel__first_participant__isnull=False).latest("pk").body,
}))
"""
NEWCOMERS_END = """
Episode.objects.filter(agent=vibe.participant, summary__contains="Name the season").delete()
Endpoint.objects.filter(workspace=general.workspace).exclude(name="Steered").delete()
Endpoint.objects.filter(workspace=general.workspace, name="Steered").update(is_default=True)
"""
SLACK = {
    "channels.json": [{"id": "C1", "name": "old-hedges", "members": ["U1", "U2"], "purpose": {"value": "Hedges"}}],
    "users.json": [
        {"id": f"U{number}", "name": name.lower(), "profile": {"display_name": name, "real_name": name}}
        for number, name in enumerate(("Alex", "Sam"), 1)
    ],
    "old-hedges/2023-11-15.json": [
        {"type": "message", "ts": f"17000496{number:02}.000100", "user": user, "text": text}
        for number, (user, text) in enumerate(
            (("U1", "Shall we plant the hedge?"), ("U2", "Yes, hornbeam."), ("U1", "On Friday, then."))
        )
    ],
}


class Stranger:
    """Somebody who clicks on what she reads. `clicks` counts them; on a phone she taps."""

    def __init__(self, page: Page, *, is_on_phone: bool = False) -> None:
        self.page, self.is_on_phone, self.clicks = page, is_on_phone, 0

    def click(self, name: str, *, within: Locator | None = None) -> None:
        """The first visible link, button, choice, file field or heading of a menu that begins with these words."""
        self.page.wait_for_load_state()  # whatever she read on the page before: its script runs by now
        where, words = within or self.page, re.compile(rf"^\s*(Done: )?{re.escape(name)}", re.IGNORECASE)
        target = where.get_by_role("link", name=words).or_(where.get_by_role("button", name=words))
        target = target.or_(where.get_by_role("radio", name=words))
        target = target.or_(where.locator(f'summary[aria-label^="{name}"]'))
        target = target.or_(where.locator("summary").filter(has_text=words)).filter(visible=True).first
        if self.is_on_phone:
            target.tap()
        else:
            target.click()
        self.clicks += 1

    def fill(self, label: str, text: str) -> None:
        self.page.get_by_label(re.compile(rf"^\s*{re.escape(label)}\s*$")).first.fill(text)


@dataclass
class Scene:
    """What stands ready beside the pages: a provider to connect, and a message to Finch, an agent elsewhere."""

    installation: Installation
    provider: str
    message: int

    @contextmanager
    def vibe_writing(self) -> Iterator[None]:
        self.installation.model.holds_back_after_first_words("I begin with the beds. They are twelve.")
        self.installation.shell(BEGIN + NEWCOMER + LONG_ANSWER)
        yield
        self.installation.model.begin_anew()

    @contextmanager
    def finch_asking(self) -> Iterator[None]:
        finch = Wren(self.installation, self.message, "finch")
        assert finch.ask("test", kind="execute", title="Run the tests", command="make test") == "waiting"
        yield
        assert finch.answer("test") == ("allowed", "once", "")
        finch.send("POST", "finish", body="It is mended.")


def last_reply(one: Stranger) -> Locator:
    reply = one.page.locator('#messages > li[data-handle="vibe"]').last
    reply.hover()
    return reply


def read_a_source(one: Stranger, scene: Scene) -> None:
    one.click("When the medlar is picked")
    one.click("Ilse, message 1", within=last_reply(one))
    expect(one.page.locator("#panel")).to_contain_text("after the first frost.")


def stop_an_agent(one: Stranger, scene: Scene) -> None:
    one.click("Every bed of the garden")
    one.click("Stop", within=one.page.locator("#messages"))
    expect(one.page.locator("#messages")).to_contain_text("What was written until then is kept.")


def find_what_was_decided(one: Stranger, scene: Scene) -> None:
    one.click("Search")
    one.page.locator("#q").fill("what was decided in March")
    one.page.keyboard.press("Enter")
    one.click("Only what was said in March")
    hits = one.page.get_by_role("main")
    expect(hits).not_to_contain_text("March is windy")
    one.click("Meeting of the orchard", within=hits)
    expect(one.page.locator("#messages")).to_contain_text("the ladder is made of ash wood")


def make_an_agent(one: Stranger, scene: Scene) -> None:
    one.click("New agent")
    one.fill("Name", "Quill")
    one.fill("What is it for?", "Keeps the minutes")
    one.click("Create agent")
    expect(one.page.get_by_role("heading", name="Quill")).to_be_visible()


def allow_a_command(one: Stranger, scene: Scene) -> None:
    one.click("Finch waits for a decision in “Mend the watering”")
    expect(one.page.get_by_text("make test").first).to_be_visible()
    one.click("Allow once")
    expect(one.page.get_by_role("button", name="Allow once")).to_have_count(0)


def mute_a_channel(one: Stranger, scene: Scene) -> None:
    sidebar = one.page.get_by_role("navigation", name="Workspace")
    one.click("#orchard: favourite, mute, leave", within=sidebar)
    one.click("Mute")
    expect(sidebar.locator("a.is-muted")).to_have_text(re.compile("orchard.*muted", re.DOTALL))
    expect(sidebar.locator('a.is-muted use[href="#i-bell-off"]')).to_be_visible()


def restore_an_expired_entry(one: Stranger, scene: Scene) -> None:
    one.click("“Summer tariff” expired")
    entry = one.page.locator(".knowledge-entry")
    expect(entry).to_contain_text("It is in no prompt until somebody renews it.")
    one.click("Renew until")
    expect(entry).to_contain_text("expires in")
    expect(entry).not_to_contain_text("It is in no prompt")


def see_what_feedback_changed(one: Stranger, scene: Scene) -> None:
    one.click("Opening times of the hut")
    one.click("What it changed")
    changed = one.page.locator("#panel")
    expect(changed).to_contain_text("Name the season it holds for.")
    expect(changed).to_contain_text("Vibe reads it before each answer.")
    expect(changed.get_by_role("link", name="Opening times of the hut")).to_be_visible()


def connect_a_model(one: Stranger, scene: Scene) -> None:
    one.click("Connect a model")
    one.fill("Key", "sk-test-canary-0123456789abcdefghij")
    one.fill("Address of the server", scene.provider)
    one.click("Connect", within=one.page.locator("#connect-form"))
    expect(one.page.locator(".notice-success")).to_contain_text("sage-1")


def bring_slack_in(one: Stranger, scene: Scene) -> None:
    one.click("Browse channels")
    one.click("Import from Slack and others")
    exported = io.BytesIO()
    with zipfile.ZipFile(exported, "w") as archive:
        for name, rows in SLACK.items():
            archive.writestr(name, json.dumps(rows))
    with one.page.expect_file_chooser() as chooser:
        one.click("File, at most 25 MB")
    chooser.value.set_files({"name": "slack.zip", "mimeType": "application/zip", "buffer": exported.getvalue()})
    one.click("Import", within=one.page.get_by_role("main").locator("form"))
    expect(one.page.locator("#import")).to_contain_text("3 messages read")


def answer_on_a_phone(one: Stranger, scene: Scene) -> None:
    one.click("Direct messages", within=one.page.get_by_role("main"))
    one.click("Ana", within=one.page.locator("#inbox"))
    one.page.get_by_placeholder("Message…").fill("I will, before nine.")
    one.click("Send")
    expect(one.page.locator("#messages > li").last).to_contain_text("I will, before nine.")
    expect(one.page.locator("#messages .is-pending")).to_have_count(0)


def find_why(one: Stranger, scene: Scene) -> None:
    one.click("When the medlar is picked")
    one.click("Why this answer?", within=last_reply(one))
    sources = one.page.locator(".answer-sources")
    expect(sources.locator("mark").first).to_have_text("The medlar is picked in the second week of November")
    one.click("message", within=sources)
    expect(sources).to_contain_text("after the first frost.")


Task = Callable[[Stranger, Scene], None]
TWELVE: dict[str, Task] = {
    "Read an answer's source": read_a_source,
    "Stop an agent": stop_an_agent,
    "Find what was decided in March": find_what_was_decided,
    "Make an agent": make_an_agent,
    "Allow a command": allow_a_command,
    "Mute a channel": mute_a_channel,
    "Restore an expired entry": restore_an_expired_entry,
    "See what feedback changed": see_what_feedback_changed,
    "Connect a model": connect_a_model,
    "Bring a Slack export in": bring_slack_in,
    "Answer a direct message on a phone": answer_on_a_phone,
    "Find out why an agent said something": find_why,
}


def stop_an_expired_entry(one: Stranger) -> None:
    one.click("Knowledge")
    one.click("Review")
    item = one.page.get_by_role("region", name="Winter tariff")
    one.click("Archive", within=item)
    expect(item).to_have_count(0)


def undo_a_trust_level(one: Stranger) -> None:
    one.click("Vibe", within=one.page.get_by_role("navigation", name="Workspace"))
    one.click("Trust level", within=one.page.get_by_role("dialog", name="Vibe"))
    one.click("L2")
    one.fill("Why?", "Too early")
    one.click("Set the level")
    expect(one.page.get_by_text("It is at L2")).to_be_visible()


def read_what_was_said_between(one: Stranger) -> None:
    one.click("Search")
    one.page.locator("#q").fill("decided")
    one.fill("From", "2026-03-01")
    one.fill("To", "2026-03-31")
    one.click("Search", within=one.page.get_by_role("main"))
    one.click("Meeting of the board", within=one.page.get_by_role("main"))
    expect(one.page.get_by_text("the pergola is built of larch wood")).to_be_visible()


def find_what_ana_said(one: Stranger) -> None:
    one.click("Search")
    one.page.locator("#q").fill("pergola")
    one.fill("Author", "@ana")
    one.click("Search", within=one.page.get_by_role("main"))
    expect(one.page.get_by_role("main")).to_contain_text("larch wood")


def see_what_an_agent_may_do(one: Stranger) -> None:
    one.click("Vibe", within=one.page.get_by_role("navigation", name="Workspace"))
    expect(one.page.get_by_role("dialog", name="Vibe")).to_contain_text("Answers when mentioned")


def give_an_agent_less_budget(one: Stranger) -> None:
    one.click("Vibe", within=one.page.get_by_role("navigation", name="Workspace"))
    one.click("Settings", within=one.page.get_by_role("dialog", name="Vibe"))
    one.fill("Tokens a day", "123456")
    one.click("Save", within=one.page.get_by_role("main"))
    expect(one.page.get_by_text("of 123,456 tokens used today").first).to_be_visible()


def export_a_thread(one: Stranger) -> None:
    one.click("Meeting of the board")
    one.click("About this thread")
    with one.page.expect_download() as download:
        one.click("Markdown")
    assert "larch wood" in download.value.path().read_text()


def take_back_a_pinned_entry(one: Stranger) -> None:
    one.click("Opening times of the kiosk")
    one.click("Pinned as Kiosk hours")
    one.click("Archive", within=one.page.locator("#panel"))
    expect(one.page.locator("#panel")).to_contain_text("Archived")


MORE: dict[str, Callable[[Stranger], None]] = {
    "Stop an expired entry being used": stop_an_expired_entry,
    "Undo a level of trust": undo_a_trust_level,
    "Read what was said between two days": read_what_was_said_between,
    "Find what Ana said about something": find_what_ana_said,
    "See what an agent may do": see_what_an_agent_may_do,
    "Give an agent less budget": give_an_agent_less_budget,
    "Export a thread": export_a_thread,
    "Take back a pinned entry": take_back_a_pinned_entry,
}


def documented_clicks() -> Mapping[str, int]:
    """The clicks of each task by the page of promises."""
    rows = re.findall(r"^\| ([^|]+?) \| [^|]+ \| (\d) \|", PAGE.read_text(), re.MULTILINE)
    return {name: int(clicks) for name, clicks in rows}


def do(one: Stranger, name: str, task: Callable[[], None]) -> None:
    start = time.monotonic()
    task()
    print(f"{name}: {one.clicks} clicks, {time.monotonic() - start:.1f} s")
    assert one.clicks <= MAX_CLICKS, f"{name}: {one.clicks} clicks"
    assert documented_clicks()[name] == one.clicks, name


def one_model(asked: Asked) -> Answer:
    """A provider with one model, which answers."""
    return Answer("sage-1" if asked.path.endswith("/models") else "Hello.")


@pytest.fixture
def ilse(people: People, installation: Installation) -> Iterator[Page]:
    """The page of Ilse, an admin who has just joined. Afterwards models and what Vibe remembers are as they were."""
    page = people.member("Ilse", role="admin")
    yield page
    installation.shell(BEGIN + NEWCOMER + NEWCOMERS_END)


@pytest.fixture
def newcomers_scene(ilse: Page, installation: Installation) -> Iterator[Scene]:
    installation.model.says("The medlar is picked in the second week of November (Ilse, message 1).")
    message = installation.shell(BEGIN + NEWCOMER + NEWCOMERS_SCENE).splitlines()[-1]
    installation.wait_until_idle()
    installation.shell(BEGIN + NEWCOMER + FEEDBACK)
    installation.wait_until_idle()
    with serving(script=one_model) as provider:
        yield Scene(installation, provider.base_url, int(message))


def test_a_stranger_does_twelve_things_in_four_clicks_each(
    ilse: Page, newcomers_scene: Scene, people: People, installation: Installation
) -> None:
    phone = people.page(
        storage_state=ilse.context.storage_state(), viewport={"width": 360, "height": 740}, has_touch=True
    )
    beside: dict[Task, Callable[[], AbstractContextManager[None]]] = {
        stop_an_agent: newcomers_scene.vibe_writing,
        allow_a_command: newcomers_scene.finch_asking,
    }
    for name, task in TWELVE.items():
        is_on_phone = task is answer_on_a_phone
        one = Stranger(phone if is_on_phone else ilse, is_on_phone=is_on_phone)
        with beside.get(task, nullcontext)():
            one.page.goto("/w/willow/")
            do(one, name, partial(task, one, newcomers_scene))
    state = json.loads(installation.shell(BEGIN + NEWCOMER + NEWCOMERS_STATE).splitlines()[-1])
    assert (state["quill"], state["tariff"], state["hedge"]) == (True, "active", "old-hedges")
    assert "sage-1" in state["models"]
    assert state["direct"] == "I will, before nine."


@pytest.fixture
def asked(people: People, installation: Installation) -> Iterator[Page]:
    """Ana's page. Afterwards Vibe is as it was: other journeys ask it."""
    before = installation.shell(BEGIN + SCENE).splitlines()[-1]
    yield people.ana()
    installation.shell(BEGIN + AS_BEFORE.format(before=before))


def test_a_stranger_does_more_things_in_four_clicks_each(asked: Page, installation: Installation) -> None:
    for name, task in MORE.items():
        asked.goto("/w/willow/")
        one = Stranger(asked)
        do(one, name, partial(task, one))
    state = json.loads(installation.shell(BEGIN + STATE).splitlines()[-1])
    assert (state["level"], state["budget"]) == (2, 123_456)
    assert (state["kiosk"], state["tariff"]) == ("archived", "archived")
