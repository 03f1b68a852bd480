"""Standing instructions and preferences in a message: "always …", "from now on …", "I prefer …", in eleven languages;
and whether two of them contradict each other. Pure.

A sentence counts when it turns to whoever reads it: "Always give me grams" does, "I always forget" and "my sister never
answers" do not. What is found is the sentence, word for word. Rather one too few: people can write one down themselves,
and one that is none can be struck."""

from __future__ import annotations

import re
from collections.abc import Iterator
from functools import lru_cache
from typing import Final

MAX_SCANNED_CHARACTERS: Final = 4_000
MAX_PREFERENCE_CHARACTERS: Final = 400
MAX_PREFERENCES: Final = 5
"""Preferences read in one message: a text with more is pasted rules, not somebody's words to an agent."""

_CODE: Final = re.compile(r"```.*?(?:```|\Z)|`[^`\n]*`|^[ \t]*>.*$", re.DOTALL | re.MULTILINE)
_SENTENCE: Final = re.compile(r"[^.!?。！？\n]+(?:[.!?](?=\w)[^.!?。！？\n]+)*[.!?。！？]*")
_LIST_MARK: Final = re.compile(r"^\s*(?:[-*+•]|\d{1,2}[.)])\s+")
_MENTION: Final = re.compile(r"^(?:@[\w.-]+[,:]?\s+)+")

_PLEASE: Final = (
    r"(?:(?:and|also|so|but|ok|okay|und|et|y|e|en)[ ,]+)?(?:(?:please|pls|bitte|s'il (?:te|vous) pla[iî]t"
    r"|por favor|per favore"
    r"|alsjeblieft|graag|пожалуйста)[ ,]+)?"
)
_IMPERATIVE: Final = (
    r"(?:answer|reply|respond|use|write|give|keep|tell|show|call|say|avoid|add|start|begin|end|finish"
    r"|list|explain|make|name"
    r"|address|ask|send|quote|cite|mention|include|leave|put|round|convert|translate|format|stick|stop"
    r"|suggest|recommend|let"
    r"|check|remind|mark|sign|spell|speak|summari[sz]e|be|take|do|don't|don’t|do not|never|always|only|just|no"
    r"|antworte|verwende|benutze?|nutze|nimm|schreibe?|gib|nenne?|sage?|zeige?|lasse?|halte?|erkläre?"
    r"|rechne|runde|vermeide"
    r"|immer|nie|niemals|nur|keine?"
    r"|réponds|répondez|utilise[rz]?|écris|écrivez|donne[rz]?|dis|dites|évite[rz]?|explique[rz]?|parle[rz]?|toujours"
    r"|responde|usa|use|escribe|da|dame|di|dime|evita|habla|siempre|nunca"
    r"|rispondi|scrivi|dammi|dimmi|parla|sempre|mai|responda|escreva|dê|diga|evite|fale"
    r"|antwoord|gebruik|schrijf|geef|zeg|vermijd|altijd|nooit"
    r"|отвечай(?:те)?|пиши(?:те)?|используй(?:те)?|говори(?:те)?|давай(?:те)?|всегда|никогда|только)"
)
_LISTENER: Final = (
    r"(?:you|your|me|my|please|du|dir|dich|dein\w*|mir|mich|bitte|sie|ihr\w*|tu|te|toi|vous|votre|moi|tú"
    r"|usted|por favor"
    r"|ti|tuo|tua|mi|você|voce|graag|je|jij|jouw|mij|ты|тебя|мне|вы|вас|пожалуйста)"
)
_ONWARD: Final = (
    r"(?:from (?:now|here|today) on(?:wards?)?|going forward|moving forward|in (?:the )?future|henceforth"
    r"|for the future"
    r"|ab (?:jetzt|sofort|heute|nun)|von (?:jetzt|nun) an|künftig|zukünftig|in zukunft"
    r"|à partir de maintenant|désormais|dorénavant|à l'avenir"
    r"|a partir de ahora|de ahora en adelante|en adelante|en el futuro"
    r"|d'ora in poi|da ora in poi|da adesso in poi|in futuro"
    r"|a partir de agora|de agora em diante|daqui em diante|no futuro"
    r"|vanaf nu|voortaan|in het vervolg|in de toekomst|отныне|с этого момента|впредь|в дальнейшем)"
)
_IDIOM: Final = (
    r"(?:mind|again|been|was|were|had|have|has|a|an|the|heard|knew|seen|happy|wanted|saw|got|felt|my"
    r"|say never|\w+(?<!ne)(?<!fe)"
    r"(?<!spe)(?<!proce)(?<!exce)ed)"
)
_ABOUT_ME: Final = (
    r"(?:that |dass |que |che |dat |что )?(?:i|i'm|i’m|my|we|our|ich|mein\w*|wir|je|j'|mon|ma|yo|soy"
    r"|tengo|no|mi|me|io|sono|ho"
    r"|eu|sou|tenho|ik|mijn|я|мне|мой|моя)(?![^\W_])"
)
_WORD_END: Final = r"(?![^\W_])"

