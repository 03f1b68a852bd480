"""What servers tell about their models, in the forms of their own documentation."""

import json
from threading import Event
from typing import Any

import httpx2
import pytest

from openvibe.engines.llm.endpoint_errors.endpoint_errors import connection_error
from openvibe.engines.llm.endpoints.server_models import (
    IMAGES,
    REASONING,
    TOOLS,
    ServerModel,
    fetch_server_models,
    read_models,
)
from openvibe.engines.llm.errors import AuthRefused, BadAnswer, ModelError, ModelLoading, ModelTimeout, ModelUnavailable
from openvibe.engines.llm.http_client import Connection
from openvibe.engines.llm.model_names import ModelKind
from tests.engines.llm.model_server import Answer, Asked, FakeEndpoint, serving

OLLAMA: dict[str, Any] = {
    "/v1/models": {
        "object": "list",
        "data": [
            {"id": "qwen2.5-coder:7b", "object": "model", "created": 1, "owned_by": "library"},
            {"id": "bge-m3:latest", "object": "model", "created": 1, "owned_by": "library"},
            {"id": "notes:latest", "object": "model", "created": 1, "owned_by": "library"},
        ],
    },
    "/api/tags": {
        "models": [
            {"name": name, "model": name, "digest": "a1", "details": {"family": "qwen2"}}
            for name in ("qwen2.5-coder:7b", "bge-m3:latest", "notes:latest", "not-in-the-list:latest")
        ]
    },
    "/api/show qwen2.5-coder:7b": {
        "parameters": 'num_ctx                        16384\nstop                           "<|im_end|>"',
        "model_info": {"general.architecture": "qwen2", "qwen2.context_length": 32768},
        "capabilities": ["completion", "tools", "insert"],
    },
    "/api/show bge-m3:latest": {
        "model_info": {"general.architecture": "bert", "bert.context_length": 8192},
        "capabilities": ["embedding"],
    },
    "/api/show notes:latest": {"model_info": {"gemma3.context_length": 8192}, "capabilities": ["embedding"]},
    "/api/ps": {"models": [{"name": "qwen2.5-coder:7b", "size_vram": 5, "context_length": 4096}]},
}
LM_STUDIO: dict[str, Any] = {
    "/v1/models": {
        "data": [
            {"id": name, "object": "model", "owned_by": "organization_owner"}
            for name in ("qwen2-vl-7b-instruct", "meta-llama-3.1-8b-instruct", "my-notes")
        ]
    },
    "/api/v0/models": {
        "object": "list",
        "data": [
            {
                "id": "qwen2-vl-7b-instruct",
                "object": "model",
                "type": "vlm",
                "arch": "qwen2_vl",
                "state": "not-loaded",
                "max_context_length": 32768,
            },
            {
                "id": "meta-llama-3.1-8b-instruct",
                "object": "model",
                "type": "llm",
                "state": "loaded",
                "max_context_length": 131072,
                "loaded_context_length": 4096,
                "capabilities": ["tool_use"],
            },
            {
                "id": "my-notes",
                "object": "model",
                "type": "embeddings",
                "state": "not-loaded",
                "max_context_length": 2048,
            },
        ],
    },
}
LLAMA_CPP: dict[str, Any] = {
    "/v1/models": {
        "models": [{"name": "gemma.gguf", "model": "gemma.gguf", "capabilities": ["completion", "multimodal"]}],
        "object": "list",
        "data": [
            {
                "id": "gemma.gguf",
                "object": "model",
                "owned_by": "llamacpp",
                "meta": {
                    "vocab_type": 1,
                    "n_vocab": 262144,
                    "n_ctx_train": 131072,
                    "n_embd": 2560,
                    "n_params": 4300000000,
                },
            }
        ],
    },
    "/props": {
        "default_generation_settings": {"id": 0, "n_ctx": 8192, "params": {}},
        "total_slots": 1,
        "modalities": {"vision": True, "audio": False},
    },
}


def answering(pages: dict[str, Any]) -> Any:
    """A script that serves the pages by path, and of `/api/show` by the model too."""

    def script(asked: Asked) -> Answer:
        path = asked.path.partition("?")[0]
        page = pages.get(f"{path} {asked.body['model']}" if path == "/api/show" else path)
        return Answer(status=404) if page is None else Answer(body=json.dumps(page).encode())

    return script


def models_of(server: FakeEndpoint, **options: Any) -> dict[str, ServerModel]:
    models = fetch_server_models(
        Connection(server.base_url, "sk-key", allow_private=True), **{"seconds": 10, **options}
    )
    return {model.name: model for model in models}


