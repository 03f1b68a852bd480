"""A ceiling on the work one Markdown text may cause, counted in steps: the answer is always the same."""

from markdown_it import MarkdownIt
from markdown_it.rules_block import StateBlock
from markdown_it.rules_core import StateCore
from markdown_it.rules_inline import StateInline

MAX_STEPS = 60_000
"""An ordinary text of 100,000 characters takes under half of it."""

_STEPS = "steps taken"


class TooMuchWork(Exception):
    """The text asks for more work than an honest one would."""


def count_steps(markdown: MarkdownIt) -> None:
    """Make the parser raise TooMuchWork once blocks and inlines together took MAX_STEPS."""
    markdown.core.ruler.before("normalize", "reset_steps", _reset)
    markdown.block.ruler.before("table", "count_steps", _count_block, {"alt": []})
    markdown.inline.ruler.before("text", "count_steps", _count_inline)


def _reset(state: StateCore) -> None:
    state.env[_STEPS] = 0


def _count_block(state: StateBlock, start_line: int, end_line: int, silent: bool) -> bool:
    # A block may read all lines that are left before it gives up, at every depth.
    _spend(state.env, 1 + state.level)
    return False


def _count_inline(state: StateInline, silent: bool) -> bool:
    _spend(state.env, 1)
    return False


def _spend(env: object, steps: int) -> None:
    assert isinstance(env, dict)
    env[_STEPS] = env.get(_STEPS, 0) + steps
    if env[_STEPS] > MAX_STEPS:
        raise TooMuchWork
