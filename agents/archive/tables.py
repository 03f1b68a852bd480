"""The tables that belong to a workspace, found by their foreign keys, and the exceptions.

A new model is in the archive as soon as a chain of foreign keys leads from it to `Workspace`. What is to be left out,
or holds ids that are no foreign keys, stands in LEFT_OUT and REFERENCES."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import cache, reduce
from operator import or_
from typing import Any

from django.apps import apps
from django.core.exceptions import ImproperlyConfigured
from django.db.models import AutoField, BigAutoField, Field, Model, Q, QuerySet

from agents.agent.models import (
    Citation,
    EntryErasure,
    JoinCode,
    Run,
    Schedule,
    Snapshot,
    SoulVersion,
    ToolCall,
    ToolSource,
    WatchLook,
    WorkspaceExport,
)
from agents.prompts.snapshots.content import UnreadableContent, pack_content, read_content, unpack_content
from knowledge.models import Entry, Revision
from memory.models import (
    Approval,
    Block,
    Compaction,
    Episode,
    Feedback,
    Handoff,
    ProfileNote,
    ProgressEntry,
    Proposal,
    WorkItem,
)
from memory.plugins.lcm.models import Summary
from openvibe.api.models import IdempotencyKey, Token
from openvibe.base.models import AuditRecord, Event
from openvibe.chat.models import (
    Attachment,
    Channel,
    Image,
    Message,
    PushDelivery,
    PushPosition,
    Quote,
    StoredFile,
    Thread,
)
from openvibe.engines.database.fields import EncryptedTextField
from openvibe.engines.llm.models import Endpoint, EndpointAdaptation
from openvibe.engines.search.models import VectorSpace
from openvibe.webhooks.models import Webhook
from openvibe.workspaces.models import Invitation, Participant, Presence, Snippet, User, Workspace

LEFT_OUT: dict[type[Model], str] = {
    EndpointAdaptation: "is learned again from the endpoint itself",
    AuditRecord: "says what happened in this installation, which a file from elsewhere cannot know",
    EntryErasure: "no archive is written while there is one",
    Event: "tells open pages what changed, and is kept for hours",
    IdempotencyKey: "remembers answers to the calls of tokens for a day",
    Invitation: "its link is a secret",
    JoinCode: "a secret, for ten minutes",
    Presence: "who has a page open at this moment",
    PushDelivery: "is on its way to a browser of this installation, for a day",
    PushPosition: "counts the events of this installation",
    Token: "a secret",
    VectorSpace: "vectors are made anew from the texts",
    WorkspaceExport: "files of this installation, which are deleted after a day",
    Webhook: "signs with a secret, and a copy would tell everything twice",
}
"""Tables of a workspace that are in no archive, each with its reason; what cannot be without them goes with them."""

LEFT_OUT_FIELDS: dict[tuple[type[Model], str], str] = {
    (Endpoint, "allowed_address"): "is a superuser's leave to call this installation's own machine",
    (ToolCall, "provider_fields"): "means nothing to any other endpoint, and nobody can read what it says",
    (StoredFile, "name"): "is where this installation keeps the file",
    (StoredFile, "is_elsewhere"): "is where this installation keeps the file",
    **{
        (model, name): "is made from the text when it comes in"
        for model in (Message, Thread, Entry)
        for name in ("search", "lexemes_version")
    },
    (Participant, "name_key"): "is computed from the name when it comes in",
    (Participant, "is_name_misleading"): "is computed from the name when it comes in",
    (Participant, "has_namesake"): "is found out when it comes in",
}
"""Fields that are in no archive, each with its reason, besides secrets."""

USER_FIELDS = ("email", "name", "is_active")
"""What an archive says of an account: enough to find it by its address, or to make one without a password."""

FILE_FIELDS: dict[type[Model], str] = {Attachment: "content", StoredFile: "content"}
"""Texts and bytes that are files of their own in an archive."""

Translate = Callable[[type[Model], int], int]
"""A row's id to its number in an archive, or back."""


@dataclass(frozen=True)
class Reference:
    """A field that holds ids without a foreign key. `translate(value, row, translate)` gives the value with others;
    `load` and `store` are applied before and after it, on the way out and in."""

    translate: Callable[[Any, Mapping[str, Any], Translate], Any]
    load: Callable[[Any], Any] = lambda value: value
    store: Callable[[Any], Any] = lambda value: value


def _by_kind(models: Mapping[str, type[Model]]) -> Reference:
    def translate_ref(value: int, row: Mapping[str, Any], translate: Translate) -> int:
        return translate(models[row["kind"]], value)

    return Reference(translate_ref)


