"""Images of chat clients: those of a request's new messages, as they are attached to a message of the thread."""

from agents.openai_api.options import invalid
from agents.openai_api.requests import ClientRequest
from openvibe.base.problems import Problem
from openvibe.chat.models import MAX_ATTACHMENTS
from openvibe.chat.services import NewImage, make_image


def read_images(request: ClientRequest) -> list[NewImage]:
    """The images, decoded and scaled. Raises Problem for one that is none, and for more than a message may have."""
    files = [image for item in request.new_items for image in item.images]
    if len(files) > MAX_ATTACHMENTS:
        raise invalid(f"A turn has at most {MAX_ATTACHMENTS} new images; these are {len(files)}.", "messages")
    images = []
    for number, data in enumerate(files, start=1):
        try:
            images.append(make_image(f"image-{number}", data))
        except Problem as problem:
            raise invalid(problem.message, "messages", problem.code) from None
    return images
