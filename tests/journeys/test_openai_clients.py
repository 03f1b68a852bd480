"""The official `openai` client asks an agent as its model: both protocols, streamed and whole, with tools, and leaving
in the middle."""

import json
from collections.abc import Iterator
from typing import Any

import openai
import pytest

from tests.journeys.installation import Installation
from tests.operations.processes import PATIENCE, wait_until

WEATHER: dict[str, Any] = {"name": "get_weather", "description": "Of a city", "parameters": {"type": "object"}}
ASKED = "When do I prune?"
WORDS = """
import json
from openvibe.chat.models import Message
messages = Message.objects.filter(thread__title="When do I prune?").order_by("seq")
print(json.dumps(list(messages.values_list("body", flat=True))))
"""
RUN = "from agents.models import Run; run = Run.objects.latest('pk'); print(run.state)"


@pytest.fixture
def client(installation: Installation) -> Iterator[openai.OpenAI]:
    with openai.OpenAI(
        base_url=f"{installation.url}/v1", api_key=installation.token("ana"), max_retries=0, timeout=PATIENCE
    ) as client:
        yield client


def of_user(text: str) -> dict[str, str]:
    return {"role": "user", "content": text}


def test_chat_completions(installation: Installation, client: openai.OpenAI) -> None:
    create: Any = client.chat.completions.create
    assert "@vibe" in [model.id for model in client.models.list()]
    assert client.models.retrieve("@vibe").owned_by == "willow"
    installation.model.says("Prune in March.")
    whole = create(model="@vibe", messages=[of_user(ASKED)])
    assert (whole.choices[0].message.content, whole.choices[0].finish_reason) == ("Prune in March.", "stop")
    assert whole.usage.total_tokens == whole.usage.prompt_tokens + whole.usage.completion_tokens > 0
    history = [of_user(ASKED), {"role": "assistant", "content": "Prune in March."}, of_user("And feed?")]
    installation.model.says("Feed in April, a little.")
    *chunks, last = create(model="@vibe", messages=history, stream=True, stream_options={"include_usage": True})
    choices = [choice for chunk in chunks for choice in chunk.choices]
    assert "".join(choice.delta.content or "" for choice in choices) == "Feed in April, a little."
    assert (choices[-1].finish_reason, last.choices, last.usage.total_tokens > 0) == ("stop", [], True)
    installation.model.calls_first("get_weather", city="Bonn")
    asked: list[Any] = [*history, {"role": "assistant", "content": "Feed in April, a little."}, of_user("Is it cold?")]
    tools = [{"type": "function", "function": WEATHER}]
    chunks = list(create(model="@vibe", messages=asked, tools=tools, stream=True))
    (call,) = [call for chunk in chunks for choice in chunk.choices for call in choice.delta.tool_calls or ()]
    assert (call.function.name, call.function.arguments) == ("get_weather", '{"city": "Bonn"}')
    tool_call = {"id": call.id, "type": "function", "function": {"name": call.function.name, "arguments": "{}"}}
    result = {"role": "tool", "tool_call_id": call.id, "content": "-3 °C"}
    asked += [{"role": "assistant", "tool_calls": [tool_call]}, result]
    installation.model.says("Yes.")
    assert create(model="@vibe", messages=asked, tools=tools).choices[0].message.content == "Yes."
    words = json.loads(installation.shell(WORDS))
    assert words == [
        *(ASKED, "Prune in March.", "And feed?", "Feed in April, a little.", "Is it cold?"),
        *("*Asks the client to call `get_weather`.*", "Yes."),
    ]


def test_responses(installation: Installation, client: openai.OpenAI) -> None:
    create: Any = client.responses.create
    installation.model.says("Mulch in May.")
    whole = create(model="@vibe", input="When do I mulch?", instructions="Be brief.")
    assert (whole.output_text, whole.status) == ("Mulch in May.", "completed")
    installation.model.says("Water in June.")
    with client.responses.stream(model="@vibe", input="And water?", previous_response_id=whole.id) as stream:
        deltas = [event.delta for event in stream if event.type == "response.output_text.delta"]
        last = stream.get_final_response()
    assert ("".join(deltas), last.output_text, last.usage is not None) == ("Water in June.", "Water in June.", True)
    installation.model.calls_first("get_weather", city="Bonn")
    tools = [{"type": "function", "strict": False, **WEATHER}]
    (call,) = create(model="@vibe", input="Is it cold?", previous_response_id=last.id, tools=tools).output
    assert (call.type, call.name) == ("function_call", "get_weather")
    result = {"type": "function_call_output", "call_id": call.call_id, "output": "-3 °C"}
    previous = f"resp_{call.id.split('_')[1]}"
    installation.model.says("Yes.")
    assert create(model="@vibe", input=[result], previous_response_id=previous, tools=tools).output_text == "Yes."


def test_whoever_leaves_stops_the_run_and_errors_have_their_shape(
    installation: Installation, client: openai.OpenAI
) -> None:
    create: Any = client.chat.completions.create
    go_on = installation.model.holds_back_after_first_words("Roses need sun and more words")
    try:
        stream = create(model="@vibe", messages=[of_user("Why?")], stream=True)
        assert next(chunk for chunk in stream if chunk.choices[0].delta.content)
        stream.close()
        wait_until(lambda: installation.shell(RUN) == "stopped", "the run stops")
    finally:
        go_on.set()
    with pytest.raises(openai.BadRequestError) as error:
        create(model="@vibe", messages=[of_user("Hm")], n=2)
    assert (error.value.param, error.value.code) == ("n", "unsupported_parameter")
    with pytest.raises(openai.NotFoundError):
        create(model="@nobody", messages=[of_user("Hm")])
    with pytest.raises(openai.AuthenticationError):
        client.with_options(api_key="ovk_wrong").models.list()
