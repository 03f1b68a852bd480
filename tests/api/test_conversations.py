"""Channels, threads, messages and search, as scripts and outside agents use them."""

from datetime import timedelta

import pytest
from django.utils import timezone

from agents.models import Agent, Run
from openvibe.chat.models import Channel, Thread
from openvibe.chat.queries import list_unread_threads
from openvibe.workspaces.models import Member
from tests import factories
from tests.api.client import is_problem
from tests.api.conftest import Enter


def test_a_member_makes_a_channel_a_thread_and_says_something(ana: Member, vibe: Agent, by_token: Enter) -> None:
    api = by_token(ana.participant)
    channel = api.post("channels/", {"name": "Roses", "description": "All about them"}).json()
    thread = api.post("threads/", {"channel": channel["id"], "title": "  When to  prune "}).json()
    data = api.post(f"threads/{thread['id']}/messages/", {"body": "In **winter**?"}).json()

    assert (channel["name"], channel["is_private"]) == ("roses", False)
    assert (thread["title"], thread["channel"], thread["access"]) == ("When to prune", channel["id"], "open")
    assert (data["seq"], data["author"]["handle"], data["state"]) == (1, "ana", "complete")
    assert data["tokens"] > 0
    assert api.get(f"messages/{data['id']}/").json() == data


def test_a_persons_mention_makes_a_run_and_an_agents_message_none(
    ana: Member, vibe: Agent, thread: Thread, by_token: Enter
) -> None:
    person, agent = by_token(ana.participant), by_token(vibe.participant)
    path = f"threads/{thread.pk}/messages/"
    data = person.post(path, {"body": "@vibe when?"}).json()
    agent.post(path, {"body": "@vibe talking to myself"})

    run = Run.objects.get()
    assert run.trigger_id == data["id"]
    assert [mention["handle"] for mention in data["mentions"]] == ["vibe"]


def test_an_agent_that_may_not_answer_leaves_its_reason(ana: Member, thread: Thread, by_token: Enter) -> None:
    factories.make_agent(ana, "fern")
    data = by_token(ana.participant).post(f"threads/{thread.pk}/messages/", {"body": "@fern when?"}).json()

    assert "not in this channel" in data["mentions"][0]["note"]
    assert not Run.objects.exists()


def test_the_same_client_id_is_the_same_message(ana: Member, thread: Thread, by_token: Enter) -> None:
    api, path = by_token(ana.participant), f"threads/{thread.pk}/messages/"
    first = api.post(path, {"body": "Once", "client_id": "a"}).json()
    second_data = api.post(path, {"body": "Once more", "client_id": "a"}).json()

    assert second_data == first
    assert len(api.get(path).json()["results"]) == 1


def test_an_agent_posts_a_tool_call_and_its_result(vibe: Agent, thread: Thread, by_token: Enter) -> None:
    api, path = by_token(vibe.participant), f"threads/{thread.pk}/messages/"
    call = api.post(path, {"body": '{"name": "look_up"}', "kind": "tool_call", "call_id": "c1"})
    result = api.post(path, {"body": "Winter.", "kind": "tool_result", "call_id": "c1"})

    assert [call.status_code, result.status_code] == [201, 201]
    assert [m["kind"] for m in api.get(path).json()["results"]] == ["tool_call", "tool_result"]


def test_edit_and_delete_leave_no_text_behind(ana: Member, thread: Thread, by_token: Enter) -> None:
    api = by_token(ana.participant)
    message = factories.say(thread, ana, "Zinnias")
    edited = api.patch(f"messages/{message.pk}/", {"body": "Tulips"}).json()
    found_old = api.get("search/?q=zinnias").json()["results"]
    api.delete(f"messages/{message.pk}/")
    data = api.get(f"messages/{message.pk}/").json()

    assert edited["edited_at"]
    assert found_old == []
    assert (data["body"], bool(data["deleted_at"])) == ("", True)
    assert api.get("search/?q=tulips").json()["results"] == []
    assert is_problem(api.patch(f"messages/{message.pk}/", {"body": "Back"}), 404, "not_found")


def test_closing_a_thread_to_agents_holds_at_once(ana: Member, vibe: Agent, thread: Thread, by_token: Enter) -> None:
    factories.say(thread, ana, "Roses need sun.")
    person, agent = by_token(ana.participant), by_token(vibe.participant)
    assert len(agent.get("search/?q=roses").json()["results"]) == 1

    data = person.patch(f"threads/{thread.pk}/", {"access": "human_only"}).json()

    assert data["access"] == "human_only"
    assert agent.get("search/?q=roses").json()["results"] == []
    assert is_problem(agent.get(f"threads/{thread.pk}/messages/"), 404, "not_found")
    body = person.patch(f"threads/{thread.pk}/", {"access": "agent_restricted", "allowed_agents": ["@vibe"]}).json()
    assert body["allowed_agents"] == ["vibe"]
    assert agent.get(f"threads/{thread.pk}/").status_code == 200


def test_unknown_agents_are_named(ana: Member, channel: Channel, by_token: Enter) -> None:
    body = {"channel": channel.pk, "title": "x", "access": "agent_restricted", "allowed_agents": ["nobody"]}
    answer = by_token(ana.participant).post("threads/", body)

    assert is_problem(answer, 400, "unknown_agent")
    assert answer.json()["field"] == "allowed_agents"


