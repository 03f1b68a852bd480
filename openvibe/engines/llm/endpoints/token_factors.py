"""How an endpoint counts, against how its prompts were estimated here: learned from the usage that it reports.

The estimate of a vocabulary that nobody knows has to be enough for every one; what the endpoint itself reports says how
much of it was needed. Too low is mended at once, too high when it is clearly so."""

from __future__ import annotations

import math

from openvibe.engines.llm.endpoints.windows import same_model, unread_tokens
from openvibe.engines.llm.models import Endpoint
from openvibe.engines.llm.values import Usage

STEP = 20
"""Factors are kept in twentieths: each change moves the windows of all prompts."""

MIN_FACTOR, MAX_FACTOR = 0.5, 3.0
MIN_TOKENS = 400
"""Tokens of a prompt that tells anything: in a shorter one the wrapping decides."""
MARGIN = 1.05
"""What prompts in other languages may need more."""
MIN_SURPLUS = 0.15
"""The factor that is lowered lies at least so much too high."""


def learn_token_factor(endpoint: Endpoint, *, estimated: int, exact: bool, usage: Usage) -> None:
    """Takes in what a prompt counted by its provider that was `estimated`, with the factor of now, at so many tokens.

    A count that is `exact` is only ever raised, where it is plainly that of another vocabulary.
    """
    if endpoint.pk is None or estimated < MIN_TOKENS or unread_tokens(estimated, usage) or usage.input_tokens <= 0:
        return
    factor = endpoint.token_factor
    needed = factor * usage.input_tokens / estimated
    wanted = min(max(math.ceil(needed * MARGIN * STEP) / STEP, MIN_FACTOR), MAX_FACTOR)
    is_too_low = needed > factor * (MARGIN if exact else 1)
    if is_too_low or (not exact and wanted + MIN_SURPLUS <= factor):
        endpoint.token_factor = wanted
        same_model(endpoint).update(token_factor=wanted)
