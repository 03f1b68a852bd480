"""What counts as a summary: not a refusal, not an error in words, nothing invisible, not a model's own thoughts, and no
handful of words that says nothing of its source. Pure.

Patterns know refusals in the languages models use most; what they do not know is found by what it lacks, in any
language: a summary that holds no name, value or telling word of its source is none."""

import re

from memory.plugins.lcm.facts import Facts, missing_keys, source_terms, telling_terms
from openvibe.engines.llm.answers.thoughts import spoken_text
from openvibe.engines.llm.fences import clean_text
from openvibe.engines.text.cleaning import has_visible_character, is_visible

MIN_FLOOR_WORDS, MESSAGES_PER_FLOOR_WORD, MAX_FLOOR_WORDS = 6, 8, 64
"""Less than 6 words, and one more for every eighth message up to 64, have to show that they know their source."""

MIN_KEYS, KEYS_DIVISOR = 4, 3
"""Names and values from which on a source counts as full of them; below the floor, the part of them to be held."""

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


def find_problem(text: str, source: str, facts: Facts, *, messages: int) -> str:
    """The reason why this text is no summary of a source with these facts, as half a sentence; "" where it is one.

    `text` was cleaned (`clean_answer`); `messages` is how many it stands for.
    """
    if not has_visible_character(text):
        return "it shows no word"
    plain = text.replace("’", "'")
    if _REFUSAL.match(plain):
        return "it is a refusal"
    if _PAGE.match(plain):
        return "it is an error page"
    absent_keys = missing_keys(text, facts.keys)
    key_count = len(facts.keys) - len(absent_keys)
    if len(text) <= _ERROR_CHARACTERS and _ERROR.match(plain) and 2 * key_count < max(len(facts.keys), MIN_KEYS):
        return "it is an error message"
    if not _is_grounded(text, source, facts, key_count, messages):
        return "it says nothing of what was said"
    return ""


def word_floor(messages: int) -> int:
    """Words, from which on a summary of so many messages is long enough not to be suspicious."""
    return min(MIN_FLOOR_WORDS + messages // MESSAGES_PER_FLOOR_WORD, MAX_FLOOR_WORDS)


def _is_grounded(text: str, source: str, facts: Facts, key_count: int, messages: int) -> bool:
    """Whether it tells of its source. A text below the floor has to hold many of the names and values of a source
    that is full of them, the more the higher the floor; any other one of them, or a few of its words."""
    is_full = len(facts.keys) >= MIN_KEYS
    floor = word_floor(messages)
    if is_full and len(_WORDS_OR_SIGNS.findall(text)) < floor:
        return key_count >= max(1, min(len(facts.keys), floor) // KEYS_DIVISOR)
    if is_full and key_count:
        return True
    terms = set(source_terms(source))
    return len(terms.intersection(telling_terms(text))) >= min(2 if is_full else 1, len(terms))
