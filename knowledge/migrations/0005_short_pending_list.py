"""What was written since the index was last put in order is read by every search: less of it."""

import django.contrib.postgres.indexes
from django.db import migrations


class Migration(migrations.Migration):
    dependencies = [
        ("knowledge", "0004_topics_in_any_case"),
    ]

    operations = [
        migrations.SeparateDatabaseAndState(
            database_operations=[
                migrations.RunSQL(
                    "ALTER INDEX entry_search SET (gin_pending_list_limit = 256)",
                    "ALTER INDEX entry_search RESET (gin_pending_list_limit)",
                )
            ],
            state_operations=[
                migrations.RemoveIndex(model_name="entry", name="entry_search"),
                migrations.AddIndex(
                    model_name="entry",
                    index=django.contrib.postgres.indexes.GinIndex(
                        fields=["search"], gin_pending_list_limit=256, name="entry_search"
                    ),
                ),
            ],
        ),
    ]
