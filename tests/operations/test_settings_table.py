"""docs/settings.md says what the code reads, no more and no less."""

from pathlib import Path

from openvibe.settings.environment import ROOT, Environment


def rows() -> list[str]:
    """The table's rows, made from the fields."""
    made = []
    for name, field in Environment.model_fields.items():
        variable = field.alias or f"OPENVIBE_{name.upper()}"
        default = str(field.default).replace(str(ROOT) + "/", "")
        made.append(f"| `{variable}` | {f'`{default}`' if default else 'empty'} | {field.description} |")
    return made


def test_the_table_lists_every_setting() -> None:
    page = Path(ROOT, "docs", "settings.md").read_text(encoding="utf-8")
    written = [line for line in page.splitlines() if line.startswith("| `")]
    assert written == rows(), "docs/settings.md should hold:\n" + "\n".join(rows())
