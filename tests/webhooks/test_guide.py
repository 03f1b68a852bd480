"""The guide to webhooks names what they tell of."""

import re
from pathlib import Path

from openvibe.webhooks.models import KINDS

GUIDE = Path(__file__).parents[2] / "docs" / "webhooks.md"


def test_it_names_every_kind() -> None:
    (sentence,) = re.findall(r"^Kinds: (.*?)\.$", GUIDE.read_text(encoding="utf-8"), re.DOTALL | re.MULTILINE)
    assert tuple(re.findall(r"`(\w+)`", sentence)) == KINDS
