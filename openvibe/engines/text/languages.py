"""Languages that texts are stemmed in: which one a text is written in, its stop words, and the stem of a word. Pure.

A language is known by its function words and by letters that few others have: of chat messages of five words and more
that tells more of them right than a table of letter groups does, in microseconds, and says nothing where it cannot
know. What is unknown is not stemmed, but for plain letters without any accent, which are taken for English."""

from __future__ import annotations

from collections.abc import Iterable
from functools import cache, lru_cache
from typing import Final

import Stemmer

ENGLISH: Final = "en"

_SNOWBALL_NAMES: Final = {
    "en": "english",
    "de": "german",
    "fr": "french",
    "es": "spanish",
    "it": "italian",
    "pt": "portuguese",
    "nl": "dutch",
}
LANGUAGES: Final = tuple(_SNOWBALL_NAMES)

COMPOUNDING: Final = frozenset(("de", "nl", ""))
"""Languages that write a compound as one word; and what is unknown, which may be one of them."""

_STOP_TEXTS: Final = {
    "en": """
a about above after again all also am an and any are as at be because been before being below between both but by
can could did didn do does doesn doing don down during each else ever few for from further get got had hadn has hasn
have haven having he her here hers him his how i if in into is isn it its just let like ll may me might more most
much must my no nor not now of off ok okay on once one only or other our ours out over own per please quite rather
re really said same say says shall she should so some such than that the their theirs them then there these they
thing this those though through to too uh um under until up upon us ve very was wasn we well were weren what when
where whether which while who whom whose why will with won would yeah yes yet you your yours
""",
    "de": """
aber alle allem allen aller alles als also am an ander andere anderem anderen anderer anderes auch auf aus bei beim
bin bis bist bitte da dabei dadurch dafür dagegen daher damit danach dann daran darauf darin darum das dass daß dazu
dein deine deinem deinen deiner dem den denn der deren des dessen dich die dies diese diesem diesen dieser dieses
dir doch dort du durch ein eine einem einen einer eines einmal er es etwa etwas euch euer eure für gegen gewesen
ging hab habe haben hast hat hatte hatten hier hin hinter ich ihm ihn ihnen ihr ihre ihrem ihren ihrer im in indem
ins ist ja jede jedem jeden jeder jedes jene jetzt kann kannst kein keine keinem keinen keiner können könnte lassen
machen macht man manche mehr mein meine meinem meinen meiner mich mir mit möchte muss müssen nach nein nicht nichts
noch nun nur ob oder ohne schon sehr sein seine seinem seinen seiner seit selbst sich sie sind so sogar solche soll
sollen sollte sondern sonst soviel über um und uns unser unsere unserem unseren unserer unter viel viele vom von vor
wann war waren warum was weg wegen weil welche welchem welchen welcher welches wem wen wenig wenn wer werde werden
wessen wie wieder wieso wieviel will wir wird wirst wo woher wohin wollen wollte womit worden wurde wurden würde
würden zu zum zur zwar zwischen
""",
    "fr": """
a à ai ainsi alors au aucun aucune auquel aussi autre autres aux avait avant avec avez avoir avons ça car ce ceci
cela celle celles celui cependant certains ces cet cette ceux chaque chez ci combien comme comment d dans de déjà
depuis derrière des dès deux devant doit doivent donc dont du elle elles en encore entre es est et étaient était
étant été être eu eux faire fait faut font ici il ils j je jusque l la là laquelle le lequel les lesquels leur leurs
lors lui m ma mais me même mêmes mes moi moins mon n ne ni non nos notre nous on ont ou où par parce pas pendant peu
peut peuvent plus pour pourquoi pouvez près puis qu quand que quel quelle quelles quels qui quoi s sa sans se sera
seront ses si son sont sous suis sur t ta tandis te tes toi ton tous tout toute toutes très trop tu un une va vers
veut voici vont vos votre vous y
""",
    "es": """
a ahí al algo algún alguna algunas alguno algunos allí ante antes aquel aquella aquellos aquí así aún aunque bajo
bien cada casi como cómo con contra cosa cual cuál cuales cuáles cualquier cuando cuándo cuanta cuántas cuánto
cuántos de debe deben del desde después donde dónde dos durante e el él ella ellas ello ellos en entonces entre era
eran eres es esa esas ese eso esos esta está están estar estas este esto estos estoy fue fueron ha haber había han
has hasta hay he hemos la las le les lo los más me mi mientras mis misma mismo mucho muchos muy nada ni no nos
nosotros nuestra nuestras nuestro nuestros o os otra otras otro otros para pero poco por porque pues que qué quien
quién quienes se sea ser si sí sido sin sino sobre son soy su sus tal también tan tanto te tiene tienen tengo toda
todas todo todos tu tú tus un una unas uno unos usted ustedes va vamos van y ya yo
""",
    "it": """
a abbiamo ad adesso agli ai al alcuni alla alle allo allora altra altre altri altro anche ancora avere aveva avevano
c che chi ci ciò coi col come con contro cosa così cui d da dagli dai dal dalla dalle dallo degli dei del dell della
delle dello dentro deve devono di dopo dove due e è ecco ed era erano essere fa fanno fare fino fra fu già gli ha
hai hanno ho i il in infatti io l la le lei li lo loro lui ma me mentre mi mia mie miei mio molti molto ne nei negli
nel nell nella nelle nello nessuno niente noi non nostra nostre nostri nostro o ogni oppure per perché perciò però
più poco poi possiamo possono prima proprio può qual quale quali qualche quando quanta quante quanti quanto quella
quelle quelli quello questa queste questi questo qui quindi sarà se sei sempre senza si sia siamo siete solo sono
sopra sotto sta stata stati stato stessa stesso su sua sue sugli sui sul sulla sulle suo suoi te ti tra troppo tu
tua tue tuo tutta tutte tutti tutto un una uno va verso vi viene vengono voi vostra vostro
""",
    "pt": """
a à ainda algo alguém algum alguma algumas alguns ante antes ao aos apenas aquela aquelas aquele aqueles aquilo as
às assim até cada com como contra cuja cujo da das de dela delas dele deles depois desde dessa desse desta deste
deve devem disso disto do dois dos e é ela elas ele eles em então entre era eram essa essas esse esses esta está
estamos estão estar estas este estes estou eu faz fazem fazer foi foram há isso isto já lá lhe lhes logo mais mas me
mesma mesmo meu meus minha minhas muita muitas muito muitos na nada não nas nem nenhum nessa nesse nesta neste no
nos nós nossa nossas nosso nossos num numa o onde os ou outra outras outro outros para pela pelas pelo pelos pode
podem por porque porquê pouca pouco pois qual quais quando quanta quantas quanto quantos que quê quem são se seja
sem sempre ser será seu seus si sido só sob sobre sua suas tal também tanto te tem têm temos tenho ter teu teve
tinha toda todas todo todos tua tudo um uma umas uns vai vão você vocês vos
""",
    "nl": """
aan achter al alle alleen alles als altijd andere anders ben bij binnen boven buiten daar daarna daarom dan dat de
deze die dit doch doen door dus echter een eens en er erg even ge geen gewoon goed had hadden heb hebben hebt heeft
heel hem het hier hij hoe hoeveel hun iemand iets ik in is ja je jij jou jouw jullie kan kun kunnen kunt laat maar
mag me meer men met mij mijn minder moet moeten mogen na naar niemand niet niets nog nu of om omdat onder ons onze
ook op over reeds samen sinds soms steeds te tegen ten ter terwijl toch toen tot tussen u uit uw van vaak van veel
via voor vooral waar waarbij waarom wanneer want waren was wat we weer wel welk welke werd werden wie wij wil worden
wordt zal ze zelf zeer zich zij zijn zo zoals zonder zou zouden zullen
""",
}
STOP_WORDS_BY_LANGUAGE: Final = {code: frozenset(words.split()) for code, words in _STOP_TEXTS.items()}
STOP_WORDS: Final = STOP_WORDS_BY_LANGUAGE[ENGLISH]
"""The stop words of English."""

