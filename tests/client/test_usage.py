"""What agents say they used, added up as the server takes it: what came from a cache is part of what was read."""

from typing import Any

import pytest
from acp.schema import Usage

from openvibe_client.acp_answers import MAX_TOKENS, add_usage


@pytest.mark.parametrize(
    ("reported", "expected"),
    [
        ({"total_tokens": 110, "input_tokens": 100}, ((100, 10), None)),
        ({"total_tokens": 110, "input_tokens": 100, "cached_read_tokens": 60}, ((100, 10), 60)),
        (
            {"total_tokens": 175, "input_tokens": 100, "cached_read_tokens": 60, "cached_write_tokens": 5},
            ((165, 10), 60),
        ),
        ({"total_tokens": 0, "input_tokens": 3, "cached_read_tokens": 60}, ((63, 10), 60)),
        ({"total_tokens": 3 * MAX_TOKENS, "input_tokens": 3 * MAX_TOKENS}, ((MAX_TOKENS, 10), None)),
        ({"total_tokens": 0, "input_tokens": -5, "cached_read_tokens": -1}, ((0, 10), 0)),
    ],
)
def test_one_prompt(reported: dict[str, Any], expected: tuple[Any, Any]) -> None:
    usage: dict[str, Any] = {"usage": None, "cached_tokens": None}
    add_usage(
        usage,
        Usage.model_construct(
            output_tokens=10, **{"cached_read_tokens": None, "cached_write_tokens": None, **reported}
        ),
    )
    assert (usage["usage"], usage["cached_tokens"]) == expected


def test_prompts_of_one_answer_are_added() -> None:
    usage: dict[str, Any] = {"usage": None, "cached_tokens": None}
    for cached in (20, None, 300):
        add_usage(usage, Usage(total_tokens=0, input_tokens=100, output_tokens=10, cached_read_tokens=cached))
    assert usage == {"usage": (600, 30), "cached_tokens": 320}
