"""Our stylesheets as one, and our modules as one script, without comments and indentation: sixty files took as many
requests, and modules that import one another a round trip for each step from the first to the last."""

import re
from pathlib import Path

_CSS_IMPORT = re.compile(r'^@import "(\w+\.css)";\n', re.MULTILINE)
_JS_IMPORT = re.compile(r'^import (?:(?P<names>[^"]+?) from )?"\./(?P<file>\w+\.js)";\n', re.MULTILINE)
_JS_EXPORT = re.compile(r"^export (?=(?:const|function|async function) (?P<name>\w+))", re.MULTILINE)
_COMMENT = re.compile(r"^[ \t]*(?://[^\n]*|/\*(?:(?!\*/).)*?\*/)[ \t]*\n", re.MULTILINE | re.DOTALL)
_LAST_COMMENT = re.compile(r"""(?<=[;{}(,])[ \t]+(?://[^\n"'`]*|/\*[^\n"'`*]*\*/)$""", re.MULTILINE)
"""A comment behind code. It holds no quotation mark, so that it stands in no text."""
_INDENTATION = re.compile(r"^[ \t]+|\n(?=\s*\n)", re.MULTILINE)


def bundle_styles(entry: Path) -> str:
    """The stylesheet with what it imports in its place."""
    text = _CSS_IMPORT.sub(lambda match: bundle_styles(entry.with_name(match[1])), entry.read_text(encoding="utf-8"))
    return _without_comments(text)


def bundle_modules(entry: Path) -> str:
    """One module that runs the entry and all that it imports, each in a function of its own and in the order in which
    browsers run them. Raises ValueError for an import or an export of a form that is not ours."""
    functions: dict[str, str] = {}
    _add_module(entry, functions, ())
    return "".join(functions.values())


def _add_module(path: Path, functions: dict[str, str], importers: tuple[str, ...]) -> None:
    if path.stem in importers:
        raise ValueError(f"{path.name} imports itself, by {', '.join(importers)}.")
    text = path.read_text(encoding="utf-8")
    for match in _JS_IMPORT.finditer(text):
        if match["file"].removesuffix(".js") not in functions:
            _add_module(path.with_name(match["file"]), functions, (*importers, path.stem))
    text = _JS_IMPORT.sub(_constant_of, text)
    names = [match["name"] for match in _JS_EXPORT.finditer(text)]
    text = _without_comments(_JS_EXPORT.sub("", text))
    if other := re.search(r"^(?:import|export)\b.*", text, re.MULTILINE):
        raise ValueError(f"{path.name}: {other[0]}")
    functions[path.stem] = f"const module_{path.stem} = (() => {{\n{text}return {{ {', '.join(names)} }};\n}})();\n"


def _constant_of(match: re.Match[str]) -> str:
    if not match["names"]:
        return ""
    names = match["names"].removeprefix("* as ").replace(" as ", ": ")
    return f"const {names} = module_{match['file'].removesuffix('.js')};\n"


def _without_comments(text: str) -> str:
    """The text without comments, indentation and empty lines. No text of ours goes over several lines."""
    return _INDENTATION.sub("", _LAST_COMMENT.sub("", _COMMENT.sub("", text)))
