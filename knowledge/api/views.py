"""API of knowledge: list, create, suggest, change and act on entries; search, contradictions, import and export."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any

from django.db import transaction
from django.http import HttpResponseBase, StreamingHttpResponse
from django_filters.rest_framework import DjangoFilterBackend
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiParameter, OpenApiResponse, extend_schema
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response
from rest_framework.serializers import Serializer

from knowledge.api.serializers import (
    AcceptIn,
    ContradictionOut,
    ContradictionsQuery,
    CsvParser,
    EntryChange,
    EntryFilter,
    EntryIn,
    EntryOut,
    ExportQuery,
    FileBody,
    FlagIn,
    FoundEntriesOut,
    ImportIn,
    ImportReportOut,
    IndexOut,
    JsonlParser,
    KnowledgeUploadIn,
    MarkdownZipParser,
    NoteIn,
    RenewIn,
    RevisionOut,
    SearchQuery,
    SettleIn,
    SimilarIn,
    SimilarOut,
    SuggestIn,
    SuggestionOut,
    SupersedeIn,
)
from knowledge.exchange.csv_jsonl import CONTENT_TYPES
from knowledge.exchange.entry_export import export_entries
from knowledge.exchange.uploads import import_upload
from knowledge.models import Entry
from knowledge.queries import (
    access_contradiction,
    access_entry,
    access_plain_entry,
    accessible_contradictions,
    accessible_entries,
    reload_entry,
    topics_by_kind,
    visible_revisions,
    with_api_fields,
)
from knowledge.search import EntryHit, find_entries
from knowledge.services import (
    accept_entry,
    archive_entry,
    change_owner,
    create_entry,
    flag_entry,
    pin_result,
    reject_entry,
    renew_entry,
    restore_entry,
    settle_contradiction,
    suggest_entry,
    supersede_entry,
    undo_decision,
    update_entry,
)
from knowledge.similarity import find_similar_entries
from openvibe.api.etags import IF_MATCH_PARAMETER, PreconditionFailed, check_if_match, read_if_match, set_etag
from openvibe.api.idempotency import idempotent
from openvibe.api.parsers import BoundedJSONParser
from openvibe.api.views import ApiView
from openvibe.base.problems import Conflict, Problem, Refused
from openvibe.chat.models import Message
from openvibe.chat.queries import access_message
from openvibe.chat.services import check_agent_tool
from openvibe.workspaces.access import Access
from openvibe.workspaces.decorators import request_access
from openvibe.workspaces.models import Participant

KNOWLEDGE_SCOPE = "knowledge"


class Entries(ApiView):
    scopes = {"POST": KNOWLEDGE_SCOPE}
    queryset = Entry.objects.none()
    filter_backends = (DjangoFilterBackend,)
    filterset_class = EntryFilter

    @extend_schema(operation_id="knowledge_list", responses=EntryOut(many=True))
    def get(self, request: Request) -> Response:
        """Entries the caller may read, the newest first, whatever their status. Agents get what holds only."""
        access = request_access(request)
        check_agent_tool(access, "knowledge_search")
        return self.paginated_response(
            with_api_fields(self.filter_queryset(accessible_entries(access)), access), EntryOut
        )

    @extend_schema(operation_id="knowledge_create", request=EntryIn, responses={201: EntryOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """Write an entry, or pin a `message`. It holds at once. Members only: guests read, agents suggest."""
        access, data = request_access(request), self.validated_body(EntryIn)
        message = _access_message(data.pop("message", None), access)
        data["supersedes"] = _access_predecessor(data.pop("supersedes", None), access)
        data["owner"] = access_owner(data.pop("owner", None), access)
        create = create_entry if message is None else partial(pin_result, message=message)
        return entry_response(create(by=access, how="api", **data), access, status=201)


class Suggest(ApiView):
    scopes = {"POST": KNOWLEDGE_SCOPE}

    @extend_schema(operation_id="knowledge_suggest", request=SuggestIn, responses={201: SuggestionOut})
    @idempotent
    def post(self, request: Request) -> Response:
        """Suggest an entry: it is in no prompt until a person accepts it. Members, and agents from level 2 on."""
        access, data = request_access(request), self.validated_body(SuggestIn)
        message = _access_message(data.pop("message", None), access)
        check_agent_tool(access, "knowledge_suggest", message.thread_id if message else None)
        entry = suggest_entry(
            by=access,
            supersedes=_access_predecessor(data.pop("supersedes", None), access),
            source_message=message,
            how="api",
            **data,
        )
        return Response(SuggestionOut(Entry.objects.select_related("owner").get(pk=entry.pk)).data, status=201)


class OneEntry(ApiView):
    scopes = {"PATCH": KNOWLEDGE_SCOPE}

    @extend_schema(operation_id="knowledge_get", responses=EntryOut)
    def get(self, request: Request, pk: int) -> Response:
        """One entry; its version is its ETag."""
        access = request_access(request)
        check_agent_tool(access, "knowledge_search")
        entry = access_entry(pk, access)
        return set_etag(Response(EntryOut(entry).data), entry.version)

    @extend_schema(
        operation_id="knowledge_update", parameters=[IF_MATCH_PARAMETER], request=EntryChange, responses=EntryOut
    )
    def patch(self, request: Request, pk: int) -> Response:
        """Change an entry, from the version that If-Match names. Members only; every change is a revision."""
        access, data = request_access(request), self.validated_body(EntryChange)
        entry = access_entry(pk, access)
        owner, note = access_owner(data.pop("owner", None), access), data.pop("note")
        version = check_if_match(request, entry.version)
        try:
            with transaction.atomic():
                update_entry(entry=entry, by=access, note=note, how="api", based_on=version, **data)
                if owner is not None:
                    change_owner(entry=entry, by=access, owner=owner, note=note, how="api")
        except Conflict as conflict:
            raise stale_error(conflict) from None
        return entry_response(entry, access)


class Revisions(ApiView):
    page_order = "-number"

    @extend_schema(operation_id="knowledge_list_revisions", responses=RevisionOut(many=True))
    def get(self, request: Request, pk: int) -> Response:
        """Every change of an entry: who, when, what and why, the newest first. People only.

        Who reads it only since it was shared is not told what it said before.
        """
        access = request_access(request)
        entry = access_plain_entry(access, pk)
        if access.is_agent:
            raise Refused("Only people look at how an entry changed.", code="people_only")
        return self.paginated_response(visible_revisions(access, entry).select_related("by"), RevisionOut)


def entry_response(entry: Entry, access: Access, status: int = 200) -> Response:
    """An entry after it was written, with its new ETag."""
    current_entry = reload_entry(entry, access)
    return set_etag(Response(EntryOut(current_entry).data, status=status), current_entry.version)


def stale_error(conflict: Conflict) -> Problem:
    """412 where somebody changed it between If-Match and now."""
    return PreconditionFailed(conflict.message) if conflict.code == "stale" else conflict


def _access_message(pk: int | None, access: Access) -> Message | None:
    return None if pk is None else access_message(access, pk)


def _access_predecessor(pk: int | None, access: Access) -> Entry | None:
    return None if pk is None else access_plain_entry(access, pk)


IF_MATCH_OPTIONAL = OpenApiParameter(
    "If-Match",
    str,
    OpenApiParameter.HEADER,
    description="The ETag the entry was read with; another one by now is refused with 412.",
)


def action_view(
    name: str, service: Callable[..., Entry], takes: type[Serializer[Any]], description: str, *, status: int = 200
) -> type[ApiView]:
    """The view of one thing done to one entry. What makes an entry (201) answers a repeated request as the first."""

    def post(self: ApiView, request: Request, pk: int) -> Response:
        access, data = request_access(request), self.validated_body(takes)
        entry = access_plain_entry(access, pk)
        if "successor" in data:
            data["successor"] = access_plain_entry(access, data["successor"])
        based_on = check_if_match(request, entry.version) if read_if_match(request) is not None else None
        try:
            changed_entry = service(entry=entry, by=access, how="api", based_on=based_on, **data)
        except Conflict as conflict:
            raise stale_error(conflict) from None
        return entry_response(changed_entry, access, status)

    schema = extend_schema(
        operation_id=f"knowledge_{name}",
        description=description,
        parameters=[IF_MATCH_OPTIONAL],
        request=takes,
        responses={status: EntryOut},
    )
    members = {"scopes": {"POST": KNOWLEDGE_SCOPE}, "post": schema(idempotent(post) if status == 201 else post)}
    return type(name.capitalize(), (ApiView,), members)


Renew = action_view(
    "renew",
    renew_entry,
    RenewIn,
    "It still holds, until `expires_at`. What waited for review or was archived holds again.",
)
Supersede = action_view(
    "supersede", supersede_entry, SupersedeIn, "Another entry takes its place; that one is the answer.", status=201
)
Archive = action_view("archive", archive_entry, NoteIn, "It holds no more. It stays readable and can be brought back.")
Restore = action_view(
    "restore", restore_entry, NoteIn, "Bring an archived entry back; a superseded one once its successor is archived."
)
Accept = action_view("accept", accept_entry, AcceptIn, "A suggestion holds from now on, as it is or in better words.")
Reject = action_view("reject", reject_entry, NoteIn, "A suggestion is archived and never held.")
Undo = action_view(
    "undo", undo_decision, NoteIn, "Take back the caller's own last decision about it: it waits, or holds, as before."
)
Flag = action_view(
    "flag", flag_entry, FlagIn, "Send it to review: it is in no prompt until somebody renews, edits or archives it."
)


class Contradictions(ApiView):
    @extend_schema(
        operation_id="knowledge_list_contradictions",
        parameters=[ContradictionsQuery],
        responses=ContradictionOut(many=True),
    )
    def get(self, request: Request) -> Response:
        """Open pairs of which the caller may read both, the newest first. Agents get none."""
        is_settled = self.validated_query(ContradictionsQuery)["settled"]
        pairs = accessible_contradictions(request_access(request)).exclude(settled_at__isnull=bool(is_settled))
        return self.paginated_response(pairs.select_related("settled_by"), ContradictionOut)


class Settle(ApiView):
    scopes = {"POST": KNOWLEDGE_SCOPE}

    @extend_schema(operation_id="knowledge_settle_contradiction", request=SettleIn, responses=ContradictionOut)
    def post(self, request: Request, pk: int) -> Response:
        """Both hold, or one of them is superseded or archived. Members only; settled twice is settled once."""
        access, data = request_access(request), self.validated_body(SettleIn)
        pair = access_contradiction(access, pk)
        keep = access_plain_entry(access, data["keep"]) if "keep" in data else None
        contradiction = settle_contradiction(
            contradiction=pair, by=access, how=data["how"], keep=keep, note=data["note"], door="api"
        )
        return Response(ContradictionOut(contradiction).data)


class SearchEntries(ApiView):
    @extend_schema(operation_id="knowledge_search", parameters=[SearchQuery], responses=FoundEntriesOut)
    def get(self, request: Request) -> Response:
        """The entries that bear on a question, as prompts find them. `status` and `freshness` are for people: agents
        get what could stand in their prompts."""
        access, params = request_access(request), self.validated_query(SearchQuery)
        check_agent_tool(access, "knowledge_search")
        question, handle = params.pop("q"), params.pop("owner", None)
        if handle is not None:
            people = Participant.objects.filter(workspace_id=access.workspace_id, handle=handle.lstrip("@"))
            params["owner_id"] = people.values_list("pk", flat=True).first() or -1  # nobody's: finds nothing
        result = find_entries(access, question, **params)
        rows = _hit_rows(result.hits, access)
        tokens = sum(row["entry"].tokens for row in rows)
        may_tell = bool(rows) or not access.is_agent  # nothing found is all an agent learns of what it may not be given
        answer = {
            "results": rows,
            "tokens": tokens,
            "by_words": may_tell and result.by_words,
            "by_vectors": may_tell and result.by_vectors,
        }
        return Response(FoundEntriesOut(answer).data)


class Similar(ApiView):
    scopes = {"POST": "read"}

    @extend_schema(operation_id="knowledge_find_similar", request=SimilarIn, responses=SimilarOut)
    def post(self, request: Request) -> Response:
        """The entries that hold and are most like a text, such as one that is about to be written. Writes nothing."""
        access, data = request_access(request), self.validated_body(SimilarIn)
        check_agent_tool(access, "knowledge_search")
        hits = find_similar_entries(access, data["text"], most=data["most"], exclude_id=data.get("without"))
        return Response(SimilarOut({"results": _hit_rows(hits, access)}).data)


class Index(ApiView):
    @extend_schema(operation_id="knowledge_get_index", responses=IndexOut)
    def get(self, request: Request) -> Response:
        """The topics of what holds, by kind: facts, decisions, policies, runbooks, schemas, plans, known gaps."""
        access = request_access(request)
        check_agent_tool(access, "knowledge_search")
        kinds, is_whole = topics_by_kind(accessible_entries(access).current())
        return Response(IndexOut({"results": kinds, "is_whole": is_whole}).data)


def _hit_rows(hits: Sequence[EntryHit], access: Access) -> list[dict[str, Any]]:
    """What was found, as answers show it; agents get what holds only. One query."""
    ids = [pk for hit in hits for pk in (hit.entry.pk, *(copy.pk for copy in hit.copies))]
    by_id = {entry.pk: entry for entry in with_api_fields(accessible_entries(access).filter(pk__in=ids), access)}
    return [
        {
            "score": hit.score,
            "entry": by_id[hit.entry.pk],
            "near_copies": [copy for copy in hit.copies if copy.pk in by_id],
        }
        for hit in hits
        if hit.entry.pk in by_id
    ]


def access_owner(handle: str | None, access: Access) -> Participant | None:
    """The participant who is to own an entry, by handle; None where nobody is named. Raises Problem."""
    if handle is None:
        return None
    people = Participant.objects.filter(workspace_id=access.workspace_id, handle=handle.lstrip("@"))
    owner = people.select_related("member__user").first()
    if owner is None:
        raise Problem("An owner is a member of this workspace, by handle.", code="bad_owner", field="owner")
    return owner


class Import(ApiView):
    scopes = {"POST": KNOWLEDGE_SCOPE}
    parser_classes = (BoundedJSONParser, MultiPartParser, CsvParser, JsonlParser, MarkdownZipParser)

    @extend_schema(
        operation_id="knowledge_import",
        request={
            "application/json": ImportIn,
            "multipart/form-data": KnowledgeUploadIn,
            "text/csv": OpenApiTypes.STR,
            "application/x-ndjson": OpenApiTypes.STR,
            "application/zip": OpenApiTypes.BINARY,
        },
        responses=ImportReportOut,
    )
    @idempotent
    def post(self, request: Request) -> Response:
        """A CSV or JSONL file, or a zip of Markdown files, as the body or as `file` of a form, at most 10 MB; each row
        and each section for itself. The same file twice imports once; a section whose words are new is updated."""
        if request.content_type.startswith(MultiPartParser.media_type):
            upload = self.validated_body(KnowledgeUploadIn)
            file = upload["file"]
            report = import_upload(
                by=request_access(request), raw=file.read(), form=upload.get("form", ""), name=file.name or ""
            )
            return Response(ImportReportOut(report).data)
        if isinstance(request.data, FileBody):
            raw, form = request.data.raw, request.data["form"]
        elif not request.data and not request.content_type.startswith("application/json"):
            raw, form = b"", ""  # no parser is asked about an empty body
        else:
            data = self.validated_body(ImportIn)
            raw, form = data["text"].encode(), data["form"]
        return Response(ImportReportOut(import_upload(by=request_access(request), raw=raw, form=form)).data)


class Export(ApiView):
    @extend_schema(
        operation_id="knowledge_export",
        parameters=[ExportQuery],
        responses={
            (200, "text/csv"): OpenApiResponse(OpenApiTypes.STR),
            (200, "application/x-ndjson"): OpenApiResponse(OpenApiTypes.STR),
        },
    )
    def get(self, request: Request) -> HttpResponseBase:
        """Everything the caller may read, as a file that can be imported again. People only."""
        access, params = request_access(request), self.validated_query(ExportQuery)
        if access.is_agent:
            raise Refused("Only people take knowledge out as a file. Search it instead.", code="people_only")
        lines = export_entries(access, params["form"], statuses=[params["status"]] if "status" in params else ())
        response = StreamingHttpResponse(lines, content_type=CONTENT_TYPES[params["form"]])
        response.headers["Content-Disposition"] = f'attachment; filename="knowledge.{params["form"]}"'
        return response
