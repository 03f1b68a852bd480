from django.db import migrations, models
from django.db.models import Q

KINDS = [
    ("objective", "Objective"),
    ("constraint", "Constraint"),
    ("preference", "Preference"),
    ("plan", "Plan"),
    ("goal", "Goal"),
    ("todo", "To do"),
    ("artifact", "Artifact"),
    ("error_tried", "Error and what was tried"),
    ("open_question", "Open question"),
    ("do_not_redo", "Do not redo"),
]


class Migration(migrations.Migration):
    """A kind of work more: preferences. No row is rewritten."""

    dependencies = [("memory", "0001_squashed_0008_archive_endpoint_failures")]

    operations = [
        migrations.RemoveConstraint(model_name="workitem", name="work_kind_known"),
        migrations.AlterField(model_name="workitem", name="kind", field=models.CharField(choices=KINDS, max_length=14)),
        migrations.AddConstraint(
            model_name="workitem",
            constraint=models.CheckConstraint(
                condition=Q(kind__in=[kind for kind, _ in KINDS]), name="work_kind_known"
            ),
        ),
    ]