_RULES: Final = (
    rf"{_PLEASE}(?:always|never|don'?’?t ever|do not ever|siempre|nunca|sempre|altijd|nooit|всегда"
    rf"|никогда не){_WORD_END}"
    rf" (?!{_IDIOM}{_WORD_END})\w",
    rf"(?:bitte|please|por favor|per favore|s'il (?:te|vous) pla[iî]t|alsjeblieft|graag"
    rf"|пожалуйста),? (?:immer|nie|niemals"
    rf"|stets|always|never|only ever|siempre|nunca|sempre|mai|toujours|altijd|nooit|всегда|никогда){_WORD_END}",
    rf"{_PLEASE}{_ONWARD}{_WORD_END}[,:]? (?:{_PLEASE}{_IMPERATIVE}{_WORD_END}|.*\b{_LISTENER}{_WORD_END})",
    rf"{_PLEASE}(?:{_IMPERATIVE}|i (?:want|need|expect) you|ich (?:will|möchte)|quiero que|je veux que"
    rf"|voglio che|quero que"
    rf"|ik wil dat){_WORD_END}.*\b(?:{_ONWARD}|at all times|every time|each time|always|jedes mal|immer"
    rf"|stets|niemals|nie mehr"
    rf"|chaque fois|toujours|jamais|cada vez|siempre|nunca|ogni volta|sempre|cada vez|elke keer|altijd|nooit|всегда"
    rf"|каждый раз){_WORD_END}",
    rf"(?:can|could|would|will) you (?:please )?(?:always|never|{_ONWARD}){_WORD_END}",
    rf"(?:für mich gilt: |personally,? |in general,? |generally,? )?(?:i (?:always |generally |usually "
    rf"|strongly )?prefer"
    rf"|i(?:'d|’d| would) prefer|my preference is|ich bevorzuge|ich ziehe .* vor|mir (?:ist|sind|wäre) .*\blieber"
    rf"|ich (?:mag|hätte|habe) .*\blieber|je préfère|prefiero|yo prefiero|preferisco|prefiro|eu prefiro"
    rf"|ik heb .*\bliever"
    rf"|ik geef de voorkeur|mijn voorkeur|я предпочитаю|мне больше нравится){_WORD_END}(?! not to (?:say|answer))",
    rf"i(?:'d|’d| would) rather (?:you|get|have|see|read|not|hear|know){_WORD_END}",
    rf"i (?:like|love|hate|don't like|do not like|dislike) it (?:\w+ )?(?:when|if) you{_WORD_END}",
    rf"i (?:don't|do not|don’t|never) want (?:you to|to (?:see|hear|get|read)){_WORD_END}",
    rf"{_PLEASE}(?:remember|keep in mind|bear in mind|note|don'?’?t forget|do not forget|denke? (?:immer )?daran,"
    rf"|merke? dir,?|vergiss nicht,|n'oublie[z]? pas|souviens-toi|rappelle-toi|recuerda|no olvides|ricorda(?:ti)?"
    rf"|non dimenticare|lembra-te|lembre-se(?: de)?|não esqueça|onthoud|vergeet niet|запомни|помни"
    rf"|не забывай),? {_ABOUT_ME}",
    rf"{_PLEASE}make (?:sure|certain) (?:to |that |you |that you )?(?:always|never|every){_WORD_END}",
    rf"(?:whenever|every time|each time|any time|immer wenn|jedes mal,? wenn|chaque fois que|cada vez que"
    rf"|siempre que|ogni volta"
    rf" che|sempre que|elke keer (?:dat|als)|каждый раз,? когда) (?:you|i ask|we|du|ich|tu|vous|je|te|tú"
    rf"|ti|você|je|ik|ты|я)"
    rf"{_WORD_END}[^,]*, ",
    rf"for (?:everything|anything|all) (?:that )?you (?:write|do|say|make|send){_WORD_END}",
    rf"(?:when|if) you (?:answer|reply|respond|write|explain|talk|speak)\b[^,]*, {_PLEASE}{_IMPERATIVE}{_WORD_END}",
    rf"{_PLEASE}(?:don'?’?t|do not|stop|avoid|no|never use|only use"
    rf"|use only){_WORD_END}.*\b(?:when(?:ever)? you|in (?:all )?your"
    rf" (?:answers|replies|responses|messages|texts)|(?:to|with|for) me){_WORD_END}",
    rf"{_PLEASE}keep (?:all |all of )?your (?:answers|replies|responses|messages|texts|explanations){_WORD_END}",
    rf"{_PLEASE}(?:call me|address me as|nenne? mich|appelle[z]?-moi|llámame|chiamami|me chame de|chama-me"
    rf"|noem me|называй меня)"
    rf" (?!back|tomorrow|today|later|when|if|at|on|in|after|before|an?|crazy|as soon|asap|morgen|zurück|an\b)\w",
    r"(?:これから|今後|以後|いつも|常に|必ず|決して).*(?:ください|下さい|して|ないで|こと|お願い)",
    r".*(?:の方が好き|のほうが好き|を好みます|の方がいい|のほうがいい)",
    r"(?:请|請)?(?:从现在开始|從現在開始|从今以后|今后|以后|以後)[,，]?.*(?:请|請|你|我|都|不要|别|用)",
    r"(?:请|請)(?:总是|總是|一直|始终|始終|永远|永遠|务必)|(?:永远|永遠)不要|我(?:更喜欢|更喜歡|偏好|喜欢你|喜歡你)|(?:请|請)?记住,?我",
    r"(?:앞으로|이제부터).*(?:요|줘|마|하세요)|(?:항상|언제나).*(?:주세요|줘|하세요)|절대.*(?:마|말아)|.*선호(?:해|합니다)",
)
_PREFERENCE: Final = re.compile("|".join(f"(?:{rule})" for rule in _RULES), re.IGNORECASE)
_HINT: Final = re.compile(
    r"always|never|ever|prefer|rather|like|want|remember|mind|note|forget|sure|when|every|each|any ?time"
    r"|for all|forward|future|henceforth"
    r"|on\b|onwards|don.?t|do not|stop|avoid|only|keep|call|address|immer|nie|stets|jetzt|sofort|künftig"
    r"|zukunft|lieber"
    r"|bevorzug|daran|merk|vergiss|nenn|vor\b|jedes|jamais|toujours|désormais|dorénavant|avenir"
    r"|maintenant|préfère|oublie|souviens"
    r"|rappelle|appelle|chaque|siempre|nunca|ahora|adelante|futuro|prefier|recuerda|olvides|llámame|cada"
    r"|sempre|mai\b|poi"
    r"|preferisco|ricorda|dimentic|chiamami|ogni|agora|diante|prefiro|lembr|esque|cham|altijd|nooit"
    r"|voortaan|vanaf|vervolg"
    r"|toekomst|liever|voorkeur|onthoud|vergeet|noem|elke|всегда|никогда|отныне|впредь|дальнейшем|момента"
    r"|предпоч|нравится"
    r"|запомни|помни|забывай|называй|каждый|[\u3040-\u30ff\u4e00-\u9fff\uac00-\ud7af]",
    re.IGNORECASE,
)


