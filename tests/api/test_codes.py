"""Every code that the source can answer with stands in the docs.

Write the page anew: RECORD_CODES=1 .venv/bin/python -m pytest -q -n0 tests/api/test_codes.py
"""

import os

from tests.api.problem_codes import ROOT, codes_page, listed_codes, raised_codes

PAGE = ROOT / "docs" / "api-codes.md"


def test_the_docs_list_every_code_the_source_raises() -> None:
    if "RECORD_CODES" in os.environ:
        PAGE.write_text(codes_page())
    codes = set(raised_codes())

    assert {(404, "not_found"), (400, "include_unknown"), (401, "bad_token"), (503, "disk_full")} <= codes
    assert listed_codes(PAGE.read_text()) == codes, "Run this with RECORD_CODES=1."
