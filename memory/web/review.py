"""What an agent would learn, on its page: admins accept, reject, and take back."""

import re
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from django.http import HttpResponse
from django.shortcuts import redirect
from django.urls import reverse
from django.views.decorators.http import require_POST

from memory.models import Proposal
from memory.services.proposals import accept_proposal, reject_proposal, undo_proposal
from openvibe.base.problems import Missing
from openvibe.chat.models import Thread
from openvibe.workspaces.access import Access
from openvibe.workspaces.models import Participant
from openvibe.workspaces.web.doors import WorkspaceRequest, in_workspace

SHOWN = 30
VERBS: dict[str, Callable[..., Proposal]] = {
    "accept": accept_proposal,
    "reject": reject_proposal,
    "undo": undo_proposal,
}


@dataclass(frozen=True)
class ProposalLine:
    """A proposal and the first message it was learned from, by number."""

    proposal: Proposal
    seq: int


@dataclass(frozen=True)
class ProposalsShown:
    """Those that wait first, then the newest decided; `hidden` were learned where the asker may not read."""

    waiting: tuple[ProposalLine, ...]
    decided: tuple[ProposalLine, ...]
    hidden: int


def proposals_of(agent: Participant, access: Access) -> ProposalsShown | None:
    """What the agent proposed to learn, for admins; None for everybody else. Three queries."""
    if not access.administers:
        return None
    everything = Proposal.objects.filter(agent=agent)
    readable = everything.filter(thread__in=Thread.objects.visible_to(access))
    rows = readable.select_related("thread", "person", "decided_by")
    waiting = rows.filter(state=Proposal.State.PROPOSED)
    decided = rows.exclude(state=Proposal.State.PROPOSED).order_by("-decided_at", "-id")
    hidden = everything.exclude(thread__in=Thread.objects.visible_to(access)).count()
    return ProposalsShown(_lines(waiting[:SHOWN]), _lines(decided[:SHOWN]), hidden)


def _lines(proposals: Iterable[Proposal]) -> tuple[ProposalLine, ...]:
    return tuple(ProposalLine(found, _first_cited(found)) for found in proposals)


def _first_cited(proposal: Proposal) -> int:
    cited = re.match(r"Messages? (\d+)", proposal.because)
    return int(cited[1]) if cited else proposal.upto_seq


@require_POST
@in_workspace
def decide(request: WorkspaceRequest, proposal_id: int, verb: str) -> HttpResponse:
    """Accept, reject or undo, and back to the agent's page."""
    proposal = Proposal.objects.select_related("agent").filter(pk=proposal_id).first()
    if proposal is None or verb not in VERBS:
        raise Missing
    VERBS[verb](proposal=proposal, by=request.access)
    page = reverse("agent", args=[request.workspace.slug, proposal.agent.handle])
    return redirect(f"{page}#agent-proposals")
