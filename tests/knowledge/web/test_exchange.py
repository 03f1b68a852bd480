"""Knowledge as files in the browser: taken in row by row with a report, given out to whoever may read it."""

from django.core.files.uploadedfile import SimpleUploadedFile

from knowledge.models import Entry
from openvibe.workspaces.models import Member
from tests.factories import make_entry, signed_in
from tests.knowledge.web.page_client import at, text

FILE = "topic,content,expires_at\nOffice,We sit in Berlin.,2090-01-01\n,No topic.,\nSale,Half price.,2001-01-01\n"


def test_a_file_is_imported_with_a_report_for_every_row(ana: Member) -> None:
    client = signed_in(ana)
    for outcome in ("1 imported", "1 there already"):
        upload = SimpleUploadedFile("known.csv", FILE.encode())
        page = client.post(at(ana, "import/"), {"file": upload}).content.decode()
        assert outcome in page
        assert "2 refused" in page
        assert "An entry needs a topic." in page
        assert "is past" in page
    assert list(Entry.objects.values_list("topic", flat=True)) == ["Office"]


def test_what_is_wrong_stands_before_the_many_rows_that_were_taken_in(ana: Member) -> None:
    rows = "".join(f"Bed {number},It holds {number} roses.,\n" for number in range(21))
    upload = SimpleUploadedFile("known.csv", f"topic,content,owner\nGate,Shut.,nobody\n{rows},No topic.,\n".encode())
    page = signed_in(ana).post(at(ana, "import/"), {"file": upload}).content.decode()
    places = [page.index(said) for said in ("An entry needs", "@nobody is no member", "<summary>The other 21 rows")]
    assert places == sorted(places)


def test_pasted_rows_are_imported_and_kept_when_they_cannot_be_read(ana: Member) -> None:
    client = signed_in(ana)
    page = client.post(at(ana, "import/"), {"text": '{"topic": "Fax", "content": "Floor 2."}'}).content.decode()
    assert "1 imported" in page
    page = client.post(at(ana, "import/"), {"text": "topic,content,seen\nGate,Shut.,x\n"}).content.decode()
    assert "Not read: &#x27;seen&#x27;." in page
    response = client.post(at(ana, "import/"), {"text": "no header at all"})
    assert response.status_code == 400
    assert "no header at all" in response.content.decode()
    assert "Nothing was imported" in client.post(at(ana, "import/")).content.decode()


def test_an_export_holds_what_the_reader_may_read(ana: Member, dora: Member, ben: Member) -> None:
    make_entry(ana, "Salaries", "Dora earns enough.", visibility="restricted")
    make_entry(ana, "Office", "We sit in Berlin.")
    for member, sees in ((ana, True), (dora, False), (ben, False)):
        for form in ("csv", "jsonl"):
            response = signed_in(member).get(at(ana, f"export/?format={form}"))
            assert f"knowledge.{form}" in response.headers["Content-Disposition"]
            page = b"".join(response).decode()
            assert "Berlin" in page
            assert ("Salaries" in page) is sees
    assert signed_in(ana).get(at(ana, "export/?format=exe")).status_code == 400


def test_guests_import_nothing(ana: Member, ben: Member) -> None:
    text(signed_in(ben), at(ana, "import/"), 403)
    assert signed_in(ben).post(at(ana, "import/"), {"text": FILE}).status_code == 403
    assert not Entry.objects.exists()
