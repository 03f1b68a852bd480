"""Each kind of refusal that names its cure, as endpoints really say it (`endpoints/adaptations.jsonl`): asked once more
as they want it, answered, and remembered."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from openvibe.engines.llm.adaptations.adaptations import CATALOGUE, Adaptation, CallPlan, recognise
from openvibe.engines.llm.adaptations.adapted_calls import MAX_ADAPTATIONS, AdaptationMemory, ToolsRefused
from openvibe.engines.llm.adaptations.request_options import messages_options
from openvibe.engines.llm.anthropic.client import AnthropicModel
from openvibe.engines.llm.endpoint_errors.endpoint_errors import read_error
from openvibe.engines.llm.errors import BadAnswer, ModelError, ModelUnavailable, RateLimited
from openvibe.engines.llm.http_client import Connection
from openvibe.engines.llm.openai.client import OpenAIModel
from openvibe.engines.llm.retries import CallLimits, RetryPolicy
from openvibe.engines.llm.values import (
    CallNotice,
    CallOptions,
    ChatMessage,
    Completion,
    ImagePart,
    StreamEnd,
    TextDelta,
    TextReset,
    ToolCallRequest,
    ToolSpec,
)
from tests.engines.llm.conformance import KEY, PROMPT, TEXT, TOOL, Pauses
from tests.engines.llm.model_server import Answer, Asked, FakeEndpoint, serving
from tests.engines.llm.recordings.recordings import request_problem

FILE = Path(__file__).parents[1] / "recordings" / "adaptations.jsonl"
RECORDINGS = [json.loads(line) for line in FILE.read_text(encoding="utf-8").splitlines()]

CALL = ToolCallRequest("call_1", TOOL.name, '{"query": "roses"}')
RICH_TOOL = ToolSpec(
    "plan",
    "Plans.",
    {
        "type": "object",
        "additionalProperties": False,
        "properties": {
            "day": {"type": ["string", "null"], "pattern": "^[a-z]+$", "description": "Which day."},
            "kind": {"anyOf": [{"type": "null"}, {"const": "water", "type": "string"}]},
        },
        "required": ["day"],
    },
)
TOOL_ROUND = (
    *PROMPT,
    ChatMessage("assistant", "", (CALL,)),
    ChatMessage("tool", "<messages>\nIn March.\n</messages>", tool_call_id="call_1"),
    ChatMessage("user", "Answer now."),
)
PROMPTS: dict[str, tuple[ChatMessage, ...]] = {
    "late_system": (
        ChatMessage("system", "Be kind."),
        PROMPT[1],
        ChatMessage("assistant", "Yes?"),
        ChatMessage("system", "Be brief."),
        ChatMessage("user", "When?"),
    ),
    "tool_round": TOOL_ROUND,
    "two_in_a_row": (*PROMPT, ChatMessage("user", "And the hedge?")),
    "two_in_a_row_and_tools": (*PROMPT, ChatMessage("user", "And the hedge?"), *TOOL_ROUND[2:]),
    "two_calls": (
        *PROMPT,
        ChatMessage("assistant", "", (CALL, replace(CALL, id="call_2"))),
        ChatMessage("tool", "In March.", tool_call_id="call_1"),
        ChatMessage("tool", "In April.", tool_call_id="call_2"),
    ),
    "long_system": (ChatMessage("system", "Be kind. " * 400, ends_stable_part=True), PROMPT[1]),
    "assistant_first": (PROMPT[0], ChatMessage("assistant", "Yes?"), PROMPT[1]),
    "assistant_last": (*PROMPT, ChatMessage("assistant", "In")),
    "image": (PROMPT[0], replace(PROMPT[1], images=(ImagePart("image/png", b"png", 40, 30, "Bed 3.png", "Roses."),))),
}


def policy(pauses: Pauses | None = None) -> RetryPolicy:
    return RetryPolicy(CallLimits(first_answer_seconds=20, total_seconds=60), sleep=pauses or Pauses())


def client_at(
    server: FakeEndpoint, protocol: str = "openai", memory: AdaptationMemory | None = None, **more: Any
) -> OpenAIModel | AnthropicModel:
    connection = Connection(server.base_url, KEY, allow_private=True)
    if protocol == "anthropic":
        return AnthropicModel(connection, model="claude", retry_policy=policy(), adaptations=memory, **more)
    return OpenAIModel(connection, model="gpt-4o-mini", retry_policy=policy(), adaptations=memory, **more)


def body_of(answer: dict[str, Any]) -> bytes:
    if "body" in answer:
        return json.dumps(answer["body"]).encode()
    if "events" in answer:
        lines = (f"event: {event['type']}\ndata: {json.dumps(event)}\n\n" for event in answer["events"])
        return "".join(lines).encode()
    chunks: list[dict[str, Any]] = [{"choices": [{"index": 0, "delta": delta}]} for delta in answer["deltas"]]
    chunks.append({"choices": [{"index": 0, "delta": {}, "finish_reason": "stop"}]})
    chunks.append({"choices": [], "usage": answer["usage"]})
    head = {"id": "c1", "object": "chat.completion.chunk", "created": 1, "model": "m"}
    return ("".join(f"data: {json.dumps(head | chunk)}\n\n" for chunk in chunks) + "data: [DONE]\n\n").encode()


def matches(body: dict[str, Any], wanted: dict[str, Any]) -> bool:
    return request_problem(body, wanted) == ""


def script_of(recording: dict[str, Any]) -> Any:
    def answer(asked: Asked) -> Answer:
        if matches(asked.body, recording["when"]):
            body = recording["body"]
            return Answer(
                status=recording["status"], body=(body if isinstance(body, str) else json.dumps(body)).encode()
            )
        return Answer(body=body_of(recording["answers"][0]), headers={"Content-Type": "text/event-stream"})

    return answer


def asked_with(recording: dict[str, Any]) -> tuple[tuple[ChatMessage, ...], dict[str, Any]]:
    asks = recording.get("asks", "")
    options = CallOptions()
    if isinstance(asks, dict):
        values: dict[str, Any] = {
            name: tuple(value) if name == "stop" else value for name, value in asks["options"].items()
        }
        options = CallOptions(**values)
    tools = [RICH_TOOL] if asks == "rich_tool" else [TOOL]
    prompt = PROMPTS.get(asks if isinstance(asks, str) else "", PROMPT)
    return prompt, {"tools": tools, "max_output_tokens": 500, "options": options}


def streamed(pieces: Any) -> tuple[Completion, list[str]]:
    """The completion, to which the pieces add up, and the codes of the notices in the stream."""
    text, notices = "", []
    for piece in pieces:
        match piece:
            case TextDelta():
                text += piece.text
            case TextReset():
                text = ""
            case CallNotice():
                notices.append(piece.code)
            case StreamEnd():
                assert piece.completion.text == text
                assert [notice.code for notice in piece.completion.notices] == list(dict.fromkeys(notices))
                return piece.completion, notices
    raise AssertionError


@pytest.mark.parametrize("recording", RECORDINGS, ids=lambda recording: recording["name"])
def test_it_is_asked_once_more_as_it_wants(recording: dict[str, Any]) -> None:
    messages, asked = asked_with(recording)
    memory = AdaptationMemory()
    with serving(script=script_of(recording)) as server:
        client = client_at(server, recording["protocol"], memory)
        whole = client.complete(messages, **asked)
        completion, notices = streamed(client.stream(messages, **asked))
        seen = [notice.code for notice in whole.notices]
        assert whole.text == completion.text == recording["expect_text"]
        assert list(dict.fromkeys([*seen, *notices])) == recording["adapts"]
        assert set(memory.values()) == set(recording["adapts"])
        assert len(server.asked) == 3, "one refusal, and both answers: the second call knows it already"
        streamed(client.stream(messages, **asked))
        assert len(server.asked) == 4
        sent = server.asked[-1].body
        assert matches(sent, recording.get("sends", {})), sent
        assert "knows" not in {notice.text for notice in completion.notices}


@pytest.mark.parametrize("status", [200, 429, 500, 502, 503, 529])
@pytest.mark.parametrize("recording", RECORDINGS[:1], ids=lambda recording: recording["name"])
def test_only_a_refusal_teaches(recording: dict[str, Any], status: int) -> None:
    """Words of a server that has trouble of its own, or of an answer, change no request."""
    memory = AdaptationMemory()
    body = json.dumps(recording["body"]).encode()
    answer = Answer(status=status, body=body, headers={"retry-after": "0"})
    with serving(answer) as server, pytest.raises((ModelUnavailable, RateLimited)):
        client_at(server, memory=memory).complete(PROMPT, tools=[TOOL])
    assert all("tools" in asked.body for asked in server.asked)
    assert memory.values() == {}


def test_an_error_in_an_answer_with_http_200_teaches_nothing() -> None:
    memory = AdaptationMemory()
    body = json.dumps({"error": {"message": "this model does not support tools", "code": 400}}).encode()
    with serving(Answer(body=body)) as server, pytest.raises(BadAnswer, match="does not support tools"):
        client_at(server, memory=memory).complete(PROMPT, tools=[TOOL])
    assert memory.values() == {}
    assert len(server.asked) == 1


def test_an_answer_that_speaks_of_refusals_teaches_nothing() -> None:
    memory = AdaptationMemory()
    with serving(Answer("gemma3:4b does not support tools")) as server:
        streamed(client_at(server, memory=memory).stream(PROMPT, tools=[TOOL]))
    assert memory.values() == {}


@pytest.mark.parametrize("words", ["gemma3:4b does not support tools", "System role not supported, says it."])
def test_what_a_person_wrote_and_an_endpoint_quotes_is_not_remembered(words: str) -> None:
    """The endpoint's own words do not tell of it: it is tried once, answered perhaps, and forgotten."""
    memory = AdaptationMemory()
    prompt = (PROMPT[0], ChatMessage("user", f"Why does it say: {words}"))
    body = json.dumps({"error": {"message": f"The text «{words}» is not allowed here."}}).encode()
    answers = (Answer(status=400, body=body), Answer(TEXT))
    with serving(*answers) as server:
        assert client_at(server, memory=memory).complete(prompt, tools=[TOOL]).text == TEXT
    assert memory.values() == {}
    with serving(Answer(status=400, body=body)) as server, pytest.raises(BadAnswer):
        client_at(server, memory=memory).complete(prompt, tools=[TOOL])
    assert len(server.asked) == 2


