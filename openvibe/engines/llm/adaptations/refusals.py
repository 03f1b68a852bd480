"""What an endpoint said against a request: told from all other errors, and read without what it quotes. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

from openvibe.engines.llm.errors import ContextTooLong, EmptyAnswer, ModelError
from openvibe.engines.llm.values import ChatMessage

_REFUSAL_STATUSES = frozenset({400, 404, 405, 406, 415, 416, 422})
_TEMPLATE_WORDS = (
    *("jinja", "chat template", "chat_template", "json schema conversion failed", "parse grammar", "tool call id was"),
)
"""Words in a 500: servers of one's own report so what the model's template, or a grammar made of a schema, refuses. No
other 5xx says anything about a request."""
_CREDIT_WORDS = ("fewer max_tokens", "can only afford")
"""Words in a 402: a shorter answer could be paid."""

QUOTE = "'"
"""The quote as which every kind of quote in a refusal is read."""

_QUOTED_WORDS = 3
"""Words in a row that stand in the prompt, too, are a quotation."""

REFUSAL_WORDS = (
    r"(?:unsupported|not (?:currently |yet )?support|n't (?:currently |yet )?support|unknown|unrecogni[sz]ed|unexpected"
    r"|not (?:currently )?(?:permitted|allowed|available|enabled|implemented|recogni[sz]ed|compatible)|extra inputs"
    r"|extra_forbidden|disallowed|unavailable|deprecated|can ?not be|can't be|cannot both|only the default|invalid"
    r"|no longer|cannot find field|incompatible|forbidden|removed|only supported)"
)


def near(name: str) -> str:
    return rf"{name}[^\n]{{0,160}}?{REFUSAL_WORDS}|{REFUSAL_WORDS}[^\n]{{0,160}}?{name}"


@dataclass(frozen=True)
class Refusal:
    """What an endpoint said against a request: the field it names, and its words in lower case with plain quotes."""

    param: str
    words: str

    def says(self, pattern: str) -> bool:
        return re.search(pattern, self.words) is not None

    def is_about(self, *names: str) -> bool:
        """Whether it refuses one of the fields: names it in `param`, or close to a word of refusal."""
        if any(re.search(rf"(?:^|[.\]]){name.strip(QUOTE)}(?:$|[.\[])", self.param) for name in names):
            return True
        return any(self.says(near(rf"(?<![\w]){name}(?!\w)")) for name in names)


def read_refusal(error: ModelError, messages: Iterable[ChatMessage] = ()) -> Refusal | None:
    """What the endpoint said against the request, without what it quotes of the messages; None where the error is no
    refusal: an answer that had begun, a fault of the endpoint's own, too many requests, a prompt that is too long."""
    report = error.report
    if report is None or report.is_in_answer or isinstance(error, ContextTooLong | EmptyAnswer):
        return None
    words = f"{report.message} {report.code}".lower()
    words = re.sub('[`\u2018\u2019\u201c\u201d"]', "'", words)
    is_template = report.status == 500 and any(each in words for each in _TEMPLATE_WORDS)
    is_credit = report.status == 402 and any(each in words for each in _CREDIT_WORDS)
    if report.status not in _REFUSAL_STATUSES and not is_template and not is_credit:
        return None
    return Refusal(report.param.lower(), _without_quotations(words, messages))


def _without_quotations(words: str, messages: Iterable[ChatMessage]) -> str:
    """The words but for those that stand in the messages in the same order, several in a row."""
    texts = " ".join(message.content for message in messages).lower()
    if not texts:
        return words
    prompt = f" {' '.join(re.findall(r'[a-z0-9_]+', texts))} "
    matches = list(re.finditer(r"[a-z0-9_]+", words))
    words_in = [match[0] for match in matches]
    kept, start, place = "", 0, 0
    while place < len(matches):
        length = 0
        while place + length < len(matches) and f" {' '.join(words_in[place : place + length + 1])} " in prompt:
            length += 1
        if length >= _QUOTED_WORDS:
            kept += f"{words[start : matches[place].start()]}…"
            start = matches[place + length - 1].end()
        place += max(length, 1)
    return kept + words[start:]
