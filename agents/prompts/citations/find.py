"""Finding what an answer cites, in the ways in which models write it. Pure.

Only what the run was shown can be found: a number, a name or a reference that is nothing of it stays text."""

import re
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

from openvibe.engines.text.html_links import find_words

MAX_CITATIONS = 60
"""Citations of one answer that are found: the first."""
MAX_WORDS = 200
"""Characters of the words of a citation."""
MIN_EXACT_TOPIC_CHARACTERS = 10
"""A topic that stands in an answer without quotation marks is cited by it from this length on, and from two words."""


@dataclass(frozen=True)
class Citable:
    """Something that a run was shown. `kind`: message, knowledge, file, image or work; `ref`: the id of its row.

    `number`: of a message in its thread; `thread_id` of a message of another thread. `name`: of a file, or the topic of
    an entry. `item_key`: of the item of the prompt, empty for what a tool returned; `pages`: the same for pages of a
    file, by number. `references`: how prompts name it, such as `knowledge:7`.
    """

    kind: str
    ref: int
    item_key: str = ""
    number: int | None = None
    thread_id: int | None = None
    name: str = ""
    author: str = ""
    references: tuple[str, ...] = ()
    pages: Mapping[int, str] = field(default_factory=dict)
    by_hash: bool = False
    """Whether a tool named it `#7`."""
    message_id: int | None = None
    """The message that a file or an image came with."""

    def merged(self, other: "Citable") -> "Citable":
        """The same thing, shown twice: what each of the two says of it, this one first."""
        return replace(
            self,
            item_key=self.item_key or other.item_key,
            number=self.number if self.number is not None else other.number,
            thread_id=self.thread_id if self.number is not None else other.thread_id,
            author=self.author or other.author,
            references=(*self.references, *other.references),
            pages={**other.pages, **self.pages},
            by_hash=self.by_hash or other.by_hash,
        )


@dataclass(frozen=True)
class FoundCitation:
    """Words of an answer that cite something: where they stand for the `occurrence`-th time (from 0) in its texts."""

    words: str
    occurrence: int
    cited: Citable
    item_key: str


@dataclass(frozen=True)
class _Span:
    start: int
    end: int
    cited: Citable
    item_key: str


def find_citations(texts: Sequence[str], citables: Iterable[Citable]) -> list[FoundCitation]:
    """The citations in an answer's texts (`linkable_texts`: no code, no links), in order, at most MAX_CITATIONS."""
    finder = _Finder(citables, texts)
    found: list[FoundCitation] = []
    for place, text in enumerate(texts):
        for span in _without_overlaps(finder.spans(text)):
            words = text[span.start : span.end]
            starts = list(find_words(text, words))
            if span.start not in starts or len(words) > MAX_WORDS:
                continue
            before = sum(1 for earlier in texts[:place] for _ in find_words(earlier, words))
            found.append(FoundCitation(words, before + starts.index(span.start), span.cited, span.item_key))
            if len(found) == MAX_CITATIONS:
                return found
    return found


def _without_overlaps(spans: Iterable[_Span]) -> list[_Span]:
    """Spans in order; of two that overlap the one that begins first, of those the longer."""
    kept: list[_Span] = []
    for span in sorted(spans, key=lambda span: (span.start, -span.end)):
        if not kept or span.start >= kept[-1].end:
            kept.append(span)
    return kept


