"""Long messages have their passages compared, too: those with vectors wait for new ones, and keep the old till then."""

from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("chat", "0005_vectors_once_a_statement"),
    ]

    operations = [
        migrations.AddField(
            model_name="messagevector",
            name="parts",
            field=models.BinaryField(null=True),
        ),
        migrations.RunSQL(
            "INSERT INTO chat_messagetoembed (space_id, message_id) SELECT v.space_id, v.message_id"
            " FROM chat_messagevector v JOIN chat_message m ON m.id = v.message_id"
            " WHERE octet_length(m.body) > 240 ON CONFLICT DO NOTHING",
            migrations.RunSQL.noop,
        ),
    ]