def test_threads_of_one_channel(ana: Member, thread: Thread, by_token: Enter) -> None:
    other = factories.make_thread(factories.make_channel(ana, "roses"), ana)
    api = by_token(ana.participant)

    assert [t["id"] for t in api.get(f"threads/?channel={other.channel_id}").json()["results"]] == [other.pk]
    assert [t["id"] for t in api.get("threads/").json()["results"]] == [other.pk, thread.pk]


def test_an_archived_thread_can_be_read_not_written(ana: Member, thread: Thread, by_token: Enter) -> None:
    api = by_token(ana.participant)
    archived = api.patch(f"threads/{thread.pk}/", {"archived": True, "title": "Old"}).json()

    assert archived["archived_at"]
    assert archived["title"] == "Old"
    response = api.post(f"threads/{thread.pk}/messages/", {"body": "Late"})
    assert is_problem(response, 403, "archived")
    assert "composer" not in response.json()["detail"]
    assert api.patch(f"threads/{thread.pk}/", {"archived": False}).json()["archived_at"] is None


@pytest.mark.parametrize("words", ["roses", '"need sun"', "sun -rain", "ROSE"])
def test_search_takes_words_as_people_write_them(ana: Member, thread: Thread, by_token: Enter, words: str) -> None:
    message = factories.say(thread, ana, "Roses need sun.")
    hits = by_token(ana.participant).call("GET", f"search/?q={words}").json()["results"]

    assert [(row["id"], row["thread_title"], row["channel"]) for row in hits] == [
        (message.pk, "Pruning", thread.channel_id)
    ]


def test_admins_say_what_agents_are_told(ana: Member, dora: Member, thread: Thread, by_token: Enter) -> None:
    admin, member = by_token(ana.participant), by_token(dora.participant)
    for address in (f"threads/{thread.pk}/", f"channels/{thread.channel_id}/"):
        assert admin.patch(address, {"instructions": "Be brief."}).json()["instructions"] == "Be brief."
        assert member.get(address).json()["instructions"] == "Be brief."
        assert is_problem(member.patch(address, {"instructions": "x"}), 403, "not_allowed")
        assert is_problem(admin.patch(address, {"instructions": "word " * 2_500}), 400, "too_long")
        assert admin.patch(address, {"instructions": ""}).json()["instructions"] == ""


def test_how_far_somebody_has_read(ana: Member, dora: Member, thread: Thread, vibe: Agent, by_token: Enter) -> None:
    for caller in (dora.participant, vibe.participant):
        api = by_token(caller)
        for n in range(3):
            factories.say(thread, ana, f"Message {n}")
        (row,) = api.get("threads/?unread=true").json()["results"]
        assert (row["id"], row["last_read_seq"] < row["last_seq"]) == (thread.pk, True)

        data = api.post(f"threads/{thread.pk}/read/", {"seq": row["last_seq"]}).json()
        assert data == {"last_read_seq": row["last_seq"]}
        assert api.get("threads/?unread=true").json()["results"] == []
        assert api.post(f"threads/{thread.pk}/read/", {"seq": 1}).json() == data  # never backwards

        api.post(f"threads/{thread.pk}/read/", {"unread_from": row["last_seq"]})
        (row,) = api.get("threads/?unread=true").json()["results"]
        assert row["last_read_seq"] == row["last_seq"] - 1
        for wrong in ({}, {"seq": 1, "unread_from": 1}):
            assert is_problem(api.post(f"threads/{thread.pk}/read/", wrong), 400, "required")


def test_the_inbox_lists_what_the_page_lists(ana: Member, channel: Channel, by_token: Enter) -> None:
    factories.say(factories.make_thread(channel, ana, "From before"), ana, "Earlier")
    opened = factories.make_thread(channel, ana, "Opened")
    factories.say(opened, ana, "Earlier, too")
    late = factories.make_member("Late", ana.workspace)
    Member.objects.filter(pk=late.pk).update(joined_at=timezone.now() + timedelta(seconds=1))
    late.refresh_from_db()
    api = by_token(late.participant)
    api.post(f"threads/{opened.pk}/read/", {"seq": 0})

    listed = [row["id"] for row in api.get("threads/?unread=true").json()["results"]]

    assert listed == [item.pk for item in list_unread_threads(factories.access(late)).items] == [opened.pk]


def test_programs_of_people_save_too_and_agents_do_not(
    ana: Member, thread: Thread, vibe: Agent, by_token: Enter
) -> None:
    message, api = factories.say(thread, ana, "Prune in March."), by_token(ana.participant)
    for _ in range(2):
        assert api.call("PUT", f"messages/{message.pk}/saved/").status_code == 204
    (row,) = api.get("saved/").json()["results"]
    assert (row["id"], row["thread_title"], row["channel"]) == (message.pk, thread.title, thread.channel_id)
    assert row["saved_at"] >= row["created_at"]
    assert api.call("DELETE", f"messages/{message.pk}/saved/").status_code == 204
    assert api.get("saved/").json()["results"] == []
    assert is_problem(by_token(vibe.participant).call("PUT", f"messages/{message.pk}/saved/"), 403, "people_only")
