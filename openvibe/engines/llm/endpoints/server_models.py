"""What a server tells about its models: their names, what each is for, how much it reads, what it can do.

The list of an endpoint stands at `…/models`. Some servers tell more at addresses of their own (Ollama, LM Studio,
llama.cpp): they are asked side by side, in what is left of the time, and whoever does not answer has told nothing.
Fields by their documentation, 2025-2026.
"""

from __future__ import annotations

import json
import re
import time
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import urlsplit

import httpx2

from openvibe.engines.llm.endpoint_errors.endpoint_errors import (
    DECODE_ERRORS,
    connection_error,
    no_answer_error,
    read_error,
)
from openvibe.engines.llm.errors import BadAnswer, LimitReached, ModelTimeout, ModelUnavailable
from openvibe.engines.llm.http_client import Connection, api_root, open_http_client
from openvibe.engines.llm.model_names import ModelKind, kind_of_name
from openvibe.engines.network.http_client import ResponseHead

MAX_NAME_CHARACTERS = 200
MAX_MODELS = 20_000
MAX_SHOWN_MODELS = 40
"""The most models of Ollama's, about which it is asked one by one."""
TOOLS, IMAGES, REASONING = "tools", "images", "reasoning"
"""Abilities of models."""
_PROVIDER_HOSTS = (
    "openai.com",
    "anthropic.com",
    "googleapis.com",
    "deepseek.com",
    "groq.com",
    "mistral.ai",
    "openrouter.ai",
)
"""Hosts of providers whose lists hold what they tell."""
_MAX_TOKENS = 100_000_000
_NUM_CTX = re.compile(r"^num_ctx\s+(\d{1,9})\s*$", re.MULTILINE)


@dataclass(frozen=True)
class ServerModel:
    """A model as its server describes it. Sizes in tokens, None where the server does not say.

    `context_window` is what the server reads of a prompt and answer together, `trained_window` the most that the model
    was made for. `abilities` (TOOLS, IMAGES, REASONING) is None where nothing was said of them. `is_loaded`: whether
    it stands in memory.
    """

    name: str
    kind: ModelKind = ModelKind.CHAT
    context_window: int | None = None
    trained_window: int | None = None
    output_limit: int | None = None
    abilities: frozenset[str] | None = None
    is_loaded: bool | None = None


def fetch_server_models(
    connection: Connection, *, is_anthropic: bool = False, with_details: bool = True, seconds: float
) -> tuple[ServerModel, ...]:
    """The models of an endpoint, each name once, in the order of the alphabet, within so many seconds in all.

    Raises ModelError where it does not answer with a list. What it tells elsewhere is asked for `with_details`, and
    taken where it comes in time.
    """
    root, headers = api_root(connection, is_anthropic=is_anthropic)
    key = str(connection.api_key)
    with open_http_client(connection, read_timeout=seconds, total_seconds=seconds) as (http, head):
        ends_at = time.monotonic() + seconds
        http.headers.update(headers)
        models = _read_list(
            _request_list(http, f"{root}/models{'?limit=1000' if is_anthropic else ''}", key, seconds), head, key
        )
        if models and with_details and not is_anthropic and not _is_hosted(root):
            models = _with_details(http, root.removesuffix("/v1"), models, ends_at)
    return tuple(sorted(models.values(), key=lambda model: model.name))


def _is_hosted(url: str) -> bool:
    host = urlsplit(url).hostname or ""
    return any(host == each or host.endswith(f".{each}") for each in _PROVIDER_HOSTS)


def _request_list(http: httpx2.Client, url: str, key: str, seconds: float) -> Any:
    try:
        response = http.get(url)
        content = response.content
    except DECODE_ERRORS as error:
        failure = connection_error(error)
        if isinstance(failure, LimitReached):
            failure = ModelTimeout(f"The endpoint did not list its models in time: it had {seconds:g} seconds.")
        raise failure or ModelUnavailable("The model endpoint cannot be reached.") from None
    body = _parse(content)
    if not response.is_success:
        report = read_error(body, response.status_code)
        raise replace(report, retry_after=response.headers.get("retry-after")).to_model_error(key)
    return body


