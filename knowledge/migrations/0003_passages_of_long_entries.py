"""Long entries have their passages compared, too: those with vectors wait for new ones, and keep the old till then."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("knowledge", "0002_compared_version"),
    ]

    operations = [
        migrations.AddField(
            model_name="entryvector",
            name="parts",
            field=models.BinaryField(null=True),
        ),
        migrations.RunSQL(
            "INSERT INTO knowledge_entrytoembed (space_id, entry_id) SELECT v.space_id, v.entry_id"
            " FROM knowledge_entryvector v JOIN knowledge_entry e ON e.id = v.entry_id"
            " WHERE octet_length(e.content) > 240 ON CONFLICT DO NOTHING",
            migrations.RunSQL.noop,
        ),
    ]
