"""Work, progress and approvals through the API."""

from agents.models import Agent
from memory.work.services import create_work_item
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member
from tests.api.client import is_problem
from tests.api.conftest import Enter
from tests.factories import access, say


def test_a_row_from_writing_to_closing(ana: Member, thread: Thread, by_token: Enter) -> None:
    api = by_token(ana.participant)
    goal = {"thread": thread.pk, "kind": "goal", "text": "A hedge", "data": {"done_condition": "40 m stand"}}
    api_response = api.post("work/", goal)
    assert (api_response.status_code, api_response["ETag"]) == (201, '"1"')
    address = f"work/{api_response.json()['id']}/"

    response = api.patch(
        address, {"text": "A hedge of yew", "data": {"budget": "200 €"}}, If_Match=api_response["ETag"]
    )
    assert response.json()["data"] == {"done_condition": "40 m stand", "budget": "200 €"}
    assert response["ETag"] == '"2"'

    closed = api.patch(address, {"state": "done"}, If_Match=response["ETag"]).json()
    assert (closed["state"], closed["closed_by"]["handle"], closed["text"]) == ("done", "ana", "A hedge of yew")
    assert api.get(f"work/?thread={thread.pk}&state=open").json()["results"] == []

    second_data = api.patch(address, {"state": "open", "data": {"budget": ""}}, If_Match='"3"').json()
    assert (second_data["state"], second_data["data"]) == ("open", {"done_condition": "40 m stand"})


def test_who_did_not_read_the_newest_is_told(ana: Member, thread: Thread, by_token: Enter) -> None:
    api = by_token(ana.participant)
    item = create_work_item(thread=thread, by=access(ana), kind="todo", text="Buy twine")
    address = f"work/{item.pk}/"

    assert is_problem(api.patch(address, {"text": "x"}), 428, "if_match_required")
    assert is_problem(api.patch(address, {"text": "x"}, If_Match='"7"'), 412, "stale")
    assert is_problem(api.delete(address, If_Match="three"), 412, "stale")
    assert api.delete(address, If_Match='"1"').status_code == 204
    assert api.get(address).json()["state"] == "dropped"


def test_a_row_may_name_its_message(ana: Member, thread: Thread, by_token: Enter) -> None:
    api, message = by_token(ana.participant), say(thread, ana, "Never water after noon.")
    body = {"thread": thread.pk, "kind": "constraint", "text": message.body, "message": message.pk}
    assert api.post("work/", body).json()["message"] == message.pk
    assert api.post("work/", {**body, "message": 987_654_321}).status_code == 404


def test_an_agent_may_not_touch_a_persons_constraint(ana: Member, thread: Thread, vibe: Agent, by_token: Enter) -> None:
    rule = create_work_item(thread=thread, by=access(ana), kind="constraint", text="Never water after noon.")
    api = by_token(vibe.participant)

    assert is_problem(api.patch(f"work/{rule.pk}/", {"text": "Water."}, If_Match='"1"'), 403, "people_only")
    assert is_problem(api.delete(f"work/{rule.pk}/", If_Match='"1"'), 403, "people_only")
    assert api.get(f"work/{rule.pk}/").json()["text"] == "Never water after noon."


def test_a_member_confirms_what_an_agent_proposed(ana: Member, vibe: Agent, thread: Thread, by_token: Enter) -> None:
    agent, person = by_token(vibe.participant), by_token(ana.participant)
    row = agent.post("work/", {"thread": thread.pk, "kind": "constraint", "text": "Water early."}).json()
    assert row["confirmed_by"] is None
    address = f"work/{row['id']}/decide/"

    assert is_problem(agent.post(address, {"confirmed": True}, If_Match='"1"'), 403, "people_only")
    assert is_problem(person.post(address, {"confirmed": True}), 428, "if_match_required")
    assert is_problem(person.post(address, {"confirmed": "perhaps"}, If_Match='"1"'), 400, "invalid")
    assert person.post(address, {"confirmed": True}, If_Match='"1"').json()["confirmed_by"]["handle"] == "ana"
    assert is_problem(person.post(address, {"confirmed": False}, If_Match='"2"'), 409, "decided")
    assert is_problem(person.post("work/987654321/decide/", {"confirmed": True}, If_Match='"1"'), 404, "not_found")


def test_a_preference_is_listed_made_binding_or_struck(
    ana: Member, vibe: Agent, thread: Thread, by_token: Enter
) -> None:
    agent, person = by_token(vibe.participant), by_token(ana.participant)
    say(thread, ana, "I prefer trains. Always name the price.")
    rows = person.get("work/?kind=preference").json()["results"]
    assert [row["text"] for row in rows] == ["Always name the price.", "I prefer trains."]
    price, trains = (f"work/{row['id']}/decide/" for row in rows)

    assert is_problem(agent.post(price, {"confirmed": True}, If_Match='"1"'), 403, "people_only")
    bound = person.post(price, {"confirmed": True}, If_Match='"1"').json()
    assert (bound["kind"], bound["confirmed_by"]["handle"], bound["author"]["handle"]) == ("constraint", "ana", "ana")
    assert person.post(trains, {"confirmed": False}, If_Match='"1"').json()["state"] == "dropped"
    body = {"thread": thread.pk, "kind": "preference", "text": "Ana likes long answers."}
    assert is_problem(agent.post("work/", body), 403, "people_only")
    assert person.post("work/", {**body, "text": "I like maps"}).status_code == 201


def test_an_agent_asks_and_learns_the_decision(ana: Member, thread: Thread, vibe: Agent, by_token: Enter) -> None:
    agent, person = by_token(vibe.participant), by_token(ana.participant)
    data = agent.post("approvals/", {"thread": thread.pk, "what": "Order mulch", "reason": "Bare beds"}).json()
    assert (data["state"], data["decided_by"]) == ("requested", None)
    address = f"approvals/{data['id']}/decide/"

    assert is_problem(agent.post(address, {"granted": True}), 403, "people_only")
    body = person.post(address, {"granted": False, "note": "Too dear"}).json()
    assert (body["state"], body["decided_by"]["handle"], body["note"]) == ("denied", "ana", "Too dear")
    assert is_problem(person.post(address, {"granted": True}), 409, "decided")
    listed = agent.get(f"approvals/?thread={thread.pk}&state=denied").json()["results"]
    assert [row["id"] for row in listed] == [data["id"]]


def test_progress_is_logged_once_for_one_key(ana: Member, thread: Thread, by_token: Enter) -> None:
    api = by_token(ana.participant)
    line = {"thread": thread.pk, "checkpoint": "Beds dug", "next_action": "Drain the fifth"}
    first, second = (api.post("progress/", line, Idempotency_Key="beds") for _ in range(2))
    assert first.json() == second.json()
    (row,) = api.get(f"progress/?thread={thread.pk}").json()["results"]
    assert (row["checkpoint"], row["next_action"], row["author"]["handle"]) == ("Beds dug", "Drain the fifth", "ana")
