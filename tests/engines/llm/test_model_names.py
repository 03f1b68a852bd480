"""Real names of models, 2025 and 2026: what each is for, and which of a server's models to begin with."""

import time

import pytest

from agents.connect.presets import choose_model
from openvibe.engines.llm.endpoints.server_models import ServerModel
from openvibe.engines.llm.model_names import ModelKind, kind_of_name

NAMES = {
    ModelKind.CHAT: """
        gpt-5-mini gpt-5.1-chat-latest gpt-4.1-nano o4-mini gpt-oss:20b openai/gpt-oss-120b chatgpt-4o-latest
        claude-sonnet-4-5-20250929 claude-opus-4-1 claude-haiku-4-5 anthropic/claude-sonnet-4.5
        models/gemini-2.5-flash models/gemini-2.5-pro google/gemini-2.5-pro gemma3:27b gemma3n:e4b gemma-3-12b-it
        google/gemma-2-9b-it google/gemma-3-27b-it:free mistral-medium-latest mistral-small3.2:24b magistral-medium-2509
        ministral-8b-latest mixtral:8x7b codestral-latest devstral:24b mistralai/Mistral-7B-Instruct-v0.3
        qwen2.5-coder:7b qwen3:8b qwen3:30b-a3b-instruct-2507 Qwen/Qwen3-8B Qwen/Qwen2.5-72B-Instruct qwen3-coder:480b
        Qwen/Qwen3-235B-A22B-Instruct-2507-FP8 Qwen3-VL-8B-Instruct qwen2.5vl:7b qwq:32b qwen2.5:0.5b qwen3-max
        llama3.2:1b llama3.1:8b-instruct-q4_K_M meta-llama/Llama-3.3-70B-Instruct llama-3.3-70b-versatile llama4:scout
        llama-3.1-8b-instant meta-llama/llama-4-maverick-17b-128e-instruct llama2:7b-chat codellama:7b-instruct
        deepseek-chat deepseek-reasoner deepseek-r1:14b deepseek-ai/DeepSeek-V3.1 deepseek-coder:6.7b-instruct
        phi4:14b phi4-mini microsoft/Phi-3.5-mini-instruct phi-4-reasoning smollm2:135m SmolLM2-1.7B-Instruct
        glm-4.6 zai-org/GLM-4.5-Air kimi-k2-0905-preview moonshotai/Kimi-K2-Instruct MiniMax-M2 command-r:35b
        command-a-03-2025 aya-expanse:8b granite3.3:8b ibm-granite/granite-4.0-h-small cogito:14b exaone3.5:7.8b
        hermes3:8b nousresearch/hermes-4-70b olmo2:7b allenai/OLMo-2-1124-7B-Instruct falcon3:7b solar-pro jamba-large
        grok-4-fast grok-3-mini nova-pro amazon.nova-lite-v1:0 anthropic.claude-3-5-sonnet-20241022-v2:0 sonar-pro
        nemotron-nano-9b-v2 lfm2-1.2b llava:13b minicpm-v:8b pixtral-12b-2409 tinyllama:1.1b openchat:7b yi:34b
        starling-lm:7b vicuna-13b-v1.5 zephyr:7b-beta dolphin3:8b stablelm2:12b internlm2 hunyuan-turbo ernie-4.5-21b
        openrouter/auto bielik-11b-v2.3-instruct EuroLLM-9B-Instruct apertus-8b-instruct-2509 seed-oss:36b
        """,
    ModelKind.EMBEDDING: """
        bge-m3 bge-m3:latest bge-large-en-v1.5 BAAI/bge-small-en-v1.5 all-minilm all-minilm:33m nomic-embed-text:latest
        sentence-transformers/all-MiniLM-L6-v2 sentence-transformers/all-mpnet-base-v2 mxbai-embed-large
        Qwen3-Embedding Qwen/Qwen3-Embedding-0.6B dengcao/Qwen3-Embedding-4B:Q5_K_M text-embedding-3-small
        text-embedding-ada-002 text-embedding-nomic-embed-text-v1.5 models/gemini-embedding-001 embeddinggemma:300m
        snowflake-arctic-embed2 intfloat/multilingual-e5-large-instruct intfloat/e5-mistral-7b-instruct e5-base-v2
        Alibaba-NLP/gte-Qwen2-7B-instruct gte-large thenlper/gte-base jina-embeddings-v3 jina-clip-v2 mistral-embed
        codestral-embed-2505 voyage-3.5 voyage-code-3 cohere/embed-v4.0 nvidia/NV-Embed-v2 granite-embedding:278m
        paraphrase-multilingual:278m hkunlp/instructor-xl WhereIsAI/UAE-Large-V1 minishlab/potion-base-8M LaBSE
        text-embedding-004 amazon.titan-embed-text-v2:0 stella_en_1.5B_v5 colbert-ir/colbertv2.0
        """,
    ModelKind.RERANKER: """
        bge-reranker-v2-m3 BAAI/bge-reranker-large Qwen/Qwen3-Reranker-0.6B jina-reranker-v2-base-multilingual
        cohere/rerank-v3.5 cross-encoder/ms-marco-MiniLM-L-6-v2 mxbai-rerank-large-v2 rerank-2.5
        """,
    ModelKind.SPEECH: """
        whisper-1 whisper-large-v3-turbo distil-whisper-large-v3-en gpt-4o-mini-tts tts-1-hd gpt-4o-transcribe
        gpt-4o-audio-preview gpt-realtime gpt-4o-realtime-preview playai-tts nvidia/parakeet-tdt-0.6b-v3 kokoro
        hexgrad/Kokoro-82M orpheus:3b-0.1-ft-q4_K_M canopylabs/orpheus-3b voxtral-mini-transcribe-2507
        models/gemini-2.5-flash-preview-tts models/gemini-2.0-flash-live-001 models/gemini-2.5-flash-native-audio-latest
        coqui/XTTS-v2 facebook/wav2vec2-base-960h suno/bark Systran/faster-whisper-small
        """,
    ModelKind.IMAGE: """
        dall-e-3 gpt-image-1 gpt-image-1-mini sora-2 imagen-4.0-generate-001 models/veo-3.0-generate-preview
        gemini-2.5-flash-image-preview black-forest-labs/FLUX.1-schnell flux-pro sdxl-turbo
        Qwen/Qwen-Image grok-2-image-1212 openai/clip-vit-base-patch32 google/siglip-so400m wan2.2-t2v
        stabilityai/stable-diffusion-xl-base-1.0
        """,
    ModelKind.VISION: """
        mistral-ocr-latest deepseek-ocr allenai/olmOCR-2-7B moondream:1.8b vikhyatk/moondream2
        microsoft/Florence-2-large google/paligemma2-3b-mix-448 ds4sd/SmolDocling-256M-preview granite-docling-258m
        """,
    ModelKind.MODERATION: """
        omni-moderation-latest text-moderation-stable llama-guard3:8b meta-llama/Llama-Guard-4-12B shieldgemma:9b
        openai/gpt-oss-safeguard-20b granite3-guardian:8b mistral-moderation-latest meta-llama/llama-prompt-guard-2-86m
        nvidia/llama-3.1-nemoguard-8b-content-safety Qwen3Guard-Gen-8B
        """,
    ModelKind.BASE: """
        davinci-002 babbage-002 qwen2.5-coder:7b-base Qwen/Qwen3-8B-Base llama3:8b-text-q4_0
        meta-llama/Llama-3.1-8B meta-llama/Llama-2-7b-hf mistralai/Mistral-7B-v0.1 google/gemma-3-4b-pt starcoder2:15b
        codellama:7b-code deepseek-coder:6.7b-base EleutherAI/pythia-1.4b openai-community/gpt2 google/flan-t5-xl
        bert-base-uncased answerdotai/ModernBERT-base EleutherAI/gpt-neo-2.7B deepseek-ai/deepseek-llm-7b-base
        """,
    ModelKind.OTHER: """
        gpt-3.5-turbo-instruct
        gpt-5-codex codex-mini-latest o3-deep-research computer-use-preview gpt-4o-search-preview o3-pro gpt-5-pro
        models/aqa learnlm-2.0-flash-experimental gemini-2.5-computer-use-preview-10-2025 functiongemma:270m
        mmproj-model-f16.gguf Skywork/Skywork-Reward-V2-Llama-3.1-8B gemini-robotics-er-1.5-preview translategemma:4b
        """,
}
CASES = [(name, kind) for kind, names in NAMES.items() for name in names.split()]


