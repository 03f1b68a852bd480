"""The cast and its props, as factories and as one short function for each that tests call most.

Ana belongs, Ben may only read what he was added to, Cleo is a stranger. A factory goes through the service that makes
such rows, unless it says that it goes past it."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import cache
from io import BytesIO
from typing import Any, TypeVar
from uuid import uuid4

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.models import Session
from django.db.models import Model
from django.test import Client
from django.utils import timezone
from django.utils.crypto import get_random_string
from django.utils.text import slugify
from factory.declarations import LazyAttribute, LazyFunction, PostGeneration, RelatedFactory, SelfAttribute, SubFactory
from factory.django import DjangoModelFactory, Password
from PIL import Image as Pillow

from agents.agent.access import visible_to
from agents.agent.services import check_soul
from agents.agent.soul import soul_to_dict
from agents.models import Agent, SoulVersion
from knowledge.models import Entry
from knowledge.services import create_entry, suggest_entry
from openvibe.base.events import emit
from openvibe.chat.attachments import make_attachment
from openvibe.chat.images import make_image
from openvibe.chat.models import Attachment, Channel, ChannelMembership, Message, StoredFile, Thread
from openvibe.chat.services import post_message
from openvibe.engines.database.prepared_statements import fetch_prepared
from openvibe.engines.jobs.models import JobRun
from openvibe.engines.llm.models import Endpoint
from openvibe.engines.llm.tokens import count_tokens
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member, Participant, User, Workspace
from openvibe.workspaces.queries import member_access
from openvibe.workspaces.sessions import SessionStore
from tests.engines.llm.factories import EndpointFactory
from tests.rows import insert

ModelT = TypeVar("ModelT", bound=Model)
PASSWORD = "correct horse battery"
SOUL = """\
identity:
  name: {name}
  role: Helps the team find what was said
  description: Answers from the conversation at hand.
philosophy:
  principles: [Quote before you conclude]
constraints:
  never_do: [Invent facts]
"""


class RowFactory(DjangoModelFactory[ModelT]):
    """Writes a row past the services, by a statement made once for each model (`tests.rows`)."""

    class Meta:
        abstract = True
        skip_postgeneration_save = True

    @classmethod
    def _create(cls, model_class: type[ModelT], *_arguments: object, **fields: Any) -> ModelT:
        return insert(model_class(**fields))


class JobRunFactory(RowFactory[JobRun]):
    """A run of a recurring job that is over."""

    class Meta:
        model = JobRun

    task_id = LazyFunction(lambda: str(uuid4()))
    state = JobRun.State.DONE


class UserFactory(RowFactory[User]):
    class Meta:
        model = User

    name = "Ana"
    email = LazyAttribute(lambda user: f"{user.name.lower()}@example.org")
    password = Password(PASSWORD)


class WorkspaceFactory(RowFactory[Workspace]):
    """A workspace without anybody, which has an event."""

    class Meta:
        model = Workspace

    class Params:
        owner_name = "Ana"

    name = LazyAttribute(lambda workspace: f"{workspace.owner_name}'s garden")
    slug = LazyAttribute(lambda workspace: f"{slugify(workspace.owner_name)}s-garden")

    event = PostGeneration(lambda workspace, *_: emit("members_changed", workspace_id=workspace.pk))


class ParticipantFactory(RowFactory[Participant]):
    class Meta:
        model = Participant

    workspace = SubFactory(WorkspaceFactory)
    kind = "member"
    name = "Ana"
    handle = LazyAttribute(lambda participant: slugify(participant.name))


class MemberFactory(RowFactory[Member]):
    """The owner of a new workspace of their own, unless `workspace` and `role` say otherwise."""

    class Meta:
        model = Member

    class Params:
        name = "Ana"

    user = SubFactory(UserFactory, name=SelfAttribute("..name"))
    workspace = SubFactory(WorkspaceFactory, owner_name=SelfAttribute("..name"))
    participant = SubFactory(ParticipantFactory, workspace=SelfAttribute("..workspace"), name=SelfAttribute("..name"))
    role = "owner"
    first_steps_since = LazyFunction(timezone.now)


class ChannelMembershipFactory(RowFactory[ChannelMembership]):
    class Meta:
        model = ChannelMembership


class ChannelFactory(RowFactory[Channel]):
    """A channel with `by` in it."""

    class Meta:
        model = Channel

    class Params:
        by = SubFactory(MemberFactory)

    workspace_id = SelfAttribute("by.workspace_id")
    name = "general"
    created_by_id = SelfAttribute("by.participant_id")
    membership = RelatedFactory(ChannelMembershipFactory, "channel", participant_id=SelfAttribute("..created_by_id"))


class ThreadFactory(RowFactory[Thread]):
    """An empty thread."""

    class Meta:
        model = Thread

    class Params:
        by = SubFactory(MemberFactory)

    channel = SubFactory(ChannelFactory, by=SelfAttribute("..by"))
    workspace_id = SelfAttribute("channel.workspace_id")
    title = "Pruning"
    created_by_id = SelfAttribute("by.participant_id")


@cache
def _soul(name: str) -> tuple[str, dict[str, Any], int]:
    """The SOUL as it is written, its content and its tokens."""
    source = SOUL.format(name=name)
    soul, tokens = check_soul(source)
    return source, soul_to_dict(soul), tokens


def _use_soul(version: SoulVersion) -> None:
    version.agent.soul = version
    fetch_prepared("UPDATE agents_agent SET soul_id = %s WHERE id = %s RETURNING id", (version.pk, version.agent_id))


class SoulVersionFactory(RowFactory[SoulVersion]):
    """The first version of an agent's SOUL, which it has from then on."""

    class Meta:
        model = SoulVersion

    class Params:
        checked = LazyAttribute(lambda version: _soul(version.agent.participant.name))

    number = 1
    source = LazyAttribute(lambda version: version.checked[0])
    content = LazyAttribute(lambda version: version.checked[1])
    token_count = LazyAttribute(lambda version: version.checked[2])
    note = "First version"

    use = PostGeneration(lambda version, *_: _use_soul(version))


