"""Blocks and notes through the API: versions by ETag, an agent's own, an admin's choice, a member's look."""

from agents.agent.services import deactivate_agent
from agents.models import Agent
from memory.blocks.models import Block, CarriedVersion, ProfileNote
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member
from tests import factories
from tests.api.client import is_problem
from tests.api.conftest import Enter


def test_an_agent_makes_reads_and_changes_its_own(vibe: Agent, by_token: Enter) -> None:
    api = by_token(vibe.participant)
    response = api.post("blocks/", {"label": "notes", "content": "One"})
    assert (response.status_code, response.json()["version"], response["ETag"]) == (
        201,
        1,
        f'"{response.json()["etag"]}"',
    )

    changed = api.call("PUT", "blocks/notes/", {"content": "Two"}, If_Match=response["ETag"])
    assert (changed.status_code, changed.json()["content"], changed.json()["version"]) == (200, "Two", 2)
    assert api.post("blocks/notes/append/", {"content": "Three"}).json()["content"] == "Two\nThree"

    one = api.get("blocks/notes/")
    assert one.json() == {
        "label": "notes",
        "description": "",
        "content": "Two\nThree",
        "tokens": 3,
        "max_tokens": 300,
        "readonly": False,
        "version": 3,
        "etag": one["ETag"].strip('"'),
    }
    assert [row["label"] for row in api.get("blocks/").json()["results"]] == ["learned", "notes", "team"]
    assert "Two\nThree" in api.get("blocks/text/").json()["text"]
    versions = CarriedVersion.objects.filter(block__label="notes")
    assert {(row.author_id, row.how) for row in versions} == {(vibe.participant_id, "api")}

    assert api.delete("blocks/notes/").status_code == 204
    assert is_problem(api.get("blocks/notes/"), 404, "not_found")


def test_the_tool_is_defined_for_a_model(ana: Member, vibe: Agent, by_token: Enter) -> None:
    api = by_token(vibe.participant)
    (tool,) = api.get("blocks/tools/").json()["tools"]
    assert tool["name"] == "update_context_block"
    assert tool["parameters"]["properties"]["label"]["enum"] == ["learned", "team"]

    admin = by_token(ana.participant)
    for label in ("learned", "team"):
        admin.call("PUT", f"blocks/{label}/?agent=vibe", {"content": "", "readonly": True}, If_Match='"0"')
    assert api.get("blocks/tools/").json() == {"tools": []}


def test_a_stale_etag_is_refused_and_none_is_asked_for(vibe: Agent, by_token: Enter) -> None:
    api = by_token(vibe.participant)
    first = api.post("blocks/", {"label": "notes", "content": "One"})["ETag"]
    newer = api.call("PUT", "blocks/notes/", {"content": "Two"}, If_Match=first)["ETag"]

    for stale in (first, '"0"', '"x"', "٣"):
        assert is_problem(api.call("PUT", "blocks/notes/", {"content": "Mine"}, If_Match=stale), 412, "stale")
    assert is_problem(api.call("PUT", "blocks/notes/", {"content": "Mine"}), 428, "if_match_required")
    assert is_problem(api.post("blocks/notes/append/", {"content": "Mine"}, If_Match=first), 412, "stale")
    assert is_problem(api.delete("blocks/notes/", If_Match=first), 412, "stale")
    assert is_problem(api.post("blocks/", {"label": "notes", "content": "Mine"}), 409, "taken")
    assert api.delete("blocks/notes/", If_Match=newer).status_code == 204


def test_a_predefined_block_is_first_written_on_0(vibe: Agent, by_token: Enter) -> None:
    api = by_token(vibe.participant)
    assert api.get("blocks/team/")["ETag"] == '"0"'
    assert api.call("PUT", "blocks/team/", {"content": "We say hello."}, If_Match='"0"').json()["version"] == 1
    assert is_problem(api.call("PUT", "blocks/team/", {"content": "Mine"}, If_Match='"0"'), 412, "stale")


def test_rules_speak_in_their_own_words(vibe: Agent, by_token: Enter) -> None:
    api = by_token(vibe.participant)
    too_long = api.post("blocks/", {"label": "notes", "content": " word" * 301})
    assert is_problem(too_long, 400, "too_long")
    assert too_long.json()["detail"] == 'Content exceeds maxTokens for block "notes": 301 tokens > 300 max'
    assert is_problem(api.post("blocks/", {"label": "Bad label", "content": "x"}), 400, "bad_label")
    response = api.post("blocks/nothing/append/", {"content": "x"})
    assert response.json()["detail"] == 'Block "nothing" does not exist'
    assert is_problem(api.call("PUT", "blocks/nothing/", {"content": "x"}, If_Match='"0"'), 404, "not_found")


def test_only_admins_set_limit_and_flag(ana: Member, vibe: Agent, by_token: Enter) -> None:
    own, admin = by_token(vibe.participant), by_token(ana.participant)
    assert is_problem(own.post("blocks/", {"label": "a", "content": "x", "max_tokens": 9}), 403, "not_allowed")
    response = admin.post("blocks/?agent=@vibe", {"label": "a", "content": "x", "max_tokens": 9, "readonly": True})
    assert (response.status_code, response.json()["max_tokens"], response.json()["readonly"]) == (201, 9, True)

    refused = own.post("blocks/a/append/", {"content": "y"})
    assert is_problem(refused, 403, "readonly")
    assert refused.json()["detail"] == 'Block "a" is readonly'
    assert is_problem(admin.delete("blocks/a/?agent=vibe"), 403, "readonly")
    lifted = admin.call("PUT", "blocks/a/?agent=vibe", {"content": "x", "readonly": False}, If_Match=response["ETag"])
    assert lifted.json()["readonly"] is False
    assert own.post("blocks/a/append/", {"content": "y"}).status_code == 200


