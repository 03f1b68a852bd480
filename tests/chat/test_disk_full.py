"""A database whose disk is full: what is posted is refused with a sentence, kept where it was written, and goes
through once there is room."""

import pytest
from django.db import connection
from django.test import Client

from openvibe.api.services import issue_token
from openvibe.chat.models import Message, Thread
from openvibe.workspaces.models import Member

pytestmark = pytest.mark.django_db(transaction=True)
FILL = """
CREATE FUNCTION refuse_for_lack_of_room() RETURNS trigger LANGUAGE plpgsql AS
    $$ BEGIN RAISE EXCEPTION 'could not extend file: No space left on device' USING ERRCODE = 'disk_full'; END $$;
CREATE TRIGGER no_room BEFORE INSERT ON chat_message EXECUTE FUNCTION refuse_for_lack_of_room();
"""
FREE = "DROP TRIGGER no_room ON chat_message; DROP FUNCTION refuse_for_lack_of_room()"
SENTENCE = "The server's disk is full, so nothing was saved."


def run(statement: str) -> None:
    with connection.cursor() as cursor:
        cursor.execute(statement)


def test_a_post_is_refused_with_a_sentence_and_goes_through_later(ana: Member, thread: Thread) -> None:
    _, secret = issue_token(participant=ana.participant, name="x", scopes=["read", "write"])
    address = f"/api/v1/threads/{thread.pk}/messages/"
    client = Client(headers={"Authorization": f"Bearer {secret}", "Idempotency-Key": "once"})
    page = Client(raise_request_exception=False)
    page.force_login(ana.user)
    body = {"body": "The old rose wants to be cut in March.", "client_id": "7"}
    place = f"/w/{ana.workspace.slug}/t/{thread.pk}/"

    run(FILL)
    try:
        page_response = client.post(address, body, content_type="application/json")
        on_a_page = page.post(place, body)
        by_script = page.post(place, body, headers={"Accept": "application/json"})
    finally:
        run(FREE)
    response = client.post(address, body, content_type="application/json")

    assert (page_response.status_code, page_response.json()["code"]) == (503, "disk_full")
    assert by_script.json()["message"].startswith(SENTENCE)
    assert on_a_page.status_code == by_script.status_code == 503
    assert SENTENCE in on_a_page.content.decode().replace("&#x27;", "'")
    assert body["body"] in on_a_page.content.decode()
    assert response.status_code == 201
    assert Message.objects.filter(thread=thread).count() == 1
