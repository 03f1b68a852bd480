"""What somebody may not read does not show in the order or the scores of what she may: nobody learns by searching for a
word, beside one that nobody else uses, whether others use it."""

from collections.abc import Callable

import pytest
from django.db import connection
from django.test import Client

from openvibe.api.services import issue_token
from openvibe.chat.models import Thread
from openvibe.engines.search import candidates
from openvibe.workspaces.models import Member
from tests import factories

HIDDEN = tuple(f"The merger with Zanzibar, part {number}" for number in range(8))


@pytest.fixture
def analyze(monkeypatch: pytest.MonkeyPatch) -> Callable[[], None]:
    """The database counts its words, as it does by itself after a while; what is known of them is read anew."""
    monkeypatch.setattr(candidates, "_statistics_cache", {})

    def analyze_tables() -> None:
        candidates._statistics_cache.clear()
        with connection.cursor() as cursor:
            cursor.execute("ANALYZE knowledge_entry, chat_message")

    return analyze_tables


@pytest.mark.parametrize("asker", ["of this workspace", "of another one"])
def test_restricted_knowledge_does_not_show_in_what_a_search_answers(
    asker: str, ana: Member, dora: Member, cleo: Member, analyze: Callable[[], None]
) -> None:
    member = dora if asker == "of this workspace" else cleo
    for number, word in enumerate(("zanzibar", "kilimanjaro", "zanzibar")):
        factories.make_entry(member, f"Bed {number}", f"We planted {word} beside the wall.")
    _, secret = issue_token(participant=member.participant, name="probe", scopes=["read"])

    def search() -> object:
        params, headers = {"q": "zanzibar kilimanjaro"}, {"Authorization": f"Bearer {secret}"}
        rows = Client().get("/api/v1/knowledge/search/", params, headers=headers).json()["results"]
        return [(row["entry"]["topic"], row["score"]) for row in rows]

    analyze()
    before = search()
    for topic in HIDDEN:
        factories.make_entry(ana, topic, f"{topic} happens soon.", visibility="restricted")
    analyze()
    assert search() == before != []


def test_a_private_channel_does_not_show_in_the_order_of_a_search(
    ana: Member, dora: Member, thread: Thread, analyze: Callable[[], None]
) -> None:
    for word in ("kilimanjaro", "zanzibar"):
        factories.say(thread, dora, f"We planted {word} beside the wall of the old house.")
    browser = Client()
    browser.force_login(dora.user)

    def search() -> str:
        page = browser.get(f"/w/{ana.workspace.slug}/search/", {"q": "zanzibar kilimanjaro", "order": "best"})
        return " ".join(message.body for _, hits in page.context["groups"] for message, _ in hits)

    analyze()
    before = search()
    factories.say_all(factories.make_thread(factories.make_channel(ana, "board", private=True), ana), ana, HIDDEN)
    analyze()
    assert search() == before != ""
