"""A dive says who ended it; of those that ended before, nobody knows."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("chat", "0007_signs_of_pairs"),
    ]

    operations = [
        migrations.AddField(
            model_name="dive",
            name="ended_by",
            field=models.ForeignKey(
                help_text="Who published or discarded it.",
                null=True,
                on_delete=django.db.models.deletion.PROTECT,
                related_name="+",
                to="workspaces.participant",
            ),
        ),
    ]