_KEYS: dict[str, tuple[type[Model], ...]] = {
    "approval": (Approval,),
    "block": (Block,),
    "episode": (Episode,),
    "file": (Message, Attachment),
    "piece": (Message, Attachment),
    "image": (Message, Image),
    "pixels": (Message, Image),
    "knowledge": (Entry,),
    "message": (Message,),
    "middle": (Message,),
    "observation": (ToolCall,),
    "progress": (ProgressEntry,),
    "summary": (Summary,),
    "work": (WorkItem,),
}
_NUMBERED_KEYS = frozenset(("piece",))
"""Kinds whose keys end with a number that is no row's."""
_KEY = re.compile(r"([a-z]+):(-?\d{1,18}(?::-?\d{1,18}){0,2})\Z")


def _translate_keys(value: Any, row: Mapping[str, Any], translate: Translate) -> Any:
    """JSON with the ids in what is called `key`, `ref` or `origins`, such as `message:7`, translated."""
    if isinstance(value, list):
        return [_translate_keys(each, row, translate) for each in value]
    if not isinstance(value, dict):
        return value
    return {
        name: " ".join(_translate_key(key, translate) for key in each.split(" "))
        if name in ("key", "ref", "origins") and isinstance(each, str)
        else _translate_keys(each, row, translate)
        for name, each in value.items()
    }


def _translate_key(key: str, translate: Translate) -> str:
    match = _KEY.match(key)
    models = _KEYS.get(match[1], ()) if match else ()
    if match is None or match[2].count(":") != len(models) - 1 + (match[1] in _NUMBERED_KEYS):
        return key
    numbers = match[2].split(":")
    ids = (translate(model, int(text)) for model, text in zip(models, numbers, strict=False))
    return ":".join((match[1], *map(str, ids), *numbers[len(models) :]))


def _translate_superseded(changes: Any, row: Mapping[str, Any], translate: Translate) -> Any:
    pair = changes.get("supersedes")
    return {**changes, "supersedes": [each and translate(Entry, each) for each in pair]} if pair else changes


def _translate_step_authors(steps: Any, row: Mapping[str, Any], translate: Translate) -> Any:
    return [{**step, "by": translate(Participant, step["by"])} if is_number(step.get("by")) else step for step in steps]


def _readable_content(packed: bytes | memoryview) -> dict[str, Any] | None:
    """A stored prompt; None for one that cannot be read, of which the counts are kept."""
    try:
        return unpack_content(packed)
    except UnreadableContent:
        return None


def is_number(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool)


_QUOTE_MODELS = {
    **{
        "message": Message,
        "title": Thread,
        "file": Attachment,
        "image": Image,
        "work": WorkItem,
        "progress": ProgressEntry,
    },
    **{"approval": Approval, "proposal": Proposal, "episode": Episode, "feedback": Feedback, "block": Block},
    **{"notes": ProfileNote, "handoff": Handoff, "summary": Summary, "entry": Entry},
    **{"channel": Channel, "instructions": Thread, "schedule": Schedule},
    **{"description": Workspace, "organisation": Workspace, "snippet": Snippet, "soul": SoulVersion},
}
_CITED_MODELS = {"message": Message, "knowledge": Entry, "file": Attachment, "image": Image, "work": WorkItem}
REFERENCES: dict[tuple[type[Model], str], Reference] = {
    (Citation, "item_key"): Reference(lambda key, row, translate: _translate_key(key, translate)),
    (Citation, "ref"): _by_kind(_CITED_MODELS),
    (Compaction, "summary_ids"): Reference(lambda ids, row, translate: [translate(Summary, each) for each in ids]),
    (Handoff, "sections"): Reference(_translate_keys),
    (Quote, "ref"): _by_kind(_QUOTE_MODELS),
    (Revision, "changes"): Reference(_translate_superseded),
    (Run, "steps"): Reference(_translate_step_authors),
    (Snapshot, "content"): Reference(
        _translate_keys, load=_readable_content, store=lambda content: pack_content(read_content(content))
    ),
    (WatchLook, "content"): Reference(
        _translate_keys, load=_readable_content, store=lambda content: pack_content(read_content(content))
    ),
    (ToolSource, "ref"): _by_kind({"thread": Thread, "notes": Participant, "entry": Entry, "block": Block}),
}


