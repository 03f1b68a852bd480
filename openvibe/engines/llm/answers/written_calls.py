"""Calls of tools that a model wrote as text, in the forms that chat templates teach: what stands between two marks, or
is the whole of an answer. Pure.

Each form is that of a family of models whose servers let it through; `markup.py` has the marks around them.
"""

from __future__ import annotations

import ast
import json
import re
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from openvibe.engines.llm.answers.lenient_json import UnreadableJson, load_lenient, unfence

NAME_KEYS = ("name", "tool_name", "tool", "function", "function_name", "action")
ARGUMENT_KEYS = ("arguments", "parameters", "args", "input", "tool_input", "action_input", "params")
OTHER_KEYS = ("type", "id", "index", "call_id", "tool_call_id", "tool_calls")

_NAME = r"[\w.:/-]{1,200}"
_PREFIX = r"(?:[|｜￨‖]{1,2}\s?DSML\s?[|｜￨‖]{1,2}|[a-z]{2,12}:)?"
_FUNCTION = re.compile(rf"<function(?:=|\s+name\s*=\s*)[\"']?(?P<name>{_NAME})[\"']?\s*(?:>|=(?=\{{))?", re.IGNORECASE)
_FUNCTION_END = re.compile(r"</?function>", re.IGNORECASE)
_INVOKE = re.compile(rf"<{_PREFIX}invoke\s+name\s*=\s*[\"'](?P<name>{_NAME})[\"']\s*>", re.IGNORECASE)
_INVOKE_END = re.compile(rf"</{_PREFIX}invoke>", re.IGNORECASE)
_PARAMETER = re.compile(
    rf"<{_PREFIX}param(?:eter)?(?:=|\s+name\s*=\s*)[\"']?(?P<key>[^\"'<>=\n]{{1,200}}?)[\"']?(?P<more>\s[^<>]*)?>",
    re.IGNORECASE,
)
_PARAMETER_END = re.compile(rf"\n?</{_PREFIX}param(?:eter)?>", re.IGNORECASE)
_ENDED_PARAMETER = re.compile(rf"</{_PREFIX}param(?:eter)?>\s*\Z", re.IGNORECASE)
_BETWEEN = re.compile(r"(?:\s|</?tool_calls?>)*", re.IGNORECASE)
_SECTION = re.compile(
    r"<[|｜￨]tool[_▁]call[_▁]begin[|｜￨]>(.*?)(?:<[|｜￨]tool[_▁]call[_▁]end[|｜￨]>|\Z|(?=<[|｜￨]tool[_▁]call[_▁]begin))",
    re.DOTALL,
)
_SEPARATOR = re.compile(r"<[|｜￨]tool[_▁]sep[|｜￨]>|<\|tool_call_argument_begin\|>")
_KEY_AND_VALUE = re.compile(r"\s*<arg_key>(?P<key>.*?)</arg_key>\s*<arg_value>(?P<value>.*?)</arg_value>\s*", re.DOTALL)
_MISTRAL = re.compile(rf"(?:\[TOOL_CALLS\]|\s|,)*(?P<name>{_NAME})(?:\[CALL_ID\]{_NAME})?(?:\[ARGS\])?\s*(?=\{{)")
_GEMMA = re.compile(rf"\s*call:\s*(?P<name>{_NAME}?)\s*(?=[{{(])")
_PLUGIN = re.compile(r"\A<\|(?:plugin|interpreter)\|>")
_NAME_IN_PIECES = re.compile(
    rf"[\"'](?:name|tool|tool_name|function)[\"']\s*:\s*[\"'](?P<json>{_NAME})[\"']"
    rf"|<function(?:=|\s+name\s*=\s*)[\"']?(?P<tag>{_NAME})|invoke\s+name\s*=\s*[\"'](?P<invoke>{_NAME})"
)
_ARGUMENTS_IN_PIECES = re.compile(rf"[\"'](?:{'|'.join(ARGUMENT_KEYS)})[\"']\s*:\s*")


@dataclass(frozen=True)
class WrittenCall:
    """A call by the name that the model wrote, and its arguments as JSON text, which may be invalid."""

    name: str
    arguments: str


def read_calls(body: str) -> list[WrittenCall] | None:
    """The calls of which a text consists, in whatever form; None where it is anything else or breaks off."""
    text = _PLUGIN.sub("", unfence(body)).strip()
    return next((calls for form in _FORMS if (calls := form(text))), None)