def test_members_look_and_do_not_write(dora: Member, ben: Member, vibe: Agent, by_session: Enter) -> None:
    api = by_session(dora)
    assert len(api.get("blocks/?agent=vibe").json()["results"]) == 2
    assert is_problem(api.get("blocks/"), 400, "choose_agent")
    assert is_problem(api.post("blocks/team/append/?agent=vibe", {"content": "x"}), 403, "not_allowed")
    assert is_problem(by_session(ben).get("blocks/?agent=vibe"), 404, "not_found")
    assert not Block.objects.exists()


def test_a_token_needs_the_scope_memory(vibe: Agent, by_token: Enter) -> None:
    api = by_token(vibe.participant, ("read", "write"))
    for answer in (
        api.get("blocks/"),
        api.get("blocks/team/"),
        api.post("blocks/", {"label": "a"}),
        api.post("blocks/team/append/", {"content": "x"}),
        api.get("profile/?person=ana"),
    ):
        assert answer.status_code == 403


def test_the_same_post_sent_again_makes_nothing(vibe: Agent, by_token: Enter) -> None:
    api = by_token(vibe.participant)
    first = api.post("blocks/", {"label": "a", "content": "x"}, Idempotency_Key="k")
    second_response = api.post("blocks/", {"label": "a", "content": "x"}, Idempotency_Key="k")
    assert (second_response.status_code, second_response.json()) == (201, first.json())
    assert Block.objects.get().version == 1


def test_blocks_of_a_deactivated_agent_are_only_read(ana: Member, vibe: Agent, by_token: Enter) -> None:
    api = by_token(ana.participant)
    api.post("blocks/?agent=vibe", {"label": "a", "content": "x"})
    deactivate_agent(agent=vibe, by=factories.access(ana))
    assert api.get("blocks/a/?agent=vibe").json()["content"] == "x"
    assert is_problem(api.post("blocks/a/append/?agent=vibe", {"content": "y"}), 403, "not_allowed")


# --- notes ----------------------------------------------------------------------------------------------------
def test_an_agent_keeps_notes_about_whoever_asks(
    ana: Member, dora: Member, vibe: Agent, thread: Thread, by_token: Enter
) -> None:
    factories.say(thread, ana, "Hello")
    factories.say(thread, dora, "@vibe hello")
    api = by_token(vibe.participant)
    about = f"profile/?thread={thread.pk}"
    nothing = api.get(about)
    assert nothing.json() == {
        "agent": "vibe",
        "person": "dora",
        "content": "",
        "tokens": 0,
        "max_tokens": 500,
        "version": 0,
    }
    noted = api.call("PUT", about, {"content": "Likes roses."}, If_Match=nothing["ETag"])
    assert (noted.status_code, noted.json()["content"], noted.json()["version"], noted["ETag"]) == (
        200,
        "Likes roses.",
        1,
        '"1"',
    )
    assert api.get("profile/?person=@dora").json()["content"] == "Likes roses."
    assert api.get("profile/?person=ana").json()["content"] == ""
    assert is_problem(api.call("PUT", about, {"content": "Hates roses."}, If_Match='"0"'), 412, "stale")
    assert is_problem(api.call("PUT", about, {"content": "Hates roses."}, If_Match='"x"'), 412, "stale")
    assert is_problem(api.call("PUT", about, {"content": "Hates roses."}), 428, "if_match_required")
    assert is_problem(api.call("PUT", about, {"content": " word" * 501}, If_Match='"1"'), 400, "too_long")
    assert is_problem(api.get("profile/"), 400, "choose_person")
    assert is_problem(api.get("profile/?person=vibe"), 404, "not_found")


def test_a_thread_the_agent_does_not_see_names_nobody(ana: Member, vibe: Agent, by_token: Enter) -> None:
    private = factories.make_thread(factories.make_channel(ana, "secret", private=True), ana)
    factories.say(private, ana, "Hello")
    api = by_token(vibe.participant)
    hidden, unknown = api.get(f"profile/?thread={private.pk}"), api.get("profile/?thread=987654321")
    assert is_problem(hidden, 404, "not_found")
    assert hidden.content == unknown.content


def test_a_member_reads_and_clears_the_notes_about_herself(
    ana: Member, dora: Member, vibe: Agent, by_token: Enter
) -> None:
    agent, admin, own = by_token(vibe.participant), by_token(ana.participant), by_token(dora.participant)
    agent.call("PUT", "profile/?person=dora", {"content": "Salary is 5."}, If_Match='"0"')
    agent.call("PUT", "profile/?person=dora", {"content": "Likes roses."}, If_Match='"1"')
    agent.call("PUT", "profile/?person=ana", {"content": "Owns the garden."}, If_Match='"0"')

    assert own.get("profile/?agent=vibe").json()["content"] == "Likes roses."
    assert is_problem(own.get("profile/?agent=vibe&person=ana"), 403, "not_allowed")
    assert is_problem(
        own.call("PUT", "profile/?agent=vibe", {"content": "Always right."}, If_Match='"2"'), 403, "not_allowed"
    )
    assert admin.get("profile/?agent=vibe&person=dora").json()["content"] == "Likes roses."
    assert own.call("PUT", "profile/?agent=vibe", {"content": " "}, If_Match='"2"').json()["content"] == ""
    assert list(CarriedVersion.objects.filter(note__person=dora.participant).values_list("content", flat=True)) == [""]
    assert ProfileNote.objects.get(person=ana.participant).content == "Owns the garden."
