"""First words of docstrings: a noun or a verb in the third person, never the middle of a thought.

Run by `make check`: `python -m tests.operations.docstrings`. A noun clause ("What the asker sees", "Whether it is
over") names the thing and may stand first.
"""

import ast
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
FOLDERS = ("agents", "client", "docs", "knowledge", "memory", "openvibe", "tests")

_MIDDLES_TEXT = """
about after afterwards also and around as asked at because before beside besides between beyond but by called
during else enough exactly for from her however if in inside into it its like may meanwhile nearly never not of off
on once only or out outside over per should since so than that their then there these they this though through to
told too under unless until up upon when whenever where whereas wherever which while who whoever whom whose why with
within without
"""
MIDDLES = frozenset(_MIDDLES_TEXT.split())
"""Words that no sentence about a thing begins with: prepositions, conjunctions, adverbs, and pronouns of something that
was spoken of before."""

_ORDERS_TEXT = """
accept add allow append apply ask assemble assert attach audit begin believe bring build call cancel carry check
choose clean clear close collect compact compare compile compute confirm connect convert correct count create cut
decide delete describe disable drop embed emit enable encode end enqueue ensure erase execute export fetch fill find
follow forget format get give go grant handle have hold import insert join keep leave let lift list load lock look
make mark measure merge move name note notify offer parse pin post prepare propose provide publish put raise read
rebuild record reject release remember remove rename render renew replace request reset resolve restore return
revoke rewrite roll run save say see select send serve set settle show sort split start stop store suggest switch
take tell try turn update use validate wait wipe write yield
"""
ORDERS = frozenset(_ORDERS_TEXT.split())
"""Verbs in the imperative. Those that are nouns as well may stand before "of"."""

METHODS = frozenset({"get", "post", "put", "patch", "delete"})
"""Names of the functions whose docstrings, with those of serializers, are the words of `docs/openapi.yaml`."""


class Docstring(NamedTuple):
    path: Path
    line: int
    text: str


def is_in_the_middle(text: str) -> bool:
    """Whether the text begins in the middle of a thought, or gives an order."""
    first, *others = text.split() or [""]
    word = first.strip("*_\"'“”().,:;!?")
    is_name = word.startswith("`") or (word.isupper() and len(word) > 1)
    is_noun = first[-1:] in (",", ":") or others[:1] == ["of"]
    return not is_name and (word.lower() in MIDDLES or (word.lower() in ORDERS and not is_noun))


def docstrings(path: Path) -> Iterator[Docstring]:
    """The docstrings of a module: its own, those of classes and functions, and those below constants and fields."""
    for node in ast.walk(ast.parse(path.read_text())):
        body = getattr(node, "body", None)
        if not isinstance(body, list) or _is_of_api(node):
            continue
        for before, statement in zip([node, *body], body, strict=False):
            match statement:
                case ast.Expr(value=ast.Constant(value=str() as text)) if before is node or isinstance(
                    before, ast.Assign | ast.AnnAssign
                ):
                    yield Docstring(path, statement.lineno, text)


def _is_of_api(node: ast.AST) -> bool:
    match node:
        case ast.FunctionDef(name=name):
            return name in METHODS
        case ast.ClassDef(name=name):
            return name.endswith("Out")
    return False


def check() -> list[Docstring]:
    """The docstrings that begin in the middle of a thought."""
    files = [ROOT / "manage.py", *(file for folder in FOLDERS for file in sorted((ROOT / folder).rglob("*.py")))]
    written = (doc for file in files if "migrations" not in file.parts for doc in docstrings(file))
    return [doc for doc in written if is_in_the_middle(doc.text)]


def main() -> None:
    for doc in (found := check()):
        print(f"{doc.path.relative_to(ROOT)}:{doc.line}: begins with no noun and no verb: {doc.text.splitlines()[0]}")
    if found:
        raise SystemExit(1)


if __name__ == "__main__":
    main()
