"""Rows in every table: what services write by them, what they leave empty by its columns."""

from __future__ import annotations

import io
import json
from collections.abc import Callable, Iterator
from datetime import timedelta
from typing import Any

from django.apps import apps
from django.core.management import call_command
from django.db.models import Field, Model
from django.utils import timezone
from django_celery_beat.models import IntervalSchedule
from pgvector import HalfVector

from agents.agent.access import visible_to
from agents.models import Agent, Run
from knowledge.services import supersede_entry
from memory.plugins.base import Session
from memory.plugins.lcm.correction import correct_summary
from memory.plugins.lcm.models import Summary
from memory.plugins.lcm.provider import LcmProvider
from memory.plugins.services import configure_plugin
from memory.services import record_failure
from memory.work.handoff import create_handoff
from openvibe.chat.models import Channel, Draft, Message
from openvibe.chat.services import (
    add_reaction,
    delete_message,
    publish_dive,
    save_message,
    set_notification_level,
    set_thread_access,
    set_thread_followers,
    start_dive,
    update_message,
)
from openvibe.engines.database.fields import encrypt
from openvibe.engines.llm.errors import BadAnswer
from openvibe.engines.llm.offline.drafts import ResultDraft
from openvibe.engines.search.indexing import VECTOR_TABLES, embed_pending
from openvibe.workspaces.models import Member, Participant, User, Workspace
from openvibe.workspaces.services import create_invitation, note_presence
from tests import factories
from tests.agents.runs.scripted_runs import ask, calling, told
from tests.api.example_world import ExampleWorld, make_example_world
from tests.memory.plugins.lcm.factories import condensed, leaf, taken_in

UNUSED = ("auth.", "contenttypes.", "workspaces.User_", "socialaccount.SocialApp", "socialaccount.SocialToken")
"""Tables that nothing writes to here: rights of groups, and providers that would stand in the database."""


def fill() -> None:
    """The sample workspace, the world of the API's examples, what neither has, and a row wherever there is none yet."""
    call_command("demo", if_empty=True, url="", stdout=io.StringIO())
    world = make_example_world()
    for write in (_write_conversation, _write_memory, _write_runs, _write_knowledge, _write_accounts):
        write(world)
    for table in VECTOR_TABLES:
        embed_pending(table, limit=5)
    _write_missing_rows(world)
    assert list(empty_models()) == []


def empty_models() -> Iterator[type[Model]]:
    """Models without a row that something writes to."""
    for model in apps.get_models(include_auto_created=True):
        is_table = model._meta.managed and not model._meta.proxy and not model._meta.label.startswith(UNUSED)
        if is_table and not model._base_manager.exists():
            yield model


def _channel(world: ExampleWorld) -> Channel:
    return Channel.objects.get(pk=world.ids["channels"])


def _write_conversation(world: ExampleWorld) -> None:
    """What people keep beside messages, messages that were changed and deleted, and a dive that ended in a result."""
    owner, by = world.owner, factories.access(world.owner)
    channel = factories.make_channel(owner, "shed")
    thread = factories.make_thread(channel, owner, "Tools")
    first, second, third = (factories.say(thread, owner, f"The {tool} is blunt.") for tool in ("saw", "knife", "axe"))
    update_message(message=first, by=by, body="The saw is sharp again.")
    delete_message(message=second, by=by)
    add_reaction(message=third, by=by, emoji="🌱")
    save_message(message=third, by=by)
    set_notification_level(scope=thread, by=by, level="nothing")
    agents = [world.agent.participant]
    set_thread_access(thread=thread, by=by, access="agent_restricted", allowed_agents=agents)
    followed = factories.make_thread(_channel(world), owner, "Followed")
    set_thread_followers(thread=followed, by=by, agents=agents)
    Draft.objects.create(participant=owner.participant, thread=thread, body="Not yet sent")
    create_invitation(workspace=owner.workspace, by=by, role="member", channel_ids=[channel.pk])
    note_presence([owner.participant_id])
    asked = factories.say(followed, owner, "Which roses?")
    dive = start_dive(source=asked, agent=world.agent.participant, by=by)
    result = ResultDraft("Which roses", ("Red.", "White.", "Climbing."), "All of them.", (), ())
    publish_dive(dive=dive, by=by, result=result)