def read_whole_answer(text: str) -> list[WrittenCall] | None:
    """The calls of which a whole answer consists: JSON with nothing but a name and arguments, or calls in brackets as
    in Python; fenced perhaps. None where it is anything else."""
    is_code = re.match(r"\s*```(?:tool_code|tool_calls?)\b", text) is not None
    body = unfence(text).removeprefix("functools").strip()
    if body.startswith("{") or (body.startswith("[") and re.match(r"\[\s*[{\]]", body)):
        values = _json_values(body)
        if values is None or not all(_is_nothing_but_call(value) for value in values):
            return None
        return _json_calls(body)
    return _python_calls(body) if is_code or body.startswith("[") else None


def read_unended_calls(body: str) -> list[WrittenCall] | None:
    """The calls of a text whose closing mark is missing; None where it breaks off within them."""
    if re.fullmatch(rf"\s*{_NAME}\s*", body):  # which may be half a name
        return None
    closings = ("", "</function>", "</invoke>") if _ENDED_PARAMETER.search(body) else ("",)
    return next((calls for closing in closings if (calls := read_calls(body + closing))), None)


def read_pieces(body: str) -> list[WrittenCall] | None:
    """The call that breaks off in a text, or cannot be read, by its name. Its arguments stay as they are, so that
    nothing is made of half of them and the model is told what is wrong."""
    match = _NAME_IN_PIECES.search(body)
    if match is None:
        return None
    arguments = _ARGUMENTS_IN_PIECES.search(body)
    text = body[arguments.end() :] if arguments else body[match.end() :].lstrip("\"'>")
    return [WrittenCall(match[match.lastgroup or 0], text.strip() or "{")]


def _is_nothing_but_call(value: Any) -> bool:
    if not isinstance(value, dict):
        return False
    inner = value.get("function")
    if isinstance(inner, dict):
        return set(value) <= {"function", *OTHER_KEYS} and _is_nothing_but_call(inner)
    if isinstance(calls := value.get("tool_calls"), list):
        return len(value) == 1 and bool(calls) and all(map(_is_nothing_but_call, calls))
    names, arguments = set(value) & set(NAME_KEYS), set(value) & set(ARGUMENT_KEYS)
    if "action" in names and arguments != {"action_input"}:
        return False
    return len(names) == len(arguments) == 1 and set(value) <= names | arguments | set(OTHER_KEYS)


def _json_values(text: str) -> list[Any] | None:
    """Values one after the other, those of a list by themselves; None where anything else stands there."""
    decoder, values, position = json.JSONDecoder(strict=False), list[Any](), 0
    while position < len(text):
        if text[position] in " \t\r\n,;":
            position += 1
            continue
        if text[position] not in "{[":
            return None
        try:
            value, position = decoder.raw_decode(text, position)
        except (ValueError, RecursionError):
            try:
                value, position = load_lenient(text[position:]), len(text)
            except UnreadableJson:
                return None
        values += value if isinstance(value, list) else [value]
    return values


def _json_calls(text: str) -> list[WrittenCall] | None:
    values = _json_values(text)
    if not values:
        return None
    calls: list[WrittenCall] = []
    for value in values:
        inner = value.get("tool_calls") if isinstance(value, dict) else None
        for each in inner if isinstance(inner, list) else [value]:
            call = _call_of(each)
            if call is None:
                return None
            calls.append(call)
    return calls


def _call_of(value: Any) -> WrittenCall | None:
    if not isinstance(value, dict):
        return None
    if isinstance(inner := value.get("function"), dict):
        value = {key: each for key, each in value.items() if key in ARGUMENT_KEYS} | inner
    name = next((value[key] for key in NAME_KEYS if isinstance(value.get(key), str)), None)
    arguments = next((value[key] for key in ARGUMENT_KEYS if key in value), None)
    if name is None and len(value) == 1:  # the name as the key of the arguments
        name, arguments = next(iter(value.items()))
        if not isinstance(arguments, dict):
            return None
    return WrittenCall(name, _as_json(arguments)) if name else None


def _as_json(arguments: Any) -> str:
    if isinstance(arguments, str):
        return arguments
    return "{}" if arguments is None else json.dumps(arguments, ensure_ascii=False)