def _read_list(body: Any, head: ResponseHead, key: str) -> dict[str, ServerModel]:
    models = read_models(body)
    if models is None:
        raise no_answer_error(head, key, BadAnswer("The endpoint answered with something that is no list of models."))
    return {model.name: model for model in models}


def read_models(body: Any) -> list[ServerModel] | None:
    """The models of a list as servers of the chat-completions and of the Messages protocol send it; None for what is no
    list. What cannot be read of an entry is left out."""
    if isinstance(body, dict):
        entries = body.get("data", body.get("models", ...))
        entries = [] if entries is None else entries  # Ollama without a model
        details = {_name(each): each for each in _dicts(body.get("models"))}  # of llama.cpp, beside the list
    else:
        entries, details = body, {}
    if not isinstance(entries, list):
        return None
    models = []
    for entry in entries[:MAX_MODELS]:
        if isinstance(entry, str):
            entry = {"id": entry}
        if isinstance(entry, dict) and (name := _name(entry)):
            models.append(_read_model(name, {**details.get(name, {}), **entry}))
    return None if entries and not models else models


def _read_model(name: str, entry: Mapping[str, Any]) -> ServerModel:
    meta, top = _mapping(entry.get("meta")), _mapping(entry.get("top_provider"))
    told = _told_kind(entry)
    window = _first_size(
        *(entry.get(field) for field in ("max_model_len", "context_window", "loaded_context_length")),
        top.get("context_length"),
        *(
            entry.get(field)
            for field in ("context_length", "max_context_length", "max_input_tokens", "inputTokenLimit")
        ),
        meta.get("n_ctx"),
    )
    status = _mapping(entry.get("status")).get("value")
    return ServerModel(
        name,
        _kind(told, name),
        context_window=window,
        trained_window=_first_size(
            meta.get("n_ctx_train"), entry.get("context_length"), entry.get("max_context_length")
        ),
        output_limit=_first_size(
            top.get("max_completion_tokens"),
            *(entry.get(field) for field in ("max_completion_tokens", "max_output_tokens", "outputTokenLimit")),
            entry.get("max_tokens"),
        ),
        abilities=_told_abilities(entry),
        is_loaded=status == "loaded" if isinstance(status, str) else None,
    )


def _kind(told: ModelKind | None, name: str) -> ModelKind:
    """What the server says, but that a model which writes text may still be for something else than conversations."""
    return kind_of_name(name) if told in (None, ModelKind.CHAT) else told or ModelKind.CHAT


_TYPES = {
    **dict.fromkeys(("llm", "vlm", "chat", "language", "text", "text-generation"), ModelKind.CHAT),
    **dict.fromkeys(("embedding", "embeddings", "feature-extraction"), ModelKind.EMBEDDING),
    **dict.fromkeys(("rerank", "reranker"), ModelKind.RERANKER),
    **dict.fromkeys(("image", "video", "text-to-image"), ModelKind.IMAGE),
    **dict.fromkeys(("audio", "tts", "stt", "transcribe", "speech", "automatic-speech-recognition"), ModelKind.SPEECH),
    **dict.fromkeys(("moderation", "guard"), ModelKind.MODERATION),
}


def _told_kind(entry: Mapping[str, Any]) -> ModelKind | None:
    """The kind that is listed: by Together, LM Studio and others (`type`), OpenRouter (`architecture`), Mistral, Ollama
    and llama.cpp (`capabilities`)."""
    if isinstance(kind := entry.get("type"), str) and kind.lower() in _TYPES:
        return _TYPES[kind.lower()]
    outputs = _words(_mapping(entry.get("architecture")).get("output_modalities"))
    if outputs:
        return ModelKind.CHAT if "text" in outputs else ModelKind.SPEECH if "audio" in outputs else ModelKind.IMAGE
    capabilities = entry.get("capabilities")
    if isinstance(capabilities, dict) and "completion_chat" in capabilities:
        return ModelKind.CHAT if capabilities["completion_chat"] else ModelKind.OTHER
    words = _words(capabilities)
    if words & {"completion", "chat", "tools"}:
        return ModelKind.CHAT
    if words & {"embedding", "embeddings"}:
        return ModelKind.EMBEDDING
    return ModelKind.RERANKER if words & {"rerank", "reranking"} else None


