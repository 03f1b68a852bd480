"""Accounts in the admin: superusers only."""

from allauth.account.models import EmailAddress
from django.test import Client

from openvibe.workspaces.models import Member, User
from tests.factories import PASSWORD


def test_the_address_of_before_lets_nobody_in(root: Client, dora: Member) -> None:
    EmailAddress.objects.create(user=dora.user, email=dora.user.email, primary=True)  # as signing up does
    form = {"name": "Dora", "email": "new@example.org", "is_active": "on", "new_password": ""}
    assert root.post(f"/admin/workspaces/user/{dora.user_id}/change/", form).status_code == 302
    assert User.objects.get(pk=dora.user_id).email == "new@example.org"
    old = Client().post("/accounts/login/", {"login": "dora@example.org", "password": PASSWORD})
    assert old.status_code == 200
    assert not EmailAddress.objects.filter(email="dora@example.org").exists()