def test_a_request_without_the_cause_is_not_changed() -> None:
    """No tools, no system text, no images: their refusal is another's."""
    plan = CallPlan((ChatMessage("user", "When?"),), asks_for_usage=False, streams=False)
    for recording in RECORDINGS:
        error = read_error(recording["body"], 400).to_model_error("")
        assert [found.kind for found in recognise(error, plan)] in ([], ["streaming"]), recording["name"]


def test_several_are_found_one_after_the_other() -> None:
    def answer(asked: Asked) -> Answer:
        body = asked.body
        if "tools" in body:
            return Answer(status=400, error={"message": "it does not support tools"})
        if "temperature" in body:
            return Answer(status=400, error={"message": "bad", "param": "temperature", "code": "unsupported_value"})
        if any(message["role"] == "system" for message in body["messages"]):
            return Answer(status=400, error={"message": "System role not supported"})
        return Answer(TEXT)

    memory = AdaptationMemory()
    with serving(script=answer) as server:
        options = CallOptions(temperature=0.1)
        client_at(server, memory=memory).complete(PROMPT, tools=[TOOL], options=options)
    assert set(memory.values()) == {"no_tools", "no_system", "no_temperature"}
    assert len(server.asked) == 4
    assert server.asked[-1].body["messages"][0]["content"].startswith(f"{PROMPT[0].content}\n\n<data")