def _write_memory(world: ExampleWorld) -> None:
    """A long thread in summaries, one of them corrected, a handoff, and a failure to learn from."""
    owner = world.owner
    thread = factories.make_thread(_channel(world), owner, "The long winter")
    rows = [f"Roses of bed {number} want water, mulch and a little patience. " * 9 for number in range(40)]
    factories.say_all(thread, owner, rows)
    provider, session = LcmProvider({"summaries": "deterministic"}), Session(thread.pk, visible_to(world.agent))
    provider.bootstrap(session)
    provider.compact(session, 900)
    summary = Summary.objects.filter(conversation__thread=thread).earliest("pk")
    correct_summary(session, summary, content="Beds 1 to 8 want water.", version=summary.version)
    create_handoff(thread=thread, trigger="milestone")
    short = factories.make_thread(_channel(world), owner, "The short winter")
    factories.say_all(short, owner, [f"Bed {number} sleeps." for number in range(20)])
    short.refresh_from_db()
    conversation = taken_in(short)
    condensed(conversation, [leaf(conversation, 1, 4), leaf(conversation, 5, 8)])
    record_failure(agent=world.agent.participant, thread=thread, summary="The model did not answer.")
    configure_plugin(workspace=owner.workspace, name="memory/lcm", config={"summaries": "deterministic"}, by=None)


def _write_runs(world: ExampleWorld) -> None:
    """Answers with calls of tools in a long thread, one that was asked for anew, one that failed."""
    thread = factories.make_thread(_channel(world), world.owner, "Mulch")
    factories.say_all(thread, world.owner, [f"Bed {number} has no mulch yet, said Li. " * 30 for number in range(30)])
    looks = calling(
        ("memory", {"action": "search", "query": "mulch"}), ("log_progress", {"checkpoint": "Bed 1 is mulched"})
    )
    told(ask(thread, world.owner), looks, "Bed 1 is mulched.")
    told(ask(thread, world.owner, "@vibe and bed 2?"), "Not yet.")
    told(ask(thread, world.owner, "@vibe and bed 3?"), BadAnswer("The model went away."))


def _write_knowledge(world: ExampleWorld) -> None:
    """An entry in the place of another, and answers that used knowledge."""
    by = factories.access(world.owner)
    entry = factories.make_entry(world.owner, "Pruning roses", "Prune the roses in March, not before.")
    supersede_entry(entry=entry, by=by, content="Prune the roses in April.", note="The frost of this year.")
    channel = _channel(world)
    sage = factories.make_agent(world.owner, "sage", level=3, channel=channel)
    thread = factories.make_thread(channel, world.owner, "When to prune roses")
    told(ask(thread, world.owner, "@sage when do we prune the roses?"), "In April.")
    assert Run.objects.filter(agent=sage, state="done").exists()


def _write_accounts(world: ExampleWorld) -> None:
    """A second member, a guest, and who has the whole installation."""
    for name, role in (("Dora", "member"), ("Ben", "guest")):
        factories.make_member(name, world.owner.workspace, role)


