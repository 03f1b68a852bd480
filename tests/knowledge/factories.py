"""What the workspace knows, as rows of one state each."""

from factory.declarations import SelfAttribute
from factory.django import DjangoModelFactory

from knowledge.models import Contradiction


class ContradictionFactory(DjangoModelFactory[Contradiction]):
    """Two entries, `first` and `second`, that were found to contradict each other; past the search for such pairs."""

    class Meta:
        model = Contradiction

    workspace = SelfAttribute("first.workspace")
    first_version = SelfAttribute("first.version")
    second_version = SelfAttribute("second.version")
    why = "They differ."
