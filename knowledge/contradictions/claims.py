"""What an entry states, clause by clause: of what, which quantities, whether said or denied; the English word lists.

Pure. No understanding, only rules: Markdown lines, sentences, clauses; what stands before the verb or the value is the
subject; headings and words before a colon are what a list is about."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from knowledge.contradictions.quantities import Quantity, extract_quantities, word_map

_STOP_TEXT = """
a an the this that these those our your their its his her my we you they it he she i us them of in on at to for from
by with as and or but so if then than when while which who whose what there here is are was were be been being am
has have had having will would shall should must may might can could do does did done also just only very each every
all any some both per about please currently now today still already after before within until since during into
over under up out more less most least up same such own other others everything everybody always ever again new
current longer anymore yet
"""
STOP_WORDS = frozenset(_STOP_TEXT.split())

_VERBS_TEXT = """
is are was were be has have had will shall must may can cannot should does do did cost costs take takes run runs use
uses need needs require requires get gets include includes start starts begin begins end ends close closes open
opens expire expires ship ships happen happens last lasts allow allows hold holds support supports go goes move
moved moves pay pays offer offers keep keeps stay stays remain remains equal equals mean means give gives charge
charges receive receives launch launches meet meets serve serves listen listens deploy deploys fall falls rise rises
grow grew grows host hosts answer answers reply replies respond responds retain retains store stores accept accepts
reject rejects lie lies sit sits live lives release releases renew renews contain contains cover covers return
returns send sends report reports permit permits isn't aren't don't doesn't didn't can't won't mustn't shouldn't
wasn't weren't hasn't haven't
"""
VERBS = frozenset(_VERBS_TEXT.split())
"""Verbs that end the subject, where something stands before them."""

_NEGATIONS_TEXT = """
not no never none neither nor cannot without isn't aren't don't doesn't didn't can't won't mustn't shouldn't wasn't
weren't hasn't haven't couldn't wouldn't
"""
NEGATIONS = frozenset(_NEGATIONS_TEXT.split())

_SYNONYMS_TEXT = """
price: fee cost charge pricing priced; answer: reply respond response; holiday: vacation leave; staff: employee;
start: begin; release: launch ship deliver shipped; meeting: meet; deadline: due; customer: client; maximum: max;
minimum: min; login: logon sign-in; keep: retain kept store retention; limit: timeout cap; register: signup;
run: host ran
"""
SYNONYMS = word_map(_SYNONYMS_TEXT)

_NEGATIVES_TEXT = """
allowed: forbidden prohibited disallowed banned forbid prohibit; enabled: disabled disable off; required: optional;
open: closed; supported: unsupported deprecated; available: unavailable discontinued; possible: impossible;
include: exclude excluded; approved: rejected declined denied; true: false; active: inactive; free: paid;
private: public; accepted: refused refuse reject; limited: unlimited; valid: invalid; safe: unsafe;
secure: insecure; compatible: incompatible
"""
NEGATIVES = word_map(_NEGATIVES_TEXT)
"""Words that say no, and the opposite of each."""

_AFFIRMATIVES_TEXT = """
allowed: permitted permit allow; enabled: enable on; required: mandatory require need; supported: support;
include: included; accepted: accept
"""
CANONICAL_WORDS = NEGATIVES | word_map(_AFFIRMATIVES_TEXT)
"""Each word of a pair of opposites, and the one that says yes."""

_IS_DOWN = re.compile(r"\b(?:(?:is|are|was|were)(?:n't| not)?|be|been|goes?|stays?|remains?) down\b")
"""A phrase for what does not work. Elsewhere "down" is part of a verb: what is written down is not denied."""

_ENDINGS = {"ies": "y", "sses": "ss", "ches": "ch", "shes": "sh", "xes": "x", "ing": "", "ed": "", "ly": "", "s": ""}


def stem(word: str) -> str:
    """`prices` → `price`, `refunded` → `refund`. Rough, and the same for the same word."""
    word = word.lower().replace("’", "'").removesuffix("'s")
    word = SYNONYMS.get(word, word)
    for ending, instead in _ENDINGS.items():
        if word.endswith(ending) and len(word) - len(ending) >= 3 and not word.endswith(("ss", "us", "is")):
            word = word[: len(word) - len(ending)] + instead
            break
    return SYNONYMS.get(word.removesuffix("e"), SYNONYMS.get(word, word)).removesuffix("e")


def _stem_set(words: Iterable[str]) -> frozenset[str]:
    return frozenset(map(stem, words))


_CONTRASTS_TEXT = """
staging production development test testing sandbox demo preview prod dev;
starter basic free pro plus premium business enterprise team standard gold silver bronze hobby scale;
internal external; frontend backend; ios android web desktop mobile windows linux macos;
monthly annual annually yearly weekly daily quarterly hourly month year; inbound outbound; read write;
upload download; junior senior lead; summer winter spring autumn; morning afternoon evening night;
first second third fourth last next previous; europe eu us usa uk asia africa america germany france;
full-time part-time; admin guest member owner; buyer seller; student teacher; adult child children;
after within; before after; minimum maximum; remote onsite office home; primary secondary backup;
request response; gross net; east west north south; weekday weekend; cat dog; draft final; small medium large;
domestic international; average median peak; planned actual; red green blue; old legacy; hardware software;
revenue profit cost; open close; lower upper; start end
"""
CONTRAST_STEMS = tuple(_stem_set(group.split()) for group in _CONTRASTS_TEXT.split(";"))
"""Groups of which a thing is one or the other: what is said of one says nothing of the others."""

_CANONICAL_STEMS = _stem_set(CANONICAL_WORDS)
_NEGATIVE_STEMS = _stem_set(NEGATIVES)

MAX_CHARACTERS = 20_000
"""Characters that are read."""

MAX_STATEMENTS = 100
"""Statements of one text that are compared."""

MAX_SENTENCE_CHARACTERS, MAX_CLAUSE_CHARACTERS = 4_000, 400
"""Characters of one that are read."""

_PAST = re.compile(
    r"\b(?:previously|formerly|used to|originally|in the past|before that|until recently|up to now|once was|was \S+ "
    r"(?:until|till|before)|were \S+ (?:until|till|before)|at the time|back then|no longer true)\b"
    r"|\A(?:and )?then\b",
    re.IGNORECASE,
)
"""What was so once, and a step of several: neither says how things are."""
_REPLACES = re.compile(
    r"\b(?:instead of|rather than|in place of|replaces|replaced|replacing|supersedes|superseding|stopped using|dropped"
    r"|retired|(?:moved|migrated|switched|changed)(?: away)? from"
    r"|no longer (?:uses?|used|runs?|supports?|offers?|needs?|requires?))"
    r"\s+(?P<what>[^.;,()]{2,60}?)(?=\s+(?:to|with|by|in|as|for|since|because)\b|[.;,()]|$)",
    re.IGNORECASE,
)
_IS_REPLACED = re.compile(
    r"(?P<what>[^.;,()]{2,60}?)\s+(?:is|was|are|were|has been|have been|got)\s+"
    r"(?:replaced|superseded|retired|discontinued|dropped)\b",
    re.IGNORECASE,
)
_WORD = re.compile(r"[^\W\d_]+(?:['’-][^\W\d_]+)*[0-9]*|[0-9]+")
_CJK = re.compile("[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff\uac00-\ud7af]")
_CODE_BLOCK = re.compile(r"```.*?(?:```|\Z)", re.DOTALL)
_URL_OR_EMAIL = re.compile(r"\b(?:https?://|www\.)\S+|[^\s@]{1,64}@\S+")
_SENTENCE_BREAK = re.compile(r"(?<=[.!?。！？])(?:\s+|(?<=[。！？]))|\n+")
_CLAUSE_BREAK = re.compile(
    r";\s*|,?\s+but\s+|,\s+(?:and\s+)?(?=\S)|\s+and\s+(?=[^.;,]*(?:\d|\bnot\b|\bno\b))|\s+[|]\s+"
)
_NUMBERED_OPENING = re.compile(
    r"\W*(?:(?:in|on|at|by|from|during|since|until|after|before|for|the)\s+){0,2}(?:day|week|month|sprint|step|phase|stage"
    r"|round|milestone|level|tier|room|floor|building|bed|chapter|section|page|lesson|module|option|experiment)\s+[0-9]",
    re.IGNORECASE,
)
"""A clause about one of several that are numbered, whatever its verb: `In week 7 we prune`. A version is often what is
said, not of what."""
_TABLE_RULE = re.compile(r"\A[\s|:-]+\Z")
_LIST_MARKER = re.compile(r"\A\s*(?:[-*+•]|\d+[.)])\s+|\A\s*>+\s?")
_HEADING = re.compile(r"\A\s*#{1,6}\s+(.*)")


@dataclass(frozen=True, slots=True)
class Statement:
    """One clause. Words are stems; `about` are those of heading or list."""

    text: str
    subject: frozenset[str]
    words: frozenset[str]
    about: frozenset[str]
    is_negated: bool
    values: tuple[Quantity, ...] = ()
    subject_values: frozenset[str] = frozenset()
    replaced: frozenset[str] = frozenset()


def extract_statements(content: str) -> list[Statement]:
    """What the content states of today, at most MAX_STATEMENTS, without questions, code, addresses and the past."""
    plain = _URL_OR_EMAIL.sub(" ", _CODE_BLOCK.sub("\n", content[:MAX_CHARACTERS]))
    plain = re.sub(r"[*_`~]{1,3}|\\", "", plain)
    statements: list[Statement] = []
    context: frozenset[str] = frozenset()
    for line in _flatten_tables(re.split(r"\n+", plain)):
        heading = _HEADING.match(line)
        if heading:
            context = stems(heading[1])
            continue
        for statement in _parse_line(line, context):
            statements.append(statement)
            if len(statements) == MAX_STATEMENTS:
                return statements
        stripped_line = line.strip()
        if stripped_line.endswith(":"):
            context = stems(stripped_line)
    return statements


def stems(text: str) -> frozenset[str]:
    """The telling words of a text, shortened to their stem; pairs of characters for Chinese and its neighbours."""
    word_stems: set[str] = set()
    for match in _WORD.finditer(text):
        word = "usa" if match[0] in ("US", "USA") else match[0].lower()
        if _CJK.search(word):
            word_stems.update(word[at : at + 2] for at in range(max(1, len(word) - 1)))
        elif (word not in STOP_WORDS and word not in NEGATIONS) or _is_letter(match):
            word_stems.add(stem(word))
    return frozenset(word_stems)


def _is_letter(match: re.Match[str]) -> bool:
    """Whether it is a name of one letter: option A, plan B."""
    return len(match[0]) == 1 and match[0].isupper() and match.start() > 0 and match[0] != "I"


def _flatten_tables(lines: list[str]) -> Iterator[str]:
    """Rows of tables as sentences, `Pro Uptime is 99.9 %`; other lines as they are."""
    head: list[str] = []
    for place, line in enumerate(lines):
        cells = [cell.strip() for cell in line.strip().strip("|").split("|")]
        if len(cells) < 2 or not line.lstrip().startswith("|"):
            head = []
            yield line
        elif place + 1 < len(lines) and _TABLE_RULE.match(lines[place + 1]):
            head = cells
        elif not _TABLE_RULE.match(line):
            names = head if len(head) == len(cells) else [""] * len(cells)
            yield from (
                f"{cells[0]} {name} is {cell}." for name, cell in zip(names[1:], cells[1:], strict=True) if cell
            )


def _parse_line(line: str, about: frozenset[str]) -> Iterator[Statement]:
    line = _LIST_MARKER.sub("", line).strip().strip("|").strip()
    for whole in _SENTENCE_BREAK.split(line):
        sentence = whole[:MAX_SENTENCE_CHARACTERS].strip()
        if sentence and not sentence.endswith(("?", "？")):
            yield from _parse_sentence(sentence, about)


def _parse_sentence(sentence: str, about: frozenset[str]) -> Iterator[Statement]:
    head, colon, rest = sentence.partition(": ")
    clauses = [clause for clause in _CLAUSE_BREAK.split(rest if colon and rest else sentence) if clause.strip()]
    if colon and rest and len(clauses) > 1:
        about = about | stems(head)
    elif colon and rest:
        clauses = [f"{head} is {clauses[0]}"] if clauses else []
    subject: frozenset[str] = frozenset()
    for clause in clauses:
        statement = _parse_clause(clause.strip()[:MAX_CLAUSE_CHARACTERS], about, subject)
        if statement is not None:
            subject = statement.subject or subject
            yield statement


def _parse_clause(clause: str, about: frozenset[str], inherited_subject: frozenset[str]) -> Statement | None:
    replaced_stems = _replaced_stems(clause)
    if _PAST.search(clause) and not replaced_stems:
        return None
    quantities = extract_quantities(clause)
    text_left = _remove_quantities(clause, quantities)
    subject_end, subject_values = _find_subject(clause, quantities)
    words = _canonical_stems(text_left)
    subject = stems(_remove_quantities(clause[:subject_end], [one for one in quantities if one.end <= subject_end]))
    values = tuple(one for one in quantities if one.start >= subject_end)
    return Statement(
        text=clause[:160],
        subject=subject or inherited_subject,
        words=words | (frozenset() if subject else inherited_subject),
        about=about,
        is_negated=_is_negated(text_left),
        values=values,
        subject_values=subject_values,
        replaced=replaced_stems,
    )


def _find_subject(clause: str, quantities: list[Quantity]) -> tuple[int, frozenset[str]]:
    """The position at which the subject ends: before the verb, else before the first value; and the values that are
    part of it."""
    end = _find_verb(clause, quantities)
    if end is None:
        end = quantities[0].start if quantities else 0
    if opening := _NUMBERED_OPENING.match(clause):
        end = max([end, *(one.end for one in quantities if one.start < opening.end())])
    date_kinds = ("date", "period") if "as of" in clause.lower() else ()  # "as of May" says when it began, not of what
    subject_quantities = (one for one in quantities if one.end <= end and one.kind not in date_kinds)
    return end, frozenset(" ".join(one.text.lower().split()) for one in subject_quantities)


def _find_verb(clause: str, quantities: list[Quantity]) -> int | None:
    """The position of the first verb that has something before it."""
    has_subject = False
    for match in re.finditer(r"[^\W\d_]+(?:['’][^\W\d_]+)?", clause):
        if any(one.start <= match.start() < one.end for one in quantities):
            continue
        word = match[0].lower().replace("’", "'")
        if has_subject and (word in VERBS or word.removesuffix("ed") in VERBS or word.removesuffix("d") in VERBS):
            return match.start()
        has_subject = has_subject or word not in STOP_WORDS or word in ("it", "they")
    return None


def _remove_quantities(text: str, quantities: list[Quantity]) -> str:
    for one in reversed(quantities):
        text = text[: one.start] + " " + text[one.end :]
    return text


def _canonical_stems(text: str) -> frozenset[str]:
    """Stems, with each word of a pair of opposites as the one that says yes."""
    words = [match[0].lower() for match in _WORD.finditer(text)]
    canonical = (CANONICAL_WORDS.get(word) or CANONICAL_WORDS.get(stem(word)) for word in words)
    return frozenset(stem(word) for word in canonical if word) | (stems(text) - _CANONICAL_STEMS)


def _is_negated(text: str) -> bool:
    words = [match[0].lower().replace("’", "'") for match in _WORD.finditer(text)]
    joined = " ".join(words)
    times = sum(word in NEGATIONS for word in words) - joined.count("not only") - joined.count("no more than")
    times += len(_IS_DOWN.findall(joined))
    return (times + sum(word in NEGATIVES or stem(word) in _NEGATIVE_STEMS for word in words)) % 2 == 1


def _replaced_stems(clause: str) -> frozenset[str]:
    match = _IS_REPLACED.search(clause) or _REPLACES.search(clause)
    return stems(match["what"]) if match else frozenset()
