"""The stop phrases of a question: turns of phrase that say how an answer is wanted, not what it is about. Pure.

"Can you list, in the order in which they came up, …" is said of anything, and its words stand in texts that have
nothing to do with what follows. They are known as phrases, kept here by language, rather than as stop words, because
each of the words alone may be what is asked for: the guest list, an order of seeds, the meeting on Friday. The list
holds turns of phrase that grammars and phrase books give for asking, none of a conversation's subjects.
"""

from __future__ import annotations

import re
from functools import lru_cache
from typing import Final

MAX_PHRASED_CHARACTERS: Final = 600
"""A longer question says mostly what it is about: it is taken as it stands."""

_ENGLISH: Final = r"""
(?:(?:can|could|would|will) you(?: please)?|please)
  (?: (?:list|name|enumerate|outline|recap|recall|provide|give|show|tell|remind|find|walk|summari[sz]e|describe
  |explain)
  (?: (?:me|us))?(?: (?:of|through|again))?)?
(?:^|(?<=[.!?:;,]\s)|(?<=\band\s))
  (?:list|name|enumerate|outline|recap|recall|provide|give|show|tell|remind|walk)(?: (?:me|us))?
  (?= (?:all|every|each|everything|everyone|everybody|the|a|of|about|which|what|who|when|where|how|in|through|any
  |some)\b)
(?:i am|i'm|i was) (?:trying to remember|wondering|curious|looking back(?: (?:at|on))?)
(?:do|can|did) you (?:still )?(?:remember|recall|know)
(?:i )?(?:wanted|want|would like|would love|need|'d like) to (?:know|follow up on|go back to|hear|find out)
(?:going|coming|looking|thinking) back (?:to|at|on)|(?:follow|following) up on
(?:based on|according to|considering|given|judging by) (?:what|everything|all)(?: that)?
  (?: (?:i|we|you|they)(?:'ve| have)? (?:said|told|discussed|mentioned|shared|talked about))?
(?:i|we|you|he|she|they|it|that|this|which|were|was|been|have|has|had|ever|first|last|also|did \w+)?\ ?
  \b(?:brought up|bring up|brings up|bringing up|came up|come up|comes up|coming up|touched (?:up)?on
  |touch (?:up)?on|went over)
(?:in |by |list |give |show )?(?:the |which |what |their |its )?(?:exact |right |correct |chronological )?(?:order
  |sequence)
  (?: (?:in|of) which| that they| from first to last| they)
in (?:the )?(?:exact |right |correct |chronological )?(?:order|sequence)
(?:in )?(?:which|what) (?:order|sequence)
chronologically|from (?:the )?(?:first|earliest|oldest) to (?:the )?(?:last|latest|newest)|one after the other
  |step by step
(?:all|each|every)(?: of)?(?: the)? (?:single )?(?:times?|occasions?|instances?|mentions?|occurrences?)(?: (?:that
  |when|where|of|in which))?
how (?:many times|often)|so far|over time|over the (?:course|months|weeks|years)(?: of)?|in (?:the course|total|all
  |detail|short|brief)(?: of)?
(?:in|during|throughout|across|over|from|within|of|at) (?:all )?(?:of )?(?:the|our|this|that|these|those|my|your
  |all|any)
  (?: (?:whole|entire|full|previous|earlier|past|last|first|long|different|many))*
  (?: (?:conversation|chat|discussion|thread|talk|meeting|session|message|exchange|dialogue|transcript)s?)\b
throughout|overall|altogether
(?:the |any |some |all )*(?:different|various|several|main|key|many) (?:aspect|item|thing|point|topic|subject
  |matter|detail|step|part)s?
  (?: (?:of|about|that|which|on))?
(?:mention|name|list|give|include)(?: me)? only(?: and only)?(?: the)? \w+ (?:item|thing|point|aspect|topic|name
  |step|answer|event)s?
(?:a |an |the )(?:comprehensive |complete |detailed |brief |short |clear |full |quick )*(?:summary|overview|list
  |timeline|recap|rundown)
  (?: of(?: (?:how|all|everything))?| (?:about|on))
"""

