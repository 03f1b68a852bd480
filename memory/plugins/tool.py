"""The memory tool: one tool whose schema, description and dispatch are made from what the plugin can do. Pure.

Agents call it in their runs; outside agents call the same through the API. What comes back is plain text to read,
with references (`#12` is message 12 of the thread, `#12 in thread 34` one of another, with a link; `summary 5` can be
described and expanded), and at most MAX_RESULT_TOKENS long."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Literal, NamedTuple

from memory.plugins.base import (
    MAX_FOCUS_CHARACTERS,
    Compactor,
    ContextEntry,
    Explorer,
    MemoryHit,
    MemoryProvider,
    MessageReader,
    ProfileStore,
    Searcher,
    Session,
    TextPiece,
    read_stats,
)
from openvibe.base.params import MAX_ID
from openvibe.base.problems import Problem
from openvibe.engines.llm.tokens import count_tokens, counter_for, truncate_to_tokens
from openvibe.engines.llm.transcripts import clean_name, indent_text, one_line
from openvibe.engines.llm.values import ToolSpec
from openvibe.engines.text.cleaning import pluralize

TOOL_NAME = "memory"
MAX_RESULT_TOKENS = 4_000
TRUNCATION_NOTICE = "\n[The rest did not fit. Ask for less at a time.]"
_COUNTER = counter_for("gpt-4o")

Arguments = Mapping[str, Any]
AskCompaction = Callable[[Session, str], str]
AnswerQuestion = Callable[[MemoryProvider, Session, str], str]
ReadResult = Callable[[Session, int, int], TextPiece]


class ToolAnswer(NamedTuple):
    """What a call is answered, and the other threads that it tells of."""

    text: str
    thread_ids: tuple[int, ...] = ()


@dataclass(frozen=True)
class ToolArgument:
    """One argument of an action. `minimum` and `maximum` bound a number, or the length of a text in characters."""

    name: str
    type: Literal["string", "integer"]
    description: str
    required: bool = False
    minimum: int = 1
    maximum: int = MAX_ID

    @property
    def bounds(self) -> dict[str, int]:
        """The bounds as JSON Schema has them."""
        if self.type == "integer":
            return {"minimum": self.minimum, "maximum": self.maximum}
        return {"minLength": self.minimum, "maxLength": self.maximum}

    def schema(self, actions: Sequence[str]) -> dict[str, Any]:
        return {"type": self.type, "description": f"For {', '.join(actions)}: {self.description}", **self.bounds}

    def validate(self, value: object) -> str | int:
        """Raises Problem unless the value is what the schema says. Nothing is converted."""
        if self.type == "integer":
            if isinstance(value, int) and not isinstance(value, bool) and self.minimum <= value <= self.maximum:
                return value
            raise self._bad_argument(f"a whole number from {self.minimum} to {self.maximum}")
        if isinstance(value, str) and "\x00" not in value and self.minimum <= len(value) <= self.maximum:
            return value
        raise self._bad_argument(f"a text of {self.minimum} to {self.maximum} characters")

    def _bad_argument(self, expected: str) -> Problem:
        return Problem(f'"{self.name}" has to be {expected}', code="bad_argument", field=self.name)


@dataclass(frozen=True)
class ToolAction:
    """`handler` is called with arguments that were checked, on a plugin that has the capability."""

    name: str
    description: str
    handler: Callable[[Any, Session, Arguments], str | ToolAnswer]
    capability: type[Any] | None = None
    arguments: tuple[ToolArgument, ...] = ()
    for_agents_only: bool = False

    def validate(self, arguments: Arguments) -> dict[str, str | int]:
        """Raises Problem for an argument that is unknown, missing or not of its kind. A null is no argument."""
        arguments_by_name = {argument.name: argument for argument in self.arguments}
        present = {name: value for name, value in arguments.items() if value is not None}
        for name in present:
            if name not in arguments_by_name:
                argument_names = ", ".join(arguments_by_name) or "no arguments"
                raise Problem(
                    f'"{name[:80]}" is not an argument of {self.name}; it takes {argument_names}',
                    code="bad_argument",
                    field=name[:80],
                )
        for argument in self.arguments:
            if argument.required and argument.name not in present:
                raise Problem(f'{self.name} needs "{argument.name}"', code="bad_argument", field=argument.name)
        return {name: arguments_by_name[name].validate(value) for name, value in present.items()}


@dataclass(frozen=True)
class PluginMemoryTool:
    """`spec` is what a model is offered; `run` answers a call of it."""

    provider: MemoryProvider
    actions: Mapping[str, ToolAction]
    spec: ToolSpec

    def run(self, session: Session, arguments: Mapping[str, Any]) -> str:
        """The answer to a model's call. What the caller can mend is a sentence, not an error."""
        try:
            return self.perform(session, arguments)
        except Problem as problem:
            return truncate_result(problem.message)

    def perform(self, session: Session, arguments: Mapping[str, Any]) -> str:
        """Does what `run` does, but raises the Problem: unknown actions and arguments, Missing for ids out of scope."""
        return self.answer(session, arguments).text

    def answer(self, session: Session, arguments: Mapping[str, Any]) -> ToolAnswer:
        """The same, and of which other threads it tells."""
        name = arguments.get("action", "")
        action = self.actions.get(name) if isinstance(name, str) else None
        if action is None:
            available = ", ".join(self.actions)
            raise Problem(
                f'unknown action "{str(name)[:80]}", available: {available}', code="unknown_action", field="action"
            )
        values = action.validate({key: value for key, value in arguments.items() if key != "action"})
        answer = action.handler(self.provider, session, values)
        text, thread_ids = (answer, ()) if isinstance(answer, str) else answer
        return ToolAnswer(truncate_result(text), thread_ids)


