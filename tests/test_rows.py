"""A row of the cast is what saving it would have made it."""

from django.forms import model_to_dict

from openvibe.workspaces.models import Member, Participant, User
from tests.rows import insert


def test_it_is_stored_with_the_databases_own_values_and_can_be_changed(ana: Member) -> None:
    participant = insert(Participant(workspace=ana.workspace, kind="member", handle="eve", name="Eve"))
    stored = Participant.objects.get(handle="eve")
    assert (stored, model_to_dict(stored)) == (participant, model_to_dict(participant))
    assert stored.created_at == participant.created_at
    participant.name = "Eva"
    participant.save()
    assert Participant.objects.get(handle="eve").name == "Eva"


def test_it_is_what_saving_gives(db: None) -> None:
    inserted, saved = insert(User(email="eve@example.org", name="Eve")), User(email="mia@example.org", name="Eve")
    saved.save()
    names = [field.attname for field in User._meta.concrete_fields if field.name not in ("id", "email", "date_joined")]
    rows = User.objects.in_bulk([inserted.pk, saved.pk])
    assert [getattr(rows[inserted.pk], name) for name in names] == [getattr(rows[saved.pk], name) for name in names]
    assert vars(inserted).keys() == vars(saved).keys()