def may_hold_preferences(body: str) -> bool:
    """Whether a message says any of the words without which nothing is asked for once and for all."""
    return _HINT.search(body, 0, MAX_SCANNED_CHARACTERS) is not None


def find_preferences(body: str) -> tuple[str, ...]:
    """The sentences of a message that ask for something once and for all, word for word, in their order; none of code
    or of what is quoted."""
    if not may_hold_preferences(body):
        return ()
    found = dict.fromkeys(sentence for sentence in _sentences(body) if _is_preference(sentence))
    return tuple(found)[:MAX_PREFERENCES]


def _sentences(body: str) -> Iterator[str]:
    for match in _SENTENCE.finditer(_CODE.sub("\n", body[:MAX_SCANNED_CHARACTERS])):
        sentence = _MENTION.sub("", _LIST_MARK.sub("", match[0].strip())).strip()
        if 0 < len(sentence) <= MAX_PREFERENCE_CHARACTERS:
            yield sentence


def _is_preference(sentence: str) -> bool:
    is_question = sentence.endswith(("?", "？")) and not re.match(
        r"(?:can|could|would|will) you", sentence, re.IGNORECASE
    )
    return not is_question and _PREFERENCE.match(sentence.lstrip("\"'“”«»„(*_ ")) is not None


_SLOTS: Final = (
    r"en=english|englisch|anglais|inglés|inglese|inglês|engels; de=german|deutsch|allemand|alemán|tedesco"
    r"|alemão|duits"
    r"; fr=french|französisch|français|francés|francese|francês|frans; es=spanish|spanisch|espagnol|español|spagnolo"
    r"; it=italian|italienisch|italien|italiano; ja=japanese|japanisch|japonais|日本語; zh=chinese|chinesisch|中文"
    r"; pt=portuguese|portugiesisch|portugais|português; nl=dutch|niederländisch|nederlands",
    r"metric=grams?|gramm|kilograms?|kilos?|metric|metrisch|kilomet\w+|centimet\w+; imperial=cups?"
    r"|ounces?|pounds?|imperial"
    r"|miles?|inch(?:es)?|feet",
    r"celsius=celsius; fahrenheit=fahrenheit; kelvin=kelvin",
    r"short=short|brief|briefly|concise|terse|kurz\w*|knapp\w*|courte?s?|bref|breve|cort[oa]s?|curt[oa]s?|kort"
    r"; long=long|detailed|detail|elaborate|thorough|ausführlich\w*|lang\w*|détaillée?s?|largas?"
    r"|detallad\w+|lung[hoea]+"
    r"|uitgebreid",
    r"british=british|uk; american=american|us",
    r"euro=euros?|eur|€; dollar=dollars?|usd|\$; pound=sterling|gbp|£; franc=francs?|franken|chf",
    r"formal=formal\w*|förmlich|siezen?; informal=informal\w*|casual|locker|duzen?",
)
"""Matters of which one value excludes the others, each `name=words; name=words`."""