def test_an_endpoint_that_contradicts_itself_ends_in_a_clear_error() -> None:
    """The endpoint wants another name for the limit in each answer."""

    def answer(asked: Asked) -> Answer:
        sent, other = (
            ("max_tokens", "max_completion_tokens")
            if "max_tokens" in asked.body
            else ("max_completion_tokens", "max_tokens")
        )
        message = f"Unsupported parameter: '{sent}' is not supported with this model. Use '{other}' instead."
        return Answer(status=400, error={"message": message, "param": sent})

    memory = AdaptationMemory()
    with serving(script=answer) as server, pytest.raises(BadAnswer, match="contradict one another") as raised:
        client_at(server, memory=memory).complete(PROMPT, max_output_tokens=9)
    assert len(server.asked) == 2
    assert "max_tokens" in str(raised.value)
    assert "Settings, Models" in raised.value.advice
    assert memory.values() == {}


def test_an_endpoint_that_changes_its_mind_between_two_calls() -> None:
    wants = "max_completion_tokens"

    def answer(asked: Asked) -> Answer:
        sent = next(name for name in ("max_tokens", "max_completion_tokens") if name in asked.body)
        if sent == wants:
            return Answer(TEXT)
        return Answer(status=400, error={"message": f"Unsupported parameter: '{sent}'. Use '{wants}' instead."})

    memory = AdaptationMemory()
    with serving(script=answer) as server:
        client = client_at(server, memory=memory)
        for wanted in ("max_completion_tokens", "max_tokens", "max_completion_tokens"):
            wants = wanted
            assert client.complete(PROMPT, max_output_tokens=9).text == TEXT
    assert len(server.asked) == 6
    assert memory.values() == {"limit_name": "max_completion_tokens"}


