"""A session of an agent elsewhere is sent what is new since its last prompt, each once, and all of it where it cannot
go on."""

from typing import Any

import pytest

from agents.agent.access import visible_to
from agents.agent.services import save_soul, set_trust_level
from agents.models import Agent, Run, Snapshot
from memory.plugins.services import FALLBACK_PLUGIN, enable_plugin
from memory.services import create_work_item
from openvibe.chat.models import Channel, Message, Thread
from openvibe.chat.services import create_thread, delete_message, post_message, update_message
from openvibe.workspaces.models import Member
from tests import factories
from tests.api.client import Api
from tests.api.conftest import Enter
from tests.factories import access, say
from tests.memory.plugins.lcm.factories import leaf, taken_in


@pytest.fixture
def reed(ana: Member, channel: Channel) -> Agent:
    return factories.make_agent(ana, "reed", channel=channel, answers_itself=True)


@pytest.fixture
def api(reed: Agent, by_token: Enter) -> Api:
    return by_token(reed.participant)


def begin(api: Api, message: Message) -> int:
    answer = api.post("runs/", {"message": message.pk})
    assert answer.status_code == 201, answer.json()
    return int(answer.json()["id"])


def read(api: Api, run: int, after: int | None = None) -> dict[str, Any]:
    answer = api.post(f"runs/{run}/context/", {"attempt": 1, "after_run": after})
    assert answer.status_code == 200, answer.json()
    body: dict[str, Any] = answer.json()
    return body


def turn(api: Api, message: Message, after: int | None = None, answer: str = "In March.") -> tuple[int, dict[str, Any]]:
    """One turn of a session: begun, read, answered."""
    run = begin(api, message)
    context = read(api, run, after)
    assert api.post(f"runs/{run}/finish/", {"attempt": 1, "body": answer}).status_code == 200
    return run, context


def text_of(context: dict[str, Any]) -> str:
    return "\n\n".join(message["content"] for message in context["messages"])


def test_what_is_new_is_sent_once_and_the_question_last(
    api: Api, ana: Member, ben: Member, vibe: Agent, thread: Thread
) -> None:
    first, whole = turn(api, say(thread, ana, "@reed when do I prune?"), answer="Prune roses in March, Reed says.")
    assert (whole["is_continuation"], whole["continuation"]) == (False, "A session begins.")
    say(thread, ana, "The ivy is a mess.")
    post_message(thread=thread, by=visible_to(vibe), body="I would wait, says Vibe.")

    second, context = turn(api, say(thread, ana, "@reed and the ivy?"), first, answer="In June.")
    text = text_of(context)
    assert context["is_continuation"]
    assert context["continuation"] == f"New since run {first}: 2 messages and the question."
    assert (text.count("The ivy is a mess."), text.count("I would wait, says Vibe.")) == (1, 1)
    assert "when do I prune?" not in text
    assert "Prune roses in March" not in text
    assert [message["role"] for message in context["messages"]][-1] == "user"
    assert context["messages"][-1]["content"].strip() == "@reed and the ivy?"
    assert '<messages trust="untrusted">' in text, "another agent's words stand in a fence of their own"
    assert context["tokens"] * 2 < whole["tokens"]
    assert context["tools"] == whole["tools"]

    _, third = turn(api, say(thread, ana, "@reed thanks"), second)
    assert third["continuation"] == f"New since run {second}: the question."
    assert "ivy" not in text_of(third)


def test_people_are_shown_what_was_really_sent_and_that_is_counted(
    api: Api, ana: Member, thread: Thread, by_token: Enter
) -> None:
    first, whole = turn(api, say(thread, ana, "@reed when do I prune?"))
    second, context = turn(api, say(thread, ana, "@reed and the ivy?"), first)
    snapshot = Snapshot.objects.get(run=second)
    assert (snapshot.continues_id, snapshot.tokens) == (first, context["tokens"])
    assert Run.objects.get(pk=second).input_tokens == context["tokens"]
    assert Run.objects.get(pk=first).input_tokens == whole["tokens"]
    seen = by_token(ana.participant).get(f"runs/{second}/context/").json()
    assert seen["messages"] == context["messages"]
    assert [item["key"] for layer in seen["layers"] for item in layer["items"]].count("policy") == 0