_ABILITY_WORDS = {
    TOOLS: {"tools", "tool_use", "tool_choice", "function_calling", "trained_for_tool_use", "function-calling"},
    IMAGES: {"vision", "image", "multimodal", "images"},
    REASONING: {"thinking", "reasoning", "include_reasoning", "reasoning_effort"},
}


def _told_abilities(entry: Mapping[str, Any]) -> frozenset[str] | None:
    """The abilities that are listed; None where there is no list of them."""
    fields = (entry.get("capabilities"), entry.get("supported_parameters"), entry.get("supported_features"))
    inputs = _mapping(entry.get("architecture")).get("input_modalities")
    if not any(isinstance(field, list | dict) for field in (*fields, inputs)):
        return None
    words = set().union(*map(_words, (*fields, inputs)))
    if entry.get("type") == "vlm":
        words.add("vision")
    return frozenset(ability for ability, names in _ABILITY_WORDS.items() if words & names)


def _with_details(
    http: httpx2.Client, root: str, models: dict[str, ServerModel], ends_at: float
) -> dict[str, ServerModel]:
    """The models with what the server tells at addresses of its own."""

    def ask(path: str, body: dict[str, Any] | None = None) -> Any:
        if (seconds := ends_at - time.monotonic()) <= 0:
            return None
        try:
            method = "GET" if body is None else "POST"
            response = http.request(method, f"{root}{path}", json=body, timeout=seconds)
            return _parse(response.content) if response.is_success else None
        except DECODE_ERRORS:
            return None

    with ThreadPoolExecutor(8) as pool:
        paths = ("/api/tags", "/api/v0/models", "/api/v1/models", "/props", "/api/ps")
        tags, studio, newer_studio, props, running = pool.map(ask, paths)
        tagged = [_name(entry) for entry in _dicts(_mapping(tags).get("models")) if entry.get("digest")]  # of Ollama
        shown = [name for name in tagged if name in models][:MAX_SHOWN_MODELS]
        answers = pool.map(lambda name: ask("/api/show", {"model": name}), shown)
        models = models | _apply(models, zip(shown, answers, strict=True), with_ollama_show)
    newer_entries = map(_as_earlier_entry, _dicts(_mapping(newer_studio).get("models")))
    entries = [*newer_entries, *_dicts(_mapping(studio).get("data"))]
    models = models | _apply(models, ((_name(entry), entry) for entry in entries), with_lm_studio_entry)
    loaded = {_name(entry): entry for entry in _dicts(_mapping(running).get("models"))}
    models = models | _apply(models, loaded.items(), with_ollama_process)
    if len(models) == 1:  # llama.cpp holds one
        models = models | _apply(models, ((name, props) for name in models), with_llama_props)
    return models


def _apply(
    models: Mapping[str, ServerModel],
    facts: Iterable[tuple[str, Any]],
    update: Callable[[ServerModel, Mapping[str, Any]], ServerModel],
) -> dict[str, ServerModel]:
    return {name: update(models[name], _mapping(fact)) for name, fact in facts if name in models and fact}


def with_ollama_show(model: ServerModel, show: Mapping[str, Any]) -> ServerModel:
    """The model with what Ollama's `/api/show` says: capabilities, its window as made, `num_ctx` where one is set."""
    info = _mapping(show.get("model_info"))
    trained = [value for field, value in info.items() if field.endswith(".context_length") and "vision" not in field]
    parameters = show.get("parameters")
    num_ctx = _NUM_CTX.search(parameters) if isinstance(parameters, str) else None
    told = _told_kind(show)
    return replace(
        model,
        kind=_kind(told, model.name),
        context_window=_first_size(num_ctx and int(num_ctx[1]), model.context_window),
        trained_window=_first_size(*trained, model.trained_window),
        abilities=_either(_told_abilities(show), model.abilities),
    )


