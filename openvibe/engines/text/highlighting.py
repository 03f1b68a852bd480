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
"""The most characters of one block. Colouring time grows with length, for some texts faster than evenly; longer code is
plain."""

MAX_HIGHLIGHTED_TOTAL = 12_000
"""The most characters of all blocks of one text together; characters of slow languages count more. At worst about 120
ms."""

_MAX_LINE_CHARACTERS = 500
_SLOW_LANGUAGE_LIMITS = {"csharp": 800, "java": 2_000, "scala": 2_000}
_SLOW_LANGUAGE_COSTS = {"csharp": 12, "java": 5, "scala": 3}
# The lexers of the first two try every line as the start of a method; that of Scala every parenthesis as a pattern.
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

_LABELS = {
    "css": "CSS",
    "cpp": "C++",
    "csharp": "C#",
    "html": "HTML",
    "http": "HTTP",
    "ini": "INI",
    "javascript": "JavaScript",
    "json": "JSON",
    "mermaid": "Mermaid",
    "php": "PHP",
    "pycon": "Python console",
    "scss": "SCSS",
    "sql": "SQL",
    "tex": "TeX",
    "latex": "LaTeX",
    "toml": "TOML",
    "typescript": "TypeScript",
    "xml": "XML",
    "yaml": "YAML",
}
"""How languages are written that are no ordinary names."""

MAX_LABEL_CHARACTERS = 40


def language_label(info: str) -> str:
    """The name of a block of code: its language, as it is written or as somebody named it, `Code` without one."""
    name = (info.split() or [""])[0][:MAX_LABEL_CHARACTERS]
    language = LANGUAGES.get(name.lower(), "")
    return _LABELS.get(language) or language.capitalize() or _LABELS.get(name.lower(), name) or "Code"


CODE_CLASSES = frozenset({name for name in STANDARD_TYPES.values() if name} | {f"language-{name}" for name in _LEXERS})

_FORMATTER: HtmlFormatter[str] = HtmlFormatter(nowrap=True)


def highlighting_cost(code: str, language: str) -> int:
    """The most that colouring may cost, in characters of an ordinary language; 0 for code that is shown plain."""
    return len(code) * _SLOW_LANGUAGE_COSTS.get(language, 1) if _may_be_highlighted(code, language) else 0


def highlight_code(code: str, language: str) -> str:
    """Code as escaped HTML, its words in `<span class>` when its size allows. `language` is a value of LANGUAGES."""
    if not _may_be_highlighted(code, language):
        return html.escape(code)
    return highlight(code, _get_lexer(language), _FORMATTER)


def _may_be_highlighted(code: str, language: str) -> bool:
    return (
        len(code) <= _SLOW_LANGUAGE_LIMITS.get(language, MAX_HIGHLIGHTED_CHARACTERS)
        and not _LONG_WHITESPACE.search(code)
        and all(len(line) <= _MAX_LINE_CHARACTERS for line in code.splitlines())
    )


@cache
def _get_lexer(language: str) -> Lexer:
    return get_lexer_by_name(language, stripnl=False, ensurenl=False)