def _function_calls(text: str) -> list[WrittenCall] | None:
    return _tag_calls(text, _FUNCTION, _FUNCTION_END)


def _invoke_calls(text: str) -> list[WrittenCall] | None:
    return _tag_calls(text, _INVOKE, _INVOKE_END)


def _tag_calls(text: str, opening: re.Pattern[str], closing: re.Pattern[str]) -> list[WrittenCall] | None:
    """Calls as tags, one after the other, each of which ends."""
    calls: list[WrittenCall] = []
    position = _end_of(_BETWEEN, text, 0)
    while position < len(text):
        start = opening.match(text, position)
        end = closing.search(text, start.end()) if start else None
        if start is None or end is None:
            return None
        arguments = _tag_arguments(text[start.end() : end.start()])
        if arguments is None:
            return None
        calls.append(WrittenCall(start["name"], arguments))
        position = _end_of(_BETWEEN, text, end.end())
    return calls


def _end_of(pattern: re.Pattern[str], text: str, position: int) -> int:
    match = pattern.match(text, position)
    return match.end() if match else position


def _tag_arguments(body: str) -> str | None:
    """JSON as it stands, or the values of parameters by their names: as text, but where it is said to be none."""
    text = body.strip()
    if not text or text.startswith(("{", "```", "'", '"')):
        return text or "{}"
    parameters = list(_PARAMETER.finditer(body))
    if not parameters or body[: parameters[0].start()].strip():
        return None
    values: dict[str, Any] = {}
    for number, parameter in enumerate(parameters):
        end = parameters[number + 1].start() if number + 1 < len(parameters) else len(body)
        closing = _PARAMETER_END.search(body, parameter.end(), end)
        value = body[parameter.end() : closing.start() if closing else end].removeprefix("\n")
        values[parameter["key"].strip()] = _typed_value(value if closing else value.rstrip(), parameter["more"] or "")
    return json.dumps(values, ensure_ascii=False)


def _typed_value(text: str, attributes: str) -> Any:
    if re.search(r"string\s*=\s*[\"']false[\"']", attributes, re.IGNORECASE):
        try:
            return load_lenient(text)
        except UnreadableJson:
            return text
    return text


def _section_calls(text: str) -> list[WrittenCall] | None:
    """Calls with a separator between name and arguments (DeepSeek, Step, Kimi)."""
    sections = _SECTION.findall(text) if "begin" in text else [text] if _SEPARATOR.search(text) else []
    calls: list[WrittenCall] = []
    for section in sections:
        name, *rest = _SEPARATOR.split(section, maxsplit=1)
        arguments = rest[0].strip() if rest else ""
        if (invoked := _invoke_calls(arguments)) or not rest:
            calls += invoked or ()
            continue
        if name.strip() == "function" and not arguments.startswith(("{", "```")):
            name, _, arguments = arguments.partition("\n")
        calls.append(WrittenCall(name.strip(), unfence(arguments) or "{}"))
    return calls or None


def _key_value_calls(text: str) -> list[WrittenCall] | None:
    """A name, then keys and values in turn (GLM). The name alone is a call, too."""
    name = re.match(_NAME, text)
    if name is None:
        return None
    values: dict[str, Any] = {}
    position = _end_of(re.compile(r"\s*"), text, name.end())
    while position < len(text):
        pair = _KEY_AND_VALUE.match(text, position)
        if pair is None:
            return None
        values[pair["key"].strip()] = pair["value"]
        position = pair.end()
    return [WrittenCall(name[0], json.dumps(values, ensure_ascii=False))]


def _mistral_calls(text: str) -> list[WrittenCall] | None:
    calls: list[WrittenCall] = []
    decoder, position = json.JSONDecoder(strict=False), 0
    while position < len(text):
        match = _MISTRAL.match(text, position)
        if match is None:
            return None
        try:
            value, position = decoder.raw_decode(text, match.end())
        except (ValueError, RecursionError):
            return None
        calls.append(WrittenCall(match["name"], _as_json(value)))
        position = _end_of(re.compile(r"[\s;]*"), text, position)
    return calls


