"""Emoji on messages: what one is, who may put it there, how many there are, and where it never stands."""

import pytest
from django.db import IntegrityError, transaction

from agents.models import Agent
from agents.prompts.assembler.assemble import assemble
from openvibe.base.models import Event
from openvibe.base.problems import Missing, Problem, Refused
from openvibe.chat.models import MAX_EMOJI_OF_MESSAGE, Reaction, Thread
from openvibe.chat.queries import access_message
from openvibe.chat.services import add_reaction, delete_message, remove_reaction, update_thread
from openvibe.chat.services.reactions import clean_emoji
from openvibe.workspaces.models import Member
from tests.factories import access, say

ANIMALS = [chr(0x1F400 + number) for number in range(MAX_EMOJI_OF_MESSAGE + 1)]


WHOLE = ("\U0001f468\u200d\U0001f469\u200d\U0001f467", "🇩🇪", "5\ufe0f\u20e3", "👍\U0001f3fd")
"""A family, a flag, a key and a shade: each one emoji of several code points."""


@pytest.mark.parametrize(
    ("typed", "kept"), [(" 👍 ", "👍"), ("\u2764", "\u2764\ufe0f"), (":TADA:", "🎉"), *((one, one) for one in WHOLE)]
)
def test_one_emoji_is_kept_in_one_form(typed: str, kept: str) -> None:
    assert clean_emoji(typed) == kept


REFUSED = ["", "a", "5", "👍👍", "\U0001f3fd", ":nothing:", "👍 x", "<b>", "🇽🇽", "\x00", "\ud800"]


@pytest.mark.parametrize("typed", [*REFUSED, "👍" * 50_000, ":" * 50_000], ids=range(len(REFUSED) + 2))
def test_anything_else_is_refused(typed: str) -> None:
    with pytest.raises(Problem) as error:
        clean_emoji(typed)
    assert error.value.code == "bad_emoji"


def test_somebodys_emoji_stands_once_and_pages_hear_of_each_change(ana: Member, dora: Member, thread: Thread) -> None:
    message = say(thread, ana, "Pruned!")
    for member in (ana, dora, dora):
        add_reaction(message=message, by=access(member), emoji="❤")
    add_reaction(message=message, by=access(ana), emoji="🎉")
    (heart, party) = access_message(access(ana), message.pk).reacted
    assert (heart["emoji"], heart["people"], heart["names"]) == (
        "❤️",
        [ana.participant_id, dora.participant_id],
        ["Ana", "Dora"],
    )
    assert party["people"] == [ana.participant_id]
    for _ in range(2):
        remove_reaction(message=message, by=access(dora), emoji="❤️")
    assert [row["people"] for row in access_message(access(ana), message.pk).reacted] == [[ana.participant_id]] * 2
    reaction_events = Event.objects.filter(kind="reactions_changed")
    assert set(reaction_events.values_list("thread_id", "message_id")) == {(thread.pk, message.pk)}
    assert reaction_events.count() == 4


def test_a_message_has_twenty_different_ones_whoever_writes_them(ana: Member, dora: Member, thread: Thread) -> None:
    message = say(thread, ana, "Zoo")
    for animal in ANIMALS[:-1]:
        add_reaction(message=message, by=access(ana), emoji=animal)
    with pytest.raises(Refused, match="at most 20"):
        add_reaction(message=message, by=access(dora), emoji=ANIMALS[-1])
    with pytest.raises(IntegrityError), transaction.atomic():
        Reaction.objects.create(message=message, participant=dora.participant, emoji=ANIMALS[-1])
    add_reaction(message=message, by=access(dora), emoji=ANIMALS[0])
    assert Reaction.objects.filter(message=message).count() == MAX_EMOJI_OF_MESSAGE + 1


def test_none_on_what_was_deleted_or_put_away(ana: Member, dora: Member, thread: Thread) -> None:
    message, other = say(thread, ana, "Pruned!"), say(thread, ana, "Mulched!")
    add_reaction(message=message, by=access(dora), emoji="🎉")
    delete_message(message=message, by=access(ana))
    assert not Reaction.objects.exists()
    with pytest.raises(Missing):
        add_reaction(message=message, by=access(dora), emoji="🎉")
    with pytest.raises(IntegrityError), transaction.atomic():
        Reaction.objects.create(message=message, participant=dora.participant, emoji="🎉")
    update_thread(thread=thread, by=access(ana), archived=True)
    with pytest.raises(Refused):
        add_reaction(message=other, by=access(dora), emoji="🎉")


def test_no_prompt_holds_one(ana: Member, thread: Thread, vibe: Agent) -> None:
    question = say(thread, ana, "@vibe when do I prune?")

    add_reaction(message=question, by=access(ana), emoji="🦔")
    prompt = assemble(agent=vibe, thread=thread, task="mention", request=question)
    assert "when do I prune" in prompt.messages[-1].content
    assert not any("🦔" in message.content for message in prompt.messages)
