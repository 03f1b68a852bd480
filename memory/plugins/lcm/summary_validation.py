"""What counts as a summary: not a refusal, not an error in words, nothing invisible, not a model's own thoughts, not
our own instruction, no heap of words, and nothing that its source does not say. Pure.

Patterns know refusals in the languages models use most; what they do not know is found by what it lacks, in any
language: most content words of a summary, and some of each of its sentences, stand in its source (`grounding`), and so
do its names, numbers and dates (`source_values`)."""

import re
from collections.abc import Iterator
from dataclasses import dataclass
from functools import cached_property

from memory.plugins.lcm.facts import Facts, find_facts, missing_keys
from memory.plugins.lcm.grounding import SourceWords, split_sentences
from memory.plugins.lcm.source_lines import SummarySource
from memory.plugins.lcm.source_values import SourceValues
from memory.plugins.lcm.summary_prompt import MAX_NAMED_INVENTIONS, is_own_sentence
from openvibe.engines.llm.answers.thoughts import spoken_text
from openvibe.engines.llm.fences import clean_text
from openvibe.engines.text.cleaning import has_visible_character, is_visible

MIN_FLOOR_WORDS, MESSAGES_PER_FLOOR_WORD, MAX_FLOOR_WORDS = 6, 8, 64
"""Less than 6 words, and one more for every eighth message up to 64, have to show that they know their source."""

MIN_KEYS, KEYS_DIVISOR = 4, 3
"""Names and values from which on a source counts as full of them; below the floor, the part of them to be held."""

MIN_SHARE, MIN_SENTENCE_SHARE, SHORT_SENTENCE_WORDS = 0.5, 0.3, 3
"""The parts of the content words of a summary, and of each of its sentences, that its source tells. Of a sentence of so
few words one is enough."""

_ERROR_CHARACTERS = 600
"""Longer texts are no error messages."""

_ERROR = re.compile(
    r"\W*(?:(?:http|api|server|internal(?: server)?|request|upstream|gateway|network|connection|model"
    r"|unexpected|fatal)\s+)*"
    r"(?:error|fehler|erreur|errore?|erro|fout|błąd|ошибка|hata|错误|錯誤|エラー|오류)\b\W*(?:\d{3}|code|:|：)"
    r"|\W*(?:http\S*\s+)?[45]\d\d\W+(?:internal|bad|service|gateway|too many|not found|forbidden|unauthori[sz]ed|error)"
    r"|\W*(?:internal server error|bad gateway|service (?:temporarily )?unavailable|gateway time-?out|too many requests"
    r"|rate limit|request (?:timed out|failed)|upstream connect|an? (?:\w+ )?error (?:has )?occurred"
    r"|something went wrong"
    r"|traceback \(most recent|no answer|n/?a\W*\Z|null\W*\Z|none\W*\Z|undefined\W*\Z)"
    r"|\s*\{\s*[\"'](?:error|detail|message|code)[\"']",
    re.IGNORECASE,
)
_WORDS_OR_SIGNS = re.compile(r"[\u3040-\u30ff\u3400-\u4dbf\u4e00-\u9fff]|[^\W_]+")  # CJK has no blanks
_PAGE = re.compile(r"\s*<(?:!doctype|html|head|body|\?xml)\b", re.IGNORECASE)