def with_ollama_process(model: ServerModel, process: Mapping[str, Any]) -> ServerModel:
    """The model with what Ollama's `/api/ps` says of a model in memory: the window it was loaded with."""
    return replace(
        model, context_window=_first_size(process.get("context_length"), model.context_window), is_loaded=True
    )


def with_lm_studio_entry(model: ServerModel, entry: Mapping[str, Any]) -> ServerModel:
    """The model with what LM Studio's `/api/v0/models` says: type, state, window loaded and window at most, tools."""
    if "state" not in entry and "type" not in entry:
        return model
    return replace(
        model,
        kind=_kind(_told_kind(entry), model.name),
        context_window=_first_size(entry.get("loaded_context_length"), model.context_window),
        trained_window=_first_size(entry.get("max_context_length"), model.trained_window),
        abilities=_either(_told_abilities(entry), model.abilities),
        is_loaded=entry.get("state") == "loaded",
    )


def _as_earlier_entry(entry: Mapping[str, Any]) -> Mapping[str, Any]:
    """An entry of LM Studio's `/api/v1/models` (from 0.4 on) as `/api/v0/models` writes it."""
    instances = _dicts(entry.get("loaded_instances"))
    sizes = [_mapping(instance.get("config")).get("context_length") for instance in instances]
    state = "loaded" if instances else "not-loaded"
    return {**entry, "id": entry.get("key"), "state": state, "loaded_context_length": _first_size(*sizes)}


def with_llama_props(model: ServerModel, props: Mapping[str, Any]) -> ServerModel:
    """The model with what llama.cpp's `/props` says: the window of one slot, whether it sees."""
    settings, modalities = _mapping(props.get("default_generation_settings")), _mapping(props.get("modalities"))
    abilities = model.abilities
    if modalities.get("vision"):
        abilities = (abilities or frozenset()) | {IMAGES}
    return replace(
        model,
        context_window=_first_size(settings.get("n_ctx"), props.get("n_ctx"), model.context_window),
        abilities=abilities,
    )


def _either(first: frozenset[str] | None, second: frozenset[str] | None) -> frozenset[str] | None:
    return second if first is None else first


def _parse(content: bytes) -> Any:
    try:
        return json.loads(content)
    except (ValueError, RecursionError):
        return None


def _name(entry: Mapping[str, Any]) -> str:
    names = (entry.get(field) for field in ("id", "name", "model", "key"))
    name = next((each for each in names if isinstance(each, str) and each.strip()), "")
    name = name.encode("utf-8", "replace").decode().strip()
    return name if len(name) <= MAX_NAME_CHARACTERS and name.isprintable() else ""


def _first_size(*values: Any) -> int | None:
    """The first that is a number of tokens. Some servers write numbers as text."""
    for value in values:
        if isinstance(value, str) and value.isascii() and value.isdecimal() and len(value) < 10:
            value = int(value)
        if isinstance(value, int | float) and not isinstance(value, bool) and 0 < value <= _MAX_TOKENS:
            return int(value)
    return None


def _words(value: Any) -> set[str]:
    """The words of a list, or of a mapping whose values say yes; a mapping in a mapping may say `supported`."""
    if isinstance(value, list):
        return {each.lower() for each in value if isinstance(each, str)}
    if not isinstance(value, dict):
        return set()
    yes = (name for name, told in value.items() if (told.get("supported") if isinstance(told, dict) else told))
    return {name.lower() for name in yes if isinstance(name, str)}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, dict) else {}


def _dicts(value: Any) -> Sequence[Mapping[str, Any]]:
    return [each for each in value if isinstance(each, dict)] if isinstance(value, list) else []
