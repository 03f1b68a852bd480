"""What people do with an entry: renew, supersede, archive, bring back, accept, reject, send to review.

`If-Match` may be left out here; where it is sent, it must be the ETag of the entry as it is.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from django.shortcuts import get_object_or_404
from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer

from knowledge.api.entries import KNOWLEDGE, as_stale, entry_answer
from knowledge.api.rows import entries_of
from knowledge.api.serializers import AcceptIn, EntryOut, FlagIn, NoteIn, RenewIn, SupersedeIn
from knowledge.models import Entry
from knowledge.services import (
    accept_entry,
    archive_entry,
    flag_entry,
    reject_entry,
    renew_entry,
    restore_entry,
    supersede_entry,
)
from openvibe.api.idempotency import creates
from openvibe.api.matching import if_match, matched
from openvibe.api.views import ApiView
from openvibe.base.problems import Conflict
from openvibe.workspaces.api.auth import asker

MAY_MATCH = OpenApiParameter(
    "If-Match", str, OpenApiParameter.HEADER,
    description="The ETag the entry was read with; another one by now is refused with 412.",
)  # fmt: skip


class Acting(ApiView):
    """A view that does one thing to one entry."""

    scopes = {"POST": KNOWLEDGE}

    def do(self, verb: Callable[..., Entry], pk: int, takes: type[Serializer[Any]], status: int = 200) -> Response:
        access, said = asker(self.request), self.said(takes)
        entry = get_object_or_404(entries_of(access), pk=pk)
        if "successor" in said:
            said["successor"] = get_object_or_404(entries_of(access), pk=said["successor"])
        based_on = matched(self.request, entry.version) if if_match(self.request) is not None else None
        try:
            written = verb(entry=entry, by=access, how="api", based_on=based_on, **said)
        except Conflict as conflict:
            raise as_stale(conflict) from None
        return entry_answer(written, access, status)


class Renew(Acting):
    @extend_schema(operation_id="knowledge_renew", parameters=[MAY_MATCH], request=RenewIn, responses=EntryOut)
    def post(self, request: Request, pk: int) -> Response:
        """It still holds, until `expires_at`. What waited for review or was archived holds again."""
        return self.do(renew_entry, pk, RenewIn)


class Supersede(Acting):
    @extend_schema(
        operation_id="knowledge_supersede", parameters=[MAY_MATCH], request=SupersedeIn, responses={201: EntryOut}
    )
    @creates
    def post(self, request: Request, pk: int) -> Response:
        """Another entry takes its place; that one is the answer."""
        return self.do(supersede_entry, pk, SupersedeIn, 201)


class Archive(Acting):
    @extend_schema(operation_id="knowledge_archive", parameters=[MAY_MATCH], request=NoteIn, responses=EntryOut)
    def post(self, request: Request, pk: int) -> Response:
        """It holds no more. It stays readable and can be brought back."""
        return self.do(archive_entry, pk, NoteIn)


class Restore(Acting):
    @extend_schema(operation_id="knowledge_restore", parameters=[MAY_MATCH], request=NoteIn, responses=EntryOut)
    def post(self, request: Request, pk: int) -> Response:
        """Bring an archived entry back; a superseded one once its successor is archived."""
        return self.do(restore_entry, pk, NoteIn)


class Accept(Acting):
    @extend_schema(operation_id="knowledge_accept", parameters=[MAY_MATCH], request=AcceptIn, responses=EntryOut)
    def post(self, request: Request, pk: int) -> Response:
        """A suggestion holds from now on, as it is or in better words."""
        return self.do(accept_entry, pk, AcceptIn)


class Reject(Acting):
    @extend_schema(operation_id="knowledge_reject", parameters=[MAY_MATCH], request=NoteIn, responses=EntryOut)
    def post(self, request: Request, pk: int) -> Response:
        """A suggestion is archived and never held."""
        return self.do(reject_entry, pk, NoteIn)


class Flag(Acting):
    @extend_schema(operation_id="knowledge_flag", parameters=[MAY_MATCH], request=FlagIn, responses=EntryOut)
    def post(self, request: Request, pk: int) -> Response:
        """Send it to review: it is in no prompt until somebody renews, edits or archives it."""
        return self.do(flag_entry, pk, FlagIn)
