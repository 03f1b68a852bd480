"""Tables of a few rows have statistics too: PostgreSQL by itself waits until fifty rows changed."""

import pytest
from django.db import connection

from openvibe.engines.database.planner_statistics import analyze_changed_tables
from openvibe.workspaces.models import Member
from tests.factories import make_channel


def count_statistics(table: str) -> int:
    with connection.cursor() as cursor:
        cursor.execute("SELECT count(*) FROM pg_stats WHERE tablename = %s", [table])
        return int(cursor.fetchone()[0])


@pytest.mark.django_db(transaction=True)
def test_the_few_rows_that_say_who_may_see_what_are_analyzed_once(ana: Member) -> None:
    make_channel(ana)
    assert analyze_changed_tables() > 0
    assert count_statistics("chat_channelmembership") > 0
    assert count_statistics("workspaces_member") > 0
    assert analyze_changed_tables() == 0, "nothing changed since"
