"""The page *Tables*: each table with its room, for superusers alone; how long texts of prompts are kept."""

from datetime import timedelta

import pytest
from django.db import connection
from django.test.utils import CaptureQueriesContext
from django.urls import reverse
from django.utils import timezone
from pytest_django.fixtures import Settings

from agents.models import Agent, Snapshot
from agents.prompts.snapshots.store import expire_records
from openvibe.base.admin.tables import table_sizes
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member
from tests import factories
from tests.admin.conftest import superuser
from tests.admin.test_site import words_of
from tests.agents.prompts.test_history import answered

pytestmark = pytest.mark.django_db


def test_every_table_stands_there_with_its_room_the_largest_first(ana: Member) -> None:
    with CaptureQueriesContext(connection) as queries:
        tables = table_sizes()
    assert len(queries) == 1
    assert {table.name for table in tables} == set(connection.introspection.table_names())
    assert [table.total for table in tables] == sorted((table.total for table in tables), reverse=True)
    messages = next(table for table in tables if table.name == "chat_message")
    assert messages.holds == "Messages"
    assert messages.indexes > 0


def test_superusers_read_it_and_nobody_else(ana: Member) -> None:
    address = reverse("admin-tables")
    assert factories.signed_in(ana).get(address).status_code == 302
    root = superuser(ana)
    page = words_of(root.get(address).content)
    assert "chat_message Messages" in page
    assert "OPENVIBE_PROMPT_RETENTION_DAYS" in page
    assert address in root.get(reverse("admin:index")).content.decode()


def test_texts_of_prompts_go_when_the_operators_days_are_over(
    ana: Member, vibe: Agent, thread: Thread, settings: Settings
) -> None:
    kept, emptied = (Snapshot.objects.get(run=answered(thread, ana)) for _ in range(2))
    Snapshot.objects.filter(pk=emptied.pk).update(created_at=timezone.now() - timedelta(days=4))
    assert expire_records() == 0
    settings.PROMPT_RETENTION_DAYS = 3
    assert expire_records() == 1
    kept.refresh_from_db()
    emptied.refresh_from_db()
    assert (kept.content is None, emptied.content is None) == (False, True)
