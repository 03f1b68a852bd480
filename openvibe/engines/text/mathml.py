"""TeX to MathML, within limits. Pure: no Django, no database.

The library's parser calls itself for whatever stands within another thing, and ends the process where its stack is used
up. So it runs on a stack that is deep enough for the longest formula: none is nested deeper than it has characters,
since those that define commands of their own are not read."""

import html
import re
from collections.abc import Iterable, Sequence
from threading import Lock, Thread, stack_size

from math_core import LatexError, LatexToMathML

MAX_FORMULA_CHARACTERS = 4_000
"""What is longer is shown as it was written."""

MAX_FORMULA_TOTAL = 20_000
"""The most characters of all formulas of one text together: their HTML is ten to twenty times as long."""

MATHML_TAGS = frozenset(
    {
        *("math", "semantics", "annotation", "mrow", "mi", "mo", "mn", "mtext", "mspace", "ms", "mstyle", "mpadded"),
        *("msup", "msub", "msubsup", "mover", "munder", "munderover", "mmultiscripts", "mprescripts", "mphantom"),
        *("mfrac", "msqrt", "mroot", "mtable", "mtr", "mtd", "menclose", "merror"),
    }
)
MATHML_ATTRIBUTES = frozenset(
    {
        *("display", "class", "encoding", "lspace", "rspace", "stretchy", "symmetric", "fence", "form", "separator"),
        *("movablelimits", "largeop", "accent", "accentunder", "linethickness", "mathvariant", "notation", "minsize"),
        *("maxsize", "width", "height", "depth", "voffset", "displaystyle", "scriptlevel", "columnspan", "rowspan"),
    }
)
_LINES = {
    f"border-{side}: 0.05em {line} currentcolor": f"tex-{side}-{line}"
    for side in ("top", "right", "left")
    for line in ("solid", "dashed")
}
_CLASS_OF_DECLARATION = _LINES | {
    "width: 100%": "tex-wide",
    "width: 50%": "tex-half",
    "text-align: right": "tex-right",
    "text-align: left": "tex-left",
    "padding-left: 0": "tex-no-left",
    "padding-right: 0": "tex-no-right",
    "padding-left:1em": "tex-gap",
}
FORMULA_CLASSES = frozenset(
    {*_CLASS_OF_DECLARATION.values(), *(f"menclose-{each}" for each in ("updiagonalstrike", "downdiagonalstrike"))}
)
"""What stands for the inline styles of the library, which no page may have."""

_BYTES_OF_LEVEL = 16_000
"""Of the stack; the dearest level took a quarter of it."""
_MAX_CACHED = 2_000
_DEFINES_COMMANDS = re.compile(
    r"\\(?:(?:re)?newcommand|providecommand|[egx]?def|let|global|newenvironment|DeclareMath)"
)
_STYLE = re.compile(r'(<m[a-z]+(?: [a-z]+="[^"<>]*")*?) style="([^"<>]*)"')
_TEXT_TAGS = (("<b>", "<strong>"), ("</b>", "</strong>"), ("<i>", "<em>"), ("</i>", "</em>"))
_CONVERTER = LatexToMathML(fancy_error=False, max_expansions=200)


Formula = tuple[str, bool]
"""TeX, and whether it stands alone on its lines."""

_mathml_cache: dict[Formula, str] = {}
_starting = Lock()


def render_formulas(formulas: Iterable[Formula]) -> dict[Formula, str]:
    """The MathML of formulas, each with its TeX as an annotation. What is no TeX that the library knows, and what is
    beyond the limits, is left out."""
    chosen, total = [], 0
    for formula in dict.fromkeys(formulas):
        total += len(formula[0])
        if total > MAX_FORMULA_TOTAL:
            break
        if len(formula[0]) <= MAX_FORMULA_CHARACTERS and not _DEFINES_COMMANDS.search(formula[0]):
            chosen.append(formula)
    if len(_mathml_cache) > _MAX_CACHED:
        _mathml_cache.clear()
    if unknown := [formula for formula in chosen if formula not in _mathml_cache]:
        _convert_on_deep_stack(unknown)
    return {formula: mathml for formula in chosen if (mathml := _mathml_cache.get(formula))}


def _convert_on_deep_stack(formulas: Sequence[Formula]) -> None:
    thread = Thread(target=_convert, args=(formulas,), daemon=True)
    with _starting:
        size = stack_size(
            _BYTES_OF_LEVEL * MAX_FORMULA_CHARACTERS
        )  # reserved, not used: only what is written to counts
        try:
            thread.start()
        finally:
            stack_size(size)
    thread.join()


def _convert(formulas: Sequence[Formula]) -> None:
    for formula in formulas:
        tex, stands_alone = formula
        try:
            mathml = _CONVERTER.convert_with_local_state(tex, displaystyle=stands_alone)
        except LatexError:
            _mathml_cache[formula] = ""
        else:
            _mathml_cache[formula] = _annotate(_without_styles(mathml), tex)


def _annotate(mathml: str, tex: str) -> str:
    """The formula with its source: what is read by programs, and copied."""
    start, content = mathml.removesuffix("</math>").split(">", 1)
    source = f'<annotation encoding="application/x-tex">{html.escape(tex, quote=False)}</annotation>'
    return f"{start}><semantics><mrow>{content}</mrow>{source}</semantics></math>"


def _without_styles(mathml: str) -> str:
    """Inline styles as classes. Colours go: no page of ours has those of a stranger's text."""
    if "<b>" in mathml or "<i>" in mathml:
        for tag, named in _TEXT_TAGS:
            mathml = mathml.replace(tag, named)
    return _STYLE.sub(_class_for_style, mathml) if "style=" in mathml else mathml


def _class_for_style(match: re.Match[str]) -> str:
    declarations = (each.strip() for each in match[2].split(";"))
    classes = " ".join(
        dict.fromkeys(_CLASS_OF_DECLARATION[each] for each in declarations if each in _CLASS_OF_DECLARATION)
    )
    return f'{match[1]} class="{classes}"' if classes else match[1]
