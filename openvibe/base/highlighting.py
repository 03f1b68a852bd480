"""Syntax highlighting of code as CSS classes. Pure; `static/css/code.css` gives the colours."""

import html
import re
from functools import lru_cache

from pygments import highlight as pygments_highlight
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
LANGUAGES = {
    "python": "python",
    "py": "python",
    "pycon": "pycon",
    "javascript": "javascript",
    "js": "javascript",
    "typescript": "typescript",
    "ts": "typescript",
    "jsx": "javascript",
    "tsx": "typescript",
    "json": "json",
    "html": "html",
    "xml": "xml",
    "css": "css",
    "scss": "scss",
    "sql": "sql",
    "bash": "bash",
    "sh": "bash",
    "shell": "bash",
    "console": "console",
    "yaml": "yaml",
    "yml": "yaml",
    "toml": "toml",
    "ini": "ini",
    "diff": "diff",
    "patch": "diff",
    "c": "c",
    "cpp": "cpp",
    "c++": "cpp",
    "csharp": "csharp",
    "cs": "csharp",
    "java": "java",
    "kotlin": "kotlin",
    "swift": "swift",
    "go": "go",
    "golang": "go",
    "rust": "rust",
    "rs": "rust",
    "ruby": "ruby",
    "rb": "ruby",
    "php": "php",
    "lua": "lua",
    "r": "r",
    "scala": "scala",
    "dockerfile": "docker",
    "docker": "docker",
    "makefile": "make",
    "make": "make",
    "nginx": "nginx",
    "markdown": "markdown",
    "md": "markdown",
    "http": "http",
    "django": "django",
    "jinja": "jinja",
}

CODE_CLASSES = frozenset(
    {name for name in STANDARD_TYPES.values() if name} | {f"language-{name}" for name in LANGUAGES.values()}
)

_FORMATTER: HtmlFormatter[str] = HtmlFormatter(nowrap=True)


def language_class(language: str) -> str:
    """Return `language-…` for a known name of a language, else an empty text."""
    name = LANGUAGES.get(language.lower())
    return f"language-{name}" if name else ""


def highlight_code(code: str, language: str) -> str:
    """Return code as escaped HTML, its words in `<span class>` when the language is known and size allows."""
    name = LANGUAGES.get(language.lower())
    if name is None or not _is_within_limits(code, name):
        return html.escape(code)
    return pygments_highlight(code, _get_lexer(name), _FORMATTER)


def _is_within_limits(code: str, language: str) -> bool:
    return (
        len(code) <= _SLOW_LANGUAGE_LIMITS.get(language, MAX_HIGHLIGHTED_CHARACTERS)
        and _LONG_WHITESPACE.search(code) is None
        and all(len(line) <= _MAX_LINE_CHARACTERS for line in code.splitlines())
    )


@lru_cache(maxsize=len(LANGUAGES))
def _get_lexer(language: str) -> Lexer:
    return get_lexer_by_name(language, stripnl=False, ensurenl=False)
