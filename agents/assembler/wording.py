"""How things that are not text themselves are worded for a prompt. Pure."""

from datetime import datetime, timedelta
from functools import lru_cache

from agents.assembler.values import Trust
from openvibe.base.secrets import mask_secrets
from openvibe.llm.fences import fence


def ago(then: datetime, now: datetime) -> str:
    """`2 days ago`, `3 hours ago`, `just now`: how fresh something is, in the largest whole unit."""
    passed = max(now - then, timedelta())
    for size, unit in ((86_400, "day"), (3_600, "hour"), (60, "minute")):
        number = int(passed.total_seconds() // size)
        if number:
            return f"{number} {unit}{'' if number == 1 else 's'} ago"
    return "just now"


def minute(at: datetime) -> str:
    """A time as prompts show it, UTC."""
    return f"{at:%Y-%m-%d %H:%M}"


@lru_cache(maxsize=16_384)
def data_block(text: str, *, source: str, ref: str, author: str, trust: Trust, time: str = "") -> str:
    """Text in a fenced block that names its source, reference, author and label; secrets are masked."""
    return fence("data", mask_secrets(text), source=source, ref=ref, author=author, trust=trust, time=time or None)


def knowledge_block(pk: int, text: str, *, kind: str, decided_by: str, decided: str, fresh: str) -> str:
    """An entry of knowledge, topic and content, as prompts and tools show it: who decided it, when (UTC), how fresh."""
    return fence(
        "data", text, source="knowledge", ref=f"knowledge:{pk}", kind=kind, decided_by=decided_by,
        decided=decided, freshness=fresh, trust="semi_trusted",
    )  # fmt: skip
