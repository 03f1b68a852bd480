"""Conversations whose questions have known evidence: the evidence is where the bench says it is."""

import json
from collections.abc import Mapping, Sequence
from datetime import timedelta
from pathlib import Path
from statistics import mean

import pytest

from openvibe.engines.llm.tokens import count_tokens
from tests.bench.advice_texts import ADVICE_FACTS
from tests.bench.chat_texts import FACTS
from tests.bench.chats import ASSISTANT, ChatWriter
from tests.bench.conversations import FIRST_RARE_RANK, SyntheticConversations, read_meetings
from tests.bench.corpus import SyntheticLanguage


def a_file(folder: Path, said: list[str], queries: Sequence[Mapping[str, object]]) -> Path:
    meeting = {
        "meeting_transcripts": [{"speaker": "Ana", "content": text} for text in said],
        "specific_query_list": queries,
    }
    path = folder / "meetings.jsonl"
    path.write_text(json.dumps(meeting) + "\n\n")
    return path


def test_evidence_is_counted_among_what_is_imported(tmp_path: Path) -> None:
    said = ["Hello", " ", "Roses", "", "Prune them", "Bye"]
    query = {"query": "What about roses?", "relevant_text_span": [["2", "4"], ["1", "1"]]}
    (talk,) = read_meetings(a_file(tmp_path, said, [query]))
    assert [line.text for line in talk.imported.lines] == ["Hello", "Roses", "Prune them", "Bye"]
    assert [(asked.text, asked.evidence) for asked in talk.asked] == [("What about roses?", frozenset({2, 3}))]


def test_a_question_without_evidence_is_not_asked(tmp_path: Path) -> None:
    query = {"query": "What about silence?", "relevant_text_span": [["1", "1"]]}
    (talk,) = read_meetings(a_file(tmp_path, ["Hello", ""], [query]))
    assert talk.asked == ()


def test_made_up_meetings_name_their_subjects_where_the_evidence_is() -> None:
    (talk,) = SyntheticConversations().meetings(1, stretches=3)
    rare = set(SyntheticLanguage().words[FIRST_RARE_RANK:])
    lines = [line.text for line in talk.imported.lines]
    assert sorted(place for asked in talk.asked for place in asked.evidence) == list(range(1, len(lines) + 1))
    for asked in talk.asked:
        telling = rare & {*asked.text.rstrip("?").split()}
        assert len(telling) >= 3
        holding = {place for place, text in enumerate(lines, start=1) if telling & {*text.lower().split()}}
        assert len(holding & asked.evidence) > 2


@pytest.mark.parametrize("shape", ["short_chat", "assistant_thread"])
def test_what_is_asked_for_was_said_once_by_somebody_at_a_time(shape: str) -> None:
    talk = getattr(ChatWriter(3), shape)(240)
    lines = tuple(talk.imported.lines)
    times = [line.at for line in lines]
    assert len(lines) == 240
    assert times == sorted(times)
    assert times[-1] - times[0] > timedelta(days=10)
    assert len(talk.asked) > 12
    for question in talk.asked:
        (text,) = talk.evidence_texts(question)
        assert [seq for seq, line in enumerate(lines, start=1) if text in line.text] == [*question.evidence]
    assert talk == getattr(ChatWriter(3), shape)(240)


def test_an_assistant_answers_in_long_messages() -> None:
    lines = ChatWriter(0).assistant_thread(80).imported.lines
    sizes = [count_tokens(line.text) for line in lines if line.author == ASSISTANT]
    assert 420 < mean(sizes) < 540


def test_facts_are_many_and_none_has_a_blank_left() -> None:
    assert len(FACTS) >= 60
    assert len({fact.statement for facts in ADVICE_FACTS.values() for fact in facts}) >= 40
    for talk in (ChatWriter(1).short_chat(900), ChatWriter(1).assistant_thread(160)):
        assert not any(
            "{" in text or "|" in text
            for text in (*(line.text for line in talk.imported.lines), *(asked.text for asked in talk.asked))
        )
