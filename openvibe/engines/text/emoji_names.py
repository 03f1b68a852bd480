"""Emoji by the names that chat programs give them: `:tada:` is 🎉. Pure."""

import re
from functools import cache

_NAME = re.compile(r"(?<![\w:]):([a-z0-9_+'-]{1,60}):(?::skin-tone-([2-6]):)?(?![\w:]*\w:\d)", re.IGNORECASE)
_OWN_NAMES = {
    "simple_smile": "🙂",
    "knife_fork_plate": "🍽️",
    "smiling_face_with_3_hearts": "🥰",
    "snow_cloud": "🌨️",
    "face_palm": "🤦",
    "man-woman-girl": "👨‍👩‍👧",
    "man-woman-boy": "👨‍👩‍👦",
    "squirrel": "🐿️",
    "shipit": "🐿️",
}
"""Names of Slack and Mattermost that the library does not know."""

_SKIN_TONES = "🏻🏼🏽🏾🏿"


def replace_emoji_names(text: str) -> str:
    """The text with the emoji themselves. Names that no emoji has stay as they are."""
    if ":" not in text:
        return text
    return _NAME.sub(lambda match: emoji_of_name(match[1], match[2] or "") or match[0], text)


@cache
def emoji_of_name(name: str, tone: str = "") -> str:
    """The emoji of a name, with `::skin-tone-2` or without; empty where there is none, as of one that people drew."""
    name, _, suffix = name.lower().strip(":").partition("::skin-tone-")
    tone = tone or suffix
    found = _OWN_NAMES.get(name) or _find(name)
    if found and tone in {"2", "3", "4", "5", "6"}:
        return found.removesuffix("\ufe0f") + _SKIN_TONES[int(tone) - 2]
    return found


def _find(name: str) -> str:
    import emoji as catalogue  # 7 MB: only in processes that meet a name

    if match := re.fullmatch(r"flag-([a-z]{2})", name):
        return "".join(chr(0x1F1E6 + ord(letter) - ord("a")) for letter in match[1])
    plain = name.replace("-", "_")
    variants = [
        name,
        plain,
        re.sub(r"^male_", "man_", plain),
        re.sub(r"^female_", "woman_", plain),
        re.sub(r"^(wo)?man_(.*)ing$", lambda match: f"{match[1] or ''}man_{match[2]}ing", plain),
        re.sub(r"^female_(.*)$", r"\1_woman", plain),
        re.sub(r"^male_(.*)$", r"\1_man", plain),
        re.sub(r"^woman_(.*)$", r"\1_woman", plain),
        re.sub(r"^man_(.*)$", r"\1_man", plain),
    ]
    for variant in variants:
        found = catalogue.emojize(f":{variant}:", language="alias")
        if found == f":{variant}:":
            found = catalogue.emojize(f":{variant}:")
        if found != f":{variant}:":
            return str(found)
    return ""
