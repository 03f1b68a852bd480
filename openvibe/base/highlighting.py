"""Colours code of known languages. Pure: no Django, no database."""

import html
import re
from functools import cache

from pygments import highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import STANDARD_TYPES

MAX_HIGHLIGHTED_CHARACTERS = 8_000
"""Of one block. Colouring time grows with length, for some texts faster than evenly; longer code is plain."""

MAX_HIGHLIGHTED_TOTAL = 24_000
"""Of all blocks of one text together."""

_MAX_LINE_CHARACTERS = 500
_SLOW_LANGUAGE_LIMITS = {"csharp": 1_500, "java": 2_000}  # their lexers try every line as the start of a method
_LONG_WHITESPACE = re.compile(r"\s{120}")

# A list, because a lexer is code run on a stranger's text: these were measured on hostile input.
_LEXERS = {
    *("bash", "c", "console", "cpp", "csharp", "css", "diff", "django", "docker", "go", "html", "http", "ini", "java"),
    *("javascript", "jinja", "json", "kotlin", "lua", "make", "markdown", "nginx", "php", "pycon", "python", "r"),
    *("ruby", "rust", "scala", "scss", "sql", "swift", "toml", "typescript", "xml", "yaml"),
}
LANGUAGES = {name: name for name in _LEXERS} | {
    "py": "python",
    "js": "javascript",
    "jsx": "javascript",
    "ts": "typescript",
    "tsx": "typescript",
    "sh": "bash",
    "shell": "bash",
    "yml": "yaml",
    "patch": "diff",
    "c++": "cpp",
    "cs": "csharp",
    "golang": "go",
    "rs": "rust",
    "rb": "ruby",
    "dockerfile": "docker",
    "makefile": "make",
    "md": "markdown",
}
"""Names that people give a language, in lower case, and the lexer of each."""

CODE_CLASSES = frozenset({name for name in STANDARD_TYPES.values() if name} | {f"language-{name}" for name in _LEXERS})

_FORMATTER: HtmlFormatter[str] = HtmlFormatter(nowrap=True)


def highlight_code(code: str, language: str) -> str:
    """Code as escaped HTML, its words in `<span class>` when its size allows. `language` is a value of LANGUAGES."""
    if (
        len(code) > _SLOW_LANGUAGE_LIMITS.get(language, MAX_HIGHLIGHTED_CHARACTERS)
        or _LONG_WHITESPACE.search(code)
        or any(len(line) > _MAX_LINE_CHARACTERS for line in code.splitlines())
    ):
        return html.escape(code)
    return highlight(code, _get_lexer(language), _FORMATTER)


@cache
def _get_lexer(language: str) -> Lexer:
    return get_lexer_by_name(language, stripnl=False, ensurenl=False)
