"""TeX to MathML, within limits. Pure: no Django, no database.

What the library gives is rewritten element by element: its texts are escaped, and of its attributes stay those that
browsers draw; what it aligns and prints bold by attributes that they do not know has classes instead."""

import html
import re
from collections.abc import Iterable
from functools import lru_cache
from xml.etree.ElementTree import Element

from latex2mathml.converter import Converter

MAX_FORMULA_CHARACTERS = 2_000
"""What is longer is shown as it was written: it takes some 50 ms."""

MAX_FORMULA_TOTAL = 8_000
"""The most characters of all formulas of one text together."""

MAX_FORMULA_NESTING = 100
"""The most elements around another one."""

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
_CLASSES = {
    ("columnalign", "right"): "tex-right",
    ("columnalign", "left"): "tex-left",
    ("mathvariant", "bold"): "tex-bold",
    ("mathvariant", "bold-italic"): "tex-bold",
}
FORMULA_CLASSES = frozenset(_CLASSES.values())
"""What stands for attributes that browsers do not draw."""

_DEFINES_COMMANDS = re.compile(
    r"\\(?:(?:re)?newcommand|providecommand|[egx]?def|let|global|newenvironment|DeclareMath)"
)
"""A command that names itself, or ten times another one, has no end."""
_UNKNOWN_COMMAND = re.compile(r"\\[A-Za-z]+")

Formula = tuple[str, bool]
"""TeX, and whether it stands alone on its lines."""


def render_formulas(formulas: Iterable[Formula]) -> dict[Formula, str]:
    """The MathML of formulas, each with its TeX as an annotation. What is no TeX that the library knows, and what is
    beyond the limits, is left out."""
    rendered, total = dict[Formula, str](), 0
    for formula in dict.fromkeys(formulas):
        total += min(len(formula[0]), MAX_FORMULA_CHARACTERS)
        if total > MAX_FORMULA_TOTAL:
            break
        if len(formula[0]) <= MAX_FORMULA_CHARACTERS and (mathml := _render(formula)):
            rendered[formula] = mathml
    return rendered


@lru_cache(maxsize=1_000)
def _render(formula: Formula) -> str:
    """The MathML of one formula; empty where the library cannot read it."""
    tex, stands_alone = formula
    if _DEFINES_COMMANDS.search(tex):
        return ""
    try:
        root = Converter(display="block" if stands_alone else "inline").convert_to_element(tex)
    except Exception:  # it has no base of its own for its errors, and some are those of Python
        return ""
    parts: list[str] = []
    if not all(_write(child, parts, 1) for child in root):
        return ""
    display = ' display="block"' if stands_alone else ""
    source = f'<annotation encoding="application/x-tex">{html.escape(tex, quote=False)}</annotation>'
    return f"<math{display}><semantics>{''.join(parts)}{source}</semantics></math>"


def _write(element: Element, parts: list[str], depth: int) -> bool:
    """Adds the element's MathML. False where it is nested too deeply or is a command that the library does not know."""
    text = html.unescape(element.text or "")
    if depth > MAX_FORMULA_NESTING or (element.tag == "mi" and _UNKNOWN_COMMAND.fullmatch(text)):
        return False
    classes = " ".join(_CLASSES[each] for each in element.attrib.items() if each in _CLASSES)
    kept = {name: value for name, value in element.attrib.items() if name in MATHML_ATTRIBUTES}
    attributes = {**kept, "class": classes} if classes else kept
    written = "".join(f' {name}="{html.escape(value)}"' for name, value in attributes.items())
    parts.append(f"<{element.tag}{written}>{html.escape(text, quote=False)}")
    is_known = all(_write(child, parts, depth + 1) for child in element)
    parts.append(f"</{element.tag}>")
    return is_known