_REFUSALS = (
    (
        r"(?:i(?:'m| am) (?:\w+ )?(?:sorry|afraid)|(?:so |very )?sorry|(?:my )?apologies|i apologi[sz]e|unfortunately"
        r"|regrettably|i regret|i understand|i appreciate|thank you|thanks)",
        r"\bi (?:can't|cannot|can not|won't|will not|couldn't|could not|do(?:n't| not) (?:have|see|feel)|must decline"
        r"|am (?:not |un)able|am not)|\bi'm (?:not|un)|i can (?:help|assist|do|share)|my (?:guidelines|policy|policies)"
        r"|(?:unable|not able) to (?:help|assist|comply|process|fulfil|provide|complete|summari[sz]e)"
        r"|can't help|cannot help",
    ),
    (
        r"(?:i (?:can't|cannot|can not|won't|will not|am (?:not able|unable)|do not feel|don't feel)"
        r"|i'm (?:not able|unable))",
        r"\b(?:help|assist|compl|summari[sz]|provide|fulfil|continue|process|do (?:that|this)|share|engage"
        r"|discuss|creat"
        r"|generat|writ|produc|access|see|read|find)",
    ),
    (
        r"(?:as an? (?:ai|artificial|large|language)|i must decline|i have to decline|i(?:'d"
        r"| would) (?:rather|prefer) not"
        r"|there (?:is|was) (?:no|nothing) (?:conversation|to summ)|no (?:conversation|messages|content"
        r"|text) (?:was|were|has)"
        r"|(?:please|could you|can you) (?:\w+ )?(?:provide|share|paste|send)|it (?:looks|seems"
        r"|appears) (?:like |that )?"
        r"(?:there (?:is|was) no|you (?:haven't|have not|didn't)|no )|i(?:'d| would) be happy to|how can i help)",
        "",
    ),
    (
        r"(?:(?:es )?tut mir (?:\w+ )?leid|entschuldig|verzeih|leider|ich bedau)",
        r"\bich\b.{0,60}\b(?:nicht|kein)|\b(?:kann|darf|möchte|werde) ich\b|nicht (?:möglich|in der lage)",
    ),
    (r"ich (?:kann|darf|werde|möchte|bin)\b", r"\b(?:nicht|kein|leider)"),
    (
        r"(?:je (?:suis|vous) (?:\w+ )?(?:désol|navré|prie)|désol|navré|malheureusement|pardon|excusez"
        r"|je m'excuse|je regrette)",
        r"je ne (?:peux|suis|puis|dispose)|je n'ai|impossible",
    ),
    (r"je ne (?:peux pas|suis pas en mesure|puis)", ""),
    (
        r"(?:lo siento|lo lamento|lamento|disculp|perd[oó]n|desafortunadamente|lamentablemente)",
        r"\bno (?:puedo|me es|estoy|tengo|soy)",
    ),
    (r"no (?:puedo|me es posible)", ""),
    (r"(?:mi dispiace|spiacente|sono spiacente|purtroppo|scus)", r"\bnon (?:posso|sono|riesco|ho|mi è)"),
    (r"non (?:posso|sono in grado)", ""),
    (r"(?:desculp|peço desculp|sinto muito|lamento|infelizmente)", r"\bn[ãa]o (?:posso|consigo|sou|tenho|me é)"),
    (r"n[ãa]o (?:posso|consigo)", ""),
    (r"(?:het spijt me|sorry|helaas|excuses|mijn excuses)", r"\bik (?:kan|ben|mag)|\b(?:kan|mag) ik"),
    (
        r"(?:tyvärr|förlåt|jag (?:beklagar|är ledsen)|beklager|jeg (?:beklager|er ked)|desværre|dessverre"
        r"|und?skyld|unnskyld)",
        r"\bja?e?g (?:kan|är|er|har)|\bkan ja?e?g",
    ),
    (r"(?:valitettavasti|pahoittelen|anteeksi|olen pahoillani)", r"\ben (?:voi|pysty)"),
    (r"(?:przykro mi|przepraszam|niestety|wybacz)", r"\bnie (?:mogę|jestem|mam)"),
    (r"(?:omlouvám|je mi líto|bohužel|ľutujem|prepáčte|žao mi je)", r"\bne(?:mohu|můžu|jsem|môžem| mogu)"),
    (
        r"(?:извини|прости|простите|к сожалению|мне (?:\w+ )?жаль|сожалею|вибач|на жаль|перепрош|съжалявам)",
        r"\bне (?:могу|можу|мога|имею|в состоянии|смогу)",
    ),
    (r"я не (?:могу|можу)", ""),
    (r"(?:üzgünüm|maalesef|özür dilerim|kusura bakma)", r"[ae]m[ae]m\b|[ae]mıyorum|[ae]miyorum|mümkün değil"),
    (r"(?:sajnál|elnézést|sajnos|bocsánat)", r"\bnem (?:tud|áll)"),
    (r"(?:îmi pare rău|din păcate|scuze|regret)", r"\bnu (?:pot|sunt|am)"),
    (r"(?:λυπάμαι|συγγνώμη|δυστυχώς|ζητώ συγγνώμη)", r"\bδεν (?:μπορώ|είμαι|έχω)"),
    (r"(?:عذر|آسف|أنا آسف|أعتذر|للأسف|معذرة|المعذرة)", r"لا (?:أستطيع|يمكن)|لست|لن "),
    (r"(?:אני מצטער|מצטער|סליחה|לצערי)", r"לא (?:יכול|ניתן|אוכל)|איני"),
    (r"(?:क्षमा|माफ़|माफ|मुझे खेद|मुझे माफ|दुर्भाग्य)", r"नहीं"),
    (r"(?:[我很非常真的十分]{0,4}(?:抱歉|对不起|對不起|遗憾|不好意思))", r"无法|無法|不能|没有办法|不便|不可以"),
    (r"我(?:无法|無法|不能)", r"提供|协助|帮|回答|总结|總結|摘要|满足|處理|处理|完成"),
    (
        r"(?:大変)?(?:申し訳|すみません|すいません|ごめんなさい|残念ながら|恐れ入ります)",
        r"できません|できかね|いたしかね|お手伝い|お答え",
    ),
    (r"(?:죄송|미안|유감|안타깝)", r"없습니다|없어요|못합|어렵습니다|않습니다"),
    (r"(?:(?:tôi )?(?:rất )?xin lỗi|(?:tôi )?rất tiếc)", r"không thể|không có"),
    (r"(?:(?:saya )?(?:mohon )?maaf|sayangnya)", r"\bt(?:id)?ak (?:bisa|dapat|mampu)"),
    (r"(?:ขออภัย|ขอโทษ|เสียใจ)", r"ไม่"),
    (r"(?:متأسف|متاسف|ببخشید|عذرخواهی)", r"نمی"),
)
"""How a refusal begins, and what follows within a sentence or two: somebody who speaks of themselves cannot do it."""

