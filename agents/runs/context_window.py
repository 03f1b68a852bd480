"""Prompts that were too long for a model: the window that its refusal tells, and the prompt made anew within it."""

from contextlib import suppress
from typing import NamedTuple

from agents.prompts.assembler.assemble import Prompt
from agents.runs.transcript import ModelTurn, Transcript
from openvibe.base.problems import Problem
from openvibe.engines.llm.errors import ContextTooLong

MAX_SHORTENINGS = 3
"""Times in a run that a prompt which was too long is made shorter; each time a third shorter at least."""


class ContextWindow(NamedTuple):
    """What a model takes, in tokens, prompt and answer together; `reserve` of them are left for the answer."""

    tokens: int
    reserve: int


def window_after(error: ContextTooLong, turn: ModelTurn, max_output_tokens: int | None) -> ContextWindow:
    """The window that the refusal of a turn names, or a third less than was sent."""
    window = error.smaller_window(turn.tokens, max_output_tokens or 0)
    return ContextWindow(window, max(min(max_output_tokens or window // 4, window // 4), 1))


def fit_prompt(transcript: Transcript, window: ContextWindow, refused: ModelTurn | None) -> Prompt:
    """The prompt within the window; a third below what was `refused`, as far as that is possible, where nobody knows
    what would be taken. Raises Problem where what every prompt needs does not fit."""
    ceiling = min(transcript.ceiling, window.tokens - window.reserve)
    if refused is not None and refused.tokens * 2 // 3 < ceiling:
        with suppress(Problem):
            return transcript.fit(refused.tokens * 2 // 3)
    return transcript.fit(ceiling)
