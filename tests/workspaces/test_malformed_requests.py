"""Requests that cannot be read: an answer in words, never a broken page."""

import pytest
from django.test import Client

FORM = "application/x-www-form-urlencoded"


@pytest.mark.parametrize(
    ("kind", "body", "status", "words"),
    [
        (f"{FORM}; charset=utf-16", b"login=x", 400, b"could not be read"),
        (FORM, b"a=1&" * 1500, 400, b"could not be read"),
        (FORM, b"login=" + b"x" * 7_000_000, 413, b"at most 100,000 characters"),
    ],
)
def test_what_cannot_be_read_is_said_in_words(kind: str, body: bytes, status: int, words: bytes, db: None) -> None:
    browser = Client(enforce_csrf_checks=True)
    browser.get("/accounts/login/")
    answer = browser.generic("POST", "/accounts/login/", body, content_type=kind)
    assert answer.status_code == status
    assert words in answer.content