def test_ollama_says_what_each_is_for_and_how_much_it_reads() -> None:
    with serving(script=answering(OLLAMA)) as server:
        models = models_of(server)
    assert list(models) == ["bge-m3:latest", "notes:latest", "qwen2.5-coder:7b"]
    coder = models["qwen2.5-coder:7b"]
    assert (coder.kind, coder.abilities, coder.is_loaded) == (ModelKind.CHAT, frozenset([TOOLS]), True)
    assert (coder.context_window, coder.trained_window) == (4_096, 32_768), "as it stands in memory"
    assert models["notes:latest"].kind is ModelKind.EMBEDDING, "whose name says nothing"
    assert models["bge-m3:latest"].trained_window == 8_192
    assert {asked.path for asked in server.asked} == {
        *("/v1/models", "/api/tags", "/api/v0/models", "/api/v1/models", "/props", "/api/ps", "/api/show")
    }


def test_lm_studio_says_types_and_what_is_loaded() -> None:
    with serving(script=answering(LM_STUDIO)) as server:
        models = models_of(server)
    assert [model.kind for model in models.values()] == [ModelKind.CHAT, ModelKind.EMBEDDING, ModelKind.CHAT]
    llama, eyes = models["meta-llama-3.1-8b-instruct"], models["qwen2-vl-7b-instruct"]
    assert (llama.context_window, llama.trained_window, llama.abilities, llama.is_loaded) == (
        4_096,
        131_072,
        frozenset([TOOLS]),
        True,
    )
    assert (eyes.context_window, eyes.trained_window, eyes.is_loaded) == (None, 32_768, False)


def test_lm_studios_newer_list_says_the_same() -> None:
    entry = {
        "type": "llm",
        "publisher": "qwen",
        "key": "qwen/qwen3.5-9b",
        "loaded_instances": [{"id": "qwen/qwen3.5-9b", "config": {"context_length": 4096}}],
        "max_context_length": 262144,
        "capabilities": {"vision": True, "trained_for_tool_use": True},
    }
    notes = {"type": "embedding", "key": "notes", "loaded_instances": [], "max_context_length": 2048}
    pages = {
        "/v1/models": {"data": [{"id": "qwen/qwen3.5-9b"}, {"id": "notes"}]},
        "/api/v1/models": {"models": [entry, notes]},
    }
    with serving(script=answering(pages)) as server:
        models = models_of(server)
    assert models["notes"] == ServerModel("notes", ModelKind.EMBEDDING, trained_window=2_048, is_loaded=False)
    assert models["qwen/qwen3.5-9b"] == ServerModel(
        "qwen/qwen3.5-9b", ModelKind.CHAT, 4_096, 262_144, None, frozenset((TOOLS, IMAGES)), is_loaded=True
    )


def test_llama_cpp_says_its_window_and_that_it_sees() -> None:
    with serving(script=answering(LLAMA_CPP)) as server:
        model = models_of(server)["gemma.gguf"]
    assert (model.kind, model.context_window, model.trained_window) == (ModelKind.CHAT, 8_192, 131_072)
    assert model.abilities is not None
    assert IMAGES in model.abilities


@pytest.mark.parametrize(
    ("entry", "model"),
    [
        ({"id": "m", "max_model_len": 16_384, "owned_by": "vllm"}, ServerModel("m", context_window=16_384)),
        ({"id": "m", "context_window": 131_072, "active": True, "max_completion_tokens": 32_768}, (131_072, 32_768)),
        (
            {
                "id": "m",
                "context_length": 200_000,
                "architecture": {"input_modalities": ["text", "image"], "output_modalities": ["text"]},
                "top_provider": {"context_length": 128_000, "max_completion_tokens": 8_000},
                "supported_parameters": ["tools", "reasoning", "temperature"],
            },
            ServerModel("m", ModelKind.CHAT, 128_000, 200_000, 8_000, frozenset((TOOLS, IMAGES, REASONING))),
        ),
        ({"id": "m", "architecture": {"output_modalities": ["image"]}}, ModelKind.IMAGE),
        ({"id": "m", "capabilities": {"completion_chat": False, "completion_fim": True}}, ModelKind.OTHER),
        (
            {
                "id": "m",
                "capabilities": {"completion_chat": True, "function_calling": True, "vision": False},
                "max_context_length": 32_768,
            },
            ServerModel("m", ModelKind.CHAT, 32_768, 32_768, None, frozenset((TOOLS,))),
        ),
        ({"id": "m", "type": "embedding"}, ModelKind.EMBEDDING),
        ({"id": "m", "type": "rerank"}, ModelKind.RERANKER),
        ({"id": "llama-guard", "type": "chat"}, ModelKind.MODERATION),
        ({"type": "model", "id": "claude", "display_name": "Claude", "max_input_tokens": 200_000}, (200_000, None)),
        ({"id": "m", "context_length": "4096", "max_model_len": True}, (4_096, None)),
        ({"id": "m", "max_model_len": -1, "context_length": 1e30, "meta": [], "top_provider": "x"}, ServerModel("m")),
        ({"id": "m", "status": {"value": "loaded"}}, ServerModel("m", is_loaded=True)),
    ],
)
def test_what_lists_tell_besides_names(entry: dict[str, Any], model: Any) -> None:
    (found,) = read_models({"data": [entry]}) or []
    if isinstance(model, ModelKind):
        assert found.kind is model
    elif isinstance(model, tuple):
        assert (found.context_window, found.output_limit) == model
    else:
        assert found == model


