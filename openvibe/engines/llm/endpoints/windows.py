"""How much a model reads: what its server tells, what a refusal names, and what was left unread without a word.

What a person set stays as it is. A refusal is remembered for the address and model that refused, and prompts are made
for the smaller of the two until somebody forgets it."""

from __future__ import annotations

from django.db.models import QuerySet
from django.utils import timezone

from openvibe.engines.llm.models import MIN_WINDOW, Endpoint
from openvibe.engines.llm.values import Usage

READ_SHARE = 0.5
"""A usage below this share of what was sent says that the rest was not read: tokenizers differ by less."""
MIN_UNREAD = 200
"""Tokens; of fewer it is not said, since wrappings are counted in different ways."""
SETTINGS_THAT_HELP = (
    "Give the model more context on its server (Ollama: OLLAMA_CONTEXT_LENGTH or num_ctx; llama.cpp: --ctx-size;"
    " LM Studio: Context Length; vLLM: --max-model-len)"
)


def learn_window(endpoint: Endpoint, window: int, reason: str) -> None:
    """Remembers that the endpoint's model takes no more than `window` tokens, prompt and answer together. A smaller one
    that is remembered stays."""
    if endpoint.pk is None or window < 1:
        return
    endpoint.learned_window = min(window, endpoint.learned_window or window)
    endpoint.learned_window_at, endpoint.learned_window_by = timezone.now(), reason[:300]
    same_model(endpoint).update(
        learned_window=endpoint.learned_window,
        learned_window_at=endpoint.learned_window_at,
        learned_window_by=endpoint.learned_window_by,
    )


def unread_tokens(sent: int, usage: Usage) -> bool:
    """Whether the server read clearly less than the `sent` tokens. Where all of what it counts, or more, came from its
    cache, it counts in a way of its own, and nothing is to be said."""
    read = usage.input_tokens
    if usage.cached_tokens is not None and usage.cached_tokens >= read:
        return False
    return 0 < read < sent * READ_SHARE and sent - read >= MIN_UNREAD


def unread_sentence(sent: int, read: int) -> str:
    """What happened and what to set."""
    return (
        f"The model read {read:,} of about {sent:,} tokens: the server left out the rest without a word. "
        f"{SETTINGS_THAT_HELP}, or set the context window here to what it takes: Settings, Models."
    )


def note_unread(endpoint: Endpoint, *, sent: int, read: int) -> None:
    """Notes it on the endpoint's page, too."""
    if endpoint.pk is not None:
        same_model(endpoint).update(unread_sent=sent, unread_read=read, unread_at=timezone.now())


def store_told_window(endpoint: Endpoint, tokens: int | None, source: str) -> None:
    """Remembers what the server says of the endpoint's model and where; nothing where it says nothing. What is set
    stays: `window_checks.take_window` changes that."""
    if not tokens:
        return
    endpoint.told_window, endpoint.told_window_by, endpoint.told_window_at = tokens, source[:200], timezone.now()
    if endpoint.pk is not None:
        values = {name: getattr(endpoint, name) for name in ("told_window", "told_window_by", "told_window_at")}
        same_model(endpoint).update(**values)


def fit_to_window(endpoint: Endpoint, tokens: int, max_output: int | None = None) -> None:
    """Sets window and reserve of an endpoint that nobody typed them for. Not saved. A window that is too small for any
    prompt is left for validation to refuse."""
    endpoint.context_window = tokens
    reserve = Endpoint._meta.get_field("output_reserve").default
    endpoint.output_reserve = max(min(reserve, max_output or reserve, tokens // 4), 1)


def save_window(endpoint: Endpoint) -> None:
    """Window and reserve of an endpoint that is saved already; a test of it still holds."""
    if endpoint.pk is not None:
        names = ("context_window", "output_reserve", "window_source")
        same_model(endpoint).update(**{name: getattr(endpoint, name) for name in names})


def copy_window(source: Endpoint, target: Endpoint) -> None:
    """What the server told for `source` holds for the saved `target` of the same model, and so does the window that was
    taken from it, unless a person set that of `target`."""
    names = ["told_window", "told_window_by", "told_window_at"]
    if source.window_source and target.window_source != Endpoint.WindowSource.PERSON:
        names += ["context_window", "output_reserve", "window_source"]
    values = {name: getattr(source, name) for name in names}
    for name, value in values.items():
        setattr(target, name, value)
    Endpoint.objects.filter(pk=target.pk).update(**values)


def window_notes(endpoint: Endpoint) -> list[str]:
    """What the endpoint's page says about how much it reads, in sentences, the most pressing first."""
    notes = []
    if endpoint.unread_sent and endpoint.unread_read and endpoint.unread_at:
        notes.append(
            f"{unread_sentence(endpoint.unread_sent, endpoint.unread_read)} ({endpoint.unread_at:%-d %b %Y %H:%M})"
        )
    if endpoint.learned_window and endpoint.learned_window_at:
        notes.append(
            f"It refused a longer prompt on {endpoint.learned_window_at:%-d %b %Y %H:%M}, so prompts are made for "
            f"{endpoint.usable_window:,} tokens. {endpoint.learned_window_by}"
        )
    if endpoint.told_window and endpoint.told_window_at:
        told = f"Its server says {endpoint.told_window:,} tokens ({endpoint.told_window_by}, "
        told += f"{endpoint.told_window_at:%-d %b %Y %H:%M})"
        if endpoint.told_window < MIN_WINDOW:
            notes.append(f"{told}. That is too small: agents need {MIN_WINDOW:,}.")
        elif endpoint.told_window < endpoint.context_window:
            notes.append(f"{told}, and {endpoint.context_window:,} are set here: longer prompts will fail or be cut.")
        elif endpoint.told_window > endpoint.context_window:
            notes.append(f"{told}; {endpoint.context_window:,} are set here and hold.")
        else:
            notes.append(f"{told}.")
    if endpoint.token_factor != 1:
        notes.append(f"Its own usage says that it counts {endpoint.token_factor:g} times what its name lets expect.")
    return notes


def same_model(endpoint: Endpoint) -> QuerySet[Endpoint]:
    """The endpoint's row, unless it answers with another model or from another address by now."""
    kind, base_url, model = endpoint.kind, endpoint.base_url, endpoint.model
    return Endpoint.objects.filter(pk=endpoint.pk, kind=kind, base_url=base_url, model=model)
