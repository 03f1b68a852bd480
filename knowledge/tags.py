"""Tags as one line of text, as forms and cells of a table hold them. Pure: no Django.

They are divided by commas. One that holds what divides, or begins with a quotation mark, stands in quotation marks,
those in it doubled, as in CSV: `"acme, inc.", plans`.
"""

import re
from collections.abc import Iterable

_SEPARATOR = re.compile(r"[,;\n]")
_ITEM = re.compile(r'\s*(?:"((?:[^"]|"")*)"\s*(?=[,;\n]|\Z)|([^,;\n]*))(?:[,;\n]|\Z)')


def fold_tag(text: str) -> str:
    """A tag as it is stored: lower case, without a leading `#`, with one blank between its words."""
    return " ".join(text.strip().lstrip("#").lower().split())


def join_tags(tags: Iterable[str]) -> str:
    """The line that `split_tags` takes apart into the same tags."""
    return ", ".join(map(_quote_tag, tags))


def split_tags(line: str) -> list[str]:
    """The tags of a line, divided by commas, semicolons or line ends; empty ones are left out."""
    items = _ITEM.finditer(line)
    tags = (item[2].strip() if item[1] is None else item[1].replace('""', '"') for item in items)
    return [tag for tag in tags if tag]


def _quote_tag(tag: str) -> str:
    if not tag.startswith('"') and not _SEPARATOR.search(tag):
        return tag
    return '"{}"'.format(tag.replace('"', '""'))
