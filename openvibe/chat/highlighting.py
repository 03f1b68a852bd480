"""Code in colours, as CSS classes. Pure; `static/css/code.css` gives the colours."""

import html
from functools import lru_cache

from pygments import highlight as pygments_highlight
from pygments.formatters import HtmlFormatter
from pygments.lexer import Lexer
from pygments.lexers import get_lexer_by_name
from pygments.token import STANDARD_TYPES

MAX_HIGHLIGHTED_CHARACTERS = 10_000
"""Longer code is shown plain: colouring time grows with it, for some texts faster than evenly."""

# A list, because a lexer is code run on a stranger's text: these were measured on hostile input.
LANGUAGES = {
    "python": "python", "py": "python", "pycon": "pycon", "javascript": "javascript", "js": "javascript",
    "typescript": "typescript", "ts": "typescript", "jsx": "javascript", "tsx": "typescript", "json": "json",
    "html": "html", "xml": "xml", "css": "css", "scss": "scss", "sql": "sql", "bash": "bash", "sh": "bash",
    "shell": "bash", "console": "console", "yaml": "yaml", "yml": "yaml", "toml": "toml", "ini": "ini",
    "diff": "diff", "patch": "diff", "c": "c", "cpp": "cpp", "c++": "cpp", "csharp": "csharp", "cs": "csharp",
    "java": "java", "kotlin": "kotlin", "swift": "swift", "go": "go", "golang": "go", "rust": "rust",
    "rs": "rust", "ruby": "ruby", "rb": "ruby", "php": "php", "lua": "lua", "r": "r", "scala": "scala",
    "dockerfile": "docker", "docker": "docker", "makefile": "make", "make": "make", "nginx": "nginx",
    "markdown": "markdown", "md": "markdown", "http": "http", "django": "django", "jinja": "jinja",
}  # fmt: skip

CODE_CLASSES = frozenset(
    {name for name in STANDARD_TYPES.values() if name} | {f"language-{name}" for name in LANGUAGES.values()}
)

_FORMATTER: HtmlFormatter[str] = HtmlFormatter(nowrap=True)


def language_class(language: str) -> str:
    """Return `language-…` for a known name of a language, else an empty text."""
    known = LANGUAGES.get(language.lower())
    return f"language-{known}" if known else ""


def highlight(code: str, language: str) -> str:
    """Return code as escaped HTML, its words in `<span class>` when the language is known and size allows."""
    known = LANGUAGES.get(language.lower())
    if known is None or len(code) > MAX_HIGHLIGHTED_CHARACTERS:
        return html.escape(code)
    return pygments_highlight(code, _lexer(known), _FORMATTER)


@lru_cache(maxsize=len(LANGUAGES))
def _lexer(language: str) -> Lexer:
    return get_lexer_by_name(language, stripnl=False, ensurenl=False)