def test_an_agent_s_own_count_goes_before_ours(api: Api, ana: Member, thread: Thread) -> None:
    run = begin(api, say(thread, ana, "@reed when do I prune?"))
    read(api, run)
    usage = {"input_tokens": 90, "output_tokens": 7, "cached_tokens": 60, "model": "own"}
    refused = api.post(f"runs/{run}/finish/", {"attempt": 1, "body": "In March.", "cached_tokens": 5})
    assert (refused.status_code, refused.json()["errors"][0]["field"]) == (400, "cached_tokens")
    body = api.post(f"runs/{run}/finish/", {"attempt": 1, "body": "In March.", **usage}).json()
    assert (body["input_tokens"], body["output_tokens"], body["cached_tokens"]) == (90, 7, 60)


def test_changed_instructions_constraints_and_feedback_are_sent_once(
    api: Api, ana: Member, thread: Thread, by_token: Enter
) -> None:
    first, _ = turn(api, say(thread, ana, "@reed when do I prune?"))
    thread.instructions = "Answer in one line."
    thread.save(update_fields=["instructions"])
    create_work_item(thread=thread, by=access(ana), kind="constraint", text="Never name a brand.")
    reply = Message.objects.get(run=first)
    by_ana = by_token(ana.participant)
    by_ana.post("feedback/", {"message": reply.pk, "verdict": "down", "text": "Name the roses."})

    second, context = turn(api, say(thread, ana, "@reed and the ivy?"), first)
    text = text_of(context)
    assert context["is_continuation"], context["continuation"]
    assert context["messages"][0]["role"] == "system"
    assert "Answer in one line." in context["messages"][0]["content"]
    assert (text.count("Never name a brand."), text.count("Name the roses.")) == (1, 1)

    third, after = turn(api, say(thread, ana, "@reed thanks"), second)
    assert not any(words in text_of(after) for words in ("one line", "brand", "Name the roses"))

    for words in ("Answer in two lines.", "Answer in one line."):
        thread.instructions = words
        thread.save(update_fields=["instructions"])
        third, changed = turn(api, say(thread, ana, "@reed and again?"), third)
        assert words in text_of(changed), "what was said last is what holds"

    thread.instructions = ""
    thread.save(update_fields=["instructions"])
    _, last = turn(api, say(thread, ana, "@reed bye"), third)
    assert (last["is_continuation"], last["continuation"]) == (False, "An instruction holds no more since.")


def test_an_edited_message_is_new_and_a_deleted_one_begins_anew(api: Api, ana: Member, thread: Thread) -> None:
    aside = say(thread, ana, "Bed 1 is dry.")
    first, _ = turn(api, say(thread, ana, "@reed when do I prune?"))
    update_message(message=aside, by=access(ana), body="Bed 2 is dry.")
    second, context = turn(api, say(thread, ana, "@reed and now?"), first)
    assert context["is_continuation"]
    assert "Bed 2 is dry." in text_of(context)
    delete_message(message=aside, by=access(ana))
    _, last = turn(api, say(thread, ana, "@reed and then?"), second)
    assert last["continuation"] == "A message that it had read was deleted since."


def test_what_was_cut_for_want_of_room_is_not_taken_as_read(api: Api, ana: Member, thread: Thread) -> None:
    for number in range(30):
        say(thread, ana, f"Bed {number}: " + "soil " * 120)
    long = "First line. " + "The garden is large and wet. " * 600 + "Last line."
    run = begin(api, say(thread, ana, f"@reed {long}"))
    small = api.post(f"runs/{run}/context/", {"attempt": 1, "budget": 7_200}).json()
    assert "First line." in text_of(small)
    assert "[… cut here" in text_of(small)
    api.post(f"runs/{run}/finish/", {"attempt": 1, "body": "In March."})
    cut = [number for number in range(30) if f"Bed {number}:" not in text_of(small)]
    assert cut

    second, context = turn(api, say(thread, ana, f"@reed and Bed {cut[-1]}?"), run)
    assert context["is_continuation"]
    assert f"Bed {cut[-1]}:" in text_of(context)
    assert "First line." in text_of(context), "it was cut at another place then"
    _, after = turn(api, say(thread, ana, f"@reed and Bed {cut[-1]}?"), second)
    assert f"Bed {cut[-1]}:" not in text_of(after)
    assert "First line." not in text_of(after)


