"""The tools of connected servers that a prompt offers at once, and the two tools that offer the others from the next
step of a run on: `more_tools` names them; where they are too many, `find_tool` looks for them.

All of them can be called all the time. At once stand those that were called in the thread before, then, as far as there
is room, those that the thread's title tells of and the first of the list. Their order is that in which they came, so
that consecutive prompts begin with the same ones."""

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from agents.prompts.assembler.stack import FIND_TOOL, MORE_TOOLS
from agents.tools.tool_search import is_named, rank_tools
from agents.tools.values import Sources, Tool
from openvibe.engines.llm.fences import clean_text
from openvibe.engines.llm.tokens import count_tool, counter_for, truncate_middle
from openvibe.engines.llm.values import ToolCallRequest, ToolSpec
from openvibe.engines.text.cleaning import pluralize

MAX_NAMED_TOOLS = 40
"""Tools that `more_tools` names. Where there are more, those of connected servers are looked for."""

MAX_EXTRA_DEFINITION_TOKENS = 2_000
"""Tokens of definitions of tools of connected servers that one request to a model holds."""

MAX_DIRECT_EXTRA_TOKENS = 600
"""The same of those that are offered though nothing called them yet."""

MAX_AT_ONCE_EXTRA_TOKENS = 1_200
"""The same of all that are offered when a run begins."""

MAX_FOUND_TOKENS = MAX_EXTRA_DEFINITION_TOKENS - MAX_AT_ONCE_EXTRA_TOKENS
"""The same of those that one search offers."""

MAX_FOUND_TOOLS, MAX_OTHER_HITS, SUMMARY_CHARACTERS = 5, 10, 160
"""Tools that one search offers, those that it only names besides, and characters that it tells of each."""

MAX_SERVERS_NAMED = 8
_COUNTER = counter_for("offline")
_CUT_MARKER = " … "


def tokens_of(spec: ToolSpec) -> int:
    return count_tool(spec, _COUNTER)


def choose_at_once(specs: Sequence[ToolSpec], called: Mapping[str, int], *, title: str, request: str) -> list[str]:
    """Names of those of `specs`, the tools of connected servers, that a prompt offers, in the order of their
    definitions.

    `called`: the names that were called in the thread, in the order of their first calls, and when each was last
    called: a number that grows. Those that the request names come last: the next prompt may do without them.
    """
    by_name = {spec.name: spec for spec in specs}
    order = _by_title(specs, title)
    direct = set(_within(order, by_name, MAX_DIRECT_EXTRA_TOKENS))
    chosen = [spec.name for spec in specs if spec.name in direct]
    if len(chosen) == len(specs):
        return chosen
    tokens_left = MAX_AT_ONCE_EXTRA_TOKENS - sum(tokens_of(by_name[name]) for name in chosen)
    earlier = [name for name in called if name in by_name and name not in direct]
    latest = set(_within(sorted(earlier, key=lambda name: -called[name]), by_name, tokens_left))
    chosen += [name for name in earlier if name in latest]
    tokens_left -= sum(tokens_of(by_name[name]) for name in latest)
    named = [name for name in by_name if name not in chosen and is_named(name, request)]
    return [*chosen, *_within(named, by_name, tokens_left)]


def _by_title(specs: Sequence[ToolSpec], title: str) -> list[str]:
    """Names, those that have words of the title first, where they do not all have room."""
    names = [spec.name for spec in specs]
    if sum(map(tokens_of, specs)) <= MAX_DIRECT_EXTRA_TOKENS:
        return names
    return list(dict.fromkeys([*rank_tools(title, specs), *names]))


def _within(names: Iterable[str], by_name: Mapping[str, ToolSpec], max_tokens: int) -> list[str]:
    """Those of the names, in their order, whose definitions fit together."""
    chosen, tokens_left = [], max_tokens
    for name in names:
        if (tokens := tokens_of(by_name[name])) <= tokens_left:
            chosen.append(name)
            tokens_left -= tokens
    return chosen


