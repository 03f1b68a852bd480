"""Links to places of our own as whole addresses, for texts that are read elsewhere. Stored texts name them by their
path, so that they lead on where an installation gets another address. Pure."""

from typing import Final
from urllib.parse import urljoin

import regex

from openvibe.engines.text.markdown_parser import OWN_PAGES, OWN_PLACE

_OWN: Final = "|".join([*map(regex.escape, sorted(OWN_PAGES)), OWN_PLACE])
_TARGET: Final = regex.compile(rf"(?:\]\(|^ {{0,3}}\[[^\]\n]+\]:[ \t]*)<?\K(?:{_OWN})(?=[)>\s]|$)", regex.MULTILINE)
_OPEN_END: Final = regex.compile(r"(?:\]\(|(?:^|\n) {0,3}\[[^\]\n]+\]:[ \t]*)<?\K(?:/[^)>\s]*)?$")


def absolute_links(text: str, origin: str) -> str:
    """The Markdown text with `origin` before the targets of its links that are paths of threads, messages or pages."""
    if "/" not in text:
        return text
    return str(_TARGET.sub(lambda match: urljoin(origin, match[0]), text))


def absolute_links_so_far(text: str, origin: str) -> str:
    """The same of a text that grows: without its end, where that may be the beginning of a link's target. So what is
    given begins with what was given before."""
    unfinished = _OPEN_END.search(text, max(len(text) - _MAX_OPEN_CHARACTERS, 0))
    return absolute_links(text[: unfinished.start()] if unfinished else text, origin)


_MAX_OPEN_CHARACTERS: Final = 400
"""Characters from the end in which such a beginning is looked for: longer ones are no path of ours."""
