"""Failures of endpoints that were kept as an agent's memory are archived: they stood in its prompts everywhere.

Only episodes that the run itself wrote ("An answer failed: …"), and only with the sentences that began with the
endpoint, its format or the prompt's length. What a model had no answer to stays.
"""

from django.db import migrations
from django.db.models import Q
from django.utils import timezone

PREFIX = "An answer failed: "
SENTENCES = (
    "The endpoint ",
    "The prompt is longer than the model takes.",
    "The model broke off",
    "The model used all its output tokens before it said a word.",
    "The model called a tool without naming it.",
    "The model called a tool with ",
    "The model called more than ",
    "The answer has more than ",
)


def archive(apps, schema_editor):
    """Archived anew where that was so because the agent is deactivated: they do not come back with it."""
    is_failure_of_endpoint = Q(pk__in=[])
    for sentence in SENTENCES:
        is_failure_of_endpoint |= Q(summary__startswith=PREFIX + sentence)
    episodes = apps.get_model("memory", "Episode").objects.filter(kind="task_failed", feedback=None, subject="")
    episodes.filter(is_failure_of_endpoint).update(archived_at=timezone.now())


class Migration(migrations.Migration):
    dependencies = [("memory", "0007_drop_covered_indexes")]

    operations = [migrations.RunPython(archive, migrations.RunPython.noop)]
