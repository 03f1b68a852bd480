"""What is said in threads."""

from django.db.models import QuerySet
from django.shortcuts import get_object_or_404
from drf_spectacular.utils import extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from openvibe.api.idempotency import creates
from openvibe.api.views import ApiView
from openvibe.chat.api.serializers import BearingAsked, BearingOut, MessageEdit, MessageIn, MessageOut, MessagesAsked
from openvibe.chat.api.views import threads_of
from openvibe.chat.models import Message
from openvibe.chat.querysets import messages_for_pages
from openvibe.chat.searching import find_messages
from openvibe.chat.services import delete_message, edit_message, post_message
from openvibe.workspaces.access import Access
from openvibe.workspaces.api.auth import asker


def messages_of(access: Access) -> QuerySet[Message]:
    messages: QuerySet[Message] = Message.objects.visible_to(access)
    return messages_for_pages(messages)


class Messages(ApiView):
    page_order = "seq"

    @extend_schema(operation_id="messages_list", parameters=[MessagesAsked], responses=MessageOut(many=True))
    def get(self, request: Request, pk: int) -> Response:
        """A thread's messages in the order they were said; with `before_seq` alone, the nearest ones first."""
        access, asked = asker(request), self.asked(MessagesAsked)
        messages = messages_of(access).filter(thread=get_object_or_404(threads_of(access), pk=pk))
        if "after_seq" in asked:
            messages = messages.filter(seq__gt=asked["after_seq"])
        if "before_seq" in asked:
            messages = messages.filter(seq__lt=asked["before_seq"])
            self.page_order = "seq" if "after_seq" in asked else "-seq"
        return self.page(messages, MessageOut)

    @extend_schema(operation_id="messages_create", request=MessageIn, responses={201: MessageOut})
    @creates
    def post(self, request: Request, pk: int) -> Response:
        """Say something. A person's `@handle` of an agent makes it answer; an agent's message starts nothing."""
        access = asker(request)
        thread, said = get_object_or_404(threads_of(access), pk=pk), self.said(MessageIn)
        message = post_message(
            thread=thread,
            by=access,
            body=said["body"],
            client_id=said["client_id"],
            kind=said["kind"],
            call_id=said["call_id"],
        )
        return Response(MessageOut(messages_of(access).get(pk=message.pk)).data, status=201)


class OneMessage(ApiView):
    @extend_schema(operation_id="messages_get", responses=MessageOut)
    def get(self, request: Request, pk: int) -> Response:
        """One message."""
        return Response(MessageOut(get_object_or_404(messages_of(asker(request)), pk=pk)).data)

    @extend_schema(operation_id="messages_edit", request=MessageEdit, responses=MessageOut)
    def patch(self, request: Request, pk: int) -> Response:
        """Replace the text of one's own message. Starts nothing."""
        access = asker(request)
        message, said = get_object_or_404(messages_of(access), pk=pk), self.said(MessageEdit)
        edit_message(message=message, by=access, body=said["body"], based_on=said["based_on"])
        return Response(MessageOut(messages_of(access).get(pk=pk)).data)

    @extend_schema(operation_id="messages_delete", responses={204: None})
    def delete(self, request: Request, pk: int) -> Response:
        """Wipe the text, its history and mentions; a tombstone keeps the place. Authors and admins."""
        access = asker(request)
        delete_message(message=get_object_or_404(messages_of(access), pk=pk), by=access)
        return Response(status=204)


class MessagesBearing(ApiView):
    @extend_schema(operation_id="messages_search", parameters=[BearingAsked], responses=BearingOut)
    def get(self, request: Request, pk: int) -> Response:
        """The thread's messages that bear on a question, by words and by meaning, within a budget of tokens."""
        access, asked = asker(request), self.asked(BearingAsked)
        thread = get_object_or_404(threads_of(access), pk=pk)
        found = find_messages(
            access, asked["q"], thread_id=thread.pk, budget=asked["budget"], before=asked.get("before_seq")
        )
        return Response(BearingOut(found).data)
