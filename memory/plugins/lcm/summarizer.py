"""The summarizer: the escalation when a model's answer is no summary, too long, or without what its source is full of,
and what is added to one. Pure.

No database here. Sizes are in tokens (o200k_base). Secrets are masked before anything else reads a text."""

import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import NamedTuple, get_args

from memory.plugins.base import ENVELOPE_TOKENS, MAX_ENTRY_TOKENS
from memory.plugins.lcm.facts import Facts, is_bare_number, missing_keys, missing_sentences
from memory.plugins.lcm.key_sentences import pick_key_sentences
from memory.plugins.lcm.source_lines import DETAILS_PREFIX, HEADER_TOKENS, LINE_HEADER, SummarySource, strip_headers
from memory.plugins.lcm.summary_prompt import INSTRUCTIONS, NO_WISHES, SummaryLevel, SummaryWishes, build_prompt
from memory.plugins.lcm.summary_validation import SourceCheck, clean_answer, find_problem
from openvibe.engines.llm.errors import BudgetExceeded, ContextTooLong, EmptyAnswer
from openvibe.engines.llm.protocol import ModelClient
from openvibe.engines.llm.tokens import count_tokens, counter_for, truncate_to_tokens
from openvibe.engines.text.masking import mask_secrets

LENGTH_TOLERANCE = 1.5
"""Times its target that a summary may be long."""

MAX_HALVINGS = 4
"""Times that a source is halved for a model that reads less than it was said to: sixteen parts at most."""

MIN_TARGET_TOKENS = 24
"""Tokens; less than this no model is asked for."""

TOKENS_PER_KEY, MIN_CHECKED_KEYS, MAX_CHECKED_KEYS = 16, 3, 24
"""A summary has to hold one of the names and values of its source for so many tokens that it may take."""

SUPPLEMENT_DIVISOR, MAX_ADDED_SENTENCES = 4, 6
"""The part of a summary that tells what its text misses, and the most sentences of that."""

MAX_STRUCK_SHARE = 0.5
"""The part of an answer that may be struck; of one with more another answer is asked for."""

MAX_DETAILS, MAX_DETAIL_REFS, MIN_DETAILS_TARGET = 4, 2, 60
"""Subjects that the last line names, references of each, and the target in tokens from which on there is such a
line."""

SENTENCE_ENDS = (".", "!", "?", "…", "。", "！", "？")
NO_MODEL = "none"

_LONG_MARK = " […] [Cut off here: the rest is in the messages themselves.]"
_SHORT_MARK = " […]"
_PICKED_MARK = "[Picked from what was said, word for word: the rest is in the messages themselves.]"
_SENTENCE_END = re.compile(r"[.!?…][\"'”’»)\]]*(?=\s|\Z)|[。！？][」』”]*|\n")


class SummaryDraft(NamedTuple):
    """A summary, never empty and always shorter than its source."""

    content: str
    tokens: int
    level: SummaryLevel
    model: str
    is_budget_spent: bool = False
    """Whether it was cut from its source because the day's token budget is used up."""


@dataclass(frozen=True)
class SummaryTask:
    """What one summary is to be: about `target` tokens, at most `limit`; the summaries before it, wishes, the model."""

    target: int
    limit: int
    earlier: tuple[str, ...] = ()
    client: ModelClient | None = None
    wishes: SummaryWishes = NO_WISHES