_REFUSAL = re.compile(
    r"\W*(?:" + "|".join(f"{start}.{{0,160}}?(?:{rest})" if rest else start for start, rest in _REFUSALS) + ")",
    re.IGNORECASE | re.DOTALL,
)


def clean_answer(text: str) -> str:
    """A model's answer without its thoughts and calls of tools; "" where nothing visible is left, or where its thoughts
    did not end."""
    text = spoken_text(clean_text(text))
    start, end = 0, len(text)
    while start < end and not is_visible(text[start]):
        start += 1
    while end > start and not is_visible(text[end - 1]):
        end -= 1
    return text[start:end]


@dataclass(frozen=True)
class StruckText:
    """A text without what was struck: `inventions` are the names and numbers that its source does not have, `share` is
    the part of its characters that was struck."""

    text: str
    inventions: tuple[str, ...]
    share: float


@dataclass(frozen=True)
class SourceCheck:
    """What answers are checked against: a source, its words, values and facts, each read once."""

    source: SummarySource

    @cached_property
    def words(self) -> SourceWords:
        return SourceWords(self.source.text)

    @cached_property
    def values(self) -> SourceValues:
        return SourceValues(self.source.text, self.words)

    @cached_property
    def facts(self) -> Facts:
        return find_facts(self.source.text)

    def strike(self, text: str) -> StruckText:
        """The text without the sentences that are ours, name what the source does not have, or say nothing of it."""
        if not self.words:
            return StruckText(text, (), 0.0)
        kept_lines, inventions, struck = [], list[str](), 0
        for line in text.split("\n"):
            kept = []
            for sentence in split_sentences(line):
                invented = self.values.inventions(sentence)
                inventions += invented
                if invented or self.sentence_problem(sentence):
                    struck += len(sentence)
                else:
                    kept.append(sentence)
            if kept or not line.strip():
                kept_lines.append(line if len(kept) == len(split_sentences(line)) else _joined(kept))
        kept_text = "\n".join(kept_lines).strip()
        if not struck:
            return StruckText(text, (), 0.0)
        return StruckText(kept_text, tuple(dict.fromkeys(inventions)), struck / max(len(text.strip()), 1))

    def sentence_problem(self, sentence: str) -> str:
        """The reason why a sentence cannot stand in a summary of this source, numbers and names aside; "" if it can."""
        if is_own_sentence(sentence, self.words):
            return "it repeats what a model is told, not what was said"
        measured = self.words.measure(sentence)
        least = 1 if measured.words <= SHORT_SENTENCE_WORDS else MIN_SENTENCE_SHARE * measured.words
        if measured.words >= 2 and measured.told < least:
            return "a sentence of it stands nowhere in what was said"
        return ""


def _joined(sentences: list[str]) -> str:
    is_spaced = any(" " in sentence for sentence in sentences)
    return (" " if is_spaced else "").join(sentences)


def find_problem(text: str, check: SourceCheck) -> str:
    """The reason why this text is no summary of a source, as half a sentence; "" where it is one.

    `text` was cleaned (`clean_answer`).
    """
    if not has_visible_character(text):
        return "it shows no word"
    plain = text.replace("’", "'")
    if _REFUSAL.match(plain):
        return "it is a refusal"
    if _PAGE.match(plain):
        return "it is an error page"
    facts = check.facts
    key_count = len(facts.keys) - len(missing_keys(text, facts.keys))
    if len(text) <= _ERROR_CHARACTERS and _ERROR.match(plain) and 2 * key_count < max(len(facts.keys), MIN_KEYS):
        return "it is an error message"
    if not _is_long_enough(text, facts, key_count, check.source.messages):
        return "it says nothing of what was said"
    return next(_grounding_problems(text, check), "") if check.words else ""


def _grounding_problems(text: str, check: SourceCheck) -> Iterator[str]:
    sentences = split_sentences(text)
    problems = [problem for sentence in sentences if (problem := check.sentence_problem(sentence))]
    if check.words.measure(text).share < MIN_SHARE:
        own = [problem for problem in problems if problem.startswith("it repeats")]
        yield own[0] if own else "it says nothing of what was said"
    yield from problems
    if inventions := check.values.inventions(text):
        yield f"it names what nobody said: {', '.join(inventions[:MAX_NAMED_INVENTIONS])}"
    if check.words.is_disordered(text):
        yield "its words stand in no order"


def word_floor(messages: int) -> int:
    """Words, from which on a summary of so many messages is long enough not to be suspicious."""
    return min(MIN_FLOOR_WORDS + messages // MESSAGES_PER_FLOOR_WORD, MAX_FLOOR_WORDS)


def _is_long_enough(text: str, facts: Facts, key_count: int, messages: int) -> bool:
    """Whether a text is long enough to tell of its source: below the floor it has to hold many of the names and values
    of a source that is full of them, the more the higher the floor."""
    floor = word_floor(messages)
    if len(facts.keys) < MIN_KEYS or len(_WORDS_OR_SIGNS.findall(text)) >= floor:
        return True
    return key_count >= max(1, min(len(facts.keys), floor) // KEYS_DIVISOR)
