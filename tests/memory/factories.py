"""What is remembered, as rows of one state each: for tests of what reads them. Past the services, which lead there in
steps."""

from factory.declarations import LazyAttribute, SelfAttribute, SubFactory
from factory.django import DjangoModelFactory

from memory.blocks.models import Block
from memory.episodes.models import Episode
from memory.plugins.models import Compaction, MemoryPlugin
from memory.work.models import ProgressEntry, WorkItem
from openvibe.engines.llm.tokens import count_tokens


class MemoryPluginFactory(DjangoModelFactory[MemoryPlugin]):
    """A plugin that a workspace remembers with."""

    class Meta:
        model = MemoryPlugin

    workspace = SubFactory("tests.factories.WorkspaceFactory")
    name = "memory/lcm"
    enabled = True


class CompactionFactory(DjangoModelFactory[Compaction]):
    """A compaction that waits for a worker."""

    class Meta:
        model = Compaction

    thread = SubFactory("tests.factories.ThreadFactory")
    plugin = "memory/lcm"
    trigger = Compaction.Trigger.THRESHOLD


class WorkItemFactory(DjangoModelFactory[WorkItem]):
    """A to-do of whoever began the thread."""

    class Meta:
        model = WorkItem

    thread = SubFactory("tests.factories.ThreadFactory")
    kind = WorkItem.Kind.TODO
    text = "Weed the beds"
    author = SelfAttribute("thread.created_by")


class ProgressEntryFactory(DjangoModelFactory[ProgressEntry]):
    class Meta:
        model = ProgressEntry

    thread = SubFactory("tests.factories.ThreadFactory")
    author = SelfAttribute("thread.created_by")
    checkpoint = "The beds are weeded"


class BlockFactory(DjangoModelFactory[Block]):
    """A context block. `agent` is a participant."""

    class Meta:
        model = Block

    label = "team"
    content = "Ana prunes."
    tokens = LazyAttribute(lambda block: count_tokens(block.content))


class EpisodeFactory(DjangoModelFactory[Episode]):
    """An episode. `agent` is a participant."""

    class Meta:
        model = Episode

    kind = Episode.Kind.TASK_COMPLETED
    summary = "Ana published the result."
