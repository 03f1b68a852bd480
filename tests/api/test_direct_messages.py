"""Direct messages through the API: to the two as any thread, to everybody else as nothing."""

import pytest

from openvibe.workspaces.models import Member
from tests import factories
from tests.api.access_matrix import UNKNOWN
from tests.api.client import Api
from tests.api.conftest import Enter
from tests.api.test_access import ROWS, make_call
from tests.chat.test_direct_messages import begin

NAMING = sorted(name for name, row in ROWS.items() if row.thing in ("channel", "thread", "message", "attachment"))


def test_the_two_open_list_and_use_it(ana: Member, dora: Member, by_token: Enter) -> None:
    hers, other = by_token(dora.participant), by_token(ana.participant)
    opened = hers.post("direct-messages/", {"to": "@Ana"})
    assert opened.status_code == 201
    assert {one["handle"] for one in opened.json()["participants"]} == {"ana", "dora"}
    assert other.post("direct-messages/", {"to": "dora"}).json()["id"] == opened.json()["id"]
    assert hers.post(f"threads/{opened.json()['id']}/messages/", {"body": "Hello!"}).status_code == 201
    (row,) = other.get("direct-messages/").json()["results"]
    assert (row["id"], row["last_seq"], row["last_read_seq"]) == (opened.json()["id"], 1, 0)


@pytest.mark.parametrize("outsider", ["ana", "eve", "fern", "l4"])
def test_to_others_owners_and_admins_too_it_does_not_exist(
    ana: Member, dora: Member, by_token: Enter, outsider: str
) -> None:
    moss, fern = factories.make_agent(ana, "moss"), factories.make_agent(ana, "fern")
    people = {
        "ana": ana.participant,
        "eve": factories.make_member("Eve", ana.workspace, role="admin").participant,
        "fern": fern.participant,
        "l4": factories.make_agent(ana, "l4", level=4).participant,
    }
    thread = begin(dora, moss.participant)
    message = factories.attach(thread, dora, "The roses are ill.", notes_md="Roses")
    file = message.attachments.get().pk
    ids = {**UNKNOWN, "channel": thread.channel_id, "thread": thread.pk, "message": message.pk, "attachment": file}
    api: Api = by_token(people[outsider])
    for name in NAMING:
        answer, unknown = (make_call(api, name, each, "l1") for each in (ids, UNKNOWN))
        assert (answer.status_code, answer.content) == (unknown.status_code, unknown.content), name
    assert api.get("direct-messages/").json()["results"] == []
    assert api.get("search/?q=roses").json()["results"] == []
