"""The first workspace, made in one transaction."""

from django.db import transaction
from django.utils import timezone

from agents.demo.texts import (
    DESCRIPTION,
    DIVE,
    DIVED_FROM,
    EMAIL,
    FERN,
    INTRODUCTION,
    KNOWN,
    MEETING,
    NAME,
    RESULT,
    SLUG,
    SOUL,
    WELCOME,
    WORK,
)
from agents.models import Agent
from agents.services import create_agent, set_trust_level
from agents.visibility import visible_to
from knowledge.presets import expiry_of
from knowledge.services import add_entry, pin_result
from memory.services.work import add_work
from openvibe.chat.importing import ImportedLine, ImportedThread
from openvibe.chat.models import Channel, Dive, Message, Thread
from openvibe.chat.services import (
    add_to_channel,
    create_channel,
    create_thread,
    post_message,
    publish_dive,
    start_dive,
)
from openvibe.chat.services.importing import import_thread
from openvibe.llm.tokens import count
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member, User
from openvibe.workspaces.services import access_of_member, create_workspace, edit_workspace


@transaction.atomic
def make_demo(*, password: str) -> Member:
    """The first workspace with its owner, two channels, an agent, a welcome and a meeting. Returns the owner.

    An account of that address that is there already keeps its password and becomes the owner.
    """
    user = User.objects.filter(email=EMAIL).first() or User.objects.create_superuser(EMAIL, password, name="Ana")
    owner = create_workspace(name=NAME, slug=SLUG, owner=user)
    by = access_of_member(owner)
    edit_workspace(workspace=owner.workspace, by=by, name=NAME, description=DESCRIPTION, instructions="")
    general = create_channel(by=by, name="general", description="Where everybody talks about everything.")
    meetings = create_channel(by=by, name="meetings", description="One thread per meeting, word for word.")
    vibe = _agent(owner, by, (general, meetings))
    _welcome(general, by, vibe)
    lines = [ImportedLine(author, text) for author, text in MEETING]
    import_thread(channel=meetings, imported=ImportedThread("demo:spring-planting", "Spring planting", lines))
    _work(meetings, by)
    _knowledge(_dive(meetings, by, vibe), by)
    return owner


def _dive(channel: Channel, by: Access, vibe: Agent) -> Message:
    """Somebody looked into one decision of the meeting, and published what came of it."""
    source = Message.objects.get(thread__channel=channel, body__startswith=DIVED_FROM)
    dive: Dive = start_dive(source=source, by=by, agent=vibe.participant)
    speakers = {"ana": by.participant_id, "vibe": vibe.participant_id}
    for who, text in DIVE:  # written as it was said: nobody has to answer it again
        Message.objects.create(thread=dive.thread, author_id=speakers[who], body=text, token_count=count(text))
    return publish_dive(dive=dive, by=by, result=RESULT)


def _knowledge(result: Message, by: Access) -> None:
    content = "\n".join([f"**{RESULT.headline}**", "", *(f"- {bullet}" for bullet in RESULT.bullets)])
    in_a_year = expiry_of("1y", now=timezone.now())
    pin_result(message=result, by=by, topic="Pruning roses", content=content, expires_at=in_a_year, tags=("roses",))
    for topic, kind, text, tags in KNOWN:
        add_entry(by=by, topic=topic, kind=kind, content=text, tags=tags, how="import")


def _work(channel: Channel, by: Access) -> None:
    """What the meeting is working on, so that the panel has something to show."""
    thread = Thread.objects.get(channel=channel, title="Spring planting")
    for kind, text in WORK:
        add_work(thread=thread, by=by, kind=kind, text=text)


def _agent(owner: Member, by: Access, channels: tuple[Channel, ...]) -> Agent:
    vibe = create_agent(by=by, workspace=owner.workspace, handle="vibe", name="Vibe", soul=SOUL)
    set_trust_level(agent=vibe, by=by, level=2, note="Answers in the channels it was added to")
    for channel in channels:
        add_to_channel(channel=channel, participant=vibe.participant, by=by)
    fern = create_agent(by=by, workspace=owner.workspace, handle="fern", name="Fern", soul=FERN)
    set_trust_level(agent=fern, by=by, level=3, note="Answers from what the workspace knows")
    add_to_channel(channel=channels[0], participant=fern.participant, by=by)
    return vibe


def _welcome(channel: Channel, by: Access, vibe: Agent) -> None:
    thread = create_thread(channel=channel, by=by, title="Welcome to OpenVibe")
    for body in WELCOME:
        post_message(thread=thread, by=by, body=body)
    post_message(thread=thread, by=visible_to(vibe), body=INTRODUCTION)