def test_an_endpoint_that_refuses_everything_is_asked_a_few_times() -> None:
    """Each answer names another field of what was sent."""
    fields = ["temperature", "top_p", "seed", "stop", "presence_penalty", "frequency_penalty", "parallel_tool_calls"]
    fields += ["response_format", "reasoning_effort", "stream_options"]

    def answer(asked: Asked) -> Answer:
        field = next((name for name in fields if name in asked.body), "tools")
        message = f"Unsupported parameter: '{field}' is not supported."
        return Answer(status=400, error={"message": message, "param": field})

    options = CallOptions("low", 0.1, 0.2, 3, ("x",), 0.4, 0.5, False, {"type": "json_object"})
    memory = AdaptationMemory()
    with serving(script=answer) as server, pytest.raises(BadAnswer, match="too many"):
        list(client_at(server, memory=memory).stream(PROMPT, tools=[TOOL], options=options))
    assert len(server.asked) == MAX_ADAPTATIONS + 1
    assert memory.values() == {}


def test_the_key_stands_nowhere() -> None:
    message = f"'max_tokens' is not supported, {KEY}. Use 'max_completion_tokens'."
    learned: list[Adaptation] = []

    class Memory(AdaptationMemory):
        def remember(self, news: Any, plan: CallPlan) -> None:
            learned.extend(news)

    answers = (Answer(status=400, error={"message": message}), Answer(TEXT))
    with serving(*answers) as server:
        client_at(server, memory=Memory()).complete(PROMPT, max_output_tokens=5)
    assert KEY not in learned[0].words
    assert "Use 'max_completion_tokens'" in learned[0].words


def test_refused_tools_are_handed_back_to_whoever_wants_to_ask_otherwise() -> None:
    memory = AdaptationMemory()
    answers = (Answer(status=400, error={"message": "this model does not support tools"}), Answer(TEXT))
    with serving(*answers) as server:
        client = client_at(server, memory=memory, hands_back_tools=True)
        with pytest.raises(ToolsRefused, match="takes no tools"):
            list(client.stream(PROMPT, tools=[TOOL]))
        assert memory.values() == {}, "nothing is known before it answered"
        streamed(client.stream(PROMPT))
    assert set(memory.values()) == {"no_tools"}
    assert len(server.asked) == 2


def test_calls_and_results_are_told_in_words_where_there_are_no_tools() -> None:
    answers = (Answer(status=400, error={"message": "this model does not support tools"}), Answer(TEXT))
    with serving(*answers) as server:
        client_at(server).complete(TOOL_ROUND, tools=[TOOL])
    sent = server.asked[1].body["messages"]
    assert [message["role"] for message in sent] == ["system", "user", "assistant", "user"]
    assert sent[2]["content"] == '[I called knowledge_search with {"query": "roses"}]'
    assert sent[3]["content"] == "<messages>\nIn March.\n</messages>\n\nAnswer now."


def test_without_tools_and_with_turns_what_is_told_stays_one_message() -> None:
    """Templates such as Gemma's take neither: what tools answered is no second message of a person in a row."""
    turns = Answer(status=400, error={"message": "Conversation roles must alternate user/assistant/user/assistant/..."})
    tools = Answer(status=400, error={"message": "this model does not support tools"})
    with serving(turns, tools, Answer(TEXT)) as server:
        client_at(server).complete(PROMPTS["two_in_a_row_and_tools"], tools=[TOOL])
    assert [each["role"] for each in server.asked[-1].body["messages"]] == ["system", "user", "assistant", "user"]