def _gemma_calls(text: str) -> list[WrittenCall] | None:
    calls: list[WrittenCall] = []
    position = 0
    while position < len(text):
        match = _GEMMA.match(text, position)
        if match is None:
            return None
        try:
            value, position = _GemmaValue(text).read(match.end())
        except (ValueError, IndexError, RecursionError):
            return None
        calls.append(WrittenCall(match["name"], _as_json(value)))
        position = _end_of(re.compile(r"(?:\s|<(?:end|start)_function_call>|<\|?tool_call\|?>)*"), text, position)
    return calls


class _GemmaValue:
    """Values as Gemma's templates write them: names without quotation marks, texts between marks of their own."""

    _QUOTES = ("<escape>", '<|"|>')
    _PLAIN = re.compile(r"[^,{}()\[\]]*")
    _KEY = re.compile(r'\s*(?:<escape>|<\|"\|>|["\'])?([\w.-]+)(?:<escape>|<\|"\|>|["\'])?\s*[:=]\s*')

    def __init__(self, text: str) -> None:
        self._text = text

    def read(self, position: int) -> tuple[Any, int]:
        """The value that begins there, and where it ends. Raises ValueError or IndexError where there is none."""
        text = self._text
        for quote in self._QUOTES:
            if text.startswith(quote, position):
                end = text.index(quote, position + len(quote))
                return text[position + len(quote) : end], end + len(quote)
        match text[position]:
            case "{" | "(":
                return self._read_object(position + 1)
            case "[":
                return self._read_list(position + 1)
            case '"' | "'":
                quoted = re.compile(r'"(?:[^"\\]|\\.)*"|\'(?:[^\'\\]|\\.)*\'', re.DOTALL).match(text, position)
                if quoted is None:
                    raise ValueError("The text does not end.")
                return load_lenient(f"[{quoted[0]}]")[0], quoted.end()
        plain = self._PLAIN.match(text, position)
        word = plain[0].strip() if plain else ""
        try:
            return json.loads(word), plain.end() if plain else position
        except ValueError:
            return word, plain.end() if plain else position

    def _read_object(self, position: int) -> tuple[dict[str, Any], int]:
        values: dict[str, Any] = {}
        while (position := self._skip(position)) < len(self._text) and self._text[position] not in "})":
            key = self._KEY.match(self._text, position)
            if key is None:
                raise ValueError("There is no name.")
            values[key[1]], position = self.read(key.end())
        self._text[position]  # raises IndexError where it does not end
        return values, position + 1

    def _read_list(self, position: int) -> tuple[list[Any], int]:
        values: list[Any] = []
        while (position := self._skip(position)) < len(self._text) and self._text[position] != "]":
            value, end = self.read(position)
            if end == position:
                raise ValueError("There is no value.")
            values.append(value)
            position = end
        self._text[position]
        return values, position + 1

    def _skip(self, position: int) -> int:
        return _end_of(re.compile(r"[\s,]*"), self._text, position)


def _python_calls(text: str) -> list[WrittenCall] | None:
    """Calls as Python writes them, with named arguments: one on each line, or in a list."""
    if len(text) > 100_000 or "(" not in text:
        return None
    try:
        statements = ast.parse(text).body
        return list(_calls_in(statements)) or None
    except (ValueError, TypeError, SyntaxError, MemoryError, RecursionError):
        return None


def _calls_in(statements: list[ast.stmt]) -> Iterator[WrittenCall]:
    """Raises ValueError where there is anything else, or an argument that is no plain value."""
    for statement in statements:
        value = statement.value if isinstance(statement, ast.Expr | ast.Assign) else None
        for node in value.elts if isinstance(value, ast.List | ast.Tuple) else [value]:
            if isinstance(node, ast.Call) and ast.unparse(node.func) == "print" and len(node.args) == 1:
                node = node.args[0]
            if not isinstance(node, ast.Call) or node.args:
                raise ValueError("It is no call.")
            values: Mapping[str, Any] = {
                keyword.arg or "": ast.literal_eval(keyword.value) for keyword in node.keywords
            }
            yield WrittenCall(ast.unparse(node.func).removesuffix(".call"), json.dumps(values, ensure_ascii=False))


_FORMS: tuple[Callable[[str], list[WrittenCall] | None], ...] = (
    _json_calls,
    _function_calls,
    _invoke_calls,
    _section_calls,
    _gemma_calls,
    _mistral_calls,
    _key_value_calls,
    _python_calls,
)