_QUERY_STOP_TEXT = """
conclude concluded describe described discuss discussed discussing discussion explain explained mention mentioned
opinion opinions regarding summarise summarised summarize summarized summary talk talked talking tell telling think
thinking thought thoughts told
"""
QUERY_STOP_WORDS: Final = frozenset(_QUERY_STOP_TEXT.split())
"""Words that say how something is asked for, not what."""

_LETTERS_TEXT: Final = {"de": "ßäöü", "es": "ñ¿¡", "pt": "ãõ", "fr": "œêèûî", "it": "ìòù", "nl": "ĳë"}
_LETTERS: Final = {letter: code for code, letters in _LETTERS_TEXT.items() for letter in letters}

_ENDINGS: Final = (
    ("ung", "de"), ("ungen", "de"), ("keit", "de"), ("lich", "de"), ("chen", "de"), ("tion", "fr"), ("eux", "fr"),
    ("ción", "es"), ("dad", "es"), ("mente", "es"), ("zione", "it"), ("zioni", "it"), ("ità", "it"), ("ção", "pt"),
    ("ções", "pt"), ("dade", "pt"), ("ijk", "nl"), ("heid", "nl"), ("ing", "en"), ("ed", "en"), ("ly", "en"),
)  # fmt: skip

MAX_DETECTED_WORDS: Final = 200
"""Words of a text that tell its language."""

_MIN_SCORE: Final = 0.9
_MIN_LEAD: Final = 1.15
"""What the likeliest language needs: a function word that is of no other, and so many times what the next one has."""

_languages_by_word: dict[str, list[str]] = {}
for _code, _words in STOP_WORDS_BY_LANGUAGE.items():
    for _word in _words:
        _languages_by_word.setdefault(_word, []).append(_code)


def detect_language(words: Iterable[str]) -> str:
    """The code of the language of these words, case folded and with their accents; "" where they do not tell."""
    scores: dict[str, float] = {}
    for place, word in enumerate(words):
        if place >= MAX_DETECTED_WORDS:
            break
        if languages := _languages_by_word.get(word):
            for language in languages:
                scores[language] = scores.get(language, 0.0) + 1.0 / len(languages) ** 0.5
        else:
            for language in _traits(word):
                scores[language] = scores.get(language, 0.0) + 0.45
    ranked = sorted(scores.items(), key=lambda score: -score[1])
    (first, most), (_, next_most) = (*ranked[:2], ("", 0.0), ("", 0.0))[:2]
    if most >= _MIN_SCORE and most >= _MIN_LEAD * next_most:
        return first
    return ""


@lru_cache(maxsize=8_192)
def _traits(word: str) -> tuple[str, ...]:
    """Languages of which letters and endings of a word speak."""
    traits = [] if word.isascii() else [_LETTERS[letter] for letter in set(word) if letter in _LETTERS]
    return (
        *traits,
        *(language for ending, language in _ENDINGS if len(word) > len(ending) + 3 and word.endswith(ending)),
    )


@lru_cache(maxsize=8_192)
def stem(word: str, language: str) -> str:
    """The stem of a folded word; the word itself in no language."""
    name = _SNOWBALL_NAMES.get(language)
    if name is None or not word.isalpha():
        return word
    return str(_stemmer(name).stemWord(word))


@cache
def _stemmer(name: str) -> Stemmer.Stemmer:
    return Stemmer.Stemmer(name, 0)  # not its own cache: ours knows the language
