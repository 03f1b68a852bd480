"""Masks keys, tokens and passwords in text before it reaches a prompt, a summary, an index or a log.

Formats of our own, and those of the `detect-secrets` library that begin with something unmistakable; of it only the
patterns are used, never what asks a provider whether a key is valid, nor what guesses by randomness: hashes and UUIDs
are ordinary talk here. Pure and linear in the text's length. Better one word too many removed than one key let
through."""

import re
from typing import NamedTuple

from detect_secrets.plugins.azure_storage_key import AzureStorageKeyDetector
from detect_secrets.plugins.base import RegexBasedDetector
from detect_secrets.plugins.discord import DiscordBotTokenDetector
from detect_secrets.plugins.gitlab_token import GitLabTokenDetector
from detect_secrets.plugins.mailchimp import MailchimpDetector
from detect_secrets.plugins.pypi_token import PypiTokenDetector
from detect_secrets.plugins.sendgrid import SendGridDetector
from detect_secrets.plugins.slack import SlackDetector
from detect_secrets.plugins.square_oauth import SquareOAuthDetector
from detect_secrets.plugins.twilio import TwilioKeyDetector

MASK = "[secret removed]"

_TOKEN_START = r"(?<![A-Za-z0-9_-])"
_TOKENS = re.compile(
    _TOKEN_START
    + r"(?:"
    + "|".join(
        (
            r"sk-[A-Za-z0-9_-]{16,}",  # OpenAI, Anthropic, OpenRouter
            r"[sr]k_(?:live|test)_[A-Za-z0-9]{10,}",  # Stripe
            r"ovk_[A-Za-z0-9_-]{8,}",  # ours
            r"whsec_[A-Za-z0-9+/=_-]{8,}",  # secrets of webhooks
            r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])",  # AWS
            r"gh[pousr]_[A-Za-z0-9]{20,}",  # GitHub
            r"github_pat_[A-Za-z0-9_]{20,}",
            r"glpat-[A-Za-z0-9_-]{16,}",  # GitLab
            r"xox[a-z]-[A-Za-z0-9-]{8,}",  # Slack
            r"AIza[A-Za-z0-9_-]{30,}|AQ\.A[A-Za-z0-9_-]{30,}",  # Google
            r"hf_[A-Za-z0-9]{20,}",  # Hugging Face
            r"npm_[A-Za-z0-9]{30,}",
            r"eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*",  # JSON web tokens
        )
    )
    + r")"
)
_TELEGRAM_TOKENS = re.compile(r"(?<![A-Za-z0-9_-])[0-9]{5,16}:A[A-Za-z0-9_-]{34}(?![A-Za-z0-9_-])")
_NAMED_SECRETS = re.compile(
    r"(?P<before>(?i:pass(?:word|wd|phrase)|pwd|secret|api[_-]?key|(?:access|auth|refresh|secret)[_-]?(?:key|token))"
    r"[\"']?[ \t]{0,3}(?:=[ \t]{0,3}|:[ \t]{0,3}(?=[\"']|\S{0,80}[0-9!$%*#+])))"
    r"(?P<quote>[\"']?)(?!\[secret removed\])(?P<value>[^\s\"'&;,<>\[\]]{3,})"
)
_AUTHORIZATION_HEADERS = re.compile(
    r"(?P<before>(?i:authorization[\"']?[ \t]{0,3}[:=][ \t]{0,3}[\"']?)"
    r"(?:(?i:bearer|basic|token)[ \t]{1,3}|(?=\S{0,80}[0-9]))|(?i:bearer)[ \t]{1,3}(?=\S{0,80}[0-9]))"
    r"(?!\[secret removed\])(?P<value>[A-Za-z0-9._~+/=-]{8,})"
)
_URL_PASSWORDS = re.compile(r"(?P<before>://[^\s/:@\[\]]{1,100}:)(?!\[secret removed\])[^\s/@\[\]]{1,200}(?=@)")
_PRIVATE_KEY_BEGIN = re.compile(r"-----BEGIN [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PRIVATE_KEY_END = re.compile(r"-----END [A-Z0-9 ]{0,40}PRIVATE KEY(?: BLOCK)?-----")
_PRIVATE_KEY_LINES = re.compile(r"(?:[\s\\nr]{0,8}[A-Za-z0-9+/=]{16,})*(?:\n[A-Za-z0-9+/=]+(?=\n|\Z))?")


_MAX_PASSES = 10
"""Times a text is searched again in which something was found: what stood beside it may be seen for itself now."""


class _Format(NamedTuple):
    """Patterns, and hints of which one stands, in lower case, in whatever they match: without any of them the slower
    search is left out."""

    patterns: tuple[re.Pattern[str], ...]
    hints: tuple[str, ...]


_GITLAB_TEXT = "glpat- gldt- glft- glsoat- glrt- gr1348941 glcbt- glimt- glptt- glagent- gloas-"
_LIBRARY: tuple[tuple[type[RegexBasedDetector], tuple[str, ...]], ...] = (
    (AzureStorageKeyDetector, ("accountkey=",)),
    (DiscordBotTokenDetector, (".",)),
    (GitLabTokenDetector, tuple(_GITLAB_TEXT.split())),
    (MailchimpDetector, ("-us",)),
    (PypiTokenDetector, ("pypi-ag",)),
    (SendGridDetector, ("sg.",)),
    (SlackDetector, ("xox", "hooks.slack")),  # its webhooks
    (SquareOAuthDetector, ("sq0csp-",)),
    (TwilioKeyDetector, ("ac", "sk")),
)
"""Detectors of the library. Not among them: assignments (`cloudant_password = …`), which our own named secrets cover;
Artifactory's, which takes class names such as APBluetoothController for passwords; Telegram's, which takes a number and
a UUID for a token."""

_TOKEN_HINTS = (
    "sk-",
    "sk_",
    "rk_",
    "ovk_",
    "whsec_",
    "akia",
    "asia",
    "glpat-",
    "xox",
    "aiza",
    "aq.a",
    "hf_",
    "npm_",
    "eyj",
)
_GITHUB_HINTS = ("ghp_", "gho_", "ghu_", "ghs_", "ghr_", "github_pat_")
_NAME_HINTS = ("passw", "passphrase", "pwd", "secret", "apikey", "api_key", "api-key", "access", "auth", "refresh")
_UNMISTAKABLE = (
    _Format((_TOKENS,), (*_TOKEN_HINTS, *_GITHUB_HINTS)),
    _Format((_TELEGRAM_TOKENS,), (":a",)),
    *(_Format(tuple(detector().denylist), hints) for detector, hints in _LIBRARY),
)
_IN_CONTEXT = (
    _Format((_AUTHORIZATION_HEADERS,), ("author", "bearer")),
    _Format((_NAMED_SECRETS,), _NAME_HINTS),
    _Format((_URL_PASSWORDS,), ("://",)),
)


def mask_secrets(text: str) -> str:
    """The text with everything that looks like a secret replaced by `[secret removed]`."""
    folded_text = text.casefold()
    masked_text = _mask_formats(_mask_private_keys(text), _UNMISTAKABLE, folded_text)
    for _ in range(_MAX_PASSES if masked_text != text else 0):
        text, masked_text = masked_text, _mask_formats(masked_text, _UNMISTAKABLE, folded_text)
        if masked_text == text:
            break
    return _mask_formats(masked_text, _IN_CONTEXT, folded_text)


def _mask_formats(text: str, formats: tuple[_Format, ...], folded_text: str) -> str:
    for patterns, hints in formats:
        for hint in hints:  # not any(): this is asked of every line of every prompt
            if hint in folded_text:
                for pattern in patterns:
                    text = pattern.sub(_mask_value, text)
                break
    return text


def _mask_value(match: re.Match[str]) -> str:
    """The mask, with what stands before the secret where the pattern names that."""
    parts = match.groupdict()
    return (parts.get("before") or "") + (parts.get("quote") or "") + MASK


def _mask_private_keys(text: str) -> str:
    """Each key goes up to its END line; one that has none, up to where its lines stop looking like a key."""
    pieces: list[str] = []
    position, end_may_follow = 0, True
    while begin := _PRIVATE_KEY_BEGIN.search(text, position):
        pieces += (text[position : begin.start()], MASK)
        end = _PRIVATE_KEY_END.search(text, begin.end()) if end_may_follow else None
        end_may_follow = end is not None
        if end is None:
            end = _PRIVATE_KEY_LINES.match(text, begin.end())
        position = end.end() if end else begin.end()
    return "".join((*pieces, text[position:]))