_ONE = r"message|msg\.?|nachricht|mensaje|mensagem|messaggio|wiadomość"
_MANY = (
    r"messages|msgs\.?|nachrichten|mensajes|mensagens|messaggi|wiadomości|сообщени\w{1,3}"
    r"|消息|讯息|訊息|メッセージ|메시지"
)
_NUMBER = r"\d{1,9}(?![\da-zA-Z_])(?!\.\d)(?!,\d{3}(?!\d))"
_FIRST = re.compile(
    rf"(?<![^\W\d_])(?<!error )(?:(?P<many>{_MANY})|{_ONE})"
    rf"\s{{0,3}}(?:no\.?|nr\.?|number|№|#)?\s{{0,3}}(?P<number>{_NUMBER})",
    re.IGNORECASE,
)
"""`message 4`, or the first of `messages 4, 7 and 9`."""
_NEXT = re.compile(
    rf"\s{{0,2}}(?:,|;|–|—|-|&|、)?\s{{0,2}}(?:\b(?:and|or|to|und|oder|bis|y|o|e|et|ou|à|a|и|или|和|と)\b)?\s{{0,2}}#?(?P<number>{_NUMBER})(?!\w)",
    re.IGNORECASE,
)
_THREAD = re.compile(r"\s{1,3}(?:in|of|from)\s{1,3}thread\s{1,3}(\d{1,18})(?!\d)", re.IGNORECASE)
_OUTER = re.compile(r"\s{1,3}(?:in|of|from)\s{1,3}the\s{1,3}thread\b", re.IGNORECASE)
"""What names, in a dive, a message of the thread in which it began."""
_HASH = re.compile(r"(?<![\w#&/])#(\d{1,9})(?![\w.-]*\w)")
_PLAIN = re.compile(r"(?<![\w\])])\[(\d{1,9}(?:\s?[,;]\s?\d{1,9}){0,9})\](?![(:\[])")
_ANY_PLAIN = re.compile(r"\[\s*(\d{1,9}(?:\s?[,;]\s?\d{1,9})*)\s*\]")
_REFERENCE = re.compile(
    r"(?<![\w/])(knowledge|work|attachment|image|source)\s?:\s?(\d{1,18})(?!\w)(?!\.\d)|"
    r"(?<![\w/])(knowledge(?: entry)?|entry)\s{1,3}#?(\d{1,18})(?!\w)(?!\.\d)",
    re.IGNORECASE,
)
_PAGE = r"(?:pages?|pp?\.|slides?|sheets?|chapters?|seiten?|s\.|página|páginas|стр\.)"
_PAGE_BEFORE = re.compile(
    rf"(?<!\w){_PAGE}\s{{0,2}}(\d{{1,6}})\s{{1,2}}(?:of|in|on|von|aus|de|di|из)\s{{1,2}}[\"“„«]?$", re.IGNORECASE
)
_PAGE_AFTER = re.compile(rf"[\"”“»]?\s?[,(:]?\s{{0,2}}{_PAGE}\s{{0,2}}(\d{{1,6}})(?!\d)", re.IGNORECASE)
_OPENING_MARKS, _CLOSING_MARKS = '["“”„«‹「『]', '["“”»›」』]'


