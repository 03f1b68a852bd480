"""What a JSON or binary column of an archive may hold: as the pages read it, so that none of them fails over it.

Every such column of a table that is archived stands in READERS; a test says so of each new one."""

import json
from collections.abc import Callable, Mapping
from typing import Annotated, Any, Literal, NotRequired

from django.db.models import Model
from django.utils.dateparse import parse_datetime
from pydantic import AfterValidator, ConfigDict, Field, TypeAdapter, ValidationError, with_config
from typing_extensions import TypedDict

from agents.agent.models import (
    AgentPlan,
    ClientTurn,
    McpTool,
    Permission,
    Run,
    RunStep,
    Snapshot,
    SoulVersion,
    WatchLook,
)
from agents.agent.soul import SoulError
from agents.agent.soul.parser import soul_from_dict
from agents.prompts.assembler.stack import check_budgets
from agents.prompts.snapshots.content import read_content
from agents.prompts.snapshots.store import is_seq
from knowledge.models import Revision
from memory.models import Compaction, Handoff, MemoryPlugin, SessionInfo, WorkItem
from openvibe.base.images import UnreadableImage, decode_image
from openvibe.base.problems import Problem
from openvibe.chat.models import MAX_IMAGE_SIDE, ConversationImport, Erasure, Image, StoredFile
from openvibe.workspaces.models import Picture, Workspace

MAX_NUMBER = 2**31 - 1
"""The largest number of tokens, counts and the like."""


def _known_time(text: str) -> str:
    if parse_datetime(text) is None:
        raise ValueError("this is no time")
    return text


def _known_ref(ref: str) -> str:
    kind, _, number = ref.partition(":")
    if kind in ("summary", "work") and not is_seq(number):
        raise ValueError(f"{ref!r} is of no row")
    return ref


Count = Annotated[int, Field(ge=0, le=MAX_NUMBER)]
Id = Annotated[int, Field(ge=0, lt=2**63)]
Time = Annotated[str, AfterValidator(_known_time)]
_STRICT = ConfigDict(strict=True, extra="allow")


@with_config(_STRICT)
class _Step(TypedDict):
    kind: str
    at: Time
    attempt: NotRequired[Count]
    round: NotRequired[Count]
    tokens: NotRequired[Count]
    output_tokens: NotRequired[Count]
    cached_tokens: NotRequired[Count | None]
    first_word_at: NotRequired[Time | None]
    cut_reason: NotRequired[str]
    model: NotRequired[str]
    error: NotRequired[str]
    characters: NotRequired[Count]
    by: NotRequired[Id | None]


@with_config(_STRICT)
class _HandoffLine(TypedDict):
    ref: Annotated[str, AfterValidator(_known_ref)]
    text: str


@with_config(_STRICT)
class _Tool(TypedDict):
    name: str
    description: NotRequired[str]
    parameters: NotRequired[dict[str, Any]]


@with_config(_STRICT)
class _Options(TypedDict):
    """The options of a request, as `agents.openai_api.options` makes them."""

    effort: NotRequired[Literal["off", "low", "medium", "high"]]
    temperature: NotRequired[float]
    top_p: NotRequired[float]
    seed: NotRequired[int]
    stop: NotRequired[list[str]]
    presence_penalty: NotRequired[float]
    frequency_penalty: NotRequired[float]
    parallel_tool_calls: NotRequired[bool]
    tool_choice: NotRequired[str]
    response_format: NotRequired[dict[str, Any]]


_EXACT = ConfigDict(strict=True, extra="forbid")


@with_config(_EXACT)
class _KindTotal(TypedDict):
    kind: str
    read: Count
    imported: Count
    present: Count
    left_out: Count


@with_config(_EXACT)
class _LeftOut(TypedDict):
    kind: str
    reason: str
    count: Count
    places: list[str]


@with_config(_EXACT)
class _Account(TypedDict, total=False):
    """What an import read and left out, as `openvibe.chat.importing.account` keeps it; empty until it ends."""

    kinds: list[_KindTotal]
    left_out: list[_LeftOut]