@pytest.mark.parametrize("protocol", ["openai", "anthropic"])
def test_no_empty_text_is_ever_sent(protocol: str) -> None:
    prompt = (
        ChatMessage("system", " \n"),
        ChatMessage("user", ""),
        ChatMessage("user", "When?"),
        ChatMessage("assistant", "", (CALL,)),
        ChatMessage("tool", "\n", tool_call_id="call_1"),
        ChatMessage("assistant", "  "),
        ChatMessage("user", "And?"),
    )
    with serving(Answer(TEXT)) as server:
        client_at(server, protocol).complete(prompt, tools=[TOOL])
        client_at(server, protocol).complete([ChatMessage("user", "")])
    for asked in server.asked:
        texts = [message["content"] for message in asked.body["messages"]]
        parts = [part for text in texts for part in (text if isinstance(text, list) else [{"text": text}])]
        assert parts
        assert all(
            part.get("text", part.get("content", "x")) is None or str(part.get("text", "x")).strip() for part in parts
        )
        assert "(empty)" in str(texts) or len(texts) == 1


def test_tools_are_described_plainly_where_that_is_wanted() -> None:
    message = "Invalid JSON payload received. Unknown name \"additionalProperties\" at 'tools[0]': Cannot find field."
    answers = (Answer(status=400, error={"message": message}), Answer(TEXT))
    with serving(*answers) as server:
        client_at(server).complete(PROMPT, tools=[RICH_TOOL])
    assert server.asked[1].body["tools"][0]["function"]["parameters"] == {
        "type": "object",
        "properties": {
            "day": {"type": "string", "description": "Which day."},
            "kind": {"type": "string", "enum": ["water"]},
        },
        "required": ["day"],
    }


def test_what_a_provider_added_is_left_out_where_it_does_not_take_it_back() -> None:
    prompt = (*PROMPT, ChatMessage("assistant", "In March.", provider_fields={"reasoning_content": "Hm."}), PROMPT[1])
    message = "'messages.2' : property 'reasoning_content' is unsupported"
    memory = AdaptationMemory()
    answers = (Answer(status=400, error={"message": message}), Answer(TEXT))
    with serving(*answers) as server:
        client_at(server, memory=memory).complete(prompt)
    assert set(memory.values()) == {"no_provider_fields"}
    assert "reasoning_content" not in json.dumps(server.asked[1].body)


def test_the_messages_protocol_leaves_out_what_it_has_no_field_for_and_says_so() -> None:
    with serving(Answer(TEXT)) as server:
        completion = client_at(server, "anthropic").complete(PROMPT, options=CallOptions(seed=3, temperature=0.5))
    assert [notice.code for notice in completion.notices] == ["no_seed"]
    assert server.asked[0].body["temperature"] == 0.5
    assert "seed" not in server.asked[0].body


def test_an_error_that_is_none_of_a_kind_is_raised_as_it_is() -> None:
    answer = Answer(status=400, error={"message": "messages: too few"})
    with serving(answer) as server, pytest.raises(ModelError, match="It says: messages: too few"):
        client_at(server).complete(PROMPT, tools=[TOOL])
    assert len(server.asked) == 1


def test_every_kind_is_said_in_a_sentence() -> None:
    for kind in CATALOGUE:
        sentence = Adaptation(kind.name, "256").effect
        assert sentence.endswith(".")
        assert "{" not in sentence
        assert len(kind.name) <= 40


def test_an_endpoint_that_takes_no_choice_of_a_tool_chooses_itself() -> None:
    refusal = {"message": "deepseek-reasoner does not support this tool_choice", "type": "invalid_request_error"}
    with serving(Answer(status=400, error=refusal), Answer(TEXT)) as server:
        events = list(client_at(server).stream(PROMPT, tools=[TOOL], options=CallOptions(tool_choice=TOOL.name)))
    assert [event.code for event in events if isinstance(event, CallNotice)] == ["no_tool_choice"]
    first, second = (asked.body for asked in server.asked)
    assert first["tool_choice"] == {"type": "function", "function": {"name": TOOL.name}}
    assert "tool_choice" not in second
    assert second["tools"] == first["tools"]


@pytest.mark.parametrize(
    ("options", "choice"),
    [
        (CallOptions(tool_choice="rose"), {"type": "tool", "name": "rose"}),
        (CallOptions(parallel_tool_calls=False), {"type": "auto", "disable_parallel_tool_use": True}),
        (
            CallOptions(tool_choice="rose", parallel_tool_calls=False),
            {"type": "tool", "name": "rose", "disable_parallel_tool_use": True},
        ),
    ],
)
def test_the_messages_protocol_says_both_in_one_field(options: CallOptions, choice: dict[str, Any]) -> None:
    assert messages_options(options, has_tools=True, max_output_tokens=9)["tool_choice"] == choice
    assert "tool_choice" not in messages_options(options, has_tools=False, max_output_tokens=9)
