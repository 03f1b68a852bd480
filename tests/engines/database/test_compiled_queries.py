"""A query compiled once answers as the query itself does, whatever it is asked with."""

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from inspect import signature
from itertools import product
from typing import Any, NamedTuple

import pytest
from django.apps import apps
from django.db import connection
from django.db.models import Case, F, Model, Q, QuerySet, Value, When
from django.db.models.fields.related_descriptors import ForeignKeyDeferredAttribute
from django.db.models.functions import Left
from django.db.models.signals import post_init, pre_init
from django.test.utils import CaptureQueriesContext
from django.utils import timezone

from openvibe.chat.models import AccessQuery, Message, Thread
from openvibe.engines.database.compiled_queries import CompiledQuery, array_literal, row_columns
from openvibe.workspaces.models import Member, Participant
from openvibe.workspaces.queries import member_access
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


@pytest.mark.parametrize("text", ["ana", "nobody", "' OR ''='", "%s", "2100000000"])
def test_text_is_an_argument_too(ana: Member, text: str) -> None:
    by_handle = Participant.objects.filter(handle=text).values_list("pk")
    compiled_query = CompiledQuery(lambda handle: Participant.objects.filter(handle=handle).values_list("pk"))
    assert compiled_query.rows(text) == list(by_handle)


def test_times_are_the_present_or_the_one_that_is_given(said: list[Message]) -> None:
    earlier = CompiledQuery(lambda ids: of_these(ids).filter(created_at__lt=timezone.now()).values_list("pk"))
    ids = array_literal(message.pk for message in said)
    assert len(earlier.rows(ids)) == 3
    assert earlier.rows(ids, now=said[0].created_at - timedelta(seconds=1)) == []


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


# What answers otherwise than the query itself would is refused when it is compiled, before anything is asked.


def messages_where(condition: Callable[..., Q]) -> CompiledQuery:
    count = len(signature(condition).parameters)
    return CompiledQuery(lambda *values: Message.objects.filter(condition(*values)).values_list("pk"), count)


def texts_where(condition: Callable[[Any], Q]) -> CompiledQuery:
    return CompiledQuery(lambda text: Participant.objects.filter(condition(text)).values_list("pk"))


LONG_AGO = datetime(2020, 1, 1, tzinfo=UTC)
REFUSED: dict[str, CompiledQuery] = {
    "arithmetic": messages_where(lambda n: ~Q(seq__gt=n * 2)),
    "arithmetic beside the argument": messages_where(lambda n: Q(seq=n) & ~Q(seq__gt=n * 2)),
    "arithmetic from the right": messages_where(lambda n: Q(seq=100 - n)),
    "arithmetic on its digits": messages_where(lambda n: Q(seq=int(f"{n}0"))),
    "arithmetic that no column holds": messages_where(lambda n: Q(seq=int(f"{n}0000000000"))),
    "a smallest value": messages_where(lambda n: Q(seq=min(n, 10))),
    "a value for none": messages_where(lambda n: Q(seq=n or 1)),
    "a choice": messages_where(lambda n: Q(seq=n) if n > 0 else Q(seq=1)),
    "a choice by kind": messages_where(lambda n: Q(pk=n, seq=1) if int(n) < 1_000 else Q(pk=n)),
    "an argument that is not used": messages_where(lambda n, other: Q(seq=n)),
    "one argument for two": messages_where(lambda n, other: Q(seq=n) | Q(pk=n)),
    "a list as one value": messages_where(lambda n: Q(pk__any_of=f"{{{n},1}}")),
    "a literal like a placeholder": messages_where(lambda n: Q(pk=n) | Q(seq=2_100_000_000)),
    "a text like a placeholder": texts_where(lambda text: Q(handle=text) | Q(handle="2100000000")),
    "a boolean column": texts_where(lambda n: Q(is_active=n)),
    "a time column": messages_where(lambda n: Q(created_at=n)),
    "the beginning of a text": texts_where(lambda text: Q(handle__startswith=text)),
    "a part of a text": texts_where(lambda text: Q(name__icontains=text)),
    "a text in small letters": texts_where(lambda text: Q(handle=str(text).lower())),
    "a text without blanks": texts_where(lambda text: Q(handle=str(text).strip())),
    "a text's own method": texts_where(lambda text: Q(handle=text.lower())),
    "a pattern": texts_where(lambda text: Q(handle__iexact=str(text).replace("%", r"\%"))),
    "a constant time": messages_where(lambda n: Q(pk=n, created_at__gte=LONG_AGO)),
    "a constant day": messages_where(lambda n: Q(pk=n, created_at__date=LONG_AGO.date())),
    "a constant year": messages_where(lambda n: Q(pk=n, created_at__year=2020)),
    "today": messages_where(lambda n: Q(pk=n, created_at__date=timezone.now().date())),
    "an hour ago": messages_where(lambda n: Q(pk=n, created_at__gte=timezone.now() - timedelta(hours=1))),
    "the present as a text": texts_where(lambda n: Q(handle=n) | Q(name=timezone.now().isoformat())),
    "times in a list": messages_where(lambda n: Q(pk=n) & ~Q(created_at__in=[LONG_AGO, timezone.now()])),
    "a slice": CompiledQuery(lambda n: Message.objects.order_by("pk").values_list("pk")[:n]),
    "a slice from the argument on": CompiledQuery(lambda n: Message.objects.order_by("pk").values_list("pk")[n:]),
    "a length": CompiledQuery(lambda n: Message.objects.filter(pk=n).annotate(start=Left("body", n))),
    "the first argument of none": CompiledQuery(lambda n: Message.objects.all()),
}


