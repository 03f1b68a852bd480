"""Organisation instructions and the snippets they include, through the API: admins write, guests read neither."""

from openvibe.workspaces.models import Member
from tests.api.client import is_problem
from tests.api.conftest import Enter


def test_an_admin_writes_instructions_and_snippets(ana: Member, by_token: Enter) -> None:
    api = by_token(ana.participant)
    api_response = api.post("snippets/", {"name": "tone", "content": "Be brief."})
    assert api_response.status_code == 201
    one = f"snippets/{api_response.json()['id']}/"
    assert api.patch("workspace/", {"instructions": "We garden.\n@include tone"}).status_code == 200
    assert is_problem(api.patch("workspace/", {"instructions": "@include tune"}), 400, "include_unknown")
    assert api.get("workspace/").json()["instructions"] == "We garden.\n@include tone"

    assert is_problem(api.patch(one, {"content": "Be kind."}), 428, "if_match_required")
    response = api.patch(one, {"content": "Be kind."}, If_Match='"1"')
    assert (response.json()["content"], response["ETag"]) == ("Be kind.", '"2"')
    assert is_problem(api.patch(one, {"content": "Be brief."}, If_Match='"1"'), 412, "stale")
    assert is_problem(api.patch(one, {"content": "@include tone"}, If_Match='"2"'), 400, "include_cycle")
    assert is_problem(api.delete(one), 400, "include_unknown")
    api.patch("workspace/", {"instructions": ""})
    assert api.delete(one).status_code == 204


def test_others_do_not(ana: Member, dora: Member, ben: Member, by_token: Enter) -> None:
    admin = by_token(ana.participant)
    one = f"snippets/{admin.post('snippets/', {'name': 'tone', 'content': 'Be brief.'}).json()['id']}/"
    admin.patch("workspace/", {"instructions": "We garden."})
    assert by_token(dora.participant).get("workspace/").json()["instructions"] == "We garden."
    assert by_token(ben.participant).get("workspace/").json()["instructions"] is None
    for member in (dora, ben):
        api = by_token(member.participant)
        assert api.get("snippets/").json()["results"] == []
        assert api.get(one).status_code == 404
        assert api.patch(one, {"content": "x"}, If_Match='"1"').status_code == 404
        assert is_problem(api.patch("workspace/", {"name": "x"}), 403, "not_allowed")
        assert is_problem(api.post("snippets/", {"name": "mine", "content": "x"}), 403, "not_allowed")
