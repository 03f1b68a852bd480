"""The check of docstrings' first words that `make check` runs."""

from pathlib import Path

import pytest

from tests.operations.docstrings import docstrings, is_in_the_middle


@pytest.mark.parametrize(
    "text",
    [
        "The run that the asker sees.",
        "Executes the run.",
        "What the asker sees of it.",
        "Whether the run is over.",
        "Export of a thread.",
        "Name, handle and purpose.",
        "Seconds between two attempts.",
        "`with` and what stands in it.",
        "GET shows the page.",
    ],
)
def test_a_noun_or_a_verb_may_stand_first(text: str) -> None:
    assert not is_in_the_middle(text)


@pytest.mark.parametrize(
    "text",
    [
        "Of a run that the asker sees.",
        "Its name.",
        "When it was said.",
        "Who may see it.",
        "As `rows`.",
        "Execute the run.",
        "*From* here on.",
        "“Told” to open pages.",
        "Between two attempts.",
    ],
)
def test_the_middle_of_a_thought_or_an_order_may_not(text: str) -> None:
    assert is_in_the_middle(text)


SOURCE = '''
"""A module."""
LIMIT = 3
"""Of a constant."""
print(LIMIT)
"""Of nothing."""

class Pen:
    """A class."""
    colour: str = ""
    """Of a field."""

    def write(self):
        """Write it."""

    def get(self, request):
        """Get it: words of the API."""

class PenOut:
    """With words of the API."""
    nib: str = ""
    """Of a field of the API."""
'''


def test_modules_classes_functions_constants_and_fields_are_read_and_the_api_is_not(tmp_path: Path) -> None:
    file = tmp_path / "pens.py"
    file.write_text(SOURCE)
    found = [doc.text for doc in docstrings(file)]
    assert sorted(found) == ["A class.", "A module.", "Of a constant.", "Of a field.", "Write it."]
    assert [doc.line for doc in docstrings(file) if doc.text == "Of a constant."] == [4]