_GERMAN: Final = r"""
(?:kannst|könntest|könnt|würdest) (?:du|ihr|sie)(?: mir| uns)?(?: bitte)?(?: noch)?(?: einmal| mal)?
  (?: (?:sagen|auflisten|aufzählen|nennen|zeigen|erklären|beschreiben|zusammenfassen))?
(?:^|(?<=[.!?:;,]\s))(?:bitte )?
  (?:liste|zähle?|nenne?|zeige?|sage?|gib|erinnere?|fasse?|beschreibe?|erkläre?)\b(?: (?:mir|uns|mich|bitte))*
(?:in welcher|in der|der) (?:richtigen |genauen |zeitlichen )?reihenfolge(?: nach)?(?:,? in der)?|der reihe nach
  |chronologisch|nacheinander
(?:jedes|alle|all die|wie viele) male?|wie oft|immer wenn|insgesamt|bisher|bislang|im laufe der zeit
(?:in|aus|während|im laufe|im verlauf|über|bei)(?: (?:der|des|dem|den|unser(?:e[nmrs]?)?|dieser|diesem|dieses|all
  |allen|ganzen|gesamten|letzten|bisherigen))+
  (?: (?:gesprächs?|gesprächen?|unterhaltung(?:en)?|chats?|diskussion(?:en)?|besprechung(?:en)?|sitzung(?:en)?
  |treffens?|threads?|nachrichten))\b
(?:zur sprache|ins gespräch) (?:gekommen|gebracht|kam(?:en)?|brachten?)|(?:angesprochen|erwähnt|besprochen
  |diskutiert|gesprochen|gesagt|erzählt|genannt)(?: (?:hat|habe|haben|hast|wurden?|worden))?
(?:eine |die )(?:kurze |vollständige |genaue )*(?:zusammenfassung|übersicht|liste|aufzählung)(?: (?:der|des|von
  |aller|über))
weißt du noch|erinnerst du dich(?: noch)?(?: (?:an|daran))?
"""

_FRENCH: Final = r"""
(?:peux-tu|pouvez-vous|pourrais-tu|pourriez-vous)(?: (?:me|nous))?
  (?: (?:dire|lister|énumérer|citer|nommer|donner|rappeler|montrer|expliquer|décrire|résumer))?
(?:^|(?<=[.!?:;,]\s))(?:liste[rz]?|énumère[rz]?|cite[rz]?|nomme[rz]?|donne[rz]?|rappelle[rz]?|montre[rz]?|dis|dites
  |résume[rz]?|décri[st])\b
  (?:-(?:moi|nous))?
(?:dans|par) (?:quel|l'|l’)\ ?ordre(?: (?:chronologique|exact))?|chronologiquement|l'un après l'autre|étape par étape
(?:toutes les|chaque|combien de) fois(?: (?:que|où))?|jusqu'ici|jusqu'à présent|au fil du temps|au total|en tout
(?:dans|pendant|durant|lors de|au cours de|tout au long de|de)(?: (?:la|le|les|l'|notre|nos|cette|ces|toute|toutes
  |tous))+
  \ ?(?:conversation|discussion|réunion|échange|message|chat|fil|séance)s?\b
(?:avons|ont|a|as|avez|ai|été)? ?(?:évoqué|mentionné|abordé|soulevé|discuté|parlé)e?s?
(?:un |une |le |la )(?:bref |brève |court |complète? )*(?:résumé|liste|aperçu|énumération) (?:de |des |du )
(?:te souviens-tu|vous souvenez-vous|tu te souviens)(?: de)?
"""

