"""What an agent noted about a person."""

from drf_spectacular.utils import OpenApiParameter, extend_schema
from rest_framework.request import Request
from rest_framework.response import Response

from memory.api.block_serializers import NotesAsked, NotesIn, NotesOut
from memory.api.blocks import agent_asked, as_stale
from memory.services.profile import Noted, asker_of_thread, notes_read_by, person_known_to, write_notes
from openvibe.api.matching import StaleMatch, required_match
from openvibe.api.views import ApiView
from openvibe.base.problems import Conflict, Problem
from openvibe.workspaces.access import Access
from openvibe.workspaces.api.auth import asker
from openvibe.workspaces.models import Participant

IF_MATCH = OpenApiParameter(
    "If-Match", str, OpenApiParameter.HEADER, required=True,
    description="The ETag the notes were read with; `0` (quoted) for the first ones.",
)  # fmt: skip


class Profile(ApiView):
    scopes = {"GET": "memory", "PUT": "memory"}

    @extend_schema(operation_id="profile_get", parameters=[NotesAsked], responses=NotesOut)
    def get(self, request: Request) -> Response:
        """An agent's notes about a person: its own for an agent, all for admins, those about herself for a member."""
        agent, person, access = self._asked(request)
        return _answer(notes_read_by(agent=agent, person=person, by=access))

    @extend_schema(operation_id="profile_save", parameters=[NotesAsked, IF_MATCH], request=NotesIn, responses=NotesOut)
    def put(self, request: Request) -> Response:
        """Replace the notes, at most 500 tokens; empty clears them. A member may only clear those about herself.

        An agent that names the thread it learned it in may do so only where that is open to everybody.
        """
        agent, person, access = self._asked(request)
        notes_read_by(agent=agent, person=person, by=access)
        said, version = self.said(NotesIn), _version(request)
        thread_id = self.asked(NotesAsked).get("thread")
        try:
            noted = write_notes(
                agent=agent, person=person, by=access, text=said["text"], how="api", version=version,
                thread_id=thread_id,
            )  # fmt: skip
        except Conflict as problem:
            raise as_stale(problem) from None
        return _answer(noted)

    def _asked(self, request: Request) -> tuple[Participant, Participant, Access]:
        access, asked = asker(request), self.asked(NotesAsked)
        agent = agent_asked(access, asked)
        if "person" in asked:
            person = person_known_to(access, asked["person"].lstrip("@"))
        elif "thread" in asked:
            person = asker_of_thread(access, asked["thread"])
        elif not access.is_agent:
            person = Participant.objects.get(pk=access.participant_id)
        else:
            raise Problem("Say about whom: ?person=handle or ?thread=id.", code="choose_person", field="person")
        return agent, person, access


def _version(request: Request) -> int:
    given = required_match(request)
    if not (given.isascii() and given.isdigit() and len(given) < 10):
        raise StaleMatch('If-Match is the ETag of the notes, such as "3".', field="If-Match")
    return int(given)


def _answer(noted: Noted) -> Response:
    return Response(NotesOut(noted).data, headers={"ETag": f'"{noted.version}"'})
