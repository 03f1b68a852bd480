from django.db import migrations, models
from django.db.models import Q


class Migration(migrations.Migration):
    dependencies = [("agents", "0009_mcp_servers")]

    operations = [
        migrations.AddField(
            model_name="run",
            name="heard_at",
            field=models.DateTimeField(
                help_text="When the agent that answers it through the API was last heard. Empty: a worker here carries"
                " it out.",
                null=True,
            ),
        ),
        migrations.AddConstraint(
            model_name="run",
            constraint=models.CheckConstraint(
                condition=Q(heard_at=None) | ~Q(state__in=["queued", "waiting_approval"]), name="run_external_is_begun"
            ),
        ),
    ]