class _Finder:
    """What one run was shown, by the ways to cite it."""

    def __init__(self, citables: Iterable[Citable], texts: Sequence[str]) -> None:
        rows = list(citables)
        self._by_number: dict[tuple[int | None, int], Citable] = {}
        self._by_hash: dict[int, Citable] = {}
        self._by_reference: dict[str, Citable] = {}
        for row in rows:
            if row.number is not None:
                self._by_number.setdefault((row.thread_id, row.number), row)
                if row.by_hash and row.thread_id is None:
                    self._by_hash.setdefault(row.number, row)
            for reference in row.references:
                self._by_reference.setdefault(reference, row)
        self._is_in_dive = any(reference.startswith("source:") for reference in self._by_reference)
        self._files = {
            row.name: row for row in sorted(rows, key=attrgetter("ref")) if row.kind in ("file", "image") and row.name
        }
        self._topics = _only_ones(row for row in rows if row.kind == "knowledge" and row.name.strip())
        self._named: set[tuple[str, int]] = set()
        self._reads_plain = self._are_plain_numbers(texts)

    def _are_plain_numbers(self, texts: Sequence[str]) -> bool:
        """Whether `[4]` can mean nothing but a message: all such numbers are, and none begins a line, as those do that
        an answer's own list of sources has."""
        numbers = [number for text in texts for mark in _ANY_PLAIN.finditer(text) for number in _numbers(mark[1])]
        is_list = any(_ANY_PLAIN.match(text.lstrip()) for text in texts)
        return not is_list and all((None, number) in self._by_number for number in numbers)

    def spans(self, text: str) -> Iterator[_Span]:
        """All that is cited in one text, in any order; spans may overlap."""
        yield from self._numbered(text)
        yield from self._referred(text)
        yield from self._named_files(text)
        yield from self._named_topics(text)

    def _numbered(self, text: str) -> Iterator[_Span]:
        for match in _FIRST.finditer(text):
            start, end = match.span()
            thread = _THREAD.match(text, end)
            cited = self._message(match["number"], thread)
            if self._is_in_dive and _OUTER.match(text, end):
                cited = self._by_reference.get(f"source:{int(match['number'])}")
            if cited is not None:
                end = thread.end() if thread else end
                yield _span(text, _start_of_author(text, start, cited.author), end, cited)
            if match["many"] and not thread:
                yield from self._following(text, match.end())
        for match in _HASH.finditer(text):
            if (cited := self._by_hash.get(int(match[1]))) is not None and not _THREAD.match(text, match.end()):
                yield _span(text, _start_of_author(text, match.start(), cited.author), match.end(), cited)
        for match in _PLAIN.finditer(text) if self._reads_plain else ():
            for number in re.finditer(r"\d+", match[1]):
                cited = self._by_number[None, int(number[0])]
                yield _span(text, match.start(1) + number.start(), match.start(1) + number.end(), cited)

    def _following(self, text: str, at: int) -> Iterator[_Span]:
        """The other numbers of `messages 4, 7 and 9`: of each the number alone."""
        while match := _NEXT.match(text, at):
            if match.start("number") == at:
                return  # nothing between them
            if (cited := self._message(match["number"], None)) is not None:
                yield _Span(match.start("number"), match.end("number"), cited, cited.item_key)
            at = match.end()

    def _message(self, number: str, thread: re.Match[str] | None) -> Citable | None:
        return self._by_number.get((int(thread[1]) if thread else None, int(number)))

    def _referred(self, text: str) -> Iterator[_Span]:
        for match in _REFERENCE.finditer(text):
            kind, number = (match[1], match[2]) if match[1] else ("knowledge", match[4])
            cited = self._by_reference.get(f"{kind.lower()}:{int(number)}")
            if cited is not None:
                yield _span(text, _start_of_author(text, match.start(), cited.author), match.end(), cited)

    def _named_files(self, text: str) -> Iterator[_Span]:
        for name, cited in self._files.items():
            if "." not in name.strip(".") or name.casefold() not in text.casefold():
                continue
            for match in re.finditer(rf"(?<![\w./-]){re.escape(name)}(?![\w-]|\.\w)", text, re.IGNORECASE):
                start, end, item_key = *match.span(), cited.item_key
                before, after = _PAGE_BEFORE.search(text, 0, start), _PAGE_AFTER.match(text, end)
                page = before or after
                if page is not None:
                    start, end = (page.start(), end) if page is before else (start, page.end())
                    item_key = cited.pages.get(int(page[1]), item_key)
                yield _Span(start, end, cited, item_key)

    def _named_topics(self, text: str) -> Iterator[_Span]:
        for cited in self._topics:
            words = cited.name.split()
            topic = r"\s+".join(map(re.escape, words))
            quoted = re.compile(rf"{_OPENING_MARKS}\s?({topic})\s?[.,]?{_CLOSING_MARKS}", re.IGNORECASE)
            yield from (_Span(*match.span(1), cited, cited.item_key) for match in quoted.finditer(text))
            is_told_by_it = len(words) > 1 and len(cited.name) >= MIN_EXACT_TOPIC_CHARACTERS
            exact = re.search(rf"(?<!\w){topic}(?!\w)", text) if is_told_by_it else None
            if exact and (cited.kind, cited.ref) not in self._named:  # it may be the subject of every sentence
                self._named.add((cited.kind, cited.ref))
                yield _Span(*exact.span(), cited, cited.item_key)


def _span(text: str, start: int, end: int, cited: Citable) -> _Span:
    """A span with the brackets that stand around it alone."""
    if text[start - 1 : start] == "[" and text[end : end + 1] == "]":
        start, end = start - 1, end + 1
    return _Span(start, end, cited, cited.item_key)


def _start_of_author(text: str, start: int, author: str) -> int:
    """The place where `Ana, message 4` begins, if these are the author's name and a comma; else `start`."""
    first = max(start - len(author) - MAX_WORDS, 0)
    before = text[first:start].rstrip()
    name = before[:-1].rstrip() if before.endswith(",") else ""
    if not author or not name.endswith(author) or name[: -len(author)][-1:].isalnum():
        return start
    return first + len(name) - len(author)


def _only_ones(rows: Iterable[Citable]) -> Collection[Citable]:
    """The rows whose name no other of them has."""
    by_name: dict[str, dict[int, Citable]] = {}
    for row in rows:
        by_name.setdefault(" ".join(row.name.casefold().split()), {}).setdefault(row.ref, row)
    return [next(iter(same.values())) for same in by_name.values() if len(same) == 1]


def _numbers(text: str) -> list[int]:
    return [int(number) for number in re.findall(r"\d+", text)]
