"""Numbers, money, shares, durations, dates and times of day that a sentence states, and whether two differ. Pure.

English first: words such as "percent" or "March" are English, figures, signs and ISO dates are anybody's."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import takewhile


@dataclass(frozen=True, slots=True)
class Quantity:
    """Something stated that can be another: `text` as it stands in the text, from `start` to `end`.

    `kind`: money, percent, span, clock, date, period, weekday, size, version or count. `low` and `high` are equal
    but for ranges; `parts` of dates are year, month and day, 0 where unsaid. `bound`: "=", ">" (at least), "<".
    """

    kind: str = ""
    text: str = ""
    start: int = 0
    end: int = 0
    low: float = 0.0
    high: float = 0.0
    unit: frozenset[str] = frozenset()
    per: frozenset[str] = frozenset()
    bound: str = "="
    is_approximate: bool = False
    parts: tuple[int, ...] = ()


def quantities_differ(one: Quantity, other: Quantity) -> bool | None:
    """Whether the two cannot both be true of one thing; None when nothing follows from them. Symmetric."""
    if one.kind != other.kind or not _are_comparable(one, other):
        return None
    if one.kind in ("date", "period"):
        return any(a and b and a != b for a, b in zip(one.parts, other.parts, strict=True))
    is_approximate = one.is_approximate or other.is_approximate
    tolerance = 0.1 if is_approximate else 0.04 if one.kind == "span" and one.unit != other.unit else 1e-9
    if one.bound == other.bound:
        return _exceeds_tolerance(one.low, other.low, tolerance) or _exceeds_tolerance(one.high, other.high, tolerance)
    if one.bound == "=":
        one, other = other, one
    is_apart = other.high < one.low * (1 - tolerance) if one.bound == ">" else other.low > one.high * (1 + tolerance)
    return True if is_apart else None


def _are_comparable(one: Quantity, other: Quantity) -> bool:
    if one.per and other.per and one.per != other.per:
        return False
    if one.kind in ("money", "count"):
        return not one.unit or not other.unit or bool(one.unit & other.unit)
    return one.kind != "version" or one.unit == other.unit


def _exceeds_tolerance(one: float, other: float, tolerance: float) -> bool:
    return abs(one - other) > tolerance * max(abs(one), abs(other))


def word_map(text: str) -> dict[str, str]:
    """`{word: key}` of groups such as `key: word word; other: word`."""
    groups = (group.partition(":") for group in text.split(";"))
    return {word: key.strip() for key, _, words in groups for word in words.split()}


_MONTH_NAMES = "january february march april may june july august september october november december"
_WEEKDAY_NAMES = "monday tuesday wednesday thursday friday saturday sunday"
MONTHS, WEEKDAYS = tuple(_MONTH_NAMES.split()), tuple(_WEEKDAY_NAMES.split())
_MONTH_NUMBERS = {name[:3]: number for number, name in enumerate(MONTHS, 1)}
_NUMBER_NAMES = "two three four five six seven eight nine ten eleven twelve"
_NUMBER_VALUES = {
    **{name: number for number, name in enumerate(_NUMBER_NAMES.split(), 2)},
    **{"fifteen": 15, "twenty": 20, "thirty": 30, "forty": 40, "fifty": 50, "sixty": 60, "ninety": 90},
}
_DAY = 86_400
_SECONDS = {"millisecond": 0.001, "second": 1, "minute": 60, "hour": 3600}
_SECONDS |= {"day": _DAY, "week": 7 * _DAY, "month": 30 * _DAY, "year": 365 * _DAY}
_SHORT_UNITS = word_map("millisecond: ms; second: s sec; minute: min; hour: h hr; day: d; month: mo; year: yr")
_BYTES = {"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "kib": 1024, "mib": 1024**2, "gib": 1024**3}
_MULTIPLIERS = {"k": 1e3, "thousand": 1e3, "m": 1e6, "million": 1e6, "bn": 1e9, "billion": 1e9, "hundred": 100}
_CURRENCIES = word_map("usd: $ dollar 美元; eur: € euro; gbp: £ pound; jpy: ¥ 円; inr: ₹; cny: 元")

_NUMBER = r"[0-9]+(?:[.,'\u202f][0-9]+)*"
_MULTIPLIER = r"(?:[ ]?(?P<times{0}>k|m|bn|thousand|million|billion|hundred)(?![a-z]))?"
_FIGURE = (
    rf"(?P<low>{_NUMBER}){_MULTIPLIER.format(1)}(?:[ ]?(?:-|–|to|and)[ ]?(?P<high>{_NUMBER}){_MULTIPLIER.format(2)})?"
)
_UNIT = (
    r"(?P<unit>milliseconds?|ms|seconds?|secs?|s|minutes?|mins?|hours?|hrs?|h"
    r"|(?:(?:business|working|calendar)[ ])?days?|d|weeks?|months?|mo|years?|yrs?)(?![\w])"
)
_PER = (
    r"(?P<per>(?:[ ]?(?:/|per|each|every)[ ]?[a-z]+|[ ]an?[ ](?:hour|day|week|month|year|user|seat)"
    r"|[ ](?:monthly|yearly|annually|daily|weekly|hourly))*)"
)
_MONTH = (
    r"(?P<month>jan(?:uary)?|feb(?:ruary)?|mar(?:ch)?|apr(?:il)?|may|june?|july?|aug(?:ust)?|sept?(?:ember)?"
    r"|oct(?:ober)?|nov(?:ember)?|dec(?:ember)?)\.?(?![a-z])"
)
_MONTH_ALONE = (
    r"(?P<month>january|february|april|june|july|august|september|october|november|december"
    r"|(?:(?<=in )|(?<=by )|(?<=until )|(?<=since ))(?:may|march))"
)
_YEAR = r"(?P<year>(?:19|20)[0-9]{2})(?![0-9%]|[.,][0-9])"
_NUMBER_START = r"(?<![0-9a-z_.,])"

_AT_LEAST = re.compile(r"(?:at least|minimum(?: of)?|min\.?|more than|over|above|≥|>=?|not under)\s*\S{0,2}$")
_AT_MOST = re.compile(
    r"(?:at most|maximum(?: of)?|max\.?|no more than|not more than|up to|less than|under|below|within|≤|<=?)\s*\S{0,2}$"
)
_ROUGHLY = re.compile(r"(?:about|around|roughly|approximately|approx\.?|circa|ca\.|nearly|almost|some|~)\s*\S{0,2}$")


def extract_quantities(text: str) -> list[Quantity]:
    """All that the text states, in order. `text` is one sentence or clause, of any case; linear in its length."""
    remaining = _words_to_digits(text)
    quantities: list[Quantity] = []
    for kind, pattern, build in _PATTERNS:
        for match in pattern.finditer(remaining):
            quantity = build(match, remaining)
            if quantity is not None:
                start, end = _source_start(text, match.start()), match.end()
                source_text = " ".join(text[start:end].split())
                quantities.append(replace(quantity, kind=kind, text=source_text, start=start, end=end))
                remaining = remaining[: match.start()] + "\x01" * (end - match.start()) + remaining[end:]
    return sorted(quantities, key=lambda one: one.start)


_NUMBER_WORDS = re.compile(
    rf"\b(?:{'|'.join(_NUMBER_VALUES)}|one(?= [a-z]{{3,}}))\b"
    r"(?! (?:or|and|another|thing|who|that|can|should|has|must|may|will|was)\b)"
)


def _words_to_digits(text: str) -> str:
    """Lower case, with number words as figures, in the same number of characters."""
    lowercase_text = "".join(one if len(one) == 1 else "?" for one in map(str.lower, text))
    return _NUMBER_WORDS.sub(lambda match: str(_NUMBER_VALUES.get(match[0], 1)).rjust(len(match[0])), lowercase_text)


def _source_start(text: str, start: int) -> int:
    """The position at which a number word begins, whose figure stands at its end."""
    while start and text[start - 1].isalpha() and text[start - 1].isascii() and text[start].isalpha():
        start -= 1
    return start


def _parse_number(text: str) -> float:
    """`1,000`, `1.000`, `29,50`, `29.00`: separators of thousands and decimals told apart by their place."""
    digits = text.replace("'", "").replace("\u202f", "")
    if "," in digits and "." in digits:
        decimal = max(digits.rfind(","), digits.rfind("."))
        return float(re.sub("[.,]", "", digits[:decimal]) + "." + digits[decimal + 1 :])
    if re.fullmatch(r"[0-9]{1,3}(?:,[0-9]{3})+|[0-9]{1,3}(?:\.[0-9]{3}){2,}", digits):
        return float(re.sub("[.,]", "", digits))
    whole, _, decimals = digits.replace(",", ".").partition(".")
    return float(f"{whole}.{decimals.replace('.', '') or 0}")


def _parse_range(match: re.Match[str]) -> tuple[float, float]:
    groups = match.groupdict()
    low = _parse_number(match["low"]) * _MULTIPLIERS.get(groups.get("times1") or "", 1)
    if not groups.get("high"):
        return low, low
    times = _MULTIPLIERS.get(groups.get("times2") or "", 1)
    high = _parse_number(match["high"]) * times
    return (low * times if not groups.get("times1") and times > 1 else low), high


def _build_measure(
    match: re.Match[str], text: str, *, unit: frozenset[str] = frozenset(), factor: float = 1
) -> Quantity:
    low, high = _parse_range(match)
    preceding = text[max(0, match.start() - 24) : match.start()].replace("\x01", " ")
    per = frozenset(_singular(word) for word in re.findall(r"[a-z]+", match.groupdict().get("per") or "")) - _PER_WORDS
    return Quantity(
        low=low * factor,
        high=high * factor,
        unit=unit,
        per=per,
        bound=">" if _AT_LEAST.search(preceding) else "<" if _AT_MOST.search(preceding) else "=",
        is_approximate=bool(_ROUGHLY.search(preceding)),
    )


_PER_WORDS = frozenset(("per", "each", "every", "a", "an"))
_PERIODS = word_map("month: monthly mo; year: yearly annually yr annum; day: daily; week: weekly; hour: hourly")


def _singular(word: str) -> str:
    word = _PERIODS.get(word, word)
    return word[:-1] if word.endswith("s") and len(word) > 3 and not word.endswith("ss") else word


def _build_money(match: re.Match[str], text: str) -> Quantity | None:
    sign = (match["before"] or match["after"] or "").strip()
    unit = frozenset([_CURRENCIES.get(sign.removesuffix("s"), sign)])
    return _build_measure(match, text, unit=unit) if sign else None


def _build_span(match: re.Match[str], text: str) -> Quantity:
    unit = match["unit"].split(" ")[-1]
    unit = _SHORT_UNITS.get(unit) or _SHORT_UNITS.get(unit.removesuffix("s")) or unit.removesuffix("s")
    return _build_measure(match, text, unit=frozenset([unit]), factor=_SECONDS[unit])


def _build_size(match: re.Match[str], text: str) -> Quantity:
    return _build_measure(match, text, unit=frozenset(["byte"]), factor=_BYTES[match["unit"]])


def _build_date(match: re.Match[str], _text: str) -> Quantity | None:
    groups = match.groupdict()
    month, day = groups.get("month") or "", int(groups.get("day") or 0)
    parts = (int(groups.get("year") or 0), _MONTH_NUMBERS[month[:3]] if month else 0, day, 0)
    return Quantity(parts=parts) if day <= 31 else None


_WORDS_BEFORE_YEARS = "in since until till by from for of during through fy year early late mid before after to and"
_YEARS_FOLLOW = frozenset(_WORDS_BEFORE_YEARS.split())


def _build_year(match: re.Match[str], text: str) -> Quantity | None:
    """Four figures are a year after such a word, or where the phrase ends; else they count something."""
    preceding = re.findall(r"[a-z]+\W*$", text[max(0, match.start() - 12) : match.start()])
    phrase_end = re.match(r"\s*(?:$|[^\w\s])", text[match.end() :])
    if not phrase_end and (not preceding or preceding[0].strip(" (-,") not in _YEARS_FOLLOW):
        return None
    return _build_date(match, text)


def _build_iso(match: re.Match[str], _text: str) -> Quantity:
    return Quantity(parts=(int(match[1]), int(match[2]), int(match[3]), 0))


def _build_quarter(match: re.Match[str], _text: str) -> Quantity:
    return Quantity(parts=(int(match["year"] or 0), 0, 0, int(match["quarter"])))


def _build_clock(match: re.Match[str], _text: str) -> Quantity | None:
    hour, minute, half = int(match["hour"]), int(match["minute"] or 0), (match["half"] or "").replace(".", "")
    if hour > 24 or minute > 59:
        return None
    hour = hour % 12 + (12 if half == "pm" else 0) if half else hour
    return Quantity(low=hour * 60 + minute, high=hour * 60 + minute)


def _build_weekday(match: re.Match[str], _text: str) -> Quantity:
    day = WEEKDAYS.index(match[0].removesuffix("s"))
    return Quantity(low=day, high=day)


def _build_version(match: re.Match[str], _text: str) -> Quantity:
    place = sum(int(part[:6]) / 1e4**depth for depth, part in enumerate(match["number"].split(".")))
    return Quantity(low=place, high=place, unit=frozenset([match["of"] or ""]) - {"", "version"})


def _build_count(match: re.Match[str], text: str) -> Quantity:
    words = re.findall(r"[^\W\d_]+", text[match.end() : match.end() + 40].split("\x01")[0])[:2]
    unit = frozenset(map(_singular, takewhile(lambda word: word not in _NO_UNIT, words)))
    return _build_measure(match, text, unit=unit)


_NO_UNIT_TEXT = """
and or but of in on at to for from by with per is are was were be if when then than so as the a an each every not no
now only until till after before since instead because which that who while including included plus
"""
_NO_UNIT = frozenset(_NO_UNIT_TEXT.split())

_SIGN = r"[$€£¥₹]|usd|eur|gbp|chf|jpy|inr|cad|aud"
_SIGN_OR_WORD = r"[$€£¥₹]|(?:usd|eur|gbp|chf|jpy|inr|cad|aud)(?!\w)|dollars?|euros?|pounds?|美元|元|円"
_DAY_NUMBER = r"(?P<day>[0-9]{1,2})(?:st|nd|rd|th)?"
_Builder = Callable[[re.Match[str], str], Quantity | None]
_PATTERN_TEXTS: tuple[tuple[str, str, _Builder], ...] = (
    ("date", r"(?<!\w)((?:19|20)[0-9]{2})-([01][0-9])-([0-3][0-9])(?![0-9])", _build_iso),
    ("date", rf"{_NUMBER_START}{_DAY_NUMBER}[ ](?:of[ ])?{_MONTH}(?:,?[ ]{_YEAR})?", _build_date),
    ("date", rf"(?<!\w){_MONTH}[ ]{_DAY_NUMBER}(?![0-9:])(?:,?[ ]{_YEAR})?", _build_date),
    ("period", rf"(?<!\w){_MONTH}[ ]{_YEAR}", _build_date),
    ("period", rf"(?<!\w)q(?P<quarter>[1-4])(?!\w)(?:[ ]?(?:of[ ])?{_YEAR})?", _build_quarter),
    (
        "clock",
        rf"{_NUMBER_START}(?P<hour>[0-9]{{1,2}}):(?P<minute>[0-9]{{2}})(?::[0-9]{{2}})?"
        r"[ ]?(?P<half>[ap]\.?m)?(?![\w:])",
        _build_clock,
    ),
    ("clock", rf"{_NUMBER_START}(?P<hour>[0-9]{{1,2}})(?P<minute>)[ ]?(?P<half>[ap]\.?m)(?![\w:])", _build_clock),
    (
        "money",
        rf"(?<![0-9a-z_.])(?P<before>{_SIGN})?[ ]?{_FIGURE}(?:[ ]?(?P<after>{_SIGN_OR_WORD}))?{_PER}",
        _build_money,
    ),
    ("percent", rf"{_NUMBER_START}{_FIGURE}[ ]?(?:%|percent(?:age points)?|per cent|pct)", _build_measure),
    ("span", rf"{_NUMBER_START}{_FIGURE}[ -]?{_UNIT}{_PER}", _build_span),
    ("size", rf"{_NUMBER_START}{_FIGURE}[ ]?(?P<unit>[kmgt]b|[kmg]ib)(?![\w])", _build_size),
    ("version", r"(?<!\w)(?:(?P<of>[a-z][a-z+#]*)[ ])?v(?P<number>[0-9]+(?:\.[0-9]+)*)(?![\w.]*[a-z])", _build_version),
    ("version", r"(?<!\w)(?P<of>[a-z][a-z+#]*)?[ ]?(?<![\w.])(?P<number>[0-9]+(?:\.[0-9]+){2,})(?!\w)", _build_version),
    ("version", r"(?<!\w)(?P<of>version)[ ](?P<number>[0-9]+(?:\.[0-9]+)*)(?!\w)", _build_version),
    ("period", rf"(?<![\w.,$€£#-]){_YEAR}", _build_year),
    ("period", rf"(?<!\w){_MONTH_ALONE}(?!\w)", _build_date),
    ("weekday", rf"(?<!\w)(?:{'|'.join(WEEKDAYS)})s?(?!\w)", _build_weekday),
    ("count", rf"(?<![0-9a-z_.,#-]){_FIGURE}(?![\w]*[0-9])", _build_count),
)
_PATTERNS = tuple((kind, re.compile(pattern), build) for kind, pattern, build in _PATTERN_TEXTS)
