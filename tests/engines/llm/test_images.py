"""Images as protocols write them, and how they are counted."""

from base64 import b64decode

import pytest
from hypothesis import given
from hypothesis import strategies as st

from openvibe.engines.llm.anthropic.client import build_request
from openvibe.engines.llm.images import image_rule, is_known_to_see
from openvibe.engines.llm.openai.requests import encode_messages
from openvibe.engines.llm.tokens import count_message, count_prompt_tokens, counter_for, with_usage
from openvibe.engines.llm.values import ChatMessage, Completion, ImagePart, Usage

WALL = ImagePart("image/png", b"\x89PNG wall", 600, 400, "wall.png")
DOOR = ImagePart("image/jpeg", b"\xff\xd8 door", 300, 900, "door.jpg", "A door")
sides = st.integers(1, 1_568)


@pytest.mark.parametrize(
    ("model", "size", "tokens"),
    [  # examples of the providers' own pages where there are any
        ("gpt-4o", (1_024, 1_024), 765),
        ("gpt-4o", (2_048, 4_096), 1_105),
        ("openai/gpt-4o-mini", (1_024, 1_024), 25_501),
        ("gpt-5", (512, 512), 210),
        ("o3", (512, 513), 375),
        ("gpt-4.1-mini", (1_024, 1_024), 1_659),
        ("o4-mini", (1_800, 2_400), 2_498),
        ("gpt-5.4", (1_000, 1_000), 1_024),
        ("claude-sonnet-4-5", (200, 200), 54),
        ("claude-sonnet-4-5", (1_000, 1_000), 1_334),
        ("claude-sonnet-4-5", (1_568, 1_568), 1_600),
        ("gemini-2.5-flash", (384, 384), 258),
        ("gemini-2.5-flash", (960, 540), 1_548),
        ("gemini-3-pro-preview", (960, 540), 1_120),
        ("qwen2.5vl:7b", (560, 560), 402),
        ("somebodys-own", (1, 1), 3),
    ],
)
def test_an_image_counts_by_the_providers_rule(model: str, size: tuple[int, int], tokens: int) -> None:
    assert image_rule(model)(*size) == counter_for(model).count_image(*size) == tokens


@given(sides, sides, st.sampled_from(["gpt-4o", "gpt-4.1-nano", "gpt-5.5", "claude-opus-4-7", "gemini-2.0-flash", "x"]))
def test_every_image_has_tokens_and_a_larger_one_no_fewer(width: int, height: int, model: str) -> None:
    rule = image_rule(model)
    assert 1 <= rule(width, height) <= 70_000
    if model in ("claude-opus-4-7", "x"):
        assert rule(width, height) <= rule(min(width + 40, 1_568), min(height + 40, 1_568))


def test_a_message_is_counted_with_its_images() -> None:
    counter = counter_for("gpt-4o")
    bare, with_image = ChatMessage("user", "Which?"), ChatMessage("user", "Which?", images=(WALL, DOOR))
    assert count_message(with_image, counter) - count_message(bare, counter) == 425 + 425
    usage = Usage(count_prompt_tokens([with_image], (), counter), 3)
    completion = Completion("This.", (), usage, "stop")
    assert with_usage(completion, "gpt-4o", [with_image], ()).usage == usage


def test_counters_of_one_vocabulary_tell_families_apart() -> None:
    assert counter_for("gpt-4o") is counter_for("chatgpt-4o-latest")
    assert counter_for("gpt-4o").count_image is not counter_for("gpt-5").count_image
    assert counter_for("gpt-4o").count("some words") == counter_for("gpt-5").count("some words")


@pytest.mark.parametrize(
    ("model", "sees"),
    [
        *((name, True) for name in ("gpt-4o", "openai/o3", "o4-mini", "claude-opus-4-7", "gemini-3-pro", "gemma3:4b")),
        *((name, True) for name in ("qwen2.5vl:7b", "Qwen/Qwen3-VL-8B-Instruct", "llama3.2-vision", "pixtral-12b")),
        *((name, False) for name in ("gpt-3.5-turbo", "o3-mini", "gpt-oss:20b", "deepseek-chat", "gemma3:1b")),
        *((name, False) for name in ("qwen2.5-coder:7b", "llama-3.3-70b-versatile", "offline")),
        *((name, None) for name in ("my-model", "mistral-small-latest", "")),
    ],
)
def test_a_name_tells_whether_a_model_sees(model: str, sees: bool | None) -> None:
    assert is_known_to_see(model) is sees


def test_chat_completions_have_images_as_parts_before_the_words() -> None:
    (message,) = encode_messages([ChatMessage("user", "Which?", images=(WALL, DOOR))])
    assert [part["type"] for part in message["content"]] == ["image_url", "image_url", "text"]
    urls = [part["image_url"]["url"] for part in message["content"] if part["type"] == "image_url"]
    assert [url.partition(",")[0] for url in urls] == ["data:image/png;base64", "data:image/jpeg;base64"]
    assert b64decode(urls[0].partition(",")[2]) == WALL.data
    assert message["content"][-1] == {"type": "text", "text": "Which?"}


def test_messages_of_people_stand_by_themselves_and_without_images_stay_texts() -> None:
    assert encode_messages([ChatMessage("user", "One."), ChatMessage("user", "Two.")]) == [
        {"role": "user", "content": "One."},
        {"role": "user", "content": "Two."},
    ]


def test_an_image_without_words_is_a_message() -> None:
    (message,) = encode_messages([ChatMessage("user", " ", images=(WALL,))])
    assert [part["type"] for part in message["content"]] == ["image_url"]


def test_the_messages_protocol_has_images_as_blocks() -> None:
    request = build_request("claude", [ChatMessage("user", "Which?", images=(WALL, DOOR))], (), None)
    blocks = request["messages"][0]["content"]
    assert [block["type"] for block in blocks] == ["image", "image", "text"]
    source = blocks[1]["source"]
    assert (source["type"], source["media_type"], b64decode(source["data"])) == ("base64", "image/jpeg", DOOR.data)