@pytest.mark.parametrize(
    ("body", "names"),
    [
        ({"data": [{"id": "a"}, {"id": "b"}]}, ["a", "b"]),
        ([{"id": "a"}], ["a"]),
        (["a", "b"], ["a", "b"]),
        ({"models": [{"name": "a"}, {"model": "b"}]}, ["a", "b"]),
        ({"object": "list", "data": None}, []),
        ({"data": []}, []),
        ({"data": [{"id": "a"}, {"id": None}, 7, None, {"id": "x" * 500}, {"id": "b\x00"}, {"id": " "}]}, ["a"]),
        ({"data": [{"nothing": 1}]}, None),
        ({"data": {}}, None),
        ({"error": "no"}, None),
        ("text", None),
        (None, None),
    ],
)
def test_what_is_a_list_of_models(body: Any, names: list[str] | None) -> None:
    models = read_models(body)
    assert (models if models is None else [model.name for model in models]) == names


@pytest.mark.parametrize(
    ("answer", "error", "words"),
    [
        (Answer(status=401, error={"message": "bad key sk-key"}), AuthRefused, "refused the key"),
        (Answer(status=404, body=b"<html>Not found"), BadAnswer, "no such address"),
        (Answer(body=b"<!doctype html><p>Welcome"), BadAnswer, "web page"),
        (Answer(body=b""), BadAnswer, "nothing at all"),
        (Answer(body=b'{"data": {"a": 1}}'), BadAnswer, "no list of models"),
        (Answer(body=b"[" * 200_000), BadAnswer, "no list"),
        (Answer(status=503, error={"message": "Loading model"}), ModelLoading, "still being loaded"),
        (Answer(status=302, headers={"Location": "http://127.0.0.1:9/"}), BadAnswer, "points somewhere else"),
        (Answer("m", headers={"Content-Encoding": "gzip"}), BadAnswer, "compresses"),
    ],
)
def test_what_is_no_list_is_said(answer: Answer, error: type[ModelError], words: str) -> None:
    with serving(answer) as server, pytest.raises(error, match=words) as failure:
        models_of(server)
    assert "sk-key" not in str(failure.value)


def test_a_dead_or_silent_server_is_said_in_time() -> None:
    with serving(Answer("m")) as server:
        pass
    with pytest.raises(ModelUnavailable, match="nothing listens at this address and port") as failure:
        models_of(server)
    assert "0.0.0.0" in failure.value.advice
    never = Event()
    with serving(Answer("m", hold=never)) as server:
        with pytest.raises(ModelTimeout):
            models_of(server, seconds=0.2)
        never.set()
    with pytest.raises(ModelUnavailable, match="own network"):
        fetch_server_models(Connection("http://127.0.0.1:1/v1", ""), seconds=1)


@pytest.mark.parametrize(
    ("words", "reason"),
    [
        ("The name gpu-bx cannot be found.", "cannot be reached: the name gpu-bx cannot be found"),
        ("[Errno 113] No route to host", "no network leads to its address"),
        ("[SSL: CERTIFICATE_VERIFY_FAILED] certificate verify failed", "its certificate is not one"),
        ("[SSL] record layer failure (_ssl.c:1006)", "it does not speak HTTPS"),
        ("something else", "cannot be reached."),
    ],
)
def test_why_there_is_no_connection_is_said(words: str, reason: str) -> None:
    failure = connection_error(httpx2.ConnectError(words))
    assert failure is not None
    assert reason in str(failure)
    assert failure.advice


def test_https_at_a_plain_port_is_said() -> None:
    with serving(Answer("m")) as server:
        address = server.base_url.replace("http://", "https://")
        with pytest.raises(ModelUnavailable, match="does not speak HTTPS") as failure:
            fetch_server_models(Connection(address, "", allow_private=True), seconds=10)
    assert "http://" in failure.value.advice


def test_details_that_do_not_come_in_time_are_done_without() -> None:
    never = Event()

    def script(asked: Asked) -> Answer:
        return Answer("qwen3 bge-m3") if asked.path == "/v1/models" else Answer(hold=never, body=b"{}")

    with serving(script=script) as server:
        models = models_of(server, seconds=0.5)
        never.set()
    assert [model.kind for model in models.values()] == [ModelKind.EMBEDDING, ModelKind.CHAT]


def test_the_messages_protocol_has_its_own_headers() -> None:
    with serving(Answer("claude-a claude-b")) as server:
        assert list(models_of(server, is_anthropic=True)) == ["claude-a", "claude-b"]
    (asked,) = server.asked
    assert (asked.path, asked.headers["x-api-key"]) == ("/v1/models?limit=1000", "sk-key")
    assert "authorization" not in asked.headers
