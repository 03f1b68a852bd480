"""What one hostile message may cost the index and the search page."""

import pytest
from django.db import connection

from openvibe.chat.models import Thread
from openvibe.chat.queries import search_messages
from openvibe.chat.web.search import excerpt
from openvibe.workspaces.models import Member
from tests.factories import access, say

SLOW_TO_PARSE = ["_a", "@1a", "1a@b", "./", "~/", "/~", "a_"]


@pytest.mark.parametrize("unit", SLOW_TO_PARSE)
def test_no_message_takes_the_database_long(unit: str, ana: Member, thread: Thread) -> None:
    """Unbroken, each of these takes PostgreSQL's parser a minute and more."""
    with connection.cursor() as cursor:
        cursor.execute("SET LOCAL statement_timeout = '10s'")
    say(thread, ana, "needle " + (unit * 50_000)[:99_000])
    (hit,) = search_messages(access(ana), "needle")
    assert "<mark>needle</mark>" in excerpt(hit, "needle")


def test_words_addresses_and_names_are_found_as_before(ana: Member, thread: Thread) -> None:
    say(thread, ana, "Ask ana@example.org about https://example.org/roses/pruning.html and `pruning_date`.")
    for words in ("ana@example.org", "example.org", "pruning_date", "asks about"):
        assert search_messages(access(ana), words).count() == 1, words


def test_a_word_behind_a_long_run_is_found(ana: Member, thread: Thread) -> None:
    message = say(thread, ana, "x" * 5_000 + " mulch")
    assert list(search_messages(access(ana), "mulch")) == [message]
