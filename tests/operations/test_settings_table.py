"""docs/settings.md says what the code reads, no more and no less."""

from pathlib import Path

from openvibe.settings.environment import ROOT, Environment, create_private_folder


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


def test_the_folder_of_everything_is_for_its_owner_alone(tmp_path: Path) -> None:
    folder = tmp_path / "deep" / "var"
    create_private_folder(folder)
    assert folder.stat().st_mode & 0o777 == 0o700
    folder.chmod(0o755)
    create_private_folder(folder)  # somebody may share one on purpose: only `serve` tightens what it served from
    assert folder.stat().st_mode & 0o777 == 0o755
    create_private_folder(Path("/proc/nothing/here"))
