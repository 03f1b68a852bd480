"""The reference of the REST API on the documentation's site, made from `docs/openapi.yaml` when the site is built.

A Markdown extension, named in `zensical.toml`: it puts the operations where `docs/api-reference.md` has MARKER.
"""

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cache
from pathlib import Path
from typing import Any, Final

import yaml
from markdown import Extension, Markdown
from markdown.preprocessors import Preprocessor

ROOT: Final = Path(__file__).parent.parent.parent
MARKER: Final = "<!-- operations -->"
BEFORE_ALL_OTHERS: Final = 200
"""A priority among preprocessors: what is put in is Markdown, which the others read."""

TITLES: Final = {"do": "Do not disturb", "direct": "Direct messages", "me": "Who calls"}
"""Titles of groups whose name is not their title."""

EXAMPLE_LANGUAGES: Final = {"application/json": "json", "application/x-ndjson": "json", "text/markdown": "markdown"}

Schema = dict[str, Any]


class ReferenceExtension(Extension):  # type: ignore[misc]  # the library has no types
    """An extension of Python-Markdown, which the site is built with."""

    def extendMarkdown(self, md: Markdown) -> None:  # noqa: N802 - the library's name
        md.preprocessors.register(_ReferencePreprocessor(md), "api_reference", BEFORE_ALL_OTHERS)


class _ReferencePreprocessor(Preprocessor):  # type: ignore[misc]  # the library has no types
    def run(self, lines: list[str]) -> list[str]:
        return [each for line in lines for each in (reference_lines() if line.strip() == MARKER else (line,))]


def makeExtension(**options: Any) -> ReferenceExtension:  # noqa: N802 - the library's name
    """The entry that Python-Markdown looks for in a module."""
    return ReferenceExtension(**options)


@cache
def reference_lines() -> tuple[str, ...]:
    """The groups with their operations, then the objects that they take and answer, as lines of Markdown."""
    description = yaml.load((ROOT / "docs" / "openapi.yaml").read_text("utf-8"), yaml.CSafeLoader)
    groups: dict[str, list[tuple[str, str, Schema]]] = {}
    for path, methods in description["paths"].items():
        for method, operation in methods.items():
            groups.setdefault(operation["tags"][0], []).append((method.upper(), path, operation))
    page = _Page(description["components"]["schemas"], _codes())
    return tuple(page.lines(dict(sorted(groups.items()))))


def _codes() -> dict[str, list[str]]:
    """The statuses of each code, as `docs/api-codes.md` lists them."""
    statuses: dict[str, list[str]] = {}
    parts = re.split(r"(?m)^## (\d+) .*$", (ROOT / "docs" / "api-codes.md").read_text("utf-8"))[1:]
    for status, table in zip(parts[::2], parts[1::2], strict=True):
        for code in re.findall(r"(?m)^\| `(\w+)` \|", table):
            statuses.setdefault(code, []).append(status)
    return statuses


