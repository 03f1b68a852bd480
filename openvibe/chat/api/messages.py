"""Endpoints of messages: read, say, search, edit and delete; their files, and what repeats them."""

from collections.abc import Sequence

from django.forms.models import model_to_dict
from django.http import HttpResponse, HttpResponseBase, QueryDict
from drf_spectacular.types import OpenApiTypes
from drf_spectacular.utils import OpenApiResponse, extend_schema
from rest_framework.parsers import MultiPartParser
from rest_framework.request import Request
from rest_framework.response import Response

from openvibe.api.idempotency import IDEMPOTENCY_PARAMETER, idempotent
from openvibe.api.pagination import KeysetPagination
from openvibe.api.parsers import BoundedJSONParser
from openvibe.api.views import ApiView
from openvibe.base.params import MAX_ID
from openvibe.base.problems import Missing, Problem
from openvibe.chat import queries, services
from openvibe.chat.api.message_serializers import (
    BearingOut,
    BearingParams,
    FoundOut,
    ImageDetailOut,
    ImageEdit,
    MessageEdit,
    MessageIn,
    MessageOut,
    MessagesParams,
    MessageUpload,
    PieceOut,
    PieceParams,
    QuotesOut,
    SearchParams,
)
from openvibe.chat.attachments import NewFile, read_uploads
from openvibe.chat.search.thread import find_messages
from openvibe.chat.services import check_agent_tool
from openvibe.workspaces.decorators import request_access


class Messages(ApiView):
    page_order = "seq"
    parser_classes = (BoundedJSONParser, MultiPartParser)

    @extend_schema(operation_id="messages_list", parameters=[MessagesParams], responses=MessageOut(many=True))
    def get(self, request: Request, pk: int) -> Response:
        """A thread's messages in the order they were said; with `before_seq` alone, the nearest ones first."""
        access, params = request_access(request), self.validated_query(MessagesParams)
        after, before = params.get("after_seq", 0), params.get("before_seq", MAX_ID)
        order = "-seq" if "before_seq" in params and "after_seq" not in params else "seq"
        pages = KeysetPagination()
        limit, position = pages.page_bounds(request, order)
        if position is not None:
            after, before = (after, min(before, position)) if order == "-seq" else (max(after, position), before)
        rows = queries.list_messages(
            access, pk, after_seq=after, before_seq=before, limit=limit + 1, newest_first=order == "-seq"
        )
        if not rows:
            queries.access_thread(access, pk)
        page, context = pages.cut_page(rows, limit, order), {"request": request}
        return pages.get_paginated_response(MessageOut(page, many=True, context=context).data)

    @extend_schema(
        operation_id="messages_create",
        request={"application/json": MessageIn, "multipart/form-data": MessageUpload},
        parameters=[IDEMPOTENCY_PARAMETER],
        responses={201: MessageOut},
    )
    def post(self, request: Request, pk: int) -> Response:
        """Say something, with files as `multipart/form-data`. A person's `@handle` of an agent makes it answer; an
        agent's message starts nothing."""
        _check_parts(request)
        descriptions = request.data.getlist("descriptions") if isinstance(request.data, QueryDict) else ()
        files = read_uploads(request.FILES.getlist("files"), descriptions)  # counted and scaled before any transaction
        return self._post_once(request, pk, files)

    @idempotent
    def _post_once(self, request: Request, pk: int, files: Sequence[NewFile]) -> Response:
        access = request_access(request)
        thread = queries.access_thread(access, pk)
        data = self.validated_body(MessageUpload if files else MessageIn)
        data.pop("descriptions", None)  # each is with its file by now
        message = services.post_message(thread=thread, by=access, **{**data, "files": files})
        return Response(MessageOut(queries.access_message(access, message.pk)).data, status=201)


def _check_parts(request: Request) -> None:
    """Raises Problem for a file that would be left out: under another name, or sent as a field."""
    if not isinstance(request.data, QueryDict):
        return
    stray = [name for name in request.FILES if name != "files"]
    if not stray and len(request.data.getlist("files")) == len(request.FILES.getlist("files")):
        return
    what = f"“{stray[0][:80]}” is no field for files" if stray else "A part named “files” has no filename"
    raise Problem(
        f"{what}. Nothing was sent: send each file in a part named “files”, with a filename.",
        code="bad_files",
        field="files",
    )


class OneAttachment(ApiView):
    @extend_schema(operation_id="attachments_get", parameters=[PieceParams], responses=PieceOut)
    def get(self, request: Request, pk: int) -> Response:
        """A file of a message the caller sees, in pieces: go on at `next_offset` until it is null."""
        params = self.validated_query(PieceParams)
        file = queries.access_attachment(request_access(request), pk)
        check_agent_tool(request_access(request), "read_file", file.thread_id)
        piece = queries.read_attachment(
            file, offset=params["offset"], limit=params["limit"], words=params["find"], page=params["page"]
        )
        original = queries.access_original(request_access(request), pk)
        size = original.size if original else file.size
        return Response(PieceOut({**model_to_dict(file), "file_size": size, "piece": piece}).data)