class AgentFactory(RowFactory[Agent]):
    """An active agent with a SOUL, in no channel."""

    class Meta:
        model = Agent

    class Params:
        by = SubFactory(MemberFactory)
        handle = "vibe"

    workspace = SelfAttribute("by.workspace")
    participant = SubFactory(
        ParticipantFactory,
        workspace=SelfAttribute("..workspace"),
        kind="agent",
        handle=SelfAttribute("..handle"),
        name=LazyAttribute(lambda participant: participant.handle.title()),
    )
    level = 2
    first_soul = RelatedFactory(SoulVersionFactory, "agent", author_id=SelfAttribute("..by.participant_id"))


class SessionFactory(RowFactory[Session]):
    """A session as signing in leaves it."""

    class Meta:
        model = Session

    class Params:
        user = SubFactory(UserFactory)

    session_key = LazyFunction(lambda: get_random_string(32))
    session_data = LazyAttribute(
        lambda session: SessionStore().encode(
            {
                SESSION_KEY: str(session.user.pk),
                BACKEND_SESSION_KEY: settings.AUTHENTICATION_BACKENDS[0],
                HASH_SESSION_KEY: session.user.get_session_auth_hash(),
            }
        )
    )
    expire_date = LazyFunction(lambda: timezone.now() + timedelta(seconds=settings.SESSION_COOKIE_AGE))


class StoredFileFactory(RowFactory[StoredFile]):
    """The file as it came, beside its text."""

    class Meta:
        model = StoredFile

    size = 1
    sha256 = "x"
    content = b"x"


class MessageFactory(DjangoModelFactory[Message]):
    """A message that `by` posts, which rings the agents it names. Further fields go to `post_message`."""

    class Meta:
        model = Message

    by = SubFactory(MemberFactory)
    thread = SubFactory(ThreadFactory, by=SelfAttribute("..by"))
    body = "When do I prune?"

    @classmethod
    def _create(cls, model_class: type[Message], *_arguments: object, by: Member, **fields: Any) -> Message:
        return post_message(by=access(by), **fields)


class EntryFactory(DjangoModelFactory[Entry]):
    """An entry that `by` wrote by hand. Further fields go to `create_entry`."""

    class Meta:
        model = Entry

    by = SubFactory(MemberFactory)
    topic = "Pricing"
    content = "Starter costs $29 a month."

    @classmethod
    def _create(cls, model_class: type[Entry], *_arguments: object, by: Member, **fields: Any) -> Entry:
        return create_entry(by=access(by), **fields)


class SuggestionFactory(DjangoModelFactory[Entry]):
    """An entry that the agent `by` suggests, waiting for a person. Further fields go to `suggest_entry`."""

    class Meta:
        model = Entry

    by = SubFactory(AgentFactory)
    topic = "Pricing"
    content = "Pro costs $99."

    @classmethod
    def _create(cls, model_class: type[Entry], *_arguments: object, by: Agent, **fields: Any) -> Entry:
        return suggest_entry(by=visible_to(by), **fields)


def make_user(name: str = "Ana") -> User:
    return UserFactory.create(name=name)


def make_member(name: str = "Ana", workspace: Workspace | None = None, role: str = "member") -> Member:
    """A member of `workspace`, or the owner of a new one of their own."""
    place = {"workspace": workspace, "role": role} if workspace else {}
    return MemberFactory.create(name=name, **place)