def offered(*names: str) -> list[ServerModel]:
    return [ServerModel(name, kind_of_name(name)) for name in names]


@pytest.mark.parametrize(("name", "kind"), CASES, ids=[name for name, _ in CASES])
def test_a_name_tells_what_a_model_is_for(name: str, kind: ModelKind) -> None:
    assert kind_of_name(name) is kind
    assert kind_of_name(name.upper()) is kind


@pytest.mark.parametrize(
    ("names", "chosen"),
    [
        ("bge-m3 qwen2.5-coder:7b", "qwen2.5-coder:7b"),
        ("all-minilm:latest qwen2.5-coder:7b", "qwen2.5-coder:7b"),
        ("Qwen3-Embedding qwen2.5-coder:7b", "qwen2.5-coder:7b"),
        ("nomic-embed-text:latest llama3.1:8b-instruct-q4_K_M", "llama3.1:8b-instruct-q4_K_M"),
        ("qwen2.5:7b-instruct qwen2.5-coder:7b", "qwen2.5:7b-instruct"),
        ("qwen3:8b qwen2.5:7b smollm2:135m", "qwen3:8b"),
        ("llama3.2:1b llama3.1:8b", "llama3.1:8b"),
        ("llama3.1:405b llama3.1:8b", "llama3.1:8b"),
        ("llama-guard3:8b whisper-large-v3 gemma3:4b bge-reranker-v2-m3", "gemma3:4b"),
        ("smollm2:135m bge-m3", "smollm2:135m"),
        ("bge-m3", "bge-m3"),
        ("", ""),
    ],
)
def test_of_a_servers_models_one_that_converses_is_chosen(names: str, chosen: str) -> None:
    models = offered(*names.split())
    assert choose_model(models) == chosen
    assert choose_model(models[::-1]) == chosen