def more_tools(names: Sequence[str], by_name: Mapping[str, ToolSpec], sources: Sources) -> Tool:
    """The tool that offers one of these: what it answers takes effect with the next step."""

    def offer(arguments: dict[str, Any]) -> str:
        name = arguments["tool"]
        if tokens_of(by_name[name]) > MAX_EXTRA_DEFINITION_TOKENS:
            return _too_long(by_name[name])
        return f"You have {name} from your next step on."

    schema = {"type": "object", "properties": {"tool": {"type": "string", "enum": [*names]}}, "required": ["tool"]}
    description = "Get one more tool, for your next step. Only if you need it."
    return _offering_tool(ToolSpec(MORE_TOOLS, description, schema, tuple(names)), offer, sources)


def find_tool(specs: Sequence[ToolSpec], names: Iterable[str], sources: Sources) -> Tool:
    """The tool that looks among `specs`, all of connected servers, and offers the best from the next step on. `names`:
    those that are not offered yet."""

    def find(arguments: dict[str, Any]) -> str:
        return _search_result(arguments["query"], specs)

    description = (
        f"Find tools of connected servers ({_server_counts(specs)}) by what they do, in English words. You have the "
        "best from your next step on."
    )
    schema = {"type": "object", "properties": {"query": {"type": "string"}}, "required": ["query"]}
    return _offering_tool(ToolSpec(FIND_TOOL, description, schema, tuple(names)), find, sources)


def _offering_tool(spec: ToolSpec, run: Callable[[dict[str, Any]], str], sources: Sources) -> Tool:
    return Tool(spec, run, sources=sources, effect="own_memory", gate="allowed")


def _server_counts(specs: Iterable[ToolSpec]) -> str:
    counts = Counter(spec.name.partition("__")[0] for spec in specs)
    named = [f"{server}: {count}" for server, count in counts.most_common(MAX_SERVERS_NAMED)]
    others = len(counts) - len(named)
    return ", ".join([*named, *([f"{others} more"] if others else [])])


def found_names(query: str, specs: Sequence[ToolSpec]) -> list[str]:
    """Names of the tools that a search offers, the best first."""
    best = rank_tools(query, specs)[:MAX_FOUND_TOOLS]
    return _within(best, {spec.name: spec for spec in specs}, MAX_FOUND_TOKENS)


def _search_result(query: str, specs: Sequence[ToolSpec]) -> str:
    by_name, ranked = {spec.name: spec for spec in specs}, rank_tools(query, specs)
    if not ranked:
        return f"No tool fits these words. There are {len(specs)}: {_server_counts(specs)}. Try other words."
    best, offered = ranked[:MAX_FOUND_TOOLS], found_names(query, specs)
    lines = ["You have these from your next step on:"] if offered else []
    lines += [f"- {name}: {_summary(by_name[name])}" for name in offered]
    lines += [_too_long(by_name[name]) for name in best if name not in offered]
    if others := ranked[MAX_FOUND_TOOLS:]:
        names = ", ".join(others[:MAX_OTHER_HITS])
        lines.append(f"{pluralize(len(others), 'other')} may fit; ask for one by its name: {names}.")
    return "\n".join(lines)


def _summary(spec: ToolSpec) -> str:
    return " ".join(clean_text(spec.description).split())[:SUMMARY_CHARACTERS]


def _too_long(spec: ToolSpec) -> str:
    """What is said of a tool whose definition there is no room for: enough to call it by its name."""
    schema = json.dumps(spec.parameters, ensure_ascii=False)
    schema = truncate_middle(schema, MAX_FOUND_TOKENS, _COUNTER, _CUT_MARKER)
    return f"- {spec.name} takes too much room to be offered. Call it by this name; its arguments: {schema}"


def asked_for(call: ToolCallRequest, specs: Sequence[ToolSpec]) -> list[str]:
    """Names of the tools that a call of MORE_TOOLS or FIND_TOOL asks for; `specs`: all of connected servers."""
    if call.name == FIND_TOOL:
        return found_names(_argument(call.arguments, "query"), specs)
    return [name for name in [_argument(call.arguments, "tool")] if name]


def _argument(arguments: str, key: str) -> str:
    """One argument of a call; empty where it is no text."""
    try:
        values = json.loads(arguments or "{}")
    except (ValueError, RecursionError):
        return ""
    value = values.get(key) if isinstance(values, dict) else None
    return value if isinstance(value, str) else ""