class AttachmentContent(ApiView):
    @extend_schema(
        operation_id="attachments_get_content",
        responses={(200, "application/octet-stream"): OpenApiResponse(OpenApiTypes.BINARY)},
    )
    def get(self, request: Request, pk: int) -> HttpResponseBase:
        """The file as it came; of a text, its text in UTF-8."""
        access = request_access(request)
        file, original = queries.access_attachment(access, pk), queries.access_original(access, pk)
        check_agent_tool(access, "read_file", file.thread_id)
        content = file.content.encode() if original is None else services.read_original(original)
        return HttpResponse(content, content_type="application/octet-stream")


class OneImage(ApiView):
    @extend_schema(operation_id="images_get", responses=ImageDetailOut)
    def get(self, request: Request, pk: int) -> Response:
        """What is known of an image of a message the caller sees, without its pixels."""
        return Response(ImageDetailOut(queries.access_image(request_access(request), pk)).data)

    @extend_schema(operation_id="images_update", request=ImageEdit, responses=ImageDetailOut)
    def patch(self, request: Request, pk: int) -> Response:
        """Say what an image of one's own message shows. Starts nothing."""
        access = request_access(request)
        image = queries.access_image(access, pk)
        services.describe_image(image=image, by=access, **self.validated_body(ImageEdit))
        return Response(ImageDetailOut(queries.access_image(access, pk)).data)


class ImageContent(ApiView):
    @extend_schema(
        operation_id="images_get_content",
        responses={
            (200, "image/png"): OpenApiResponse(OpenApiTypes.BINARY),
            (200, "image/jpeg"): OpenApiResponse(OpenApiTypes.BINARY),
        },
    )
    def get(self, request: Request, pk: int) -> HttpResponseBase:
        """The image itself, as it is kept."""
        image = queries.access_image(request_access(request), pk)
        return HttpResponse(bytes(image.content), content_type=image.media_type)


class OneMessage(ApiView):
    @extend_schema(operation_id="messages_get", responses=MessageOut)
    def get(self, request: Request, pk: int) -> Response:
        """One message."""
        message = queries.access_message(request_access(request), pk)
        return Response(MessageOut(message, context={"request": request}).data)

    @extend_schema(operation_id="messages_update", request=MessageEdit, responses=MessageOut)
    def patch(self, request: Request, pk: int) -> Response:
        """Replace the text of one's own message. Starts nothing."""
        access = request_access(request)
        message = queries.access_message(access, pk)
        services.update_message(message=message, by=access, **self.validated_body(MessageEdit))
        return Response(MessageOut(queries.access_message(access, pk), context={"request": request}).data)

    @extend_schema(operation_id="messages_delete", responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        """Wipe the text, its history and mentions; a tombstone keeps the place. Authors and admins."""
        access = request_access(request)
        services.delete_message(message=queries.access_message(access, pk), by=access)
        return Response(status=204)


class QuotesOfMessage(ApiView):
    @extend_schema(operation_id="messages_list_quotes", responses=QuotesOut)
    def get(self, request: Request, pk: int) -> Response:
        """Where the words of a message stand, deleted or not: texts of people and agents that repeat it.

        For who may delete the message; for others their own texts that repeat a deleted one.
        """
        quotes = queries.access_quotes(request_access(request), pk)
        return Response(QuotesOut(quotes).data)


class OneQuote(ApiView):
    @extend_schema(operation_id="messages_delete_quote", responses={204: None})
    def delete(self, request: Request, pk: int, kind: str, ref: int) -> Response:
        """Delete it there too, where you may."""
        access = request_access(request)
        views = queries.access_quotes(access, pk).quotes
        view = next((view for view in views if (view.quote.kind, view.quote.ref) == (kind, ref)), None)
        if view is None:
            raise Missing
        services.erase_quote(quote=view.quote, by=access)
        return Response(status=204)


class MessagesBearing(ApiView):
    @extend_schema(operation_id="threads_search", parameters=[BearingParams], responses=BearingOut)
    def get(self, request: Request, pk: int) -> Response:
        """The thread's messages that bear on a question, by words and by meaning, within a budget of tokens."""
        access, params = request_access(request), self.validated_query(BearingParams)
        thread = queries.access_thread(access, pk)
        result = find_messages(
            access, params["q"], thread_id=thread.pk, budget=params["budget"], before=params.get("before_seq")
        )
        return Response(BearingOut(result).data)


class SearchMessages(ApiView):
    @extend_schema(operation_id="messages_search", parameters=[SearchParams], responses=FoundOut(many=True))
    def get(self, request: Request) -> Response:
        """Messages the caller may read that hold these words, newest first. Files are not searched."""
        query = queries.parse_message_query(self.validated_query(SearchParams)["q"], "q")
        messages = queries.search_messages(
            request_access(request), query.words, author=query.author, since=query.since, until=query.until
        )
        return self.paginated_response(queries.with_authors_and_mentions(messages), FoundOut)
