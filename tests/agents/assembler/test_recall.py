"""What bears on a request: rare words more than common ones, and what stands next to them."""

from agents.assembler.assemble import assemble
from agents.assembler.recall import HITS, Hit, bearing
from agents.models import Agent
from openvibe.chat.models import Message, Thread
from openvibe.workspaces.models import Member
from tests.factories import say


def test_a_rare_word_weighs_more_than_a_common_one() -> None:
    common = [Hit(0, seq, 20) for seq in range(100, 100 + HITS)]
    scores = bearing([*common, Hit(1, 7, 20)], before=1_000)
    assert max(scores, key=lambda seq: scores[seq]) == 7
    assert scores[7] > 2 * scores[150]


def test_neighbours_share_the_weight_and_nothing_in_view_comes_in() -> None:
    scores = bearing([Hit(0, 10, 20)], before=12)
    assert scores[10] > scores[9] == scores[11] > scores[8]
    assert max(scores) == 11
    assert bearing([Hit(0, 1, 20)], before=2).keys() == {1}


def test_nothing_found_is_nothing_recalled() -> None:
    assert bearing([], before=5) == {}


def test_what_was_said_long_ago_comes_back(ana: Member, vibe: Agent, thread: Thread) -> None:
    say(thread, ana, "The spare key of the Harbour roof hangs behind the pump.")
    for n in range(300):
        say(thread, ana, f"Row {n}: " + "roses want water and mulch " * 6)
    asked = say(thread, ana, "@vibe where is the spare key of the Harbour roof?")
    prompt = assemble(agent=vibe, thread=thread, task="mention", request=asked)
    recalled = [entry for entry in prompt.included if entry.section == "recall"]
    assert "behind the pump" in recalled[0].text
    assert recalled[0].source == "message 1, recalled"


def test_neither_deleted_nor_own_nor_unfinished_text_is_recalled(ana: Member, vibe: Agent, thread: Thread) -> None:
    for state, author in (("stopped", ana.participant), ("complete", vibe.participant)):
        Message(thread=thread, author=author, body="The code is swordfish.", state=state, token_count=6).save(
            force_insert=True
        )
    for n in range(300):
        say(thread, ana, f"Row {n}: " + "roses want water and mulch " * 6)
    asked = say(thread, ana, "@vibe what is the code, swordfish?")
    prompt = assemble(agent=vibe, thread=thread, task="mention", request=asked)
    assert "swordfish" not in "".join(m.content for m in prompt.messages[:-1])