class _Page:
    def __init__(self, components: dict[str, Schema], codes: dict[str, list[str]]) -> None:
        self.components, self.codes = components, codes

    def lines(self, groups: dict[str, list[tuple[str, str, Schema]]]) -> Iterator[str]:
        for tag, operations in groups.items():
            yield from (f"## {TITLES.get(tag, tag.capitalize())} {{ #{tag} }}", "")
            for method, path, operation in operations:
                yield from self._operation(method, path, operation)
        yield from ("## Objects { #objects }", "", "What operations answer, and what that is made of.", "")
        for name in self._objects(groups.values()):
            yield from (f"### {name} {{ #{name} }}", "")
            yield from self._properties(self.components[name], is_answer=True)

    def _operation(self, method: str, path: str, operation: Schema) -> Iterator[str]:
        yield from (f"### {operation['summary']} {{ #{operation['operationId']} }}", "", f"`{method} {path}`", "")
        yield from (escape(operation["description"]), "")
        if parameters := operation.get("parameters"):
            rows = [
                (f"`{each['name']}`", each["in"], self._type(each["schema"]), _required(each.get("required"), each))
                for each in parameters
            ]
            yield from table(("parameter", "in", "type", "meaning"), rows)
        yield from self._body(operation.get("requestBody", {}).get("content", {}))
        answers: dict[str, tuple[list[str], dict[str, Schema]]] = {}
        for status, answer in operation["responses"].items():
            content = answer.get("content", {})
            answers.setdefault(str(content), ([], content))[0].append(status)
        for statuses, content in answers.values():
            if statuses != ["default"]:
                yield from self._answer(" or ".join(statuses), content)
        yield from (f"**Errors** {', '.join(self._errors(method, path, operation))}", "")

    def _body(self, content: dict[str, Schema]) -> Iterator[str]:
        if not content:
            return
        yield from (f"**Body** {_listed(content)}", "")
        schema = next(iter(content.values()))["schema"]
        name = _referred(schema)
        for one in self.components.get(name, {}).get("oneOf", [schema]):
            action = self.components.get(_referred(one), {})
            yield from self._properties(action, is_answer=False)
        yield from _examples(content)

    def _answer(self, status: str, content: dict[str, Schema]) -> Iterator[str]:
        if not content:
            yield from (f"**Answer** {status}, without a body", "")
            return
        name = _referred(next(iter(content.values()))["schema"])
        form = ""
        if name.startswith("Paginated"):
            form = f": a page of {_link(_referred(self.components[name]['properties']['results']['items']))}"
        elif name:
            form = f": {_link(name)}"
        yield from (f"**Answer** {status}, {_listed(content)}{form}", "")
        yield from _examples(content)

    def _properties(self, schema: Schema, *, is_answer: bool) -> Iterator[str]:
        required = () if is_answer else schema.get("required", ())
        rows = [
            (f"`{name}`", self._type(one), _required(name in required, one))
            for name, one in schema.get("properties", {}).items()
        ]
        yield from table(("field", "type", "meaning"), rows)

    def _errors(self, method: str, path: str, operation: Schema) -> Iterator[str]:
        """Codes that follow from what the operation takes, then those that its description names."""
        names = {each["name"]: each for each in operation.get("parameters", ())}
        if names or "requestBody" in operation:
            yield "400 `invalid`"
        yield from ("401 `bad_token`", "403 `missing_scope`")
        if "{" in path or "thread" in names:
            yield "404 `not_found`"
        if method == "POST" and "201" in operation["responses"]:
            yield "409 `idempotency_mismatch`"
        if "If-Match" in names:
            yield from ("412 `stale`", "428 `if_match_required`")
        for code in dict.fromkeys(re.findall(r"`(\w+)`", operation["description"])):
            if statuses := self.codes.get(code):
                yield f"{' or '.join(statuses)} `{code}`"
        yield "429 `throttled`"

    def _type(self, schema: Schema) -> str:
        """Says in words what a value is, such as `list of Message or null`, with links to objects."""
        if choices := schema.get("oneOf") or schema.get("allOf") or schema.get("anyOf"):
            return " or ".join(filter(None, map(self._type, choices)))
        if name := _referred(schema):
            component = self.components[name]
            return _link(name) if "properties" in component else self._type(component)
        if "enum" in schema:
            return ", ".join(f"`{value}`" for value in schema["enum"] if value != "")
        if schema.get("type") == "array":
            return f"list of {self._type(schema['items'])}"
        kinds = schema.get("type", "anything")
        words = [schema.get("format", kind) if kind == "string" else kind for kind in _as_list(kinds)]
        return " or ".join(words)

    def _objects(self, groups: Iterable[list[tuple[str, str, Schema]]]) -> list[str]:
        """Names of what types link to, sorted: all that answers hold, and what stands inside of bodies."""
        operations = [operation for group in groups for _, _, operation in group]
        answers = [operation["responses"] for operation in operations]
        bodies = _references([operation.get("requestBody", {}) for operation in operations])
        parts = [*bodies, *(name for body in bodies for name in _references(self.components[body]))]
        names = set(_references([answers, [self.components[part] for part in parts]])) - {"Problem"}
        while inner := set(_references([self.components[name] for name in names])) - names:
            names |= inner
        has_table = (name for name in names if "properties" in self.components[name])
        return sorted(name for name in has_table if not name.startswith("Paginated"))


def escape(text: str) -> str:
    """Makes one line of Markdown that shows what is no code as it was written, also in tables."""
    parts = re.split(r"(`[^`]*`)", " ".join(text.split()))
    return "".join(part if part.startswith("`") else _escape_markup(part) for part in parts)


def _escape_markup(text: str) -> str:
    return re.sub(r"([*_\[\]|])", r"\\\1", text.replace("<", "&lt;"))


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table of Markdown, with an empty line after it; nothing without rows."""
    if rows:
        yield from (f"| {' | '.join(head)} |", f"|{'---|' * len(head)}")
        yield from (f"| {' | '.join(row)} |" for row in rows)
        yield ""


def _examples(content: dict[str, Schema]) -> Iterator[str]:
    for media_type, one in content.items():
        if "example" in one:
            example = one["example"]
            text = example if isinstance(example, str) else _short_json(example)
            yield from (f"```{EXAMPLE_LANGUAGES.get(media_type, 'text')}", *text.rstrip("\n").split("\n"), "```", "")


def _short_json(value: Any) -> str:
    """Indented, but for innermost objects and lists that fit on a line."""

    def on_one_line(match: re.Match[str]) -> str:
        line = " ".join(match[0].split()) if len(match[0]) < 200 else match[0]
        return re.sub(r"(?<=[\[{]) | (?=[\]}])", "", line) if len(line) <= 90 else match[0]

    return re.sub(r"[\[{]\n[^\[\]{}]*[\]}]", on_one_line, json.dumps(value, indent=2, ensure_ascii=False))


def _required(is_required: Any, schema: Schema) -> str:
    description = escape(
        schema.get("description", "").partition("\n\n* ")[0]
    )  # a list of values follows, as in the type
    return f"**Required.** {description}" if is_required else description


def _references(value: Any) -> list[str]:
    """Names of all components that something refers to, however deep."""
    return re.findall(r"#/components/schemas/(\w+)", json.dumps(value))


def _referred(schema: Schema) -> str:
    return str(schema.get("$ref", "")).rpartition("/")[2]


def _link(name: str) -> str:
    return f"[{name}](#{name})"


def _listed(content: dict[str, Schema]) -> str:
    return " or ".join(f"`{media_type}`" for media_type in content)


def _as_list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else [value]
