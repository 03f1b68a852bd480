"""Numbers, dates and names as they are compared between a summary and its source, however they are written. Pure.

`4,200`, `4.200` and `4 200` are one number, `twelve` and `12` too; a month is the same by its name in eight languages
and in a date. Days that follow from when something was said (tomorrow, yesterday) count as told."""

from __future__ import annotations

import re
import unicodedata
from collections.abc import Iterator
from datetime import date, timedelta
from typing import Final

from memory.plugins.lcm.facts import find_names, find_values
from memory.plugins.lcm.grounding import SourceWords, guess_language
from memory.plugins.lcm.source_lines import line_times, parse_lines, strip_headers

_UNIT_TEXT: Final = """
zero null zéro cero ноль
one eins ein eine einen einem einer un une uno una um uma een один одна одно
two zwei deux dos due dois duas twee два две
three drei trois tres tre três drie три
four vier quatre cuatro quattro quatro vier четыре
five fünf cinq cinco cinque vijf пять
six sechs six seis sei zes шесть
seven sieben sept siete sette sete zeven семь
eight acht huit ocho otto oito acht восемь
nine neun neuf nueve nove negen девять
ten zehn dix diez dieci dez tien десять
eleven elf onze once undici elf одиннадцать
twelve zwölf douze doce dodici doze twaalf двенадцать
thirteen dreizehn treize trece tredici treze dertien тринадцать
fourteen vierzehn quatorze catorce quattordici catorze veertien четырнадцать
fifteen fünfzehn quinze quince quindici quinze vijftien пятнадцать
sixteen sechzehn seize dieciséis sedici dezesseis zestien шестнадцать
seventeen siebzehn dix-sept diecisiete diciassette dezessete zeventien семнадцать
eighteen achtzehn dix-huit dieciocho diciotto dezoito achttien восемнадцать
nineteen neunzehn dix-neuf diecinueve diciannove dezenove negentien девятнадцать
"""
_TENS_TEXT: Final = """
twenty zwanzig vingt veinte venti vinte twintig двадцать
thirty dreißig dreissig trente treinta trenta trinta dertig тридцать
forty vierzig quarante cuarenta quaranta quarenta veertig сорок
fifty fünfzig cinquante cincuenta cinquanta cinquenta vijftig пятьдесят
sixty sechzig soixante sesenta sessanta sessenta zestig шестьдесят
seventy siebzig septante setenta settanta zeventig семьдесят
eighty achtzig huitante ochenta ottanta oitenta tachtig восемьдесят
ninety neunzig nonante noventa novanta negentig девяносто
"""
_SCALE_TEXT: Final = """
hundred hundert cent cien ciento cento honderd сто
thousand tausend mille mil duizend тысяча тысячи тысяч
million millionen millions millón millones milione milioni milhão miljoen миллион
"""
_MONTH_TEXT: Final = """
january januar janvier enero gennaio janeiro januari январь января январе
february februar février febrero febbraio fevereiro februari февраль февраля феврале
march märz mars marzo março maart март марта марте
april avril abril aprile апрель апреля апреле
may mai mayo maggio maio mei май мая мае
june juni juin junio giugno junho июнь июня июне
july juli juillet julio luglio julho июль июля июле
august août agosto augustus август августа августе
september septembre septiembre settembre setembro сентябрь сентября сентябре
october oktober octobre octubre ottobre outubro октябрь октября октябре
november novembre noviembre novembro ноябрь ноября ноябре
december dezember décembre diciembre dicembre dezembro декабрь декабря декабре
"""


def _numbered(text: str, first: int) -> dict[str, int]:
    return {word: first + at for at, line in enumerate(text.strip().splitlines()) for word in line.split()}


_UNITS: Final = _numbered(_UNIT_TEXT, 0)
_TENS: Final = {word: 10 * value for word, value in _numbered(_TENS_TEXT, 2).items()}
_SCALES: Final = {word: 10 ** (2, 3, 6)[at] for word, at in _numbered(_SCALE_TEXT, 0).items()}
_MONTHS: Final = _numbered(_MONTH_TEXT, 1)
_WEEKDAYS: Final = ("monday", "tuesday", "wednesday", "thursday", "friday", "saturday", "sunday")