def summarize(
    source: SummarySource,
    *,
    share: int,
    limit: int,
    earlier: Sequence[str] = (),
    client: ModelClient | None = None,
    wishes: SummaryWishes = NO_WISHES,
    halvings: int = MAX_HALVINGS,
) -> SummaryDraft | None:
    """A summary of about a `share`-th of the source (3: a third), at most `limit` tokens, and shorter than the source.

    Asks the model at most twice, the second time for durable facts only. Sentences that the source does not tell are
    struck; where they are most of it, the model hears which names and numbers nobody said. What is then still no
    summary (`validation`), too long, or without most of what the source is full of, is picked from the source itself.
    None where even that is not shorter. What is missing of names, values, decisions and open questions is added in
    sentences, and a last line says what more there is to ask for. Without a client the source is picked from at once.
    So is it where the day's budget has no room for the question. What is too long for the model is asked for in halves,
    `halvings` times in a row at most. Raises whatever other ModelError the client raises, except for an empty answer.
    """
    target = min(max(source.tokens // share, 1), limit)
    task = SummaryTask(target, limit, tuple(earlier), client, wishes)
    check = SourceCheck(source)
    if client is None or target < MIN_TARGET_TOKENS:
        return _picked_draft(check, task)
    try:
        return _summarize_whole(check, task)
    except ContextTooLong:
        if earlier:  # what came before is a help, not the source
            return summarize(source, share=share, limit=limit, client=client, wishes=wishes, halvings=halvings)
        halves = halve_source(source) if halvings else None
        if halves is None:
            return _picked_draft(check, task)
    half_limit, halvings = max(limit // 2, 1), halvings - 1
    drafts = [
        summarize(half, share=share, limit=half_limit, client=client, wishes=wishes, halvings=halvings)
        for half in halves
    ]
    return _join_drafts(source, [draft for draft in drafts if draft is not None], limit)


def halve_source(source: SummarySource) -> tuple[SummarySource, SummarySource] | None:
    """Two halves of about the same size, between lines or, of a single line, between words; None where there is nothing
    to win by it."""
    if source.tokens < 2 * MIN_TARGET_TOKENS:
        return None
    text, middle = source.text, len(source.text) // 2
    starts = [match.start() for match in LINE_HEADER.finditer(text) if match.start()]
    spaces = (text.rfind(" ", 0, middle), text.find(" ", middle))
    cut = min(starts or [space for space in spaces if space > 0] or [middle], key=lambda at: abs(at - middle))
    first_tokens = round(source.tokens * cut / len(text))
    first_messages = min(len([start for start in starts if start < cut]) + 1, source.messages)
    return (
        SummarySource(text[:cut].strip(), first_tokens, first_messages),
        SummarySource(text[cut:].strip(), source.tokens - first_tokens, max(source.messages - first_messages, 1)),
    )


def _join_drafts(source: SummarySource, drafts: Sequence[SummaryDraft], limit: int) -> SummaryDraft | None:
    """The summaries of both halves as one, of the worse of their levels."""
    if not drafts:
        return None
    max_tokens = min(limit, source.tokens - 1)
    text = "\n".join(draft.content for draft in drafts)
    if count_tokens(text) > max_tokens:
        text = truncate_source(text, max_tokens)
    level = max((draft.level for draft in drafts), key=list(get_args(SummaryLevel)).index)
    model = next((draft.model for draft in drafts if draft.model != NO_MODEL), NO_MODEL)
    is_budget_spent = any(draft.is_budget_spent for draft in drafts)
    return SummaryDraft(text, count_tokens(text), level, model, is_budget_spent) if text else None


def _summarize_whole(check: SourceCheck, task: SummaryTask) -> SummaryDraft | None:
    """The same for a source that fits into the model's window. Raises ContextTooLong where it does not."""
    assert task.client is not None
    max_tokens = min(int(task.target * LENGTH_TOLERANCE), task.limit, check.source.tokens - 1)
    is_budget_spent = False
    inventions: tuple[str, ...] = ()
    try:
        for level in INSTRUCTIONS:
            text = _ask_model(check.source, task, level, inventions)
            if not text or count_tokens(text) > max_tokens:
                continue
            struck = check.strike(text)
            inventions = struck.inventions
            if struck.share > MAX_STRUCK_SHARE or find_problem(struck.text, check):
                continue
            if text := complete_summary(struck.text, check.facts, target=task.target, max_tokens=max_tokens):
                return SummaryDraft(text, count_tokens(text), level, task.client.model[:120])
    except BudgetExceeded:
        is_budget_spent = True
    return _picked_draft(check, task, is_budget_spent=is_budget_spent)


def _picked_draft(check: SourceCheck, task: SummaryTask, *, is_budget_spent: bool = False) -> SummaryDraft | None:
    """A summary picked from its source, with the names and values of what was left out."""
    max_tokens = min(max(task.target, MIN_TARGET_TOKENS), task.limit, check.source.tokens - 1)
    text = _pick(check.source.text, max_tokens, task.wishes)
    if text and task.target >= MIN_TARGET_TOKENS:
        facts = check.facts
        whole_summary = complete_summary(
            text, facts, target=task.target, max_tokens=check.source.tokens + max_tokens, is_cut=True
        )
        room = max_tokens - (count_tokens(whole_summary) - count_tokens(text))
        shorter = _pick(check.source.text, room, task.wishes) if room < max_tokens else ""
        text = complete_summary(shorter or text, facts, target=task.target, max_tokens=max_tokens, is_cut=True)
    return SummaryDraft(text, count_tokens(text), "fallback", NO_MODEL, is_budget_spent) if text else None


def _pick(text: str, limit: int, wishes: SummaryWishes) -> str:
    """The sentences of the text that carry weight, those that bear on the focus first; where not one fits, its
    beginning."""
    mark_tokens = count_tokens(_PICKED_MARK) + 1
    has_mark = limit >= 4 * mark_tokens
    picked = pick_key_sentences(text, limit - mark_tokens if has_mark else limit, wishes.focus)
    if not picked:
        return truncate_source(text, limit)
    return f"{picked}\n{_PICKED_MARK}" if has_mark else picked


def complete_summary(text: str, facts: Facts, *, target: int, max_tokens: int, is_cut: bool = False) -> str:
    """The summary with sentences of what it misses of the facts, as many as `target` allows for, and a last line of
    what more there is to ask for, within `max_tokens`.

    "" where even with those it lacks most of them: then another summary has to be made. Of one that is picked from
    its source (`is_cut`) no more can be asked: what weighs most is in it.
    """
    completed = text if is_cut else _add_missing(text, facts, target, max_tokens)
    if not completed:
        return ""
    details = _details_line(completed, facts) if target >= MIN_DETAILS_TARGET else ""
    with_details = f"{completed}\n{details}"
    return with_details if details and count_tokens(with_details) <= max_tokens else completed


def _add_missing(text: str, facts: Facts, target: int, max_tokens: int) -> str:
    most_keys = max(MIN_CHECKED_KEYS, min(target // TOKENS_PER_KEY, MAX_CHECKED_KEYS))
    keys = [key for key in facts.keys if key not in facts.speakers][:most_keys]
    max_tokens = min(max_tokens, count_tokens(text) + max(target // SUPPLEMENT_DIVISOR, MIN_TARGET_TOKENS))
    for label, sentences in (("Also decided:", facts.decisions), ("Open questions:", facts.questions)):
        text, _ = _add_list(text, label, missing_sentences(text, sentences), max_tokens, " ")
    if absent := missing_keys(text, keys):
        said = facts.telling_sentences(absent, most=MAX_ADDED_SENTENCES)
        text, _ = _add_list(text, "Also said:", said, max_tokens, " ")
    names = [key for key in keys if not is_bare_number(key)]
    if absent := missing_keys(text, names):
        text, _ = _add_list(text, "Also named:", absent, max_tokens, ", ")
    return "" if 2 * len(missing_keys(text, names)) > len(names) else text


def _details_line(text: str, facts: Facts) -> str:
    """What more there is to ask for: names and values that the text leaves out, or else says most of, each with the
    messages that speak of it."""
    absent = missing_keys(text, facts.keys)
    subjects = []
    for key in [*absent, *(key for key in facts.keys if key not in absent)]:
        refs = list(dict.fromkeys(facts.refs_of(key, most=MAX_DETAIL_REFS)))
        if refs and not key.isdigit():
            subjects.append(f"{key} ({', '.join(f'#{ref}' for ref in refs)})")
        if len(subjects) == MAX_DETAILS:
            break
    return f"{DETAILS_PREFIX}{', '.join(subjects)}." if subjects else ""


def _add_list(text: str, label: str, parts: Sequence[str], max_tokens: int, separator: str) -> tuple[str, int]:
    """The text with as many of the parts, the first first, as fit on a line after the label; and how many did."""
    for count in range(len(parts), 0, -1):
        line = separator.join(parts[:count])
        completed = f"{text}\n{label} {line}{'' if line.endswith(SENTENCE_ENDS) else '.'}"
        if count_tokens(completed) <= max_tokens:
            return completed, count
    return text, 0


def truncate_source(text: str, limit: int) -> str:
    """The beginning of the text up to a sentence's end, with a mark that it was cut; at most `limit` tokens.

    "" where the limit leaves no room for a word.
    """
    mark = _LONG_MARK if limit >= 4 * count_tokens(_LONG_MARK) else _SHORT_MARK
    if limit < 4 * HEADER_TOKENS:  # headers would be all there is
        text = strip_headers(text)
    remaining = limit - count_tokens(mark)
    counter = counter_for("offline")
    while remaining > 0:
        beginning = _trim_to_sentence(truncate_to_tokens(text, remaining, counter), text)
        short_text = beginning + mark
        if beginning and count_tokens(short_text) <= limit:
            return short_text
        remaining -= 1 if beginning else remaining
    return ""


def _trim_to_sentence(beginning: str, text: str) -> str:
    """The beginning without the sentence it breaks off in; without the word, where it has no sentence's end."""
    if len(beginning) < len(text):
        ends = [match.end() for match in _SENTENCE_END.finditer(beginning) if match.end() < len(beginning)]
        space = beginning.rfind(" ")
        if ends and ends[-1] > len(beginning) // 3:
            beginning = beginning[: ends[-1]]
        elif space > len(beginning) // 2:
            beginning = beginning[:space]
    return beginning.strip().rstrip("\u200d")


def _ask_model(source: SummarySource, task: SummaryTask, level: SummaryLevel, inventions: Sequence[str]) -> str:
    """The model's answer without its thoughts; "" when it said nothing, or broke off because it became too long."""
    assert task.client is not None
    prompt = list(build_prompt(source, task.target, level, task.earlier, task.wishes, inventions))
    try:
        answer = task.client.complete(prompt, max_output_tokens=max(256, 3 * task.target))
    except EmptyAnswer:
        return ""
    if answer.stop_reason == "length":
        return ""
    return mask_secrets(clean_answer(answer.text)).strip()


def entry_cost(tokens: int) -> int:
    """What an entry of so many tokens needs in a prompt."""
    return min(tokens, MAX_ENTRY_TOKENS) + ENVELOPE_TOKENS
