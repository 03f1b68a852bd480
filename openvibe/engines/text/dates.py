"""Dates in a question: the days that "on 14 March", "last spring", "vor zwei Wochen" or 昨日 mean. Pure.

A grammar of our own for eleven languages rather than a library: a question is read in some ten microseconds, where the
library for the same takes tens of milliseconds and some seconds to load, and it knows no "last spring". A question
asks about what was: where a year or a week is not said, the latest day up to the day of asking is meant. Words that
mean something else as a rule ("may", "march", "Mars") count beside a day, a year or a preposition alone; what comes
again and again ("every Friday") is no date."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from datetime import date, timedelta
from functools import lru_cache, partial
from typing import Final, NamedTuple

MAX_DATED_CHARACTERS: Final = 600
"""Characters of a question that are read: in a longer one dates are rather pasted than asked for."""

MAX_DATES: Final = 8


class DateRange(NamedTuple):
    """Days, the first and the last included."""

    first: date
    last: date


_DAY: Final = timedelta(days=1)


def _names(text: str) -> dict[str, int]:
    """Each name with its place, counted over the lines from 1; those of one line mean the same."""
    return {name: place for place, line in enumerate(text.strip().splitlines(), 1) for name in line.split()}


MONTHS: Final = _names(
    """
january jan januar jänner janvier enero gennaio janeiro januari января январе январь
february feb februar février fevrier février febrero febbraio fevereiro februari февраля феврале февраль
march mar märz maerz mars marzo março marco maart марта марте март
april apr avril abril aprile апреля апреле апрель
may mai mayo maggio maio mei мая мае май
june jun juni juin junio giugno junho июня июне июнь
july jul juli juillet julio luglio julho июля июле июль
august aug août aout agosto augustus августа августе август
september sep sept septembre septiembre settembre setembro сентября сентябре сентябрь
october oct oktober okt octobre octubre ottobre outubro октября октябре октябрь
november nov novembre noviembre novembro ноября ноябре ноябрь
december dec dezember dez décembre decembre diciembre dicembre dezembro декабря декабре декабрь
"""
)
_UNCERTAIN_MONTHS: Final = _names(
    """
may march mars mar mai mei marco april june jan feb jun jul aug sep sept oct nov dec okt dez apr august
мае май марте март mayo maggio
"""
)
"""Names of months that are words or names of people as well: they count beside a day, a year or a preposition."""

WEEKDAYS: Final = _names(
    """
monday montag lundi lunes lunedì lunedi segunda-feira maandag понедельник
tuesday dienstag mardi martes martedì martedi terça-feira dinsdag вторник
wednesday mittwoch mercredi miércoles miercoles mercoledì mercoledi quarta-feira woensdag среду
thursday donnerstag jeudi jueves giovedì giovedi quinta-feira donderdag четверг
friday freitag vendredi viernes venerdì venerdi sexta-feira vrijdag пятницу
saturday samstag sonnabend samedi sábado sabado sabato zaterdag субботу
sunday sonntag dimanche domingo domenica zondag воскресенье
"""
)
_WEEKDAY_SIGNS: Final = "月火水木金土日"
_WEEKDAY_NUMBERS: Final = "一二三四五六日"

SEASONS: Final = _names(
    """
spring frühling frühjahr fruehling printemps primavera lente voorjaar весной
summer sommer été ete verano estate verão verao zomer летом
autumn fall herbst automne otoño otono autunno outono herfst осенью
winter hiver invierno inverno зимой
"""
)

NUMBERS: Final = {
    name: place % 13
    for name, place in _names(
        """
one a an ein eine einem einer einen un une una uno um uma een één один одну
two zwei deux dos due dois duas twee два две couple
three drei trois tres tre três drie три
four vier quatre cuatro quattro quatro четыре
five fünf fuenf cinq cinco cinque vijf пять
six sechs seis sei zes шесть
seven sieben sept siete sette sete zeven семь
eight acht huit ocho otto oito восемь
nine neun neuf nueve nove negen девять
ten zehn dix diez dieci dez tien десять
eleven elf onze once undici одиннадцать
twelve zwölf zwoelf douze doce dodici doze twaalf двенадцать
"""
    ).items()
}

UNITS: Final = _names(
    """
