"""Accounts and channels in the admin: what cannot be saved is said beside the field."""

from allauth.account.models import EmailAddress
from django.test import Client

from openvibe.chat.models import Channel, ChannelMembership
from openvibe.workspaces.models import Member, User
from tests.factories import PASSWORD, make_channel, write_members


def test_the_address_of_before_lets_nobody_in(root: Client, dora: Member) -> None:
    EmailAddress.objects.create(user=dora.user, email=dora.user.email, primary=True)  # as signing up does
    form = {"name": "Dora", "email": "new@example.org", "is_active": "on", "new_password": ""}
    assert root.post(f"/admin/workspaces/user/{dora.user_id}/change/", form).status_code == 302
    assert User.objects.get(pk=dora.user_id).email == "new@example.org"
    old = Client().post("/accounts/login/", {"login": "dora@example.org", "password": PASSWORD})
    assert old.status_code == 200
    assert not EmailAddress.objects.filter(email="dora@example.org").exists()


def test_an_address_is_taken_once(root: Client, dora: Member) -> None:
    form = {"name": "Other", "email": "Dora@Example.org", "is_active": "on", "new_password": PASSWORD}
    page = root.post("/admin/workspaces/user/add/", form).content.decode()
    assert "There is an account with this address already." in page
    assert "Constraint" not in page


def test_the_last_superuser_stays(root: Client, ana: Member) -> None:
    owner = User.objects.get(email="root@example.org")
    address = f"/admin/workspaces/user/{owner.pk}/change/"
    form = {"name": "Root", "email": owner.email, "new_password": ""}
    flags = ("is_active", "is_superuser")
    for lost in flags:
        refused = root.post(address, form | {name: "on" for name in flags if name != lost})
        assert "Make another superuser first." in refused.content.decode()
    assert root.post(address, form | dict.fromkeys(flags, "on")).status_code == 302
    User.objects.filter(pk=ana.user_id).update(is_superuser=True)
    assert root.post(address, form | {"is_active": "on"}).status_code == 302
    owner.refresh_from_db()
    assert not owner.is_superuser


def test_a_channel_of_many_members_is_saved_all_the_same(root: Client, ana: Member) -> None:
    """The form's members come page by page: no form may have more than a thousand fields."""
    plans = make_channel(ana, "plans")
    people = [member.participant for member in write_members(ana.workspace, 60)]
    ChannelMembership.objects.bulk_create(ChannelMembership(channel=plans, participant=person) for person in people)
    address, prefix = f"/admin/chat/channel/{plans.pk}/change/", "memberships"
    second = root.get(f"{address}?{prefix}-page=2").context["inline_admin_formsets"][0].formset
    assert [form.instance.participant for form in second.initial_forms] == people[49:]
    counts = {f"{prefix}-TOTAL_FORMS": 11, f"{prefix}-INITIAL_FORMS": 11, f"{prefix}-page": 2}
    ids = {f"{prefix}-{n}-id": form.instance.pk for n, form in enumerate(second.initial_forms)}
    rows = {**counts, **ids, f"{prefix}-10-DELETE": "on"}
    assert root.post(address, {"name": "plans", "is_archived": "on", **rows}).status_code == 302
    plans.refresh_from_db()
    assert plans.archived_at is not None
    assert set(plans.participants.all()) == {ana.participant, *people[:-1]}


def test_a_channel_has_a_name_of_its_own_and_is_archived_by_a_switch(root: Client, ana: Member) -> None:
    plans = make_channel(ana, "plans")
    make_channel(ana, "general")
    lines = {"memberships-TOTAL_FORMS": 0, "memberships-INITIAL_FORMS": 0}
    address = f"/admin/chat/channel/{plans.pk}/change/"
    form_data = {"workspace": ana.workspace_id, "name": "general", **lines}
    for page in (address, "/admin/chat/channel/add/"):
        assert "There is a channel #general already." in root.post(page, form_data).content.decode()
    for switch, is_archived in (({"is_archived": "on"}, True), ({"is_archived": "on"}, True), ({}, False)):
        assert root.post(address, {"name": "plans", **lines, **switch}).status_code == 302
        assert (Channel.objects.get(pk=plans.pk).archived_at is not None) == is_archived