@dataclass(frozen=True)
class Table:
    """A table that belongs to a workspace. `paths` lead to it (Django look-ups), `depth` tables away; `reason` says why
    it is left out, empty when it is not."""

    model: type[Model]
    paths: tuple[str, ...]
    depth: int
    reason: str = ""

    @property
    def name(self) -> str:
        return str(self.model._meta.label)

    @property
    def key_column(self) -> str:
        """Column of the primary key."""
        return str(self.model._meta.pk and self.model._meta.pk.column)

    @property
    def has_number(self) -> bool:
        """Whether its rows are known by a number that the database gave them; other keys are values like any."""
        return isinstance(self.model._meta.pk, AutoField | BigAutoField)

    def rows(self, workspace_id: int) -> QuerySet[Any]:
        of_workspace = reduce(or_, (Q(**{path: workspace_id}) for path in self.paths))
        return self.model._base_manager.filter(of_workspace).order_by("pk")

    def fields(self) -> list[Field[Any, Any]]:
        """What stands in a row of the archive: no number, nothing that the database computes, no secrets, no files."""
        return [
            field
            for field in self.stored_fields()
            if not isinstance(field, EncryptedTextField) and (self.model, field.name) not in LEFT_OUT_FIELDS
        ]

    def file_field(self) -> Field[Any, Any] | None:
        """What of a row is a file of its own in the archive."""
        fields = self.model._meta.concrete_fields
        return next((field for field in fields if field.name == FILE_FIELDS.get(self.model)), None)

    def stored_fields(self) -> list[Field[Any, Any]]:
        return [
            field
            for field in self.model._meta.concrete_fields
            if not field.generated
            and not (field.primary_key and self.has_number)
            and field.name != FILE_FIELDS.get(self.model)
        ]


@cache
def workspace_tables() -> tuple[Table, ...]:
    """Every table of a workspace, left out or not, each after those it is found by."""
    tables: dict[type[Model], Table] = {Workspace: Table(Workspace, ("pk",), 0)}
    models = [model for model in apps.get_models(include_auto_created=True) if model is not User and _is_stored(model)]
    while next_tables := _next_tables(models, tables):
        tables.update(next_tables)
    return tuple(sorted(tables.values(), key=lambda table: (table.depth, table.name)))


def archived_tables() -> tuple[Table, ...]:
    """The tables that an archive holds. Raises ImproperlyConfigured when one could not come back."""
    tables = tuple(table for table in workspace_tables() if not table.reason)
    archived = {table.model: table for table in tables}
    for table in tables:
        for field in table.fields():
            target = field.related_model
            if field.null or target is User or not isinstance(target, type):
                continue
            if target not in archived or not archived[target].has_number:
                raise ImproperlyConfigured(f"{table.name}.{field.name} leads to what no archive holds.")
    return tables


def _is_stored(model: type[Model]) -> bool:
    return model._meta.managed and not model._meta.proxy and not model._meta.swapped


def _next_tables(models: Iterable[type[Model]], tables: Mapping[type[Model], Table]) -> dict[type[Model], Table]:
    """Tables that lead to known ones: by what is never empty, or else, once there are no more such, by what may be."""
    unknown = [model for model in models if model not in tables]
    certain = {model: table for model in unknown if (table := _table_by_required(model, tables))}
    return certain or {model: table for model in unknown if (table := _table_by_optional(model, tables))}


def _relations(model: type[Model], tables: Mapping[type[Model], Table], *, null: bool) -> list[tuple[str, Table]]:
    fields = [field for field in model._meta.concrete_fields if field.is_relation and field.null == null]
    targets = [
        (field.name, tables.get(field.related_model)) for field in fields if isinstance(field.related_model, type)
    ]
    return [(name, target) for name, target in targets if target]


def _table_by_required(model: type[Model], tables: Mapping[type[Model], Table]) -> Table | None:
    reason = LEFT_OUT.get(model, "")
    if any(field.attname == "workspace_id" and not field.is_relation for field in model._meta.concrete_fields):
        return Table(model, ("workspace_id",), 1, reason)
    relations = _relations(model, tables, null=False)
    if not relations:
        return None
    for _, target in relations:
        reason = reason or (f"belongs to {target.name}, which is left out" if target.reason else "")
    name, target = min(relations, key=lambda relation: relation[1].depth)
    return Table(model, _paths(name, target), target.depth + 1, reason)


def _table_by_optional(model: type[Model], tables: Mapping[type[Model], Table]) -> Table | None:
    relations = _relations(model, tables, null=True)
    if not relations:
        return None
    paths = tuple(path for name, target in relations for path in _paths(name, target))
    return Table(model, paths, 1 + max(target.depth for _, target in relations), LEFT_OUT.get(model, ""))


def _paths(name: str, target: Table) -> tuple[str, ...]:
    return (name,) if target.model is Workspace else tuple(f"{name}__{path}" for path in target.paths)