day days tag tage tagen jour jours día dias días dia giorno giorni dag dagen день дня дней
week weeks woche wochen semaine semaines semana semanas settimana settimane weken неделю недели недель
month months monat monate monaten mois mes meses mese mesi mês maand maanden месяц месяца месяцев
year years jahr jahre jahren an ans année années año años anno anni ano anos jaar год года лет
"""
)
_UNIT_DAYS: Final = (0, 1, 7, 30, 365)
_UNIT_SLACK: Final = (0, 0, 3, 10, 60)
"""Days around what is counted in days, weeks, months, years: "two weeks ago" is seldom fourteen days."""

_DAYS_BACK: Final = {
    word: back
    for back, words in (
        (0, "today|tonight|this morning|this afternoon|this evening|heute|aujourd'hui|aujourd’hui|hoy|oggi|hoje"),
        (0, "vandaag|сегодня|今日|今天|오늘|今朝|ce matin|esta mañana|stamattina|heute morgen|vanochtend"),
        (1, "yesterday|last night|gestern|hier|ayer|anoche|ieri|ontem|gisteren|вчера|昨日|昨天|어제|昨夜"),
        (
            2,
            "the day before yesterday|vorgestern|avant-hier|anteayer|antes de ayer|l'altro ieri|l’altro ieri|anteontem",
        ),
        (2, "eergisteren|позавчера|一昨日|おととい|前天|그저께"),
    )
    for word in words.split("|")
}

_LAST: Final = (
    r"last|past|previous|letzten?[rsm]?|vorigen?[rsm]?|vergangenen?[rsm]?|dernière?|passée?|pasad[oa]|últim[oa]|scors[oa]"
    r"|passat[oa]|passad[oa]|vorige?|afgelopen|прошл\w+"
)
_THIS: Final = r"this|diesen?[rsm]?|cet|cette|ce|est[ea]|quest[oa]|deze|dit|этом?|этой|эту"
_NEXT: Final = r"next|coming|nächsten?[rsm]?|kommenden?[rsm]?|prochaine?|próxim[oa]|prossim[oa]|volgende?|следующ\w+"
_EARLY: Final = r"early|beginning of|start of|anfang|début|debut|a principios de|principios de|inizio|início de|begin"
_MIDDLE: Final = r"mid|middle of|mitte|mi|mediados de|metà|meados de|half|midden"
_LATE: Final = r"late|end of|ende|fin|finales de|fine|fim de|eind"
_PREPOSITION: Final = (
    r"in|on|of|by|since|during|until|till|before|after|from|around|im|am|vom|seit|bis|ab|um|gegen|en|au|du|le|de"
    r"|d'|depuis|pendant|avant|après|el|del|desde|durante|hasta|a|ad|di|nel|dal|il|em|no|do|até|op|van|sinds|tot|rond"
    r"|в|с|до|после|около"
)
_EVERY: Final = (
    r"every|each|any|most|jeden?[rsm]?|alle|chaque|tous les|toutes les|cada|todos los|todas las|ogni|tutti i|todos os"
    r"|elke?|iedere?|каждый|каждую|каждое"
)
_AGO_BEFORE: Final = r"vor|il y a|hace|há|fa|geleden"


def _any_of(names: Mapping[str, object]) -> str:
    return "|".join(re.escape(name) for name in sorted(names, key=len, reverse=True))


_NUMBER: Final = rf"\d{{1,3}}|(?:a )?{_any_of(NUMBERS)}"
_MONTH, _UNIT, _WEEKDAY, _SEASON = (_any_of(each) for each in (MONTHS, UNITS, WEEKDAYS, SEASONS))
_DAY_NUMBER: Final = r"(?:0?[1-9]|[12]\d|3[01])"
_YEAR: Final = r"(?:19|20)\d\d"
_LAST_YEAR: Final = (
    r"last year|letzte[sn] jahre?s?|vorige[sn] jahre?s?|l'an dernier|l'année dernière|año pasado"
    r"|(?:dell|l)'anno scorso|ano passado|vorig jaar|прошлого года|в прошлом году"
)
_OF_YEAR: Final = rf"(?:(?P<year>{_YEAR})|(?P<last_year>{_LAST_YEAR}))"
_DAY_OF_MONTH: Final = rf"(?:the )?(?P<day>{_DAY_NUMBER})(?:st|nd|rd|th|er|º|\.|-?го)?(?: of| de| di| d')?\s*"
_PART: Final = rf"(?:(?:the )?(?:(?P<early>{_EARLY})|(?P<middle>{_MIDDLE})|(?P<late>{_LATE}))(?: de)?[ -])?"
_BEFORE: Final = r"(?<![\w.,:/-])"
_AFTER: Final = r"(?![\w-]|[.,:/]\d)"

Reading = Callable[[re.Match[str], date], "DateRange | tuple[DateRange, ...] | None"]
"""What a match means to somebody who asks on a day; None where it is no date."""


def _latest(make: Callable[[int], date], asked_on: date) -> date | None:
    """The day of the latest year that is not after the day of asking; None where no year has it."""
    for year in range(asked_on.year, asked_on.year - 9, -1):
        with suppress(ValueError):
            if make(year) <= asked_on:
                return make(year)
    return None


def _make_date(month: int, day: int, year: int) -> date:
    return date(year, month, day)


def _month_range(year: int, month: int) -> DateRange:
    following = date(year + month // 12, month % 12 + 1, 1)
    return DateRange(date(year, month, 1), following - _DAY)


def _one_day(day: date | None) -> DateRange | None:
    return None if day is None else DateRange(day, day)


def _read_iso(match: re.Match[str], asked_on: date) -> DateRange | None:
    year, month = int(match["year"]), int(match["month"])
    return _one_day(date(year, month, int(match["day"]))) if match["day"] else _month_range(year, month)


def _read_numbers(match: re.Match[str], asked_on: date) -> tuple[DateRange, ...]:
    """Day and month in the order in which they may stand: both orders where both are a date."""
    first, second = int(match["first"]), int(match["second"])
    year = int(match["year"]) if match["year"] else 0
    year += 2_000 if 0 < year < 100 else 0
    ranges = []
    for day, month in ((first, second), (second, first)) if match["sign"] == "/" else ((first, second),):
        with suppress(ValueError):
            at = date(year, month, day) if year else _latest(partial(_make_date, month, day), asked_on)
            ranges += [DateRange(at, at)] if at else []
    return tuple(dict.fromkeys(ranges))


def _read_month(match: re.Match[str], asked_on: date) -> DateRange | None:
    groups = match.groupdict()
    name = groups["month"].lower()
    month, day = MONTHS[name], groups["day"]
    year = str(asked_on.year - 1) if groups["last_year"] else groups["year"]
    is_qualified = any(groups.get(each) for each in ("preposition", "last", "early", "middle", "late"))
    if name in _UNCERTAIN_MONTHS and not (day or year or is_qualified):
        return None
    if day:
        if year:
            return _one_day(date(int(year), month, int(day)))
        return _one_day(_latest(lambda of_year: date(of_year, month, int(day)), asked_on))
    first = date(int(year), month, 1) if year else _latest(lambda of_year: date(of_year, month, 1), asked_on)
    if first is None:
        return None
    whole = _month_range(first.year, month)
    if groups.get("early"):
        return DateRange(whole.first, whole.first + 9 * _DAY)
    if groups.get("middle"):
        return DateRange(whole.first + 9 * _DAY, whole.first + 19 * _DAY)
    return DateRange(whole.last - 10 * _DAY, whole.last) if groups.get("late") else whole


def _read_months(match: re.Match[str], asked_on: date) -> DateRange | None:
    """The days from a month to another, of the latest year in which the first has begun."""
    first_month, last_month = MONTHS[match["first"].lower()], MONTHS[match["last"].lower()]
    if match["year"]:
        year = int(match["year"]) - (first_month > last_month)
    else:
        year = asked_on.year - (first_month > asked_on.month)
    return DateRange(date(year, first_month, 1), _month_range(year + (first_month > last_month), last_month).last)


def _read_weekday(match: re.Match[str], asked_on: date) -> DateRange | None:
    groups = match.groupdict()
    back = (asked_on.weekday() - (WEEKDAYS[groups["weekday"].lower()] - 1)) % 7
    if groups["next"]:
        return _one_day(asked_on + (7 - back) * _DAY)
    return _one_day(asked_on - (back or 7) * _DAY)


def _read_days_back(match: re.Match[str], asked_on: date) -> DateRange | None:
    return _one_day(asked_on - _DAYS_BACK[" ".join(match[0].lower().split())] * _DAY)


def _read_ago(match: re.Match[str], asked_on: date) -> DateRange | None:
    said, unit = match["number"].lower().removeprefix("a "), UNITS[match["unit"].lower()]
    number = int(said) if said.isdigit() else NUMBERS[said]
    at, slack = asked_on - number * _UNIT_DAYS[unit] * _DAY, _UNIT_SLACK[unit] * _DAY
    return DateRange(at - slack, min(at + slack, asked_on))


def _read_span(match: re.Match[str], asked_on: date) -> DateRange | None:
    """The last so many days, weeks, months or years."""
    said, unit = match["number"].lower().removeprefix("a "), UNITS[match["unit"].lower()]
    number = int(said) if said.isdigit() else NUMBERS[said]
    return DateRange(asked_on - number * _UNIT_DAYS[unit] * _DAY, asked_on)


def _read_unit(match: re.Match[str], asked_on: date) -> DateRange | None:
    """The week, month or year before, or that of the day of asking."""
    unit, is_last = UNITS[(match["unit"] or match["unit_before"]).lower()], not match["this"]
    if unit == UNITS["day"]:
        return None
    if unit == UNITS["week"]:
        monday = asked_on - (asked_on.weekday() + 7 * is_last) * _DAY
        return DateRange(monday, monday + 6 * _DAY)
    if unit == UNITS["month"]:
        last_day = asked_on.replace(day=1) - _DAY
        return _month_range(last_day.year, last_day.month) if is_last else _month_range(asked_on.year, asked_on.month)
    return _year_range(asked_on.year - is_last)


def _read_weekend(match: re.Match[str], asked_on: date) -> DateRange | None:
    saturday = asked_on - ((asked_on.weekday() - 5) % 7) * _DAY
    return DateRange(saturday - _DAY, saturday + _DAY)


def _year_range(year: int) -> DateRange:
    return DateRange(date(year, 1, 1), date(year, 12, 31))


def _read_year(match: re.Match[str], asked_on: date) -> DateRange | None:
    return _year_range(int(match["year"]))


def _read_season(match: re.Match[str], asked_on: date) -> DateRange | None:
    """Three months, as the northern half of the world has them: winter begins in December."""
    month = 3 * SEASONS[match["season"].lower()]
    if match["year"]:
        first: date | None = date(int(match["year"]), month, 1)
    else:
        first = _latest(lambda of_year: date(of_year, month, 1), asked_on)
    return None if first is None else DateRange(first, first + 91 * _DAY)


def _read_quarter(match: re.Match[str], asked_on: date) -> DateRange | None:
    month = 3 * int(match["quarter"]) - 2
    first = date(int(match["year"]), month, 1) if match["year"] else _latest(lambda y: date(y, month, 1), asked_on)
    return None if first is None else DateRange(first, _month_range(first.year, month + 2).last)


def _read_feast(match: re.Match[str], asked_on: date) -> DateRange | None:
    month, day = (10, 31) if match["halloween"] else (12, 31) if match["new_year"] else (12, 24)
    first = _latest(lambda of_year: date(of_year, month, day), asked_on)
    return None if first is None else DateRange(first, first + 2 * _DAY)


def _read_signs(match: re.Match[str], asked_on: date) -> DateRange | None:
    """2025年3月14日, 3月, 3월 14일."""
    month, day = int(match["month"]), match["day"]
    if match["year"]:
        return _one_day(date(int(match["year"]), month, int(day))) if day else _month_range(int(match["year"]), month)
    first = _latest(lambda of_year: date(of_year, month, int(day or 1)), asked_on)
    return None if first is None else _one_day(first) if day else _month_range(first.year, month)


def _read_weekday_sign(match: re.Match[str], asked_on: date) -> DateRange | None:
    """月曜日, 星期一, 上周一."""
    sign = match[0].removesuffix("曜日").removesuffix("曜")[-1].replace("天", "日")
    place = (_WEEKDAY_SIGNS if "曜" in match[0] else _WEEKDAY_NUMBERS).index(sign)
    return _one_day(asked_on - ((asked_on.weekday() - place) % 7 or 7) * _DAY)


def _read_unit_signs(match: re.Match[str], asked_on: date) -> DateRange | None:
    name = match[0]
    if name in ("先週", "上周", "上週", "上个星期", "지난주"):
        monday = asked_on - (asked_on.weekday() + 7) * _DAY
        return DateRange(monday, monday + 6 * _DAY)
    if name in ("去年", "昨年", "작년"):
        return _year_range(asked_on.year - 1)
    last_day = asked_on.replace(day=1) - _DAY
    return _month_range(last_day.year, last_day.month)


def _pattern(text: str) -> re.Pattern[str]:
    return re.compile(text, re.IGNORECASE)


_TO: Final = "to|and|until|till|through|bis|und|à|au|et|y|a|al|hasta|e|até|tot|en|–|—|-"
_FROM: Final = "between|from|zwischen|vom?|entre|du|desde|del?|tra|fra|dal|das|tussen|van"
_GRAMMAR: Final[tuple[tuple[re.Pattern[str], Reading], ...]] = (
    (
        _pattern(
            rf"{_BEFORE}(?:{_FROM}|{_PREPOSITION}) (?P<first>{_MONTH}) (?:{_TO}) (?P<last>{_MONTH})"
            rf"(?: (?:de )?(?P<year>{_YEAR}))?{_AFTER}"
        ),
        _read_months,
    ),
    (_pattern(rf"{_BEFORE}(?P<year>{_YEAR})-(?P<month>0[1-9]|1[0-2])(?:-(?P<day>{_DAY_NUMBER}))?{_AFTER}"), _read_iso),
    (
        _pattern(
            r"(?:(?P<year>(?:19|20)\d\d)[年년]\s*)?(?<!\d)(?P<month>1[0-2]|0?[1-9])[月월]\s*"
            r"(?:(?P<day>\d{1,2})[日일])?"
        ),
        _read_signs,
    ),
    (
        _pattern(
            rf"{_BEFORE}(?P<first>\d{{1,2}})(?P<sign>[./])(?P<second>\d{{1,2}})(?P=sign)(?P<year>{_YEAR}|\d\d)?"
            rf"(?<!/){_AFTER}"
        ),
        _read_numbers,
    ),
    (
        _pattern(
            rf"(?:{_BEFORE}(?:{_PREPOSITION}) )(?P<first>\d{{1,2}})(?P<sign>/)(?P<second>\d{{1,2}})(?P<year>(?!))?"
            rf"{_AFTER}"
        ),
        _read_numbers,
    ),
    (_pattern(rf"{_BEFORE}{_DAY_OF_MONTH}(?P<month>{_MONTH})\.?(?:,? (?:de |del )?{_OF_YEAR})?{_AFTER}"), _read_month),
    (
        _pattern(
            rf"{_BEFORE}(?P<month>{_MONTH})\.? (?:the )?(?P<day>{_DAY_NUMBER})(?:st|nd|rd|th)?(?:,? {_OF_YEAR})?"
            rf"{_AFTER}"
        ),
        _read_month,
    ),
    (
        _pattern(
            rf"{_BEFORE}(?:(?P<preposition>{_PREPOSITION})[ ]?)?(?:(?P<last>{_LAST}|{_THIS}) )?{_PART}(?<![^\W_])"
            rf"(?P<month>{_MONTH})(?:,? (?:of |de |del )?{_OF_YEAR})?(?P<day>(?!))?{_AFTER}"
        ),
        _read_month,
    ),
    (_pattern(rf"{_BEFORE}(?:{_any_of(_DAYS_BACK)})(?![^\W_])"), _read_days_back),
    (
        _pattern(rf"{'|'.join(word for word in _DAYS_BACK if not word[0].isascii() and ord(word[0]) > 0x3000)}"),
        _read_days_back,
    ),
    (_pattern(rf"{_BEFORE}(?:{_AGO_BEFORE}) (?P<number>{_NUMBER}) (?P<unit>{_UNIT}){_AFTER}"), _read_ago),
    (
        _pattern(
            rf"{_BEFORE}(?P<number>{_NUMBER})(?: of)? (?P<unit>{_UNIT}) (?:ago|back|earlier|fa|atrás|geleden|назад)"
            rf"{_AFTER}"
        ),
        _read_ago,
    ),
    (_pattern(rf"{_BEFORE}(?:{_LAST}) (?P<number>{_NUMBER}) (?P<unit>{_UNIT}){_AFTER}"), _read_span),
    (
        _pattern(
            rf"{_BEFORE}(?:{_LAST}) (?:weekend|wochenende|fin de semana|fine settimana)|(?:le|ce) week-end dernier"
            rf"{_AFTER}"
        ),
        _read_weekend,
    ),
    (
        _pattern(rf"{_BEFORE}(?:(?:{_LAST})|(?P<this>{_THIS})) (?P<unit>{_UNIT})(?P<unit_before>(?!))?{_AFTER}"),
        _read_unit,
    ),
    (_pattern(rf"{_BEFORE}(?P<this>(?!))?(?P<unit>(?!))?(?P<unit_before>{_UNIT}) (?:{_LAST}){_AFTER}"), _read_unit),
    (
        _pattern(
            rf"{_BEFORE}(?:(?:{_LAST})|(?P<next>{_NEXT})|(?:{_THIS})|on|am|le|el|il|op|в|во|na)"
            rf"(?: (?:{_LAST}))? (?P<weekday>{_WEEKDAY})(?:'s|’s)?{_AFTER}"
        ),
        _read_weekday,
    ),
    (_pattern(rf"[{_WEEKDAY_SIGNS}]曜日?|上?个?(?:星期|周|週|礼拜)[一二三四五六日天]"), _read_weekday_sign),
    (_pattern("先週|上周|上週|上个星期|지난주|先月|上个月|上個月|지난달|去年|昨年|작년"), _read_unit_signs),
    (
        _pattern(
            rf"{_BEFORE}(?:(?:{_PREPOSITION}|{_LAST}|{_THIS}) )(?:(?:the|the last|dem|der|des|den|la|el|l') ?)?"
            rf"(?P<season>{_SEASON})(?: (?:of |de |del |dell'|van )?(?P<year>{_YEAR}))?(?! of)(?:{_AFTER})"
        ),
        _read_season,
    ),
    (_pattern(rf"{_BEFORE}(?P<season>{_SEASON}) (?:of )?(?P<year>{_YEAR}){_AFTER}"), _read_season),
    (_pattern(rf"{_BEFORE}Q(?P<quarter>[1-4])(?:[ /-]?(?P<year>{_YEAR}))?{_AFTER}"), _read_quarter),
    (
        _pattern(
            rf"{_BEFORE}(?:(?P<halloween>halloween)|(?P<new_year>new year'?s?(?: eve)?|silvester|nochevieja|réveillon)"
            rf"|christmas|xmas|weihnachten|noël|navidad|natale|natal|kerst(?:mis)?){_AFTER}"
        ),
        _read_feast,
    ),
    (
        _pattern(
            rf"{_BEFORE}(?:(?:{_PREPOSITION}|year|jahre?|année|año|anno|ano|jaar) )(?:the year |l'anno )?"
            rf"(?P<year>{_YEAR}){_AFTER}"
        ),
        _read_year,
    ),
)
_RANGE_WORDS: Final = _pattern(rf"\s*(?:{_TO})\s+")
_RANGE_OPENING: Final = _pattern(rf"(?<![^\W_])(?:{_FROM})(?![^\W_])")
_RECURRING: Final = _pattern(rf"(?:{_EVERY})\s*(?:on |am )?$")
_SINCE: Final = _pattern(r"(?<![^\W_])(?:since|seit|depuis|desde|dal|sinds|с)\s*(?:the |dem |der |le |el |il )?$")


@lru_cache(maxsize=1_024)
def find_dates(text: str, asked_on: date) -> tuple[DateRange, ...]:
    """The days that a question names, in its order, at most MAX_DATES; `asked_on` is the day in the asker's zone.

    A numeric date whose order nobody can tell (3/4) is both. "Between" and "from … to" make one range of two.
    """
    if not _may_hold_date(text[:MAX_DATED_CHARACTERS]):
        return ()
    ranges: list[DateRange] = []
    previous_end = -1
    for start, end, those in sorted(_matches(text[:MAX_DATED_CHARACTERS], asked_on)):
        joint = _RANGE_WORDS.match(text, previous_end) if previous_end >= 0 else None
        if ranges and joint is not None and joint.end() >= start:
            ranges[-1] = DateRange(min(ranges[-1].first, those[0].first), max(ranges[-1].last, those[0].last))
        else:
            ranges += those
        is_opening = _RANGE_OPENING.match(text, start) or _RANGE_OPENING.search(text[max(start - 10, 0) : start])
        previous_end = end if is_opening else -1
    return tuple(dict.fromkeys(ranges))[:MAX_DATES]


_WORD: Final = re.compile(r"[^\W\d_]+|\d")
_HINTS: Final = frozenset(
    word
    for phrase in (*MONTHS, *WEEKDAYS, *SEASONS, *UNITS, *_DAYS_BACK, *["weekend", "week", "wochenende", "halloween"])
    for word in _WORD.findall(phrase)
) | frozenset(
    _WORD.findall(
        "christmas xmas weihnachten noël navidad natale natal kerst kerstmis new silvester nochevieja réveillon"
    )
)


def _may_hold_date(text: str) -> bool:
    """Whether any word of the grammar, a digit, or a sign stands in it: most questions hold none."""
    return any(word in _HINTS or word.isdigit() or word[0] > "\u2e7f" for word in _WORD.findall(text.lower()))


def _matches(text: str, asked_on: date) -> Iterator[tuple[int, int, tuple[DateRange, ...]]]:
    """Yields the place where a date begins and ends in the text, and what it means; what one rule has read no later one
    reads again."""
    for pattern, read in _GRAMMAR:
        for match in list(pattern.finditer(text)):
            if _RECURRING.search(text[: match.start()]):
                continue
            reading: DateRange | tuple[DateRange, ...] | None = None
            with suppress(ValueError, OverflowError):  # 31 April, the year 0
                reading = read(match, asked_on)
            if not reading:
                continue
            ranges = (reading,) if isinstance(reading, DateRange) else reading
            if _SINCE.search(text[: match.start()]) or _SINCE.match(f"{match[0].split()[0]} "):
                ranges = tuple(DateRange(each.first, max(asked_on, each.last)) for each in ranges)
            yield match.start(), match.end(), ranges
            text = text[: match.start()] + "\x00" * len(match[0]) + text[match.end() :]