@pytest.mark.parametrize("change", ["soul", "level", "organisation", "plugin", "compacted"])
def test_a_changed_head_begins_anew(api: Api, ana: Member, reed: Agent, thread: Thread, change: str) -> None:
    first, _ = turn(api, say(thread, ana, "@reed when do I prune?"))
    words = {
        "soul": "its SOUL",
        "level": "its trust level",
        "organisation": "the organisation's instructions",
        "plugin": "the memory plugin",
        "compacted": "compacted",
    }[change]
    if change == "soul":
        assert reed.soul is not None
        save_soul(
            agent=reed, by=access(ana), text=f"{reed.soul.source}\n# Again", note="Again", based_on=reed.soul.number
        )
    elif change == "level":
        set_trust_level(agent=reed, by=access(ana), level=3, note="Good")
    elif change == "organisation":
        thread.workspace.instructions = "Be kind."
        thread.workspace.save(update_fields=["instructions"])
    elif change == "plugin":
        enable_plugin(workspace=thread.workspace, name=FALLBACK_PLUGIN, by=access(ana))
    else:
        thread.refresh_from_db()
        leaf(taken_in(thread), 1, 2)
    _, context = turn(api, say(thread, ana, "@reed and now?"), first)
    assert not context["is_continuation"]
    assert words in context["continuation"]
    assert "You are" in text_of(context)


def test_runs_that_cannot_be_followed_are_told_whole_and_why(
    api: Api, ana: Member, reed: Agent, thread: Thread, by_token: Enter
) -> None:
    first, _ = turn(api, say(thread, ana, "@reed when do I prune?"))
    other = create_thread(channel=thread.channel, by=access(ana), title="Ivy")
    elsewhere, _ = turn(api, say(other, ana, "@reed here?"))
    failed = begin(api, say(thread, ana, "@reed and the ivy?"))
    read(api, failed, first)
    api.post(f"runs/{failed}/finish/", {"attempt": 1, "error": "Away."})
    unread = begin(api, say(thread, ana, "@reed and the moss?"))
    api.post(f"runs/{unread}/finish/", {"attempt": 1, "body": "No."})
    run = begin(api, say(thread, ana, "@reed and now?"))
    for after, words in (
        (elsewhere, "no earlier run of yours"),
        (999_999, "no earlier run of yours"),
        (run, "no earlier run of yours"),
        (failed, "did not come to its end"),
        (unread, "not kept"),
    ):
        context = read(api, run, after)
        assert (context["is_continuation"], words in context["continuation"]) == (False, True), context["continuation"]
    Snapshot.objects.filter(run=first).update(content=None)
    assert "not kept" in read(api, run, first)["continuation"]


def test_a_run_of_the_chain_that_was_begun_anew_breaks_it(
    api: Api, ana: Member, thread: Thread, by_token: Enter
) -> None:
    question = say(thread, ana, "@reed when do I prune?")
    first = begin(api, question)
    read(api, first)
    api.patch(f"runs/{first}/reply/", {"attempt": 1, "offset": 0, "body": "In"})
    by_ana = by_token(ana.participant)
    by_ana.post(f"runs/{first}/stop/")
    second, context = turn(api, say(thread, ana, "@reed well?"), first)
    assert context["is_continuation"]
    by_ana.post(f"runs/{first}/retry/")
    begin(api, question)
    api.post(f"runs/{first}/context/", {"attempt": 2})
    api.post(f"runs/{first}/finish/", {"attempt": 2, "body": "In March."})
    _, last = turn(api, say(thread, ana, "@reed and now?"), second)
    assert last["continuation"] == "A run of the session was begun anew since."


def test_a_thread_costs_the_same_each_turn_for_fifty_turns(api: Api, ana: Member, thread: Thread) -> None:
    after, whole, costs = None, 0, []
    for number in range(50):
        after, context = turn(
            api, say(thread, ana, f"@reed what of bed {number:02}?"), after, f"Bed {number:02} is dry."
        )
        costs.append(Run.objects.get(pk=after).input_tokens)
        whole = whole or context["tokens"]
        assert context["is_continuation"] is (number > 0)
    turns = sorted(costs[1:])
    middle = turns[len(turns) // 2]
    assert middle * 0.8 <= turns[0] <= turns[-1] <= middle * 1.2
    assert middle < whole / 3
