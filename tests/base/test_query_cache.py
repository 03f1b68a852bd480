"""A query compiled once answers as the query itself does, whatever it is asked with."""

from datetime import datetime, timedelta
from typing import Any, NamedTuple

import pytest
from django.apps import apps
from django.db import connection
from django.db.models import Model, QuerySet
from django.db.models.fields.related_descriptors import ForeignKeyDeferredAttribute
from django.db.models.signals import post_init, pre_init
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from openvibe.base.query_cache import CompiledQuery, JsonRows, array_literal, json_array, json_object
from openvibe.chat.models import Message, Thread
from openvibe.workspaces.models import Member, Participant
from tests.factories import say


@pytest.fixture
def said(ana: Member, dora: Member, thread: Thread) -> list[Message]:
    return [say(thread, by, body) for by, body in ((ana, "When?"), (dora, "In March."), (ana, "Thanks!"))]


def of_these(ids: int) -> QuerySet[Message]:
    return Message.objects.filter(pk__any_of=ids).select_related("author", "thread__channel").order_by("seq")


def test_objects_come_with_those_beside_them(said: list[Message]) -> None:
    ids = [said[2].pk, said[0].pk]
    compiled_query = CompiledQuery(of_these)

    with CaptureQueriesContext(connection) as queries:
        objects = compiled_query.objects(array_literal(ids))
        names = [(message.author.name, message.thread.channel.name) for message in objects]

    assert len(queries) == 1
    plain = list(Message.objects.filter(pk__in=ids).order_by("seq"))
    assert objects == plain
    assert [(m.body, m.created_at, m.token_count) for m in objects] == [
        (m.body, m.created_at, m.token_count) for m in plain
    ]
    assert names == [(m.author.name, m.thread.channel.name) for m in plain]


@pytest.mark.parametrize("many", [0, 1, 3])
def test_an_array_is_one_value_however_long_it_is(said: list[Message], many: int) -> None:
    compiled_query = CompiledQuery(lambda ids: of_these(ids).values_list("pk"))
    ids = [message.pk for message in said[:many]]
    assert compiled_query.rows(array_literal(ids)) == [(pk,) for pk in ids]


@pytest.mark.parametrize("text", ["ana", "nobody", "' OR ''='", "%s", "7100000000000000000"])
def test_text_is_an_argument_too(ana: Member, text: str) -> None:
    by_handle = Participant.objects.filter(handle=text).values_list("pk")
    compiled_query = CompiledQuery(lambda handle: Participant.objects.filter(handle=handle).values_list("pk"))
    assert compiled_query.rows(text) == list(by_handle)


def test_times_are_the_present_or_the_one_that_is_given(said: list[Message]) -> None:
    earlier = CompiledQuery(lambda ids: of_these(ids).filter(created_at__lt=timezone.now()).values_list("pk"))
    ids = array_literal(message.pk for message in said)
    assert len(earlier.rows(ids)) == 3
    assert earlier.rows(ids, now=said[0].created_at - timedelta(seconds=1)) == []


class SaidRow(NamedTuple):
    pk: int
    author: str
    created_at: datetime


def said_in(thread_id: int) -> QuerySet[Message]:
    return Message.objects.filter(thread=thread_id).order_by("seq")


def read_said(rows: JsonRows[int, SaidRow], thread: Thread) -> dict[str, Any]:
    def statement(thread_id: int) -> QuerySet[Any, Any]:
        parts = {"title": json_array(["title"]), rows.name: rows.expression(thread_id)}
        return Thread.objects.filter(pk=thread_id).order_by().values_list(json_object(parts))

    answer: dict[str, Any] = CompiledQuery(statement).rows(thread.pk)[0][0]
    return answer


def test_json_rows_take_their_columns_by_name(said: list[Message], thread: Thread) -> None:
    rows = JsonRows(
        "said", SaidRow, said_in, columns={"author": "author__name"}, parse={"created_at": datetime.fromisoformat}
    )
    answer = read_said(rows, thread)
    assert answer["title"] == [thread.title]
    assert rows.first(answer) == SaidRow(pk=said[0].pk, author="Ana", created_at=said[0].created_at)
    assert rows.all(answer) == rows.all(answer), "an answer may be read twice"
    assert rows.first({"said": []}) is None


def test_json_rows_come_in_the_order_of_the_query(said: list[Message], thread: Thread) -> None:
    rows = JsonRows("said", SaidRow, said_in, columns={"author": "author__name"})
    assert [row.pk for row in rows.all(read_said(rows, thread))] == [message.pk for message in said]


def test_a_field_that_the_row_has_not_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="SaidRow has no field auhtor"):
        JsonRows("said", SaidRow, said_in, columns={"auhtor": "author__name"})
    with pytest.raises(TypeError, match="SaidRow has no field at"):
        JsonRows("said", SaidRow, said_in, parse={"at": datetime.fromisoformat})


def test_a_condition_that_nothing_meets_asks_nothing() -> None:
    compiled_query = CompiledQuery(lambda pk: Message.objects.filter(pk=pk).none())
    assert (compiled_query.rows(1), compiled_query.objects(1)) == ([], [])


def test_models_need_not_be_told_of_each_value_that_is_loaded() -> None:
    """What `CompiledQuery.objects` leaves out of `Model.from_db`."""
    assert not pre_init.receivers
    assert not post_init.receivers
    for model in apps.get_models():
        if model.__module__.startswith(("openvibe.", "memory.", "knowledge.", "agents.", "django.contrib.")):
            assert model.__init__ is Model.__init__
            assert "from_db" not in {
                name for base in model.__mro__[: model.__mro__.index(Model)] for name in vars(base)
            }
            setters = {field.name for field in model._meta.concrete_fields if _has_setter(model, field)}
            assert not setters, model


def _has_setter(model: type[Model], field: Any) -> bool:
    attribute = getattr(model, field.attname, None)
    return hasattr(type(attribute), "__set__") and not isinstance(attribute, ForeignKeyDeferredAttribute)


def test_what_is_deferred_is_read_when_it_is_asked_for_and_a_loaded_row_is_saved_as_one(said: list[Message]) -> None:
    compiled_query = CompiledQuery(lambda ids: Message.objects.filter(pk__any_of=ids).defer("body"))

    instance = compiled_query.objects(array_literal([said[1].pk]))[0]

    assert "body" in instance.get_deferred_fields()
    assert instance.body == said[1].body
    assert not instance._state.adding
    instance.client_id = "another"
    instance.save(update_fields=["client_id"])
    assert Message.objects.get(pk=said[1].pk).client_id == "another"
