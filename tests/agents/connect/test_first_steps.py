"""The checklist of a newcomer: ticked by what was done since, by whom it was done, and gone when all of it is."""

from agents.connect.first_steps import list_first_steps
from agents.models import Agent, Run
from agents.runs.executor import execute_run
from knowledge.services import create_entry
from memory.episodes.services import give_feedback
from openvibe.chat.models import Thread
from openvibe.chat.services import add_to_channel, publish_dive, start_dive
from openvibe.engines.llm.offline.drafts import ResultDraft
from openvibe.workspaces.models import Member
from openvibe.workspaces.services import create_invitation, restart_first_steps
from tests.factories import access, make_channel, make_paid_endpoint, say, signed_in


def done(member: Member) -> list[str]:
    """First words of the steps that are ticked."""
    member.refresh_from_db()
    return [step.text.split()[0] for step in list_first_steps(member, access(member)) if step.is_done]


def ask(thread: Thread, by: Member) -> Run:
    run = Run.objects.get(trigger=say(thread, by, "@vibe when do we prune?"))
    execute_run(run.pk)
    run.refresh_from_db()
    assert run.reply is not None
    return run


def test_each_step_is_ticked_by_doing_it(ana: Member, vibe: Agent, thread: Thread) -> None:
    browser, home = signed_in(ana), f"/w/{ana.workspace.slug}/"
    steps = list_first_steps(ana, access(ana))
    assert steps[0].href.endswith(f"/direct/?to={vibe.participant_id}")
    assert done(ana) == []

    run = ask(thread, ana)
    assert done(ana) == ["Ask"]
    context, thumb = (step.href for step in list_first_steps(ana, access(ana))[1:3])
    assert browser.get(context).status_code == 200
    assert browser.get(thumb).status_code == 302
    assert done(ana) == ["Ask", "See"]
    assert run.reply is not None
    give_feedback(message=run.reply, by=access(ana), verdict="down", text="Say when.")
    assert "Press" not in done(ana)
    ask(thread, ana)
    assert "Press" in done(ana)

    dive = start_dive(source=run.reply, by=access(ana), agent=vibe.participant)
    publish_dive(dive=dive, by=access(ana), result=ResultDraft("March", ("In March",) * 3, full="In March."))
    create_entry(by=access(ana), topic="Pruning", content="In March.")
    make_paid_endpoint(ana)
    text = browser.get(home).content.decode()
    assert text.count('class="is-done"') == 6
    create_invitation(workspace=ana.workspace, by=access(ana), role="member", days=7, uses=1)
    assert "First steps" not in browser.get(home).content.decode()
    ana.refresh_from_db()
    assert ana.first_steps_since is None


def test_nobody_is_ticked_for_what_others_or_a_sample_did(
    ana: Member, ben: Member, vibe: Agent, thread: Thread
) -> None:
    ask(thread, ana)
    assert done(ben) == []
    assert {step.text.split()[0] for step in list_first_steps(ben, access(ben))} == {"Ask", "See", "Press"}
    restart_first_steps(ana)
    assert done(ana) == ["Invite"]


def test_a_guest_is_told_of_no_agent_that_is_where_the_guest_is_not(ana: Member, vibe: Agent, ben: Member) -> None:
    assert "Vibe" not in "".join(step.text for step in list_first_steps(ben, access(ben)))
    room = make_channel(ana, "beds")
    for participant in (ben.participant, vibe.participant):
        add_to_channel(channel=room, participant=participant, by=access(ana))
    assert list_first_steps(ben, access(ben))[0].text == "Ask Vibe something"
