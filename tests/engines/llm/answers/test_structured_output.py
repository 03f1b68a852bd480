"""Lists in answers that were asked to be JSON."""

import pytest

from openvibe.engines.llm.answers.structured_output import UnparsableAnswer, parse_json_list

RULES = '{"rules": [{"text": "Never write <think>."}]}'


@pytest.mark.parametrize(
    "answer",
    [
        RULES,
        f"<think>\nWhich rule?\n</think>\n\n{RULES}",
        f"Which rule?\n</think>\n{RULES}",
        f"[THINK]Which?[/THINK]```json\n{RULES}\n```",
        f"<|channel|>analysis<|message|>Which?<|end|><|start|>assistant<|channel|>final<|message|>{RULES}<|return|>",
        f"{RULES}<|im_end|>",
        RULES.replace("}]", "},]"),
    ],
)
def test_the_list_is_read_beside_thoughts_and_marks(answer: str) -> None:
    assert parse_json_list("rules", answer) == [{"text": "Never write <think>."}]


@pytest.mark.parametrize(
    "answer",
    [
        "",
        "No rule.",
        '{"name": "memory", "arguments": {}}',
        "<think>Hm",
        '<tool_call>{"name": "x", "arguments": {}}</tool_call>',
    ],
)
def test_anything_else_is_refused(answer: str) -> None:
    with pytest.raises(UnparsableAnswer):
        parse_json_list("rules", answer)
