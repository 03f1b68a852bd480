"""The words of a page that somebody is shown."""

import re

HIDDEN = re.compile(r"<span[^>]* hidden>(?:[^<]|<span[^>]*>[^<]*</span>)*</span>")


def visible_words(html: str) -> str:
    """All words of the HTML in order, one space between them, without those of hidden spans."""
    return " ".join(re.sub(r"<[^>]+>", " ", HIDDEN.sub(" ", html)).split())
