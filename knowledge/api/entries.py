"""Entries: listed, written, pinned, suggested, changed, and how they changed."""

from __future__ import annotations

from typing import Any

from django.db import transaction
from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from knowledge.api.filters import EntryFilter, EntryFilters
from knowledge.api.rows import entries_of, for_answers, found_entry, owner_called, written_entry
from knowledge.api.serializers import EntryChange, EntryIn, EntryOut, RevisionOut, SuggestIn, SuggestionOut
from knowledge.history import revisions_known_to
from knowledge.models import Entry
from knowledge.services import add_entry, change_owner, edit_entry, pin_result, suggest_entry
from openvibe.api.idempotency import creates
from openvibe.api.matching import IF_MATCH, StaleMatch, matched, with_etag
from openvibe.api.views import ApiView
from openvibe.base.problems import Conflict, Problem, Refused
from openvibe.chat.models import Message
from openvibe.workspaces.access import Access
from openvibe.workspaces.api.auth import asker

KNOWLEDGE = "knowledge"


class Entries(ApiView):
    scopes = {"POST": KNOWLEDGE}
    queryset = Entry.objects.none()
    filter_backends = (EntryFilters,)
    filterset_class = EntryFilter

    @extend_schema(operation_id="knowledge_list", responses=EntryOut(many=True))
    def get(self, request: Request) -> Response:
        """Entries the caller may read, the newest first, whatever their status. Agents get what holds only."""
        access = asker(request)
        return self.page(for_answers(self.filter_queryset(entries_of(access)), access), EntryOut)

    @extend_schema(operation_id="knowledge_create", request=EntryIn, responses={201: EntryOut})
    @creates
    def post(self, request: Request) -> Response:
        """Write an entry, or pin a `message`. It holds at once. Members only: guests read, agents suggest."""
        access, said = asker(request), self.said(EntryIn)
        return entry_answer(_write(said, access), access, status=201)


class Suggest(ApiView):
    scopes = {"POST": KNOWLEDGE}

    @extend_schema(operation_id="knowledge_suggest", request=SuggestIn, responses={201: SuggestionOut})
    @creates
    def post(self, request: Request) -> Response:
        """Suggest an entry: it is in no prompt until a person accepts it. Members, and agents from level 2 on."""
        access, said = asker(request), self.said(SuggestIn)
        message = said.pop("message", None)
        entry = suggest_entry(
            by=access,
            supersedes=_entry_to_replace(said.pop("supersedes", None), access),
            source_message=_message(message, access) if message else None,
            how="api",
            **said,
        )
        return Response(SuggestionOut(Entry.objects.select_related("owner").get(pk=entry.pk)).data, status=201)


class OneEntry(ApiView):
    scopes = {"PATCH": KNOWLEDGE}

    @extend_schema(operation_id="knowledge_get", responses=EntryOut)
    def get(self, request: Request, pk: int) -> Response:
        """One entry; its version is its ETag."""
        entry = found_entry(pk, asker(request))
        return with_etag(Response(EntryOut(entry).data), entry.version)

    @extend_schema(operation_id="knowledge_change", parameters=[IF_MATCH], request=EntryChange, responses=EntryOut)
    def patch(self, request: Request, pk: int) -> Response:
        """Change an entry, from the version that If-Match names. Members only; every change is a revision."""
        access, said = asker(request), self.said(EntryChange)
        entry = found_entry(pk, access)
        owner, note = owner_called(said.pop("owner", None), access), said.pop("note")
        version = matched(request, entry.version)
        try:
            with transaction.atomic():
                edit_entry(entry=entry, by=access, note=note, how="api", based_on=version, **said)
                if owner is not None:
                    change_owner(entry=entry, by=access, owner=owner, note=note, how="api")
        except Conflict as conflict:
            raise as_stale(conflict) from None
        return entry_answer(entry, access)


class Revisions(ApiView):
    page_order = "-number"

    @extend_schema(operation_id="knowledge_revisions", responses=RevisionOut(many=True))
    def get(self, request: Request, pk: int) -> Response:
        """Every change of an entry: who, when, what and why, the newest first. People only.

        Who reads it only since it was shared is not told what it said before.
        """
        access = asker(request)
        entry = get_object_or_404(entries_of(access), pk=pk)
        if access.is_agent:
            raise Refused("Only people look at how an entry changed.", code="people_only")
        return self.page(revisions_known_to(access, entry).select_related("by"), RevisionOut)


def entry_answer(entry: Entry, access: Access, status: int = 200) -> Response:
    """An entry after it was written, with its new ETag."""
    written = written_entry(entry, access)
    return with_etag(Response(EntryOut(written).data, status=status), written.version)


def as_stale(conflict: Conflict) -> Problem:
    """412 where somebody changed it between If-Match and now."""
    return StaleMatch(conflict.message) if conflict.code == "stale" else conflict


def _write(said: dict[str, Any], access: Access) -> Entry:
    message = said.pop("message", None)
    source = _message(message, access) if message else None
    said["supersedes"] = _entry_to_replace(said.pop("supersedes", None), access)
    said["owner"] = owner_called(said.pop("owner", None), access)
    if source is not None:
        return pin_result(message=source, by=access, how="api", **said)
    return add_entry(by=access, how="api", **said)


def _message(pk: int, access: Access) -> Message:
    messages: QuerySet[Message] = Message.objects.visible_to(access)
    return get_object_or_404(messages.select_related("thread__channel"), pk=pk)


def _entry_to_replace(pk: int | None, access: Access) -> Entry | None:
    return None if pk is None else get_object_or_404(entries_of(access), pk=pk)
