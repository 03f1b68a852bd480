"""What an access allows, apart from whose it is: what compiled statements differ by."""

from dataclasses import fields, replace

from openvibe.workspaces.access import Access, role_access


def test_people_of_one_role_have_one_shape_and_others_another() -> None:
    guest = role_access(workspace_id=3, participant_id=5, role="guest")
    assert guest.shape == role_access(workspace_id=4, participant_id=9, role="guest").shape
    assert guest.shape != role_access(workspace_id=3, participant_id=5, role="admin").shape


def test_whatever_an_access_allows_is_part_of_its_shape() -> None:
    access = Access(workspace_id=3, participant_id=5)
    of_one_asker = {"workspace_id", "participant_id", "shut_out"}
    others = {
        "is_agent": True,
        "role": "guest",
        "level": 2,
        "reads_public_channels": True,
        "reads_dive_results": False,
        "knowledge": "none",
    }
    assert {field.name for field in fields(Access) if field.compare} == {*others, *of_one_asker}
    for name, value in others.items():
        assert replace(access, **{name: value}).shape != access.shape  # type: ignore[arg-type]  # names of its fields
