"""What is sent as one file does what its parts do."""

import re
from pathlib import Path

import pytest

from openvibe.engines.serving.bundles import bundle_modules, bundle_styles

STATIC = Path(__file__).parents[3] / "static"
ALONE = {"app.js", "service_worker.js", "endpoint_form.js", "first_place.js"}
"""The entry, and what has an address of its own."""


def write(folder: Path, files: dict[str, str]) -> Path:
    for name, text in files.items():
        (folder / name).write_text(text)
    return folder / next(iter(files))


def test_modules_stand_in_one_in_the_order_in_which_they_run(tmp_path: Path) -> None:
    entry = write(
        tmp_path,
        {
            "app.js": 'import "./main.js";\nimport * as page from "./page.js";\n\npage.start();\n',
            "main.js": '// Starts.\nimport { one as first,\n  two } from "./page.js";\n'
            "\n/** Runs\n * both. */\nfirst(two);\n",
            "page.js": 'export const two = 2; // the number\nexport function one() {\n  return "a // b";\n}\n',
        },
    )
    assert bundle_modules(entry) == (
        "const module_page = (() => {\n"
        'const two = 2;\nfunction one() {\nreturn "a // b";\n}\n'
        "return { two, one };\n})();\n"
        "const module_main = (() => {\n"
        "const { one: first,\ntwo } = module_page;\nfirst(two);\n"
        "return {  };\n})();\n"
        "const module_app = (() => {\n"
        "const page = module_page;\npage.start();\n"
        "return {  };\n})();\n"
    )


@pytest.mark.parametrize(
    ("entry", "problem"),
    [
        ("export default 1;\n", "app.js: export default 1;"),
        ("export let one = 1;\n", "app.js: export let"),
        ('import one from "https://cdn.example/one.js";\n', "app.js: import one"),
        ('import "./app.js";\n', "app.js imports itself"),
    ],
)
def test_what_is_of_another_form_is_refused(tmp_path: Path, entry: str, problem: str) -> None:
    with pytest.raises(ValueError, match=re.escape(problem)):
        bundle_modules(write(tmp_path, {"app.js": entry}))


def test_stylesheets_stand_in_one_without_comments(tmp_path: Path) -> None:
    entry = write(
        tmp_path,
        {
            "app.css": '/* All. */\n@import "one.css";\n@import "two.css";\n',
            "one.css": "/* Of\n one. */\na {\n  color: red; /* red */\n}\n\n",
            "two.css": 'b::before { content: "/* no comment */"; }\n',
        },
    )
    assert bundle_styles(entry) == 'a {\ncolor: red;\n}\nb::before { content: "/* no comment */"; }\n'


def test_all_of_our_modules_and_styles_are_in_them() -> None:
    script, styles = bundle_modules(STATIC / "js/app.js"), bundle_styles(STATIC / "css/app.css")
    names = {file.name for file in (STATIC / "js").iterdir()} - ALONE
    assert names == {f"{name}.js" for name in re.findall(r"^const module_(\w+) = ", script, re.MULTILINE)} - ALONE
    odd = [line for line in script.splitlines() if line.count("`") % 2]
    assert not odd, "a text of several lines would lose its indentation"
    assert "@import" not in styles