_SPANISH: Final = r"""
(?:puedes?|podrías?|pueden|podrían)(?: (?:decir|listar|enumerar|nombrar|dar|recordar|mostrar|explicar|describir
  |resumir)(?:me|nos)?)
(?:^|(?<=[.!?:;,¿¡]\s)|(?<=[¿¡]))(?:lista|enumera|nombra|dime|dame|di|muéstrame|recuérdame|resume|describe
  |explícame)\b
en (?:qué|el|que) orden(?: (?:cronológico|exacto|en (?:el )?que))?|cronológicamente|uno tras otro|paso a paso
(?:todas las|cada|cuántas) ve(?:z|ces)(?: que)?|hasta ahora|a lo largo del tiempo|en total
(?:en|durante|a lo largo de|de)(?: (?:la|las|el|los|nuestra|nuestras|nuestro|nuestros|esta|este|estas|estos|toda
  |todas|todos))+
  (?: (?:conversaci[oó]n(?:es)?|discusi[oó]n(?:es)?|reuni[oó]n(?:es)?|charlas?|mensajes?|chats?|hilos?))\b
(?:se )?(?:ha |han |hemos |he |has )?(?:mencion(?:ó|aron|ado|amos)|habl(?:ó|aron|ado|amos)|coment(?:ó|aron|ado
  |amos)|trat(?:ó|aron|ado|amos))
(?:un |una |el |la )(?:breve |corto |completa? )*(?:resumen|lista|enumeración) (?:de |del )
(?:te acuerdas|recuerdas)(?: de)?
"""


def _compile(*phrases_by_language: str) -> re.Pattern[str]:
    """One pattern of all phrases: each is a line, and an indented line goes on with the one before it."""
    phrases = "\n".join(phrases_by_language).replace("\n  ", "")
    alternatives = "|".join(line for line in phrases.splitlines() if line)
    return re.compile(rf"(?<![^\W_])(?:{alternatives})(?![^\W_])", re.IGNORECASE)


_STOP_PHRASES: Final = _compile(_ENGLISH, _GERMAN, _FRENCH, _SPANISH)

_SEVERAL: Final = re.compile(
    r"""(?<![^\W_])(?:
    (?:list|name|enumerate)\ (?:me\ )?(?:all|every|each|everything|everyone|the)|(?:all|each
    |every)\ (?:of\ )?(?:the\ )?(?:times?|occasions?|instances?|mentions?)
    |(?:in\ )?(?:which|what|the)\ (?:\w+\ )?(?:order|sequence)\ (?:in\ which|did|do|were|was|they|have|has|i|we)
    |chronological(?:ly)?
    |how\ (?:many\ times|often)|name\ (?:all|them)
    |(?:jedes|alle|wie\ viele)\ male?|wie\ oft|in\ welcher\ (?:\w+\ )?reihenfolge|chronologisch|(?:liste|nenne?
    |zähle?)\ (?:mir\ )?alles?
    |(?:toutes\ les|chaque|combien\ de)\ fois|(?:dans|par)\ quel\ ordre|chronologiquement|(?:liste[rz]?
    |énumère[rz]?|cite[rz]?)(?:-moi)?\ tou[ts]\w*
    |(?:todas\ las|cada|cuántas)\ ve(?:z|ces)|en\ qué\ orden|cronológicamente|(?:lista|enumera|nombra)\ tod[oa]s?
    )(?![^\W_])""",
    re.IGNORECASE | re.VERBOSE,
)


@lru_cache(maxsize=1_024)
def strip_stop_phrases(question: str) -> str:
    """The question without its stop phrases; it may be empty."""
    return _STOP_PHRASES.sub(" ", question) if len(question) <= MAX_PHRASED_CHARACTERS else question


def asks_for_several(question: str) -> bool:
    """Whether it says that it wants a list, an order or every occasion: pieces that lie scattered."""
    return len(question) <= MAX_PHRASED_CHARACTERS and _SEVERAL.search(question) is not None
