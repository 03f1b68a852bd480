"""Documents through the API: what is said of one, its pages, and the file as it came."""

import pytest

from openvibe.chat.models import Thread
from openvibe.workspaces.models import Member
from tests import documents
from tests.api.client import Api, is_problem
from tests.api.conftest import Enter
from tests.factories import make_channel, make_thread, send_file

REPORT = documents.pdf("Prune in March.", "Water in May.")


@pytest.fixture
def api(ana: Member, by_token: Enter) -> Api:
    return by_token(ana.participant)


def test_a_document_says_what_it_is_and_is_read_by_its_pages(api: Api, ana: Member, thread: Thread) -> None:
    file = send_file(thread, ana, "report.pdf", REPORT)
    (about,) = api.get(f"messages/{file.message_id}/").json()["attachments"]
    assert (about["format"], about["page_count"], about["problem"]) == ("pdf", 2, "")
    assert (about["file_size"], about["media_type"]) == (len(REPORT), "application/pdf")
    piece = api.get(f"attachments/{file.pk}/?page=2").json()
    assert (piece["text"], piece["page"], piece["next_offset"]) == ("[page 2]\nWater in May.\n", 2, None)
    assert piece["file_size"] == len(REPORT)
    assert is_problem(api.get(f"attachments/{file.pk}/?page=3"), 404, "not_found")
    assert is_problem(api.get(f"attachments/{file.pk}/?page=0"), 400, "invalid")
    saved = api.get(f"attachments/{file.pk}/content/")
    assert (saved.content, saved["Content-Type"]) == (REPORT, "application/octet-stream")


def test_nobody_else_downloads_it(ana: Member, ben: Member, by_token: Enter) -> None:
    file = send_file(make_thread(make_channel(ana, "private", private=True), ana), ana, "report.pdf", REPORT)
    assert by_token(ben.participant).get(f"attachments/{file.pk}/content/").status_code == 404
