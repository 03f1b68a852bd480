"""The floor of `bench http`: a bare Django REST framework list of a thread's newest 20 messages, and a bare view.

One query, no sign-in, no middleware (`settings`). Only the floor's own server imports this: its model reads the
table of another."""

import os
from typing import ClassVar

from django.db import models
from django.db.models import QuerySet
from django.http import HttpRequest, HttpResponse
from django.urls import path
from rest_framework import generics, serializers


class FloorMessage(models.Model):
    thread_id = models.BigIntegerField()
    seq = models.BigIntegerField()
    kind = models.TextField()
    body = models.TextField()
    token_count = models.IntegerField()
    created_at = models.DateTimeField()

    objects: ClassVar[models.Manager["FloorMessage"]] = models.Manager()

    class Meta:
        app_label = "floor"
        db_table = "chat_message"
        managed = False


class MessageSerializer(serializers.ModelSerializer[FloorMessage]):
    class Meta:
        model = FloorMessage
        fields = ("id", "thread_id", "seq", "kind", "body", "token_count", "created_at")


class Messages(generics.ListAPIView[FloorMessage]):
    serializer_class = MessageSerializer

    def get_queryset(self) -> QuerySet[FloorMessage]:
        return FloorMessage.objects.filter(thread_id=int(os.environ["BENCH_THREAD"])).order_by("-seq")[:20]


def bare_view(request: HttpRequest) -> HttpResponse:
    return HttpResponse("ok\n", content_type="text/plain")


urlpatterns = [path("list", Messages.as_view()), path("view", bare_view)]
