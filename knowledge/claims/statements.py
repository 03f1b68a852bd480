"""What an entry states, clause by clause: of what, which quantities, and whether it is said or denied. Pure.

No understanding, only rules: Markdown lines, sentences, clauses; what stands before the verb or the value is the
subject; headings and words before a colon are what a list is about.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field

from knowledge.claims.measuring import MONTHS, WEEKDAYS, quantities
from knowledge.claims.quantities import Quantity
from knowledge.claims.words import CONTRASTS, DENIES, GENERIC, NOT, OPPOSITES, SAME, STOP, VERBS

LONGEST = 20_000
"""Characters that are read."""

CLAUSES = 100
"""Statements of one text that are compared."""

SENTENCE, CLAUSE = 4_000, 400
"""Characters of one that are read."""

_PAST = re.compile(
    r"\b(?:previously|formerly|used to|originally|in the past|before that|until recently|up to now|once was|was \S+ "
    r"(?:until|till|before)|were \S+ (?:until|till|before)|at the time|back then|no longer true)\b",
    re.IGNORECASE,
)
_REPLACES = re.compile(
    r"\b(?:instead of|rather than|in place of|replaces|replaced|replacing|supersedes|superseding|stopped using|dropped"
    r"|retired|(?:moved|migrated|switched|changed)(?: away)? from"
    r"|no longer (?:uses?|used|runs?|supports?|offers?|needs?|requires?))"
    r"\s+(?P<what>[^.;,()]{2,60}?)(?=\s+(?:to|with|by|in|as|for|since|because)\b|[.;,()]|$)",
    re.IGNORECASE,
)
_REPLACED = re.compile(
    r"(?P<what>[^.;,()]{2,60}?)\s+(?:is|was|are|were|has been|have been|got)\s+"
    r"(?:replaced|superseded|retired|discontinued|dropped)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*[0-9]*|[0-9]+")
_CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
_FENCED = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_ADDRESS = re.compile(r"\b(?:https?://|www\.)\S+|[^\s@]{1,64}@\S+")
_SENTENCES = re.compile(r"(?<=[.!?。！？])(?:\s+|(?<=[。！？]))|\n+")
_CLAUSES = re.compile(r";\s*|,?\s+but\s+|,\s+(?:and\s+)?(?=\S)|\s+and\s+(?=[^.;,]*(?:\d|\bnot\b|\bno\b))|\s+[|]\s+")
_NEXT = re.compile(r"\s*(?:and )?(?:then|afterwards|next)\b", re.IGNORECASE)
_RULE = re.compile(r"\A[\s|:-]+\Z")
_ITEM = re.compile(r"\A\s*(?:[-*+•]|\d+[.)])\s+|\A\s*>+\s?")
_HEADING = re.compile(r"\A\s*#{1,6}\s+(.*)")


@dataclass(frozen=True, slots=True)
class Statement:
    """One clause. Words are stems; `names` are those written with a capital, `about` those of heading or list."""

    said: str
    subject: frozenset[str]
    words: frozenset[str]
    names: frozenset[str]
    about: frozenset[str]
    denied: bool
    labels: tuple[str, ...] = ()
    values: tuple[Quantity, ...] = ()
    fixed: frozenset[str] = frozenset()
    replaced: frozenset[str] = field(default=frozenset())


def statements(topic: str, content: str) -> list[Statement]:
    """What the content states of today, at most CLAUSES; questions, code, addresses and the past are left out."""
    plain = _ADDRESS.sub(" ", _FENCED.sub("\n", content[:LONGEST]))
    plain = re.sub(r"[*_`~]{1,3}|\\", "", plain)
    found: list[Statement] = []
    about: frozenset[str] = frozenset()
    for line in _untabled(re.split(r"\n+", plain)):
        heading = _HEADING.match(line)
        if heading:
            about = stems(heading[1])
            continue
        for one in _of_line(line, about):
            found.append(one)
            if len(found) == CLAUSES:
                return found
        bare = line.strip()
        if bare.endswith(":"):
            about = stems(bare)
    return found


def stems(text: str) -> frozenset[str]:
    """The telling words of a text, shortened to their stem; pairs of characters for Chinese and its neighbours."""
    return frozenset(_stems(text))


def stem(word: str) -> str:
    """`prices` → `price`, `refunded` → `refund`. Rough, and the same for the same word."""
    word = word.lower().replace("’", "'").removesuffix("'s")
    word = SAME.get(word, word)
    for ending, instead in (("ies", "y"), ("sses", "ss"), ("ches", "ch"), ("shes", "sh"), ("xes", "x"), ("ing", ""),
                            ("ed", ""), ("ly", ""), ("s", "")):  # fmt: skip
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith(("ss", "us", "is")):
            word = word[: len(word) - len(ending)] + instead
            break
    return SAME.get(word.removesuffix("e"), SAME.get(word, word)).removesuffix("e")


def _stems(text: str) -> Iterator[str]:
    for match in _WORD.finditer(text):
        word = "usa" if match[0] in ("US", "USA") else match[0].lower()
        if _CJK.search(word):
            yield from (word[at : at + 2] for at in range(max(1, len(word) - 1)))
        elif word not in STOP and word not in NOT:
            yield stem(word)


GENERIC_STEMS = frozenset(stem(word) for word in GENERIC)
CONTRAST_STEMS = tuple(frozenset(stem(word) for word in group) for group in CONTRASTS)
_TIME_STEMS = frozenset(stem(word) for word in (*MONTHS, *WEEKDAYS))


def _untabled(lines: list[str]) -> Iterator[str]:
    """Rows of tables as sentences, `Pro Uptime is 99.9 %`; other lines as they are."""
    head: list[str] = []
    for place, line in enumerate(lines):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) < 2 or not line.lstrip().startswith("|"):
            head = []
            yield line
        elif place + 1 < len(lines) and _RULE.match(lines[place + 1]):
            head = cells
        elif not _RULE.match(line):
            names = head if len(head) == len(cells) else [""] * len(cells)
            yield from (
                f"{cells[0]} {name} is {cell}." for name, cell in zip(names[1:], cells[1:], strict=True) if cell
            )


# --- lines and clauses --------------------------------------------------------------------------------------
def _of_line(line: str, about: frozenset[str]) -> Iterator[Statement]:
    line = _ITEM.sub("", line).strip().strip("|").strip()
    for whole in _SENTENCES.split(line):
        sentence = whole[:SENTENCE] if whole else ""
        if sentence and sentence.strip() and not sentence.rstrip().endswith(("?", "？")):
            yield from _of_sentence(sentence.strip(), about)


def _of_sentence(sentence: str, about: frozenset[str]) -> Iterator[Statement]:
    head, colon, rest = sentence.partition(": ")
    clauses = [clause for clause in _CLAUSES.split(rest if colon and rest else sentence) if clause and clause.strip()]
    if colon and rest and len(clauses) > 1:
        about = about | stems(head)
    elif colon and rest:
        clauses = [f"{head} is {clauses[0]}"] if clauses else []
    inherited: frozenset[str] = frozenset()
    before = ""
    for clause in clauses:
        around = about | stems(before) if _NEXT.match(clause) else about
        one = _statement(clause.strip()[:CLAUSE], around, inherited)
        before = clause
        if one is not None:
            inherited = one.subject or inherited
            yield one


def _statement(clause: str, about: frozenset[str], inherited: frozenset[str]) -> Statement | None:
    replaced = _replaced(clause)
    if _PAST.search(clause) and not replaced:
        return None
    found = quantities(clause)
    kept = _without(clause, found)
    subject_end, fixed = _subject(clause, found)
    words = _canonical(kept)
    subject = stems(_without(clause[:subject_end], [one for one in found if one.end <= subject_end]))
    values = tuple(one for one in found if one.start >= subject_end)
    return Statement(
        said=clause[:160], subject=subject or inherited, words=words | (frozenset() if subject else inherited),
        names=_names(kept), about=about, denied=_denies(kept), values=values,
        labels=tuple(_label(clause, one) for one in values), fixed=fixed, replaced=replaced,
    )  # fmt: skip


def _subject(clause: str, found: list[Quantity]) -> tuple[int, frozenset[str]]:
    """Where the subject ends: before the verb, else before the first value; and the values that are part of it."""
    end = _verb(clause, found)
    if end is None:
        names_it = len(found) > 1 and found[0].kind == "count" and _label(clause, found[0])
        first = 1 if names_it and len(clause[: found[0].start].split()) <= 2 else 0
        end = found[first].start if found else 0
    dated = ("date", "period") if "as of" in clause.lower() else ()  # "as of May" says when it began, not of what
    named = (one for one in found if one.end <= end and one.kind not in dated)
    return end, frozenset(" ".join(one.said.lower().split()) for one in named)


def _verb(clause: str, found: list[Quantity]) -> int | None:
    """Where the first verb stands that something stands before."""
    begun = False
    for match in re.finditer(r"[^\W\d_]+(?:['’][^\W\d_]+)?", clause):
        if any(one.start <= match.start() < one.end for one in found):
            continue
        word = match[0].lower().replace("’", "'")
        if begun and (word in VERBS or word.removesuffix("ed") in VERBS or word.removesuffix("d") in VERBS):
            return match.start()
        begun = begun or word not in STOP
    return None


def _without(text: str, found: list[Quantity]) -> str:
    for one in reversed(found):
        text = text[: one.start] + " " + text[one.end :]
    return text


def _canonical(text: str) -> frozenset[str]:
    """Stems, with each word of a pair of opposites as the one that says yes."""
    words = []
    for match in _WORD.finditer(text):
        word = match[0].lower()
        words.append(OPPOSITES.get(word) or OPPOSITES.get(stem(word)) or "")
    return frozenset(stem(word) for word in words if word) | frozenset(
        one for one in _stems(text) if one not in _TO_OPPOSITE
    )


def _denies(text: str) -> bool:
    words = [match[0].lower().replace("’", "'") for match in _WORD.finditer(text)]
    joined = " ".join(words)
    times = sum(word in NOT for word in words) - joined.count("not only") - joined.count("no more than")
    return (times + sum(word in DENIES or stem(word) in _DENY_STEMS for word in words)) % 2 == 1


_TO_OPPOSITE = frozenset(stem(word) for word in OPPOSITES)
_DENY_STEMS = frozenset(stem(word) for word in DENIES)


def _names(text: str) -> frozenset[str]:
    """Words with a capital that do not begin the clause, or that hold one inside or a figure at the end."""
    found = set()
    for match in _WORD.finditer(text):
        word = match[0]
        inside = any(letter.isupper() for letter in word[1:]) or word[-1].isdigit()
        begins = match.start() == 0
        if (inside or (word[0].isupper() and not begins)) and (word.lower() not in STOP or len(word) == 1):
            found.add(stem(word))
    return frozenset(found - _TIME_STEMS)


def _label(clause: str, one: Quantity) -> str:
    """The word just before a bare number, which says what it numbers: `Python` 3.11, `room` 4."""
    if one.kind not in ("count", "version"):
        return ""
    before = re.findall(r"([^\W\d_][\w+#.-]*)[ ]*$", clause[: one.start])
    word = before[0].lower() if before else ""
    return "" if word in VERBS or word in STOP or word in NOT else stem(word) if word else ""


def _replaced(clause: str) -> frozenset[str]:
    match = _REPLACED.search(clause) or _REPLACES.search(clause)
    return stems(match["what"]) if match else frozenset()
