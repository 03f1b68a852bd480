"""Every code that the source can answer with, by its syntax tree, and the page of the docs that lists them."""

import ast
import re
from collections.abc import Iterator
from functools import cache
from http import HTTPStatus
from pathlib import Path
from typing import Any, NamedTuple

ROOT = Path(__file__).parent.parent.parent
APPS = ("openvibe", "memory", "knowledge", "agents")
CODE_THEN_SENTENCE = ("TextRefused", "_file_problem", "_picture_problem")
HEAD = """# Codes

Every `code` of a problem, by its status, with one of the sentences that come with it; `…` stands for what differs.
Codes are stable, sentences are for people and may change. Of `invalid` the body's `errors` say more: each has a
`field`, a `message` and a code of its own, such as `required`, `max_length`, `invalid_choice` or `unknown_field`.

`RECORD_CODES=1 python -m pytest tests/api/test_codes.py` writes this page; the test compares its codes with the source.
"""


class Raised(NamedTuple):
    status: int
    code: str
    sentence: str


@cache
def trees() -> list[ast.Module]:
    paths = (path for app in APPS for path in sorted((ROOT / app).rglob("*.py")) if "migrations" not in path.parts)
    return [ast.parse(text) for text in map(Path.read_text, paths) if "code" in text or "CutReason" in text]


@cache
def problem_classes() -> dict[str, tuple[int, str]]:
    """Status and code of Problem and every class made from it, by name."""
    codes_by_class = {"Problem": (400, "bad_request")}
    classes = [node for tree in trees() for node in ast.walk(tree) if isinstance(node, ast.ClassDef)]
    size = 0
    while size < len(codes_by_class):
        size = len(codes_by_class)
        for node in classes:
            base = next(
                (
                    codes_by_class[one.id]
                    for one in node.bases
                    if isinstance(one, ast.Name) and one.id in codes_by_class
                ),
                None,
            )
            if base is not None:
                own = dict(_class_constants(node))
                codes_by_class[node.name] = (own.get("status", base[0]), own.get("code", base[1]))
    return codes_by_class


def _class_constants(node: ast.ClassDef) -> Iterator[tuple[str, Any]]:
    for statement in node.body:
        match statement:
            case ast.Assign(targets=[ast.Name(id=name)], value=ast.Constant(value=int() | str() as value)):
                yield name, value


def raised_codes() -> dict[tuple[int, str], str]:
    """A sentence for each status and code; empty where the source has none in one piece."""
    places: dict[tuple[int, str], str] = {}
    for tree in trees():
        for status, code, sentence in _raised_in(tree, {}):
            if not places.get((status, code)):
                places[status, code] = " ".join(sentence.split())
    return dict(sorted(places.items()))


def _raised_in(node: ast.AST, messages: dict[str, str]) -> Iterator[Raised]:
    if isinstance(node, ast.FunctionDef):
        names = ((one.targets[0], one.value) for one in ast.walk(node) if isinstance(one, ast.Assign))
        messages = {name.id: text for name, value in names if isinstance(name, ast.Name) and (text := _text(value))}
    match node:
        case ast.Call(func=ast.Name(id=name) | ast.Attribute(attr=name)):
            yield from _raised_by(name, node, messages)
        case ast.Assign(targets=[ast.Name(id="CutReason")], value=reasons):
            yield from (Raised(400, code.replace(" ", "_"), "") for code in _strings(reasons))
        case ast.AnnAssign(target=ast.Name(id="EXCEPTION_CODES"), value=ast.Dict(values=pairs)):
            for pair in pairs:
                code, *sentence = _strings(pair)
                yield Raised(EXCEPTION_STATUS[code], code, "".join(sentence))
    for child in ast.iter_child_nodes(node):
        yield from _raised_in(child, messages)


EXCEPTION_STATUS = {
    "not_authenticated": 401,
    "bad_token": 401,
    "method_not_allowed": 405,
    "unsupported_media_type": 415,
    "throttled": 429,
    "not_allowed": 403,
    "bad_json": 400,
}


def _raised_by(name: str, call: ast.Call, messages: dict[str, str]) -> Iterator[Raised]:
    texts = [_text(argument) or messages.get(getattr(argument, "id", ""), "") for argument in call.args]
    if name in CODE_THEN_SENTENCE:
        yield Raised(400, texts[0], texts[1])
    elif name == "problem_details" and isinstance(call.args[0], ast.Constant) and texts[1]:
        yield Raised(int(str(call.args[0].value)), texts[1], texts[2] if len(texts) > 2 else "")
    elif name in problem_classes():
        status, code = problem_classes()[name]
        named = next((keyword.value for keyword in call.keywords if keyword.arg == "code"), None)
        codes = [code] if named is None else [text for text in _strings(named) if text.isidentifier() and text != "_"]
        yield from (Raised(status, each, texts[0] if texts else "") for each in codes)


def _strings(node: ast.AST) -> list[str]:
    constants = (inner.value for inner in ast.walk(node) if isinstance(inner, ast.Constant))
    return [value for value in constants if isinstance(value, str)]


def _text(node: ast.AST) -> str:
    match node:
        case ast.Constant(value=str(text)):
            return text
        case ast.JoinedStr(values=parts):
            return "".join(_text(part) or "…" for part in parts)
    return ""


def codes_page() -> str:
    codes = raised_codes()
    lines = [HEAD]
    for status in sorted({status for status, _ in codes}):
        here = {code: sentence.replace("|", "\\|") for (at, code), sentence in codes.items() if at == status}
        lines += [f"## {status} {HTTPStatus(status).phrase}", "| code | said with |", "|---|---|"]
        lines += [*(f"| `{code}` | {sentence} |" for code, sentence in here.items()), ""]
    return "\n".join(lines)


def listed_codes(page: str) -> set[tuple[int, str]]:
    """Status and code of each line of the page."""
    parts = re.split(r"^## (\d+) .*$", page, flags=re.MULTILINE)[1:]
    pairs = zip(parts[::2], parts[1::2], strict=True)
    return {
        (int(status), code) for status, table in pairs for code in re.findall(r"^\| `(\w+)` \|", table, re.MULTILINE)
    }
