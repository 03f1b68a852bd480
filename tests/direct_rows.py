"""Counts where tests write rows themselves, instead of by a factory or by the service that makes them.

`python -m tests.direct_rows` writes the baseline anew, by path: after calls have gone or files have moved, never for
new ones."""

import ast
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).parents[1]
BASELINE = ROOT / "tests/data/direct_rows.txt"
FACTORIES = ("factories.py", "conftest.py", "rows.py")
"""Files that may write rows: factories, fixtures, and what both write with."""
VERBS = {"create", "bulk_create", "get_or_create", "update_or_create"}
"""Methods of managers; those of factories are called by class."""


def is_direct(call: ast.Call) -> bool:
    """Whether it writes rows by a manager (`Entry.objects.create(…)`, `channel.memberships.create(…)`), saves one
    where it is made (`Entry(…).save()`), or writes them by `tests.rows`."""
    function = call.func
    if isinstance(function, ast.Name):
        return function.id in ("insert", "insert_all")
    if not isinstance(function, ast.Attribute):
        return False
    if function.attr == "save":
        made = function.value
        return isinstance(made, ast.Call) and isinstance(made.func, ast.Name) and made.func.id[0].isupper()
    if function.attr not in VERBS:
        return False
    receiver = ast.unparse(function.value).rpartition(".")[2]
    by_class = receiver[0].isupper() or receiver == "factory"  # a factory, or no model at all
    takes_values = bool(call.args) and function.attr == "create"  # managers take fields by name: a store of ours
    return not by_class and not takes_values


def count_direct(source: str) -> int:
    return sum(is_direct(node) for node in ast.walk(ast.parse(source)) if isinstance(node, ast.Call))


def direct_rows() -> Counter[str]:
    """How many such calls each file has that has some, by its path."""
    files = (file for file in (ROOT / "tests").rglob("*.py") if file.name not in FACTORIES)
    counts = ((file.relative_to(ROOT).as_posix(), count_direct(file.read_text())) for file in files)
    return Counter({path: count for path, count in counts if count})


def _baseline_lines() -> Iterator[tuple[str, int]]:
    for line in BASELINE.read_text().splitlines():
        count, path = line.split()
        yield path, int(count)


def read_baseline() -> Counter[str]:
    return Counter(dict(_baseline_lines()))


def write_baseline() -> None:
    """Raises SystemExit where there would be more than before."""
    counts = direct_rows()
    if BASELINE.exists() and counts.total() > read_baseline().total():
        sys.exit(f"Tests write rows themselves in {counts.total() - read_baseline().total()} places more than before.")
    BASELINE.write_text("".join(f"{count:3} {path}\n" for path, count in sorted(counts.items())))


if __name__ == "__main__":
    write_baseline()