@pytest.mark.parametrize("query", REFUSED.values(), ids=REFUSED)
def test_what_would_answer_wrongly_is_refused(query: CompiledQuery) -> None:
    arguments = [1] * query.argument_count
    for ask in (query.rows, query.objects):
        with pytest.raises(TypeError):  # without a database: nothing is asked
            ask(*arguments)


ANSWERED: dict[str, Callable[..., Q]] = {
    "two arguments": lambda a, b: Q(seq__gte=a, seq__lte=b),
    "an argument twice": lambda a: Q(seq=a) | Q(pk=a),
    "a list": lambda a, b: Q(seq__in=[a, b]),
    "a list that is empty": lambda a: Q(seq=a) | Q(pk__in=[]),
    "no condition": lambda a: Q(seq=a) & ~Q(pk__in=[]),
    "nobody": lambda a: Q(seq=a, edited_at=None),
    "arithmetic in SQL": lambda a: Q(seq__gt=Value(a) - 1),
    "expressions": lambda a: Q(seq=Case(When(kind="text", then=Value(a)), default=0)),
    "a literal with %s": lambda a: Q(seq=a) & Q(body__contains="%s"),
    "a literal with an escape": lambda a: Q(seq=a) & Q(body__contains=r"50% \_"),
    "a literal with a quote": lambda a: Q(seq=a) & ~Q(body="it's %(a)s %% $1"),
    "a literal with an s": lambda a: Q(seq=a) & Q(body__contains="s"),
    "a literal with an end": lambda a: Q(seq=a) & Q(body__endswith="!"),
    "a duration": lambda a: Q(seq=a, created_at__gt=F("created_at") - timedelta(days=1)),
    "booleans": lambda a: Q(seq=a, author__is_active=True),
}


@pytest.mark.parametrize("condition", ANSWERED.values(), ids=ANSWERED)
def test_other_queries_answer_as_they_would_themselves(
    condition: Callable[..., Q], ana: Member, thread: Thread
) -> None:
    for body in ("This is 50% \\_ of %s it is!", "it's %(a)s %% $1", "Nothing"):
        say(thread, ana, body)
    query, count = messages_where(condition), len(signature(condition).parameters)
    for arguments in product([0, 1, 2, 3, 2**31, -1], repeat=count):  # equal ones as well
        plain = Message.objects.filter(condition(*arguments)).values_list("pk")
        assert sorted(query.rows(*arguments)) == sorted(plain), arguments


def test_text_is_compared_as_it_is(ana: Member) -> None:
    query = texts_where(lambda text: Q(handle=text) | Q(name__iexact=text))
    for text in ("ana", "ANA", "a%", "_na", "", "\\", "%s"):
        plain = Participant.objects.filter(Q(handle=text) | Q(name__iexact=text)).values_list("pk")
        assert query.rows(text) == list(plain)


@pytest.mark.parametrize("condition", [Q(pk__in=[]), Q(seq__in=[], body="s")])
def test_what_nothing_meets_whatever_the_arguments_are_is_empty(said: list[Message], condition: Q) -> None:
    query = messages_where(lambda n: Q(pk=n) & condition)
    assert (query.rows(said[0].pk), query.objects(said[0].pk)) == ([], [])


@pytest.mark.parametrize("arguments", [(), (1, 2), (None,), (True,)])
def test_another_number_of_arguments_and_none_are_refused(arguments: tuple[Any, ...]) -> None:
    for query in (messages_where(lambda n: Q(pk=n)), messages_where(lambda n: Q(pk=n, seq__in=[]))):
        with pytest.raises(TypeError):
            query.rows(*arguments)


def test_a_time_that_stands_nowhere_is_refused(said: list[Message]) -> None:
    with pytest.raises(TypeError, match="No time"):
        messages_where(lambda n: Q(pk=n)).rows(said[0].pk, now=timezone.now())


def test_what_an_access_query_is_given_is_accounted_for(ana: Member, thread: Thread) -> None:
    access = member_access(ana)
    assert AccessQuery(lambda access, n: Thread.objects.filter(pk=n)).objects(access, thread.pk) == [thread]
    for query in (
        AccessQuery(lambda access, n: Thread.objects.filter(workspace=access.workspace_id)),
        AccessQuery(lambda access, n: Thread.objects.filter(pk=n, workspace=access.workspace_id + 1)),
        AccessQuery(lambda access, n: Thread.objects.filter(pk=n)[: access.participant_id]),
    ):
        with pytest.raises(TypeError):
            query.rows(access, thread.pk)


class Shown(NamedTuple):
    body: str
    name: str


def test_the_columns_of_a_row_are_given_by_name(said: list[Message]) -> None:
    newest = Message.objects.order_by("-seq").values_list(*row_columns(Shown, name="author__name"))
    assert Shown._make(newest[0]) == Shown(body="Thanks!", name="Ana")


def test_a_field_that_the_row_has_not_is_refused_at_once() -> None:
    with pytest.raises(TypeError, match="Shown has no field author"):
        row_columns(Shown, author="author__name")