def _compile_slot(slot: str) -> dict[str, re.Pattern[str]]:
    values = (value.split("=", 1) for value in slot.split("; "))
    return {name: re.compile(rf"(?<![^\W_])(?:{words})(?![^\W_])", re.IGNORECASE) for name, words in values}


_SLOT_PATTERNS: Final = tuple(map(_compile_slot, _SLOTS))
_NEGATION: Final = re.compile(
    r"(?<![^\W_])(?:never|not|no|don.?t|without|stop|avoid|nie|niemals|nicht|keine?[nmrs]?|ohne|jamais"
    r"|pas|sans|nunca|sin"
    r"|no|mai|non|senza|não|sem|nooit|niet|geen|zonder|никогда|не|без)(?![^\W_])|ないで|不要|别|마세요",
    re.IGNORECASE,
)
_CONTENT_WORD: Final = re.compile(r"[^\W\d_]{3,}|\d+")
_FRAME_TEXT: Final = """
always never ever please from now here today going forward future prefer rather want you your the and for that
with when whenever every time each make sure not don are was use give tell keep answer answers reply replies
write get immer nie niemals nicht bitte jetzt künftig zukunft ich mir mich dass wenn und der die das den dem
ein eine mit für toujours jamais pas les des une pour avec que siempre nunca para con los las una sempre mai
non per che com não altijd nooit niet het een voor met dat
"""
_FRAME_WORDS: Final = frozenset(_FRAME_TEXT.split())
_SAME_MATTER: Final = 0.6
"""Share of the words of the shorter of two that the other has, from which on both are about one matter."""


@lru_cache(maxsize=4_096)
def are_contradictory(first: str, second: str) -> bool:
    """Whether two instructions cannot both be followed: another value of one matter (a language, a unit, a length), or
    the same words once with and once without a "not". What is worded otherwise is not seen."""
    first_is_negated, second_is_negated = (_NEGATION.search(text) is not None for text in (first, second))
    for slot in _SLOT_PATTERNS:
        values, others = ({name for name, pattern in slot.items() if pattern.search(text)} for text in (first, second))
        if len(values) == len(others) == 1 and (values != others) != (first_is_negated != second_is_negated):
            return True
    words, other_words = (
        {word[:6] for word in map(str.lower, _CONTENT_WORD.findall(text)) if word not in _FRAME_WORDS}
        for text in (first, second)
    )
    least = min(len(words), len(other_words))
    return first_is_negated != second_is_negated and least > 0 and len(words & other_words) / least >= _SAME_MATTER
