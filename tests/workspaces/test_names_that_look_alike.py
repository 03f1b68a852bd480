"""Names that can be taken for each other: whoever has one is named with the handle, whichever way the name came."""

from functools import partial
from threading import Barrier, Thread

import pytest
from django.db import connections, transaction
from django.db.models.expressions import RawSQL

from openvibe.engines.text.cleaning import remove_invisible
from openvibe.engines.text.lookalikes import is_misleading_name, name_key
from openvibe.workspaces.models import Member, Participant, Workspace
from openvibe.workspaces.services import update_profile
from tests.factories import make_agent, make_member

ALIKE = (
    "Ana",
    "ANA",
    "A n a",
    "Ana.",
    "\uff21na",
    "A\u0301na",
    "\U0001d400na",
    "\u0410na",
    "\u0391NA",
    "An\u0430",
    "An\u0251",
    "\u24b6na",
    "\u1d00n\u1d00",
    "\ua4eena",
)
OTHERS = ("Anna", "Ana Kovač", "Dana", "Ben", "Dave", "Dane", "安娜", "Аня", "Νίκος")


@pytest.mark.parametrize("name", ALIKE)
def test_they_have_one_key(name: str) -> None:
    assert name_key(name) == "ana"


def test_other_names_have_others() -> None:
    assert len({name_key(name) for name in ("Ana", *OTHERS)}) == len(OTHERS) + 1


@pytest.mark.parametrize("name", ["Ali", "A1i", "AIi", "ALI"])
def test_letters_and_digits_alike_have_one_key(name: str) -> None:
    assert name_key(name) == name_key("Ali")


@pytest.mark.parametrize("name", ["\u0410na", "Ana @ben", "Ana ＠ben", "OpenVibe", "system", "You", "Ivаn"])
def test_what_reads_as_more_than_a_name_is_misleading(name: str) -> None:
    assert is_misleading_name(name)


@pytest.mark.parametrize(
    "name", ["Ana", "Иван Smith", "Νίκος Papas", "田中 Taro", "田中Taro", "O'Neil", "Zoë", "🌱", "R2-D2"]
)
def test_an_ordinary_name_is_not(name: str) -> None:
    assert not is_misleading_name(name)


def labels(workspace: Workspace) -> dict[str, str]:
    return dict(Participant.objects.filter(workspace=workspace).values_list("handle", "label"))


def joins(workspace: Workspace, name: str, handle: str, kind: str = "imported") -> Participant:
    return Participant.objects.create(workspace=workspace, kind=kind, handle=handle, name=name)


@pytest.mark.django_db
@pytest.mark.parametrize("kind", ["imported", "assistant", "agent"])
@pytest.mark.parametrize("name", ALIKE)
def test_both_have_the_handle_and_nobody_else(ana: Member, ben: Member, name: str, kind: str) -> None:
    mallory, shown = joins(ana.workspace, name, "mallory", kind), f"{remove_invisible(name)} (@mallory)"

    assert mallory.label == shown
    assert labels(ana.workspace) == {"ana": "Ana (@ana)", "ben": "Ben", "mallory": shown}


@pytest.mark.django_db
def test_neither_has_it_when_one_is_called_otherwise_again(ana: Member, ben: Member) -> None:
    rename = partial(update_profile, theme="dark", enter_sends=True, shortcuts=True)
    rename(member=ben, name="ana")
    assert labels(ana.workspace) == {"ana": "Ana (@ana)", "ben": "ana (@ben)"}
    rename(member=ana, name="Anja")
    assert labels(ana.workspace) == {"ana": "Anja", "ben": "ana"}


@pytest.mark.django_db
def test_it_goes_when_the_other_goes(ana: Member) -> None:
    joins(ana.workspace, "Ana", "ana-2"), joins(ana.workspace, "ANA", "ana-3")
    Participant.objects.filter(handle="ana-2").delete()
    assert labels(ana.workspace) == {"ana": "Ana (@ana)", "ana-3": "ANA (@ana-3)"}
    Participant.objects.filter(handle="ana-3").delete()
    assert labels(ana.workspace) == {"ana": "Ana"}


@pytest.mark.django_db
def test_among_many_of_one_name_a_change_writes_no_row_of_the_others(ana: Member) -> None:
    rows = [
        Participant(workspace=ana.workspace, kind="imported", handle=f"bot-{number}", name="Bot") for number in range(9)
    ]
    Participant.objects.bulk_create(rows)
    before = versions(ana.workspace)
    Participant.objects.filter(handle__in=("bot-0", "bot-1")).update(name="Other")
    Participant.objects.filter(handle__in=("bot-2", "bot-3")).delete()
    joins(ana.workspace, "Bot", "bot-9")
    after = versions(ana.workspace)
    assert {handle for handle in before if before[handle] != after.get(handle)} == {f"bot-{at}" for at in range(4)}
    Participant.objects.filter(handle__in=[f"bot-{at}" for at in range(4, 9)]).delete()
    assert labels(ana.workspace)["bot-9"] == "Bot"


def versions(workspace: Workspace) -> dict[str, str]:
    """The place of each row, which is another once it was written anew."""
    rows = Participant.objects.filter(workspace=workspace).annotate(
        place=RawSQL("workspaces_participant.ctid::text", ())
    )
    return dict(rows.values_list("handle", "place"))


@pytest.mark.django_db
def test_however_it_is_written(ana: Member) -> None:
    rows = [
        Participant(workspace=ana.workspace, kind="imported", handle=handle, name=name)
        for handle, name in (("zoe", "Zoe"), ("zoe-2", "Zoë"), ("max", "Max"))
    ]
    Participant.objects.bulk_create(rows)
    assert labels(ana.workspace) == {"ana": "Ana", "zoe": "Zoe (@zoe)", "zoe-2": "Zoë (@zoe-2)", "max": "Max"}

    stale = Participant.objects.get(handle="ana")
    Participant.objects.filter(handle="max").update(name="ana")
    stale.save()
    assert labels(ana.workspace)["ana"] == "Ana (@ana)"
    stale.name = "Zoe"
    stale.save(update_fields=["name"])
    assert labels(ana.workspace)["ana"] == "Zoe (@ana)"
    assert labels(ana.workspace)["max"] == "ana"
    with pytest.raises(TypeError):
        Participant.objects.update(name=None)


@pytest.mark.django_db
def test_in_another_workspace_it_is_another_name(ana: Member) -> None:
    other = make_member("Cleo").workspace
    joins(other, "Ana", "ana")
    assert labels(ana.workspace) == {"ana": "Ana"}


@pytest.mark.django_db
def test_an_agent_has_it_too(ana: Member) -> None:
    vibe = make_agent(ana, "vibe")
    joins(ana.workspace, "vibe", "vibe-2")
    assert labels(ana.workspace)["vibe"] == "Vibe (@vibe)"
    vibe.participant.refresh_from_db()
    assert vibe.participant.is_name_ambiguous


@pytest.mark.django_db(transaction=True)
def test_two_that_come_at_the_same_moment_see_each_other(ana: Member) -> None:
    ready = Barrier(2, timeout=60)

    def join(handle: str) -> None:
        with transaction.atomic():
            Participant.objects.count()
            ready.wait()
            joins(ana.workspace, "Zoe", handle)
        connections.close_all()

    threads = [Thread(target=join, args=(handle,)) for handle in ("zoe", "zoe-2")]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60)

    assert labels(ana.workspace) == {"ana": "Ana", "zoe": "Zoe (@zoe)", "zoe-2": "Zoe (@zoe-2)"}