@with_config(_EXACT)
class _PlanEntry(TypedDict):
    content: str
    status: Literal["pending", "in_progress", "completed"]
    priority: Literal["high", "medium", "low"]


@with_config(_STRICT)
class _ChangedFile(TypedDict):
    path: str
    diff: str
    added: Count
    removed: Count
    unkept_lines: Count


ShownMessage = tuple[Id, list[Id] | None]
Block = tuple[Id, Id, int, list[ShownMessage]]
"""A block as `recall_blocks.RecallBlock` has it: before, part, checksum, messages with their passages."""


def _shape(kind: Any) -> Callable[[Any], object]:
    """Reads JSON of this type strictly: no text for a number."""
    adapter: TypeAdapter[Any] = TypeAdapter(kind)
    return lambda value: adapter.validate_json(json.dumps(value), strict=True)


def _read_picture(content: bytes) -> None:
    if content[:4] != b"RIFF" or content[8:12] != b"WEBP":
        raise ValueError("it is no picture in WebP")


def _read_preview(content: bytes) -> None:
    if content:
        _read_picture(bytes(content))


def _read_image(content: bytes) -> None:
    try:
        image = decode_image(
            bytes(content), formats=("PNG", "JPEG"), max_pixels=MAX_IMAGE_SIDE**2, target=MAX_IMAGE_SIDE, mode="RGB"
        )
    except UnreadableImage:
        raise ValueError("it is no image in PNG or JPEG that can be read") from None
    if max(image.size) > MAX_IMAGE_SIDE:
        raise ValueError("it is larger than images are kept")


_counts = _shape(dict[str, Count])
_object = _shape(dict[str, Any])
READERS: Mapping[tuple[type[Model], str], Callable[[Any], object]] = {
    (AgentPlan, "entries"): _shape(list[_PlanEntry]),
    (ClientTurn, "options"): _shape(_Options),
    (ClientTurn, "tools"): _shape(list[_Tool]),
    (Compaction, "summary_ids"): _shape(list[Id]),
    (ConversationImport, "account"): _shape(_Account),
    (Erasure, "counts"): _counts,
    (Handoff, "sections"): _shape(dict[str, list[_HandoffLine]]),
    (Image, "content"): _read_image,
    (Image, "thumbnail"): _read_picture,
    (McpTool, "input_schema"): _object,
    (MemoryPlugin, "config"): _shape(dict[str, str | int | float | bool | None]),
    (Permission, "paths"): _shape(list[str]),
    (Picture, "content"): _read_picture,
    (Revision, "changes"): _shape(dict[str, Annotated[list[Any], Field(min_length=2, max_length=2)]]),
    (Run, "steps"): _shape(list[_Step]),
    (RunStep, "files"): _shape(list[_ChangedFile]),
    (SessionInfo, "info"): _object,
    (Snapshot, "content"): read_content,
    (Snapshot, "layers"): _counts,
    (Snapshot, "recall"): _shape(list[Block]),
    (Snapshot, "sections"): _counts,
    (Snapshot, "tool_names"): _shape(list[str]),
    (SoulVersion, "content"): soul_from_dict,
    (WorkItem, "data"): _shape(dict[str, str | int | bool | None]),
    (StoredFile, "preview"): _read_preview,
    (WatchLook, "content"): read_content,
    (Workspace, "budgets"): check_budgets,
}


def column_problem(model: type[Model], field: str, value: Any) -> str:
    """What is wrong with the value, in a sentence's end; empty where the pages read it."""
    read = READERS.get((model, field))
    if read is None or value is None:
        return ""
    try:
        read(value)
    except ValidationError as error:
        first = error.errors(include_url=False, include_input=False)[0]
        place = ".".join(map(str, first["loc"][:4]))
        return f"{place}: {first['msg']}"[:200] if place else str(first["msg"])[:200]
    except (ValueError, TypeError, LookupError, AttributeError, RecursionError, Problem, SoulError) as error:
        return str(error)[:200] or type(error).__name__
    return ""