_WORD = re.compile(r"[^\W\d_]+(?:-[^\W\d_]+)*|\d[\d.,]*")
_GERMAN_NUMBER = re.compile(r"(ein|zwei|drei|vier|fünf|sechs|sieben|acht|neun)und(\w+)\Z")
_HAN = re.compile(r"[〇零一二两三四五六七八九十百千万億亿]+")
_HAN_DIGITS: Final = {sign: at for at, sign in enumerate("零一二三四五六七八九")} | {"〇": 0, "两": 2}
_HAN_SCALES: Final = {"十": 10, "百": 100, "千": 1_000}
_GROUP_SPACE = re.compile(r"(?<=\d)[ \u00a0\u202f](?=\d{3}(?!\d))")
_ISO_DATE = re.compile(r"\b(\d{4})-(\d{2})-(\d{2})\b")
_DAY_AND_MONTH = re.compile(r"\b(\d{1,2})[./](\d{1,2})(?:[./]|\b)")
_PARTS = re.compile(r"[^\d.,]+")
_REFERENCE = re.compile(r"#\d+(?:\s*[–-]\s*#?\d+)?|\bmessages? \d+(?:(?:\s*[–-]\s*|, | and )\d+)*")
"""Numbers of messages, which stand before each line."""

_TITLE = re.compile(r"\b(?:herr|herrn|frau|dr\.?|prof\.?)\s+\Z", re.IGNORECASE)


class SourceValues:
    """What a source says of numbers, dates and names."""

    def __init__(self, source: str, words: SourceWords) -> None:
        self._words = words
        said = "\n".join(line.text for line in parse_lines(source))
        text = _join_groups(said)
        self._numbers = {form for value in find_values(text) for form in _forms(value)}
        self._numbers.update(form for value in re.findall(r"\d[\d.,]*", text) for form in _forms(value))
        self._numbers.update(str(number) for number in _spoken_numbers(said))
        self._days = [
            date(*map(int, match)) for match in _ISO_DATE.findall(f"{line_times(source)} {said}") if _is_day(match)
        ]
        near_days = {day + timedelta(step) for day in self._days for step in (-1, 0, 1) if date.min < day < date.max}
        self._numbers.update(str(part) for day in near_days for part in (day.year, day.month, day.day))
        self._numbers.update(form for value in re.findall(r"\d+", line_times(source)) for form in _forms(value))
        folded = said.casefold()
        self._months = {_MONTHS[word] for word in _WORD.findall(folded) if word in _MONTHS}
        self._months.update(day.month for day in near_days)
        self._months.update(int(month) for _, month in _DAY_AND_MONTH.findall(said))
        self._weekdays = {_WEEKDAYS[day.weekday()] for day in near_days}
        self._text = unicodedata.normalize(
            "NFKC", f"{strip_headers(source)} {' '.join(one.speaker for one in parse_lines(source))}"
        ).casefold()

    def inventions(self, text: str) -> list[str]:
        """Numbers, dates, amounts and names of a text that the source does not have, as they stand there."""
        return list(dict.fromkeys([*self._invented_numbers(text), *self._invented_names(text)]))

    def _invented_numbers(self, text: str) -> Iterator[str]:
        for value in find_values(_join_groups(_REFERENCE.sub(" ", text))):
            digits = [part for part in _PARTS.split(value) if any(sign.isdigit() for sign in part)]
            is_told = (
                not digits
                or value.casefold().strip(".,:;") in self._text
                or not self._numbers.isdisjoint(_forms(value))
            )
            if not is_told and not all(not self._numbers.isdisjoint(_forms(part)) for part in digits):
                yield value.strip(".,:;")

    def _invented_names(self, text: str) -> Iterator[str]:
        is_german = guess_language(text) == "de"
        for name, place in find_names(text):
            parts = [part for part in name.lstrip("@").split() if part]
            unknown = [part for part in parts if not self._is_known(part)]
            has_title = _TITLE.search(text[:place]) is not None
            if unknown and (not is_german or has_title or name.startswith("@") or len(unknown) == len(parts) >= 2):
                yield name

    def _is_known(self, name: str) -> bool:
        """A part of a name that the source has, a month or weekday that follows from it, or what is nobody's name."""
        folded = unicodedata.normalize("NFKC", name).casefold().removesuffix("'s").removesuffix("’s")
        if folded in _MONTHS:
            return _MONTHS[folded] in self._months
        if folded in _WEEKDAYS and folded in self._weekdays:
            return True
        return folded in COMMON_NAMES or folded in self._text or bool(self._words.matches_literally(folded))