def test_what_the_server_says_decides_before_the_name() -> None:
    small, large = (
        ServerModel("qwen3:4b", abilities=frozenset()),
        ServerModel("qwen3:8b", abilities=frozenset(["tools"])),
    )
    assert choose_model([small, large]) == "qwen3:8b"
    loaded = ServerModel("gemma3:12b", is_loaded=True)
    assert choose_model([small, large, loaded]) == "gemma3:12b", "what stands in memory answers at once"


def test_any_other_model_is_never_chosen_before_one_that_converses() -> None:
    others = [name for kind, names in NAMES.items() if kind is not ModelKind.CHAT for name in names.split()]
    for other in others:
        for mine in ("qwen2.5:0.5b", "tinyllama:1.1b", "gpt-4.1-nano"):
            assert choose_model(offered(other, mine)) == mine
            assert choose_model(offered(other, mine), ("embed", "mini", other.lower())) == mine


def test_three_thousand_names_take_no_time() -> None:
    names = [f"{name}-{number}" for number in range(25) for name, _ in CASES][:3_000]
    assert len(names) == 3_000
    start = time.process_time()
    assert choose_model(offered(*names))
    long_name = kind_of_name("a-" * 100_000)
    assert time.process_time() - start < 2, "linear in the names"
    assert long_name is ModelKind.CHAT
