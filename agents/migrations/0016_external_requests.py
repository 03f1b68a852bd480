from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("agents", "0015_entry_erasure")]

    operations = [
        migrations.AlterField(
            model_name="run",
            name="heard_at",
            field=models.DateTimeField(
                help_text="When the agent that answers it through the API was last heard, or asked while it is queued."
                " Empty: a worker here carries it out.",
                null=True,
            ),
        ),
        migrations.RemoveConstraint(model_name="run", name="run_external_is_begun"),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.CheckConstraint(
                condition=Q(heard_at=None) | ~Q(state="waiting_approval"), name="run_external_asks_nobody"
            ),
        ),
    ]
