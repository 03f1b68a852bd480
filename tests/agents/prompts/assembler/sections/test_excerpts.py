"""Excerpts: of a long message a prompt shows the passages that bear on the request."""

from hypothesis import given, settings
from hypothesis import strategies as st

from agents.models import Agent
from agents.prompts.assembler.assemble import assemble
from agents.prompts.assembler.excerpts import GAP_MARKER, choose_passages, join_passages
from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member
from tests.agents.prompts.assembler.prompt_factories import O200K
from tests.factories import say, say_all

PADDING = "The committee met again and everybody agreed that the weather had been pleasant this week. "
NOTE = "[… passages of message 7, which is stored whole …]"


def excerpt(text: str, question: str, limit: int) -> str:
    """The text as recall shows it."""
    chosen = choose_passages(text, question, limit, O200K, note=NOTE)
    return text if chosen is None else join_passages(text, chosen, NOTE)


def test_what_bears_on_the_request_is_shown_and_the_rest_is_marked() -> None:
    text = PADDING * 20 + "The parrot of Dora is called Figaro. " + PADDING * 20
    extract = excerpt(text, "What is the name of Dora's bird?", 150)
    assert "called Figaro." in extract
    assert extract.startswith(GAP_MARKER)
    assert extract.endswith(f"{GAP_MARKER}\n{NOTE}")
    assert O200K.count(extract) <= 150


def test_no_empty_lines_stand_beside_what_is_left_out() -> None:
    text = f"{PADDING}\n\n\n" * 20 + "The parrot of Dora is called Figaro.\n\n\n" + f"{PADDING}\n\n\n" * 20
    extract = excerpt(text, "What is the name of Dora's bird?", 150)
    assert "Figaro" in extract
    assert extract.endswith(f".\n{GAP_MARKER}\n{NOTE}")
    assert extract.startswith(f"{GAP_MARKER}\n")
    assert f"\n\n{GAP_MARKER}" not in extract


def test_passages_stand_in_their_order() -> None:
    text = "Figaro eats nuts. " + PADDING * 20 + "Figaro is a parrot of eleven years. " + PADDING * 20
    extract = excerpt(text, "How old is the parrot Figaro?", 220)
    assert 0 <= extract.index("eats nuts") < extract.index(GAP_MARKER) < extract.index("eleven years")


def test_what_fits_is_shown_whole() -> None:
    assert excerpt(PADDING, "parrot", 100) == PADDING


def test_writing_without_blanks_is_searched_too() -> None:
    text = (
        "今天天气不错，我们下午出去走走吧。" * 30 + "玫瑰应该在二月底修剪。" + "今天天气不错，我们下午出去走走吧。" * 30
    )
    assert "玫瑰应该在二月底修剪" in excerpt(text, "什么时候修剪玫瑰?", 200)


def test_no_cut_leaves_half_a_secret() -> None:
    secret = "sk-live-" + "a1B2c3D4" * 6
    text = PADDING * 10 + f"The key of the parrot is {secret}. " + PADDING * 10
    extract = excerpt(text, "What is the key of the parrot?", 120)
    assert "key of the parrot" in extract
    assert "a1B2c3D4" not in extract


@given(st.text(max_size=2_000), st.text(max_size=60), st.integers(1, 300))
@settings(deadline=None)
def test_it_never_costs_more_than_it_may(text: str, question: str, limit: int) -> None:
    extract = excerpt(text, question, limit)
    assert O200K.count(extract) <= limit
    assert extract == excerpt(text, question, limit), "the same every time"


def test_a_fact_in_the_middle_of_a_long_message_comes_back(ana: Member, vibe: Agent, thread: Thread) -> None:
    say(thread, ana, PADDING * 30 + "The spare key of the Harbour roof hangs behind the pump. " + PADDING * 30)
    say_all(thread, ana, (f"Row {n}: " + "roses want water and mulch " * 6 for n in range(300)))
    question = say(thread, ana, "@vibe where is the spare key of the Harbour roof?")
    prompt = assemble(agent=vibe, thread=thread, task="mention", request=question)
    recalled = [entry for entry in prompt.included if entry.section == "recall"]
    assert "behind the pump" in recalled[0].text
    assert "passages of message 1, which is stored whole" in recalled[0].text
