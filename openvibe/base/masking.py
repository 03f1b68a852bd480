"""Masks keys, tokens and passwords in text before it reaches a prompt, a summary, an index or a log.

Pure and linear in the text's length. Better one word too many removed than one key let through."""

import re

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
            r"(?:AKIA|ASIA)[A-Z0-9]{16}(?![A-Za-z0-9])",  # AWS
            r"gh[pousr]_[A-Za-z0-9]{20,}",  # GitHub
            r"github_pat_[A-Za-z0-9_]{20,}",
            r"glpat-[A-Za-z0-9_-]{16,}",  # GitLab
            r"xox[a-z]-[A-Za-z0-9-]{8,}",  # Slack
            r"AIza[A-Za-z0-9_-]{30,}",  # Google
            r"hf_[A-Za-z0-9]{20,}",  # Hugging Face
            r"npm_[A-Za-z0-9]{30,}",
            r"eyJ[A-Za-z0-9_-]{6,}\.[A-Za-z0-9_-]{4,}\.[A-Za-z0-9_-]*",  # JSON web tokens
        )
    )
    + r")"
)
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


def mask_secrets(text: str) -> str:
    """The text with everything that looks like a secret replaced by `[secret removed]`."""
    text = _mask_private_keys(text)
    text = _TOKENS.sub(MASK, text)
    text = _AUTHORIZATION_HEADERS.sub(_mask_value, text)
    text = _NAMED_SECRETS.sub(_mask_value, text)
    return _URL_PASSWORDS.sub(_mask_value, text)


def _mask_value(match: re.Match[str]) -> str:
    return match["before"] + (match.groupdict().get("quote") or "") + MASK


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