VALUES: dict[str, Callable[[ExampleWorld], dict[str, Any]]] = {
    "admin.LogEntry": lambda _: {"action_flag": 1},
    "agents.ClientTurn": lambda _: {"tools": [{"name": "weigh", "description": "Weighs.", "parameters": {}}]},
    "agents.McpTool": lambda _: {"effect": "reads", "input_schema": {"type": "object", "properties": {}}},
    "agents.WorkspaceExport": lambda _: {"state": "failed", "error": "The disk is full."},
    "api.IdempotencyKey": lambda _: {"status": 200, "body": {"id": 1}},
    "base.JobRun": lambda _: {"task": "agents.tasks.sweep", "milliseconds": 12, "counts": {"runs": 1}},
    "chat.Erasure": lambda _: {
        "is_deletion": False,
        "texts": "",
        "counts": {"prompts": 1},
        "finished_at": timezone.now(),
    },
    "chat.Quote": lambda world: {"kind": "work", "ref": world.ids["work"]},
    "chat.NotificationPreference": lambda world: {"channel": _channel(world), "level": "nothing"},
    "django_celery_beat.PeriodicTask": lambda _: {"task": "agents.tasks.sweep", "interval": _interval()},
    "llm.Endpoint": lambda _: {
        "name": "Paid",
        "base_url": "https://models.example/v1",
        "model": "m",
        "api_key": "sk-x",
    },
    "mfa.Authenticator": lambda _: {"type": "totp", "data": {"secret": encrypt("JBSWY3DPEHPK3PXP")}},
    "usersessions.UserSession": lambda _: {"session_key": "of-a-state", "ip": "127.0.0.1"},
}
"""What a row that no service wrote needs besides what its columns tell."""


def _interval() -> IntervalSchedule:
    return IntervalSchedule.objects.get_or_create(every=1, period="hours")[0]


def _write_missing_rows(world: ExampleWorld) -> None:
    """A row in each table that is empty still, made from its columns, those that others need first."""
    waiting, left = list(empty_models()), 0
    while waiting and len(waiting) != left:
        left = len(waiting)
        for model in waiting:
            is_empty = not model._base_manager.exists()  # a receiver may have written one meanwhile
            if is_empty and all(_target(field, world) for field in _required_relations(model)):
                _make_row(model, world)
        waiting = list(empty_models())


def _required_relations(model: type[Model]) -> Iterator[Field[Any, Any]]:
    return (field for field in model._meta.concrete_fields if field.is_relation and not field.null)


def _target(field: Field[Any, Any], world: ExampleWorld) -> Model | None:
    """The row that a relation of a new row leads to: the world's own, or any that has no such row yet."""
    model = field.related_model
    assert isinstance(model, type)
    of_world: dict[type[Model], Model] = {
        Workspace: world.owner.workspace,
        Member: world.owner,
        User: world.owner.user,
        Participant: world.owner.participant,
        Agent: world.agent,
    }
    if model is Participant and field.name == "agent":
        return world.agent.participant
    if model in of_world and not field.unique:
        return of_world[model]
    rows = model._base_manager.order_by("pk")
    if model is Message:
        rows = rows.filter(thread__workspace=world.owner.workspace, deleted_at=None)
    return rows.last()


def _make_row(model: type[Model], world: ExampleWorld) -> Model:
    values: dict[str, Any] = {field.name: _target(field, world) for field in _required_relations(model)}
    values |= {field.name: _value(field) for field in model._meta.concrete_fields if _needs_value(field)}
    if others := VALUES.get(model._meta.label):
        values |= others(world)
    row = model(**values)
    row.save(force_insert=True)
    return row


def _needs_value(field: Field[Any, Any]) -> bool:
    is_given = field.is_relation or field.generated or field.null or field.has_default() or field.has_db_default()
    is_automatic = getattr(field, "auto_now", False) or getattr(field, "auto_now_add", False)
    return not (is_given or is_automatic or (field.primary_key and "Auto" in field.get_internal_type()))


def _value(field: Field[Any, Any]) -> Any:
    """Some value that the column takes."""
    if field.choices:
        return next(value for value, _ in field.flatchoices if value)
    kind = field.get_internal_type()
    if "Integer" in kind or kind == "DecimalField":
        return 1
    if kind == "DateTimeField":
        return timezone.now() + timedelta(minutes=5)
    if kind == "BooleanField":
        return False
    if kind == "HalfVectorField":
        return HalfVector([0.5] * 256)
    if kind == "JSONField":
        return {}
    if kind == "ArrayField":
        return []
    if kind == "BinaryField":
        return b"x"
    return json.dumps({}) if field.name == "value" else f"some {field.name}"[: field.max_length]