def build_tool(
    provider: MemoryProvider,
    *,
    for_agent: bool = True,
    ask_compaction: AskCompaction | None = None,
    answer_question: AnswerQuestion | None = None,
    read_result: ReadResult | None = None,
) -> PluginMemoryTool:
    """The tool for this plugin: `status` always, the other actions where the plugin has the capability.

    For people (`for_agent=False`) without the notes, which are an agent's own about a person, and without `compact`,
    which `ask_compaction` answers (it takes the session and a focus), `ask`, which `answer_question` answers, or
    `read_result`, which the function of that name reads: the session, the result's number and an offset.
    """
    actions = {
        action.name: action
        for action in offered_actions(ask_compaction, answer_question, read_result)
        if (action.capability is None or isinstance(provider, action.capability))
        and (for_agent or not action.for_agents_only)
    }
    signatures = (f"- {action.name}{_signature(action)}: {action.description}" for action in actions.values())
    description = "\n".join(["Look up what was said:", *signatures])
    return PluginMemoryTool(provider, actions, ToolSpec(TOOL_NAME, description, _parameters(actions)))


def offered_actions(
    ask_compaction: AskCompaction | None = None,
    answer_question: AnswerQuestion | None = None,
    read_result: ReadResult | None = None,
) -> tuple[ToolAction, ...]:
    """All there are for any plugin, in the order in which the tool offers them."""
    injected = (
        read_result is not None and _read_result_action(read_result),
        answer_question is not None and _ask_action(answer_question),
        ask_compaction is not None and _compact_action(ask_compaction),
    )
    return (*TOOL_ACTIONS, *(action for action in injected if action))


def _signature(action: ToolAction) -> str:
    names = [argument.name if argument.required else f"{argument.name}?" for argument in action.arguments]
    return f" ({', '.join(names)})" if names else ""


def _parameters(actions: Mapping[str, ToolAction]) -> dict[str, Any]:
    arguments = {argument.name: argument for action in actions.values() for argument in action.arguments}
    properties = {
        name: argument.schema([action.name for action in actions.values() if argument in action.arguments])
        for name, argument in arguments.items()
    }
    action_schema = {"type": "string", "enum": list(actions), "description": "What to do."}
    return {
        "type": "object",
        "properties": {"action": action_schema, **properties},
        "required": ["action"],
        "additionalProperties": False,
    }


