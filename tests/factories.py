"""The cast and its props. Ana belongs, Ben may only read what he was added to, Cleo is a stranger."""

from collections.abc import Iterable, Sequence
from datetime import timedelta
from functools import cache
from io import BytesIO
from typing import Any

from django.conf import settings
from django.contrib.auth import BACKEND_SESSION_KEY, HASH_SESSION_KEY, SESSION_KEY
from django.contrib.sessions.models import Session
from django.test import Client
from django.utils import timezone
from django.utils.crypto import get_random_string
from django.utils.text import slugify
from PIL import Image as Pillow

from agents.access import visible_to
from agents.models import Agent, SoulVersion
from agents.services import check_soul
from agents.soul import soul_to_dict
from knowledge.models import Entry
from knowledge.services import create_entry, suggest_entry
from openvibe.base.events import emit
from openvibe.base.prepared_statements import fetch_prepared
from openvibe.chat.attachments import make_attachment
from openvibe.chat.images import make_image
from openvibe.chat.models import Channel, ChannelMembership, Message, Thread
from openvibe.chat.services import post_message
from openvibe.llm.models import Endpoint
from openvibe.llm.tokens import count_tokens
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Member, Participant, User, Workspace
from openvibe.workspaces.queries import member_access
from openvibe.workspaces.sessions import SessionStore
from tests.rows import insert

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


def make_user(name: str = "Ana") -> User:
    user = User(email=f"{name.lower()}@example.org", name=name)
    user.set_password(PASSWORD)
    return insert(user)


def make_member(name: str = "Ana", workspace: Workspace | None = None, role: str = "member") -> Member:
    """A member of `workspace`, or the owner of a new one of their own (which has an event); past the services."""
    user, handle = make_user(name), slugify(name)
    if workspace is None:
        workspace = insert(Workspace(name=f"{name}'s garden", slug=f"{handle}s-garden"))
        role = "owner"
        emit("members_changed", workspace_id=workspace.pk)
    participant = insert(Participant(workspace=workspace, kind="member", handle=handle, name=name))
    return insert(
        Member(participant=participant, workspace=workspace, user=user, role=role, first_steps_since=timezone.now())
    )


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
    """A channel with `by` in it, past the services."""
    channel = insert(
        Channel(workspace_id=by.workspace_id, name=name, is_private=private, created_by_id=by.participant_id)
    )
    insert(ChannelMembership(channel=channel, participant_id=by.participant_id))
    return channel


def make_thread(channel: Channel, by: Member, title: str = "Pruning") -> Thread:
    """An empty thread, past the services."""
    return insert(
        Thread(workspace_id=channel.workspace_id, channel=channel, title=title, created_by_id=by.participant_id)
    )


def say(thread: Thread, by: Member, body: str, **extra: Any) -> Message:
    return post_message(thread=thread, by=access(by), body=body, **extra)


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


def make_agent(by: Member, handle: str = "vibe", *, level: int = 2, channel: Channel | None = None) -> Agent:
    """An active agent with a SOUL, put into `channel`, past the services. `by` must administer the workspace."""
    name, workspace = handle.title(), by.workspace
    participant = insert(Participant(workspace=workspace, kind="agent", handle=handle, name=name))
    agent = insert(Agent(participant=participant, workspace=workspace, level=level))
    source, content, tokens = _soul(name)
    agent.soul = insert(
        SoulVersion(
            agent=agent,
            number=1,
            content=content,
            source=source,
            token_count=tokens,
            note="First version",
            author_id=by.participant_id,
        )
    )
    fetch_prepared("UPDATE agents_agent SET soul_id = %s WHERE id = %s RETURNING id", (agent.soul.pk, agent.pk))
    if channel is not None:
        insert(ChannelMembership(channel=channel, participant=participant))
    return agent


@cache
def _soul(name: str) -> tuple[str, dict[str, Any], int]:
    """The SOUL as it is written, its content and its tokens."""
    source = SOUL.format(name=name)
    soul, tokens = check_soul(source)
    return source, soul_to_dict(soul), tokens


def make_paid_endpoint(by: Member) -> Endpoint:
    """What the agents of the workspace answer with unless they name another, at a price."""
    address = "https://models.example/v1"
    return Endpoint.objects.create(
        workspace=by.workspace, name="Paid", base_url=address, model="m", price_in=1, is_default=True
    )


def make_entry(by: Member, topic: str = "Pricing", content: str = "Starter costs $29 a month.", **extra: Any) -> Entry:
    """An entry that `by` wrote by hand; `extra` goes to `create_entry`."""
    return create_entry(by=access(by), topic=topic, content=content, **extra)


def make_suggestion(by: Agent, topic: str = "Pricing", content: str = "Pro costs $99.", **extra: Any) -> Entry:
    """An entry an agent suggests, waiting for a person."""
    return suggest_entry(by=visible_to(by), topic=topic, content=content, **extra)


def signed_in(member: Member) -> Client:
    """A browser of hers, with the session that signing in leaves."""
    client, key = Client(), get_random_string(32)
    content = {
        SESSION_KEY: str(member.user_id),
        BACKEND_SESSION_KEY: settings.AUTHENTICATION_BACKENDS[0],
        HASH_SESSION_KEY: member.user.get_session_auth_hash(),
    }
    expires = timezone.now() + timedelta(seconds=settings.SESSION_COOKIE_AGE)
    insert(Session(session_key=key, session_data=SessionStore().encode(content), expire_date=expires))
    client.cookies[settings.SESSION_COOKIE_NAME] = key
    return client