COMMON_NAMES: Final = frozenset(
    [
        "user",
        "users",
        "assistant",
        "agent",
        "team",
        "summary",
        "conversation",
        "meeting",
        "thread",
        "message",
        "messages",
        "status",
        "next",
        "step",
        "steps",
        "open",
        "question",
        "questions",
        "decision",
        "decisions",
        "ai",
        "api",
        "url",
        "id",
        "ok",
        "utc",
    ]
)
"""Words that summaries write with a capital and that name nobody."""


def _is_day(parts: tuple[str, str, str]) -> bool:
    year, month, day = map(int, parts)
    return (1 < year < 9_999 and 1 <= month <= 12 and 1 <= day <= 28) or (
        day <= 31 and month in (1, 3, 5, 7, 8, 10, 12) and year > 1
    )


def _join_groups(text: str) -> str:
    """The text with `4 200` as `4200`."""
    return _GROUP_SPACE.sub("", text)


def _forms(value: str) -> Iterator[str]:
    """How a number is compared: its digits, without the zeros after a decimal sign, and without leading ones."""
    digits = "".join(sign for sign in unicodedata.normalize("NFKC", value) if sign.isdigit())
    if digits:
        yield digits
        yield digits.lstrip("0") or "0"
        decimal = re.search(r"[.,](\d{1,2})\D*\Z", value)
        if decimal:
            yield digits.rstrip("0") or "0"
            if not int(decimal[1]):
                yield digits[: -len(decimal[1])]


def _spoken_numbers(text: str) -> Iterator[int]:
    """Numbers written in words: each word's, and those of words that follow each other."""
    for run in _HAN.findall(text):
        yield from _han_values(run)
    total = last = 0
    for word in _WORD.findall(text.casefold()):
        value = _word_value(word)
        if word in _SCALES:
            yield _SCALES[word]
            total = (total or 1) * _SCALES[word]
            last = 0
            yield total
        elif value is None:
            if word not in ("and", "y", "und", "et", "e"):
                total = last = 0
        else:
            yield value
            if last:
                yield int(f"{last}{value}")  # twelve fifty
            total, last = total + value, value
            yield total


def _word_value(word: str) -> int | None:
    if word.isdigit() and len(word) <= 12:
        return int(word)
    if word in _UNITS or word in _TENS:
        return _UNITS.get(word, _TENS.get(word))
    german = _GERMAN_NUMBER.match(word)
    if german and german[2] in _TENS:
        return _TENS[german[2]] + _UNITS[german[1]]
    parts = [_UNITS.get(part, _TENS.get(part)) for part in word.split("-")]
    known = [part for part in parts if part is not None]
    return sum(known) if len(parts) > 1 and len(known) == len(parts) else None


def _han_values(run: str) -> Iterator[int]:
    """Yields the values of a number in Chinese signs: of 二十八万 both 280,000 and the 28 before its last sign."""
    total = section = digit = 0
    for sign in run:
        if sign in _HAN_DIGITS:
            digit = _HAN_DIGITS[sign]
        elif sign in _HAN_SCALES:
            section += (digit or 1) * _HAN_SCALES[sign]
            digit = 0
        else:
            yield section + digit
            total = (total + section + digit) * (10_000 if sign == "万" else 100_000_000)
            section = digit = 0
    yield total + section + digit
