"""Text that reads as another: what cannot be seen, and letters, digits and signs that look like others. Pure.

Two names are told apart by eye, and by a model as words, so they are compared by how they look: without case, marks,
blanks and what no font draws, and with each letter of another script as the Latin one it looks like. The table is a
small one of our own, of the letters that Latin names and words can be written with; Unicode's (UTS #39) holds
thousands of pairs that no name is made of. Words that mix such scripts are taken for misleading whatever they read as,
as that standard advises.
"""

import re
import unicodedata
from functools import lru_cache

IGNORABLE_RANGES = (
    (0xAD, 0xAD),
    (0x34F, 0x34F),
    (0x61C, 0x61C),
    (0x115F, 0x1160),
    (0x17B4, 0x17B5),
    (0x180B, 0x180F),
    (0x200B, 0x200F),
    (0x202A, 0x202E),
    (0x2060, 0x206F),
    (0x3164, 0x3164),
    (0xFE00, 0xFE0F),
    (0xFEFF, 0xFEFF),
    (0xFFA0, 0xFFA0),
    (0xFFF0, 0xFFF8),
    (0x1BCA0, 0x1BCA3),
    (0x1D173, 0x1D17A),
    (0xE0000, 0xE0FFF),
)
"""Unicode's property Default_Ignorable_Code_Point, first and last of each range: `unicodedata` does not know it."""

_UNSEEN_CATEGORIES = frozenset({"Mn", "Me", "Cf", "Cc", "Cs", "Zs", "Zl", "Zp"})
_UNREAD_CATEGORIES = frozenset({"Mc", "Cn", "Co"})
"""Marks that take room of their own, and what is no character or only privately one: between letters of ours they stand
for nothing. Names of other scripts are told apart by such marks."""
_IGNORABLE = re.compile(
    "[" + "".join(f"{chr(first)}-{chr(last)}" for first, last in IGNORABLE_RANGES) + "\ufffc\ufffd\u2800\U0001d159]"
)


def _pairs(others: str, latin: str) -> dict[str, str]:
    return dict(zip(others, latin, strict=True))


_LOOKALIKES: dict[str, str] = {
    **_pairs("абвгԁеһзіјкмнорԛѕтүуԝхьәӏ", "a6brdeh3ijkmhopqstyywxbei"),  # Cyrillic
    **_pairs("ҽґӕө", "erao"),
    **_pairs("αβγεζηικμνορστυχωϲϳ", "abyezhikmnopotyxwcj"),  # Greek, as its capitals look where they can
    **_pairs("ոսօհցյզքգլտ", "nuohgjqpqis"),  # Armenian
    **_pairs("ᎪᏴᏟᎠᎬᏀᎻᎫᏦᏞᎷᏢᎡᏚᎢᏙᎳᏃᏎ", "abcdeghjkimprstvwz4"),  # Cherokee
    **_pairs("ⲁⲃⲉⲏⲓⲕⲙⲛⲟⲣⲥⲧⲩⲭ", "abehikmnopctyx"),  # Coptic
    **_pairs("ꓮꓐꓚꓓꓰꓝꓖꓧꓲꓙꓗꓡꓟꓠꓳꓑꓣꓢꓔꓴꓦꓪꓫꓬꓜ", "abcdefghijkimnoprstuvwxyz"),  # Lisu
    **_pairs("ᴀʙᴄᴅᴇɢʜɪᴊᴋʟᴍɴᴏᴘʀᴛᴜᴠᴡʏᴢ", "abcdeghijkimnoprtuvwyz"),  # small capitals
    **_pairs("ɑɡıȷʋⱱłøđħŧƒɩǀ", "agijuviodhtfii"),  # Latin ones of other alphabets
    **_pairs("l1|0", "iiio"),
    "æ": "ae",
    "œ": "oe",
}
"""Lower-case letters, digits and signs, and what of `a-z` each looks like: l, 1 and I like i, and 0 like o."""

_LOWER_LOOKS = _pairs("νηυωγσ", "vnuwyo")
"""Lower-case letters that look like another one than their capitals do."""

_SCRIPTS_OF_LOOKALIKES = ("LATIN", "GREEK", "CYRILLIC", "ARMENIAN", "CHEROKEE", "COPTIC", "LISU")
_LETTER_GROUPS = (("rn", "m"), ("vv", "w"))
_WORDS_OF_PROMPTS = frozenset(
    {"openvibe", "system", "assistant", "user", "you", "workspace", "somebody", "somebodyelse"}
)
"""Names that prompts use beside people's."""


def is_unseen(character: str) -> bool:
    """Whether it is drawn as nothing, as a blank or as a mark on another: it tells words apart for programs alone."""
    return unicodedata.category(character) in _UNSEEN_CATEGORIES or _IGNORABLE.match(character) is not None


@lru_cache(maxsize=4_096)
def fold_character(character: str) -> str:
    """Returns what the character looks like, without case and marks: usually one character, none for what cannot be
    seen or says nothing in a word of ours."""
    if unicodedata.category(character) in _UNREAD_CATEGORIES:
        return ""
    return _LOWER_LOOKS.get(character) or _fold(character)


def _fold(text: str) -> str:
    seen = "".join(each for each in unicodedata.normalize("NFKD", text) if not is_unseen(each))
    folded = unicodedata.normalize("NFKD", seen.casefold())
    return "".join(_LOOKALIKES.get(each, each) for each in folded if not is_unseen(each))


def name_key(name: str) -> str:
    """Returns a key that two names share if they can be taken for each other; empty where nothing of a name is seen."""
    folded = _fold(name)
    words = "".join(each for each in folded if unicodedata.category(each)[0] != "P") or folded
    for group, letter in _LETTER_GROUPS:
        words = words.replace(group, letter)
    return words


def is_misleading_name(name: str) -> bool:
    """Whether it reads as more than a name: as one with a handle, as whom prompts name beside people, or with a word of
    letters of several scripts that look alike."""
    plain = unicodedata.normalize("NFKC", name)
    return "@" in plain or name_key(name) in _RESERVED_KEYS or any(map(_mixes_scripts, re.split(r"[\s-]+", plain)))


_RESERVED_KEYS = frozenset(map(name_key, _WORDS_OF_PROMPTS))


def _mixes_scripts(word: str) -> bool:
    scripts = {unicodedata.name(letter, "").partition(" ")[0] for letter in word if letter.isalpha()}
    return len(scripts.intersection(_SCRIPTS_OF_LOOKALIKES)) > 1
