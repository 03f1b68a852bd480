"""Numbers, money, shares, durations, dates and times of day that a sentence states, and whether two of them differ.
Pure.

English first: words such as "percent" or "March" are English, figures, signs and ISO dates are anybody's."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace


@dataclass(frozen=True, slots=True)
class Quantity:
    """Something stated that can be another: `text` as it stands in the text, from `start` to `end`.

    `kind`: money, percent, span, clock, date, period, weekday, size, version or count. `low` and `high` are equal
    but for ranges; `parts` of dates are year, month and day, 0 where unsaid. `bound`: "=", ">" (at least), "<".
    """

    kind: str
    text: str
    start: int
    end: int
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
    tolerance = (
        0.1
        if one.is_approximate or other.is_approximate
        else 0.04
        if one.kind == "span" and one.unit != other.unit
        else 1e-9
    )
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


MONTHS = (
    "january",
    "february",
    "march",
    "april",
    "may",
    "june",
    "july",
    "august",
    "september",
    "october",
    "november",
    "december",
)
WEEKDAYS = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")
_NUMBER_VALUES = {
    "two": 2,
    "three": 3,
    "four": 4,
    "five": 5,
    "six": 6,
    "seven": 7,
    "eight": 8,
    "nine": 9,
    "ten": 10,
    "eleven": 11,
    "twelve": 12,
    "fifteen": 15,
    "twenty": 20,
    "thirty": 30,
    "forty": 40,
    "fifty": 50,
    "sixty": 60,
    "ninety": 90,
}
_SECONDS = {
    "millisecond": 0.001,
    "second": 1,
    "minute": 60,
    "hour": 3600,
    "day": 86_400,
    "week": 604_800,
    "month": 2_592_000,
    "year": 31_536_000,
}
_SHORT_UNITS = {
    "ms": "millisecond",
    "s": "second",
    "sec": "second",
    "min": "minute",
    "h": "hour",
    "hr": "hour",
    "d": "day",
    "mo": "month",
    "yr": "year",
}
_BYTES = {"kb": 1e3, "mb": 1e6, "gb": 1e9, "tb": 1e12, "kib": 1024, "mib": 1024**2, "gib": 1024**3}
_MULTIPLIERS = {"k": 1e3, "thousand": 1e3, "m": 1e6, "million": 1e6, "bn": 1e9, "billion": 1e9, "hundred": 100}
_CURRENCIES = {
    "$": "usd",
    "€": "eur",
    "£": "gbp",
    "¥": "jpy",
    "₹": "inr",
    "dollar": "usd",
    "euro": "eur",
    "pound": "gbp",
    "美元": "usd",
    "元": "cny",
    "円": "jpy",
}

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
MONTH_NUMBERS = {name[:3]: place for place, name in enumerate(MONTHS, 1)}


def extract_quantities(text: str) -> list[Quantity]:
    """All that the text states, in order. `text` is one sentence or clause, of any case; linear in its length."""
    remaining = _words_to_digits(text)
    extracted: list[Quantity] = []
    for kind, pattern, build in _PATTERNS:
        for match in pattern.finditer(remaining):
            quantity = build(kind, match, remaining)
            if quantity is not None:
                extracted.append(quantity)
                remaining = (
                    remaining[: match.start()] + "\x01" * (match.end() - match.start()) + remaining[match.end() :]
                )
    in_order = sorted(extracted, key=lambda one: one.start)
    return [_with_source_text(one, text) for one in in_order]


# --- reading ------------------------------------------------------------------------------------------------
_NUMBER_WORDS = re.compile(
    rf"\b(?:{'|'.join(_NUMBER_VALUES)}|one(?= [a-z]{{3,}}))\b"
    r"(?! (?:or|and|another|thing|who|that|can|should|has|must|may|will|was)\b)"
)


def _words_to_digits(text: str) -> str:
    """Lower case, with number words as figures, in the same number of characters."""
    lowered = "".join(one if len(one) == 1 else "?" for one in map(str.lower, text))
    return _NUMBER_WORDS.sub(lambda match: str(_NUMBER_VALUES.get(match[0], 1)).rjust(len(match[0])), lowered)


def _with_source_text(one: Quantity, text: str) -> Quantity:
    start = one.start
    while start and text[start - 1].isalpha() and text[start - 1].isascii() and text[start].isalpha():
        start -= 1  # a number word: its figure stands at its end
    said = " ".join(text[start : one.end].split())
    return replace(one, text=said, start=start)


def parse_number(text: str) -> float:
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
    low = parse_number(match["low"]) * _MULTIPLIERS.get(groups.get("times1") or "", 1)
    if not groups.get("high"):
        return low, low
    times = _MULTIPLIERS.get(groups.get("times2") or "", 1)
    high = parse_number(match["high"]) * times
    return (low * times if not groups.get("times1") and times > 1 else low), high


def _build_measure(kind: str, match: re.Match[str], text: str, *, unit: frozenset[str], factor: float = 1) -> Quantity:
    low, high = _parse_range(match)
    preceding = text[max(0, match.start() - 24) : match.start()].replace("\x01", " ")
    bound = ">" if _AT_LEAST.search(preceding) else "<" if _AT_MOST.search(preceding) else "="
    per = frozenset(_singular(word) for word in re.findall(r"[a-z]+", match.groupdict().get("per") or "")) - _PER_WORDS
    return Quantity(
        kind,
        "",
        match.start(),
        match.end(),
        low * factor,
        high * factor,
        unit,
        per,
        bound,
        bool(_ROUGHLY.search(preceding)),
    )


_PER_WORDS = frozenset(("per", "each", "every", "a", "an"))
_PERIODS = {
    "monthly": "month",
    "yearly": "year",
    "annually": "year",
    "daily": "day",
    "weekly": "week",
    "hourly": "hour",
    "mo": "month",
    "yr": "year",
    "annum": "year",
}


def _singular(word: str) -> str:
    word = _PERIODS.get(word, word)
    return word[:-1] if word.endswith("s") and len(word) > 3 and not word.endswith("ss") else word


def _build_money(kind: str, match: re.Match[str], text: str) -> Quantity | None:
    sign = match["before"] or match["after"]
    if not sign:
        return None
    sign = sign.strip()
    return _build_measure(kind, match, text, unit=frozenset([_CURRENCIES.get(sign.removesuffix("s"), sign)]))


def _build_percent(kind: str, match: re.Match[str], text: str) -> Quantity:
    return _build_measure(kind, match, text, unit=frozenset())


def _build_span(kind: str, match: re.Match[str], text: str) -> Quantity | None:
    unit = match["unit"].split(" ")[-1]
    unit = _SHORT_UNITS.get(unit) or _SHORT_UNITS.get(unit.removesuffix("s")) or unit.removesuffix("s")
    return _build_measure(kind, match, text, unit=frozenset([unit]), factor=_SECONDS[unit])


def _build_size(kind: str, match: re.Match[str], text: str) -> Quantity:
    return _build_measure(kind, match, text, unit=frozenset(["byte"]), factor=_BYTES[match["unit"]])


def _build_date(kind: str, match: re.Match[str], _text: str) -> Quantity | None:
    groups = match.groupdict()
    month = groups.get("month") or ""
    parts = (int(groups.get("year") or 0), MONTH_NUMBERS[month[:3]] if month else 0, int(groups.get("day") or 0))
    return Quantity(kind, "", match.start(), match.end(), parts=(*parts, 0)) if parts[2] <= 31 else None


_YEARS_FOLLOW_TEXT = """
in since until till by from for of during through fy year early late mid before after to and
"""
_YEARS_FOLLOW = frozenset(_YEARS_FOLLOW_TEXT.split())


def _build_year(kind: str, match: re.Match[str], text: str) -> Quantity | None:
    """Four figures are a year after such a word, or where the phrase ends; else they count something."""
    preceding = re.findall(r"[a-z]+\W*$", text[max(0, match.start() - 12) : match.start()])
    phrase_end = re.match(r"\s*(?:$|[^\w\s])", text[match.end() :])
    if not phrase_end and (not preceding or preceding[0].strip(" (-,") not in _YEARS_FOLLOW):
        return None
    return _build_date(kind, match, text)


def _build_iso(kind: str, match: re.Match[str], _text: str) -> Quantity:
    return Quantity(kind, "", match.start(), match.end(), parts=(int(match[1]), int(match[2]), int(match[3]), 0))


def _build_quarter(kind: str, match: re.Match[str], _text: str) -> Quantity:
    return Quantity(kind, "", match.start(), match.end(), parts=(int(match["year"] or 0), 0, 0, int(match["quarter"])))


def _build_clock(kind: str, match: re.Match[str], _text: str) -> Quantity | None:
    hour, minute, half = int(match["hour"]), int(match["minute"] or 0), (match["half"] or "").replace(".", "")
    if hour > 24 or minute > 59:
        return None
    hour = hour % 12 + (12 if half == "pm" else 0) if half else hour
    return Quantity(kind, "", match.start(), match.end(), hour * 60 + minute, hour * 60 + minute)


def _build_weekday(kind: str, match: re.Match[str], _text: str) -> Quantity:
    day = WEEKDAYS.index(match[0].removesuffix("s"))
    return Quantity(kind, "", match.start(), match.end(), day, day)


def _build_version(kind: str, match: re.Match[str], _text: str) -> Quantity:
    numbers = [int(part[:6]) for part in match["number"].split(".")]
    place = sum(part / 1e4**depth for depth, part in enumerate(numbers))
    return Quantity(
        kind, "", match.start(), match.end(), place, place, frozenset([match["of"] or ""]) - {"", "version"}
    )


def _build_count(kind: str, match: re.Match[str], text: str) -> Quantity:
    words = (word for word in re.findall(r"[^\W\d_]+", text[match.end() : match.end() + 40].split("\x01")[0])[:2])
    unit = []
    for word in words:
        if word in _NO_UNIT:
            break
        unit.append(_singular(word))
    return _build_measure(kind, match, text, unit=frozenset(unit))


_NO_UNIT_TEXT = """
and or but of in on at to for from by with per is are was were be if when then than so as the a an each every not no
now only until till after before since instead because which that who while including included plus
"""
_NO_UNIT = frozenset(_NO_UNIT_TEXT.split())
_Builder = Callable[[str, re.Match[str], str], Quantity | None]


def _patterns() -> Iterator[tuple[str, re.Pattern[str], _Builder]]:
    sign, word = (
        r"[$€£¥₹]|usd|eur|gbp|chf|jpy|inr|cad|aud",
        r"[$€£¥₹]|(?:usd|eur|gbp|chf|jpy|inr|cad|aud)(?!\w)|dollars?|euros?|pounds?|美元|元|円",
    )
    yield "date", re.compile(r"(?<!\w)((?:19|20)[0-9]{2})-([01][0-9])-([0-3][0-9])(?![0-9])"), _build_iso
    yield (
        "date",
        re.compile(rf"{_NUMBER_START}(?P<day>[0-9]{{1,2}})(?:st|nd|rd|th)?[ ](?:of[ ])?{_MONTH}(?:,?[ ]{_YEAR})?"),
        _build_date,
    )
    yield (
        "date",
        re.compile(rf"(?<!\w){_MONTH}[ ](?P<day>[0-9]{{1,2}})(?:st|nd|rd|th)?(?![0-9:])(?:,?[ ]{_YEAR})?"),
        _build_date,
    )
    yield "period", re.compile(rf"(?<!\w){_MONTH}[ ]{_YEAR}"), _build_date
    yield "period", re.compile(rf"(?<!\w)q(?P<quarter>[1-4])(?!\w)(?:[ ]?(?:of[ ])?{_YEAR})?"), _build_quarter
    yield (
        "clock",
        re.compile(
            rf"{_NUMBER_START}(?P<hour>[0-9]{{1,2}}):(?P<minute>[0-9]{{2}})(?::[0-9]{{2}})?"
            r"[ ]?(?P<half>[ap]\.?m)?(?![\w:])"
        ),
        _build_clock,
    )
    yield (
        "clock",
        re.compile(rf"{_NUMBER_START}(?P<hour>[0-9]{{1,2}})(?P<minute>)[ ]?(?P<half>[ap]\.?m)(?![\w:])"),
        _build_clock,
    )
    yield (
        "money",
        re.compile(rf"(?<![0-9a-z_.])(?P<before>{sign})?[ ]?{_FIGURE}(?:[ ]?(?P<after>{word}))?{_PER}"),
        _build_money,
    )
    yield (
        "percent",
        re.compile(rf"{_NUMBER_START}{_FIGURE}[ ]?(?:%|percent(?:age points)?|per cent|pct)"),
        _build_percent,
    )
    yield "span", re.compile(rf"{_NUMBER_START}{_FIGURE}[ -]?{_UNIT}{_PER}"), _build_span
    yield "size", re.compile(rf"{_NUMBER_START}{_FIGURE}[ ]?(?P<unit>[kmgt]b|[kmg]ib)(?![\w])"), _build_size
    yield (
        "version",
        re.compile(r"(?<!\w)(?:(?P<of>[a-z][a-z+#]*)[ ])?v(?P<number>[0-9]+(?:\.[0-9]+)*)(?![\w.]*[a-z])"),
        _build_version,
    )
    yield (
        "version",
        re.compile(r"(?<!\w)(?P<of>[a-z][a-z+#]*)?[ ]?(?<![\w.])(?P<number>[0-9]+(?:\.[0-9]+){2,})(?!\w)"),
        _build_version,
    )
    yield "version", re.compile(r"(?<!\w)(?P<of>version)[ ](?P<number>[0-9]+(?:\.[0-9]+)*)(?!\w)"), _build_version
    yield "period", re.compile(rf"(?<![\w.,$€£#-]){_YEAR}"), _build_year
    yield "period", re.compile(rf"(?<!\w){_MONTH_ALONE}(?!\w)"), _build_date
    yield "weekday", re.compile(rf"(?<!\w)(?:{'|'.join(WEEKDAYS)})s?(?!\w)"), _build_weekday
    yield "count", re.compile(rf"(?<![0-9a-z_.,#-]){_FIGURE}(?![\w]*[0-9])"), _build_count


_PATTERNS = tuple(_patterns())
