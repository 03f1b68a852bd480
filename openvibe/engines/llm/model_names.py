"""What a model is for, by its name alone: where its server does not say. Words of names, by the documentation and the
lists of providers and of model libraries in 2025 and 2026."""

from __future__ import annotations

import re
from enum import StrEnum


class ModelKind(StrEnum):
    """What a model does. Only CHAT answers in conversations."""

    CHAT = "chat"
    EMBEDDING = "embedding"
    RERANKER = "reranker"
    SPEECH = "speech"
    IMAGE = "image"
    VISION = "vision"
    MODERATION = "moderation"
    BASE = "base"
    OTHER = "other"


_WORD_START, _WORD_END = r"(?:^|(?<=[^a-z0-9]))", r"(?=$|[^a-z])"


def _compile(anywhere: str, words: str = "") -> re.Pattern[str]:
    """`anywhere`: parts of words, `words`: whole ones, which digits may follow."""
    return re.compile(f"{anywhere}|{_WORD_START}(?:{words}){_WORD_END}" if words else anywhere)


_PATTERNS = (  # the first that fits decides
    (ModelKind.RERANKER, _compile(r"rerank|cross-encoder|ms-marco")),
    (ModelKind.MODERATION, _compile(r"moderation|guard|shieldgemma|content-safety|toxic|nsfw|jailbreak")),
    (
        ModelKind.EMBEDDING,
        _compile(
            r"embed|minilm|mpnet|mxbai|colbert|text-similarity|sentence-|multilingual-e5|granite-emb|e5-mistral",
            r"bge|gte|gtr|e5|uae|splade|voyage|stella|sbert|labse|instructor|potion|jina-(?:v\d|clip)|paraphrase|ada-002",
        ),
    ),
    (
        ModelKind.SPEECH,
        _compile(
            r"whisper|speech|transcri|audio|voxtral|parakeet|kokoro|orpheus|chatterbox|wav2vec|moonshine|voice|xtts|realtime",
            r"tts|asr|stt|live|bark|lyria|csm|piper|sonic",
        ),
    ),
    (
        ModelKind.IMAGE,
        _compile(
            r"dall-e|imagen|image|stable-diffusion|sdxl|diffusion-xl|kandinsky|seedream|seedance|ideogram|recraft"
            r"|midjourney|nano-banana|video|upscal|text-to-",
            r"veo|sora|flux|flux\.\d|sd3|sd-turbo|wan|wan\d|kling|clip|siglip|hidream",
        ),
    ),
    (
        ModelKind.VISION,
        _compile(r"ocr|docling|florence|moondream|paligemma|nougat|depth-anything|yolo|layoutlm", r"vit|sam2?|donut"),
    ),
    (
        ModelKind.BASE,
        _compile(
            r"davinci|babbage|starcoder|santacoder|pythia|gpt-neo|gpt2|stable-code|codellama:.*-code"
            r"|:[^/]*-text(?=$|-)|(?:^|/)(?:meta-)?llama-[23](?:\.\d)?-\d+b(?:-hf)?$|(?:^|/)mistral-7b-v0\.\d$"
            r"|(?:^|/)(?:gemma-3?-?\d+b)$",
            r"base|pt|fim|pretrain|pretrained|bert|roberta|distilbert|modernbert|t5",
        ),
    ),
    (
        ModelKind.OTHER,
        _compile(
            r"gpt-3\.5-turbo-instruct|codex|computer-use|deep-research|learnlm|mmproj|reward|functiongemma|translate|robotics|search-(?:preview|api)"
            r"|(?:^|/)(?:o\d|gpt-\d(?:\.\d)?)-pro|speculator|nllb|madlad|seamless|timesfm|chronos",
            r"aqa|prm|rm|eagle|eagle3|draft|mtp|nli",
        ),
    ),
)
_IS_CHAT_BY_NAME = re.compile(r"(?<=[^a-z])(?:instruct|chat|it)(?=$|[^a-z])")


def kind_of_name(name: str) -> ModelKind:
    """The kind of a model of this name, as well as a name tells; a chat model where it does not."""
    text = name[:200].lower()
    kind = next((kind for kind, pattern in _PATTERNS if pattern.search(text)), ModelKind.CHAT)
    return ModelKind.CHAT if kind is ModelKind.BASE and _IS_CHAT_BY_NAME.search(text) else kind