def truncate_result(text: str) -> str:
    """The text, cut at MAX_RESULT_TOKENS, between lines where one ends in the last fifth."""
    if count_tokens(text) <= MAX_RESULT_TOKENS:
        return text
    short_text = truncate_to_tokens(text, MAX_RESULT_TOKENS - count_tokens(TRUNCATION_NOTICE) - 2, _COUNTER)
    line_end = short_text.rfind("\n")
    return (short_text[:line_end] if line_end > len(short_text) * 4 // 5 else short_text) + TRUNCATION_NOTICE


def _status(provider: MemoryProvider, session: Session, arguments: Arguments) -> str:
    stats = read_stats(provider, session)
    verb, them = ("was", "it") if stats.messages == 1 else ("were", "them")
    sizes = f"{pluralize(stats.tokens, 'token')} in {pluralize(stats.entries, 'entry', 'entries')}"
    lines = [
        f"{pluralize(stats.messages, 'message')} {verb} said in this conversation.",
        f"What is remembered of {them} takes {sizes}.",
    ]
    if stats.summaries:
        stand = "summary stands" if stats.summaries == 1 else "summaries stand"
        lines.append(f"{stats.summaries:,} {stand} for older parts; the deepest is of depth {stats.deepest}.")
    return "\n".join([*lines, *([stats.note] if stats.note else [])])


NOTHING_FOUND: Final = "Nothing was found. Try fewer or other words."


def _search(provider: Searcher, session: Session, arguments: Arguments) -> str:
    hits = provider.search(session, str(arguments["query"]), int(arguments.get("limit", 20)))
    return "\n".join(map(format_hit, hits)) or NOTHING_FOUND


def _search_everywhere(provider: MessageReader, session: Session, arguments: Arguments) -> ToolAnswer:
    hits = provider.search_everywhere(session, str(arguments["query"]), int(arguments.get("limit", 20)))
    threads = dict.fromkeys(hit.thread_id for hit in hits if hit.thread_id is not None)
    return ToolAnswer("\n".join(map(format_hit, hits)) or NOTHING_FOUND, tuple(threads))


def _read_message(provider: MessageReader, session: Session, arguments: Arguments) -> ToolAnswer:
    thread = arguments.get("thread_id")
    thread_id = None if thread is None or int(thread) == session.thread_id else int(thread)
    message, piece = provider.read_message(
        session, int(arguments["number"]), offset=int(arguments.get("offset", 0)), thread_id=thread_id
    )
    text = f"{format_hit(message)}\n{_format_place(piece)}"
    return ToolAnswer(text, () if message.thread_id is None else (message.thread_id,))


def _read_result_action(read_result: ReadResult) -> ToolAction:
    def read(provider: MemoryProvider, session: Session, arguments: Arguments) -> str:
        piece = read_result(session, int(arguments["number"]), int(arguments.get("offset", 0)))
        return f"observation:{arguments['number']}: {indent_text(piece.text)}\n{_format_place(piece)}"

    return ToolAction(
        "read_result", "observation:number whole.", read, arguments=(NUMBER, OFFSET), for_agents_only=True
    )


def _format_place(piece: TextPiece) -> str:
    place = f"Characters {piece.start:,} to {piece.end:,} of {piece.total:,}."
    return f"{place} Go on with offset {piece.end}." if piece.end < piece.total else f"{place} This is its end."


def format_hit(hit: MemoryHit) -> str:
    text = indent_text(hit.snippet)
    if hit.kind == "summary":
        return f"summary {hit.id} (from #{hit.ordinal}, {hit.at}): {text}"
    if hit.thread_id is not None:
        where = f"thread {hit.thread_id} ({one_line(hit.place)}, {hit.link})"
        return f"#{hit.ordinal} in {where} {clean_name(hit.author)}, {hit.at}: {text}"
    return f"#{hit.ordinal} {clean_name(hit.author)}, {hit.at}: {text}"


def _describe(provider: Explorer, session: Session, arguments: Arguments) -> str:
    summary = provider.describe(session, int(arguments["summary_id"]))
    lines = [
        f"summary {summary.id}: {summary.kind}, depth {summary.depth},"
        f" stands for {_format_span(summary.first, summary.last)}"
        f" ({pluralize(summary.message_count, 'message')}, {summary.earliest} to {summary.latest})",
        f"{pluralize(summary.tokens, 'token')} made from {summary.source_tokens:,}, by {summary.model or 'no model'},"
        f" level {summary.level}",
    ]
    if summary.container is not None:
        lines.append(f"It is part of summary {summary.container}.")
    if summary.constituents:
        lines.append(f"It is made of {', '.join(f'summary {constituent}' for constituent in summary.constituents)}.")
    if summary.is_stale:
        lines.append("A message in it was changed: it is being written anew.")
    return "\n".join([*lines, indent_text(summary.content)])


def _expand(provider: Explorer, session: Session, arguments: Arguments) -> str:
    cursor = arguments.get("cursor")
    expansion = provider.expand(session, int(arguments["summary_id"]), None if cursor is None else int(cursor))
    lines = [format_entry(entry) for entry in expansion.entries]
    if expansion.cursor is not None:
        lines.append(f"There is more: expand summary {arguments['summary_id']} with cursor {expansion.cursor}.")
    return "\n".join(lines) or "Nothing of it is left to show."


def format_entry(entry: ContextEntry) -> str:
    """An entry with who said it and when: neither its words nor a name can look like the beginning of another one."""
    text = indent_text(entry.text)
    if entry.summary_id is not None:
        return f"summary {entry.summary_id} ({_format_span(entry.ordinal, entry.last)}, {entry.at}): {text}"
    kind = "" if entry.kind == "text" else f", {entry.kind.replace('_', ' ')}"
    return f"#{entry.ordinal} {clean_name(entry.author_name)}, {entry.at}{kind}: {text}"


def _format_span(first: int, last: int) -> str:
    return f"#{first}" if first == last else f"#{first}–#{last}"


def _profile_get(provider: ProfileStore, session: Session, arguments: Arguments) -> str:
    return provider.get_profile(_check_person(session)) or "You have noted nothing about this person yet."


def _profile_update(provider: ProfileStore, session: Session, arguments: Arguments) -> str:
    text = provider.set_profile(_check_person(session), str(arguments["text"]))
    return (
        f"Your notes about this person now say:\n{indent_text(text)}"
        if text
        else "Your notes about this person are empty now."
    )


def _ask_action(answer_question: AnswerQuestion) -> ToolAction:
    return ToolAction(
        "ask",
        "an answer from what is found.",
        lambda provider, session, arguments: answer_question(provider, session, str(arguments["question"])),
        Searcher,
        (ToolArgument("question", "string", "a question in a sentence.", required=True, maximum=1_000),),
        for_agents_only=True,
    )


def _compact_action(ask_compaction: AskCompaction) -> ToolAction:
    return ToolAction(
        "compact",
        "summarise older messages now, mostly on focus.",
        lambda _provider, session, arguments: ask_compaction(session, str(arguments.get("focus", ""))),
        Compactor,
        (ToolArgument("focus", "string", "a subject, in a few words.", maximum=MAX_FOCUS_CHARACTERS),),
        for_agents_only=True,
    )


def _check_person(session: Session) -> Session:
    if session.person_id is None:
        raise Problem("nobody asked here, so there is no person to note anything about", code="no_person")
    return session


QUERY: Final = ToolArgument("query", "string", "what to look for.", required=True, maximum=1_000)
LIMIT: Final = ToolArgument("limit", "integer", "most hits; 20 unless said.", maximum=20)
NUMBER: Final = ToolArgument("number", "integer", "the number in its reference.", required=True)
OFFSET: Final = ToolArgument("offset", "integer", "where to begin, in characters.", minimum=0)
SUMMARY_ID: Final = ToolArgument("summary_id", "integer", "the number of a summary.", required=True)
TOOL_ACTIONS: Final = (
    ToolAction("status", "how much is remembered.", _status),
    ToolAction(
        "search",
        'this thread: words, "phrase", -word, word*, after:2026-03-01, before:2026-04, from:handle.',
        _search,
        Searcher,
        (QUERY, LIMIT),
    ),
    ToolAction("search_everywhere", "all threads.", _search_everywhere, MessageReader, (QUERY, LIMIT)),
    ToolAction(
        "read_message",
        "#number whole.",
        _read_message,
        MessageReader,
        (NUMBER, OFFSET, ToolArgument("thread_id", "integer", "the thread of the message, where it is another one.")),
    ),
    ToolAction("describe", "a summary and its place.", _describe, Explorer, (SUMMARY_ID,)),
    ToolAction(
        "expand",
        "what a summary stands for.",
        _expand,
        Explorer,
        (SUMMARY_ID, ToolArgument("cursor", "integer", "where the last answer said there is more.", minimum=0)),
    ),
    ToolAction("profile_get", "your notes on who asks.", _profile_get, ProfileStore, for_agents_only=True),
    ToolAction(
        "profile_update",
        "replace them; keep what still holds.",
        _profile_update,
        ProfileStore,
        (ToolArgument("text", "string", "the notes, whole.", required=True, minimum=0, maximum=20_000),),
        for_agents_only=True,
    ),
)
"""The actions in the order in which the tool offers them. `status` is every plugin's."""