def write_channels(member: Member, count: int) -> None:
    """Public channels in which nothing was said and that nobody joined, `room-0000` and so on; in one statement."""
    rows = [Channel(workspace=member.workspace, name=f"room-{number:04}") for number in range(count)]
    Channel.objects.bulk_create(rows)


def write_members(workspace: Workspace, count: int, name: str = "Helper") -> list[Member]:
    """Helper 0 to Helper `count` - 1, past the services; their handles end in the id of their account."""
    names = [f"{name} {number}" for number in range(count)]
    users = User.objects.bulk_create(User(email=f"{each.replace(' ', '')}@example.org", name=each) for each in names)
    handle = name.lower()
    people = Participant.objects.bulk_create(
        Participant(workspace=workspace, kind="member", handle=f"{handle}{user.pk}", name=user.name) for user in users
    )
    pairs = zip(users, people, strict=True)
    return Member.objects.bulk_create(Member(workspace=workspace, user=user, participant=one) for user, one in pairs)


def access(member: Member) -> Access:
    return member_access(member)


def make_channel(by: Member, name: str = "general", *, private: bool = False) -> Channel:
    return ChannelFactory.create(by=by, name=name, is_private=private)


def make_thread(channel: Channel, by: Member, title: str = "Pruning") -> Thread:
    return ThreadFactory.create(by=by, channel=channel, title=title)


def say(thread: Thread, by: Member, body: str, **extra: Any) -> Message:
    return MessageFactory.create(thread=thread, by=by, body=body, **extra)


def say_all(thread: Thread, by: Member, bodies: Iterable[str]) -> None:
    """Many messages at once, past the services: nothing rings, and nobody is named."""
    last = Thread.objects.values_list("last_seq", flat=True).get(pk=thread.pk)
    rows = [
        Message(thread=thread, seq=seq, author_id=by.participant_id, body=body, token_count=count_tokens(body))
        for seq, body in enumerate(bodies, start=last + 1)
    ]
    Message.objects.bulk_create(rows)
    Thread.objects.filter(pk=thread.pk).update(last_seq=last + len(rows))


def attach(thread: Thread, by: Member, body: str = "Look at this.", /, **files: str) -> Message:
    """A message with a text file for each name; `plan_md="…"` is plan.md."""
    attachments = [make_attachment(".".join(name.rsplit("_", 1)), text.encode()) for name, text in files.items()]
    return say(thread, by, body, files=attachments)


def send_file(thread: Thread, by: Member, name: str, data: bytes, body: str = "Look at this.") -> Attachment:
    """The file of a message with it alone."""
    return say(thread, by, body, files=[make_attachment(name, data)]).attachments.get()


def image_file(form: str = "PNG", size: tuple[int, int] = (40, 30), color: object = "red", **options: object) -> bytes:
    """The file of an image of one color."""
    output = BytesIO()
    Pillow.new("RGB", size, color).save(output, form, **options)  # type: ignore[arg-type]
    return output.getvalue()


def show(
    thread: Thread,
    by: Member,
    body: str = "Look at this.",
    /,
    *,
    names: Sequence[str] = ("wall.png",),
    size: tuple[int, int] = (600, 400),
    description: str = "",
) -> Message:
    """A message with an image of each name."""
    return say(thread, by, body, files=[make_image(name, image_file(size=size), description) for name in names])


def make_agent(
    by: Member, handle: str = "vibe", *, level: int = 2, channel: Channel | None = None, answers_itself: bool = False
) -> Agent:
    """An agent that is put into `channel`. `by` must administer the workspace."""
    agent = AgentFactory.create(by=by, handle=handle, level=level, answers_itself=answers_itself)
    if channel is not None:
        ChannelMembershipFactory.create(channel=channel, participant=agent.participant)
    return agent


def make_paid_endpoint(by: Member) -> Endpoint:
    """What the agents of the workspace answer with unless they name another, at a price."""
    return EndpointFactory.create(workspace=by.workspace, name="Paid", price_in=1, is_default=True)


def make_entry(by: Member, topic: str = "Pricing", content: str = "Starter costs $29 a month.", **extra: Any) -> Entry:
    return EntryFactory.create(by=by, topic=topic, content=content, **extra)


def make_suggestion(by: Agent, topic: str = "Pricing", content: str = "Pro costs $99.", **extra: Any) -> Entry:
    return SuggestionFactory.create(by=by, topic=topic, content=content, **extra)


def signed_in(member: Member) -> Client:
    """A browser of hers, with the session that signing in leaves."""
    client = Client()
    client.cookies[settings.SESSION_COOKIE_NAME] = SessionFactory.create(user=member.user).session_key
    return client
