"""What was said since the index was last put in order is read by every search: less of it."""

import django.contrib.postgres.indexes
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("chat", "0008_dive_ended_by"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(
                    "ALTER INDEX message_search SET (gin_pending_list_limit = 256)",
                    "ALTER INDEX message_search RESET (gin_pending_list_limit)",
                )
            ],
            state_operations=[
                migrations.RemoveIndex(model_name="message", name="message_search"),
                migrations.AddIndex(
                    model_name="message",
                    index=django.contrib.postgres.indexes.GinIndex(
                        fields=["search"], gin_pending_list_limit=256, name="message_search"
                    ),
                ),
            ],
        ),
    ]
