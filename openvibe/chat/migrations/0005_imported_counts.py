"""How far an import is stands in its thread instead of in a key of each of its messages.

The keys were almost half of what a message weighed in indexes after an import. They are moved with the index that holds
them taken away, and without an event for each message.
"""

from django.db import migrations, models
from django.db.models import Q, deletion

TO_THREADS = """
CREATE TEMPORARY TABLE imported ON COMMIT DROP AS
SELECT m.id, m.thread_id, substr(m.client_id, length(t.external_id) + 9) AS number
FROM chat_message m JOIN chat_thread t ON t.id = m.thread_id JOIN workspaces_participant p ON p.id = m.author_id
WHERE p.kind IN ('imported', 'assistant') AND t.external_id <> ''
AND starts_with(m.client_id, 'import:' || t.external_id || ':')
AND substr(m.client_id, length(t.external_id) + 9) ~ '^[0-9]{1,18}$';
ALTER TABLE chat_message DISABLE TRIGGER pgtrigger_tell_change_ef4e8;
UPDATE chat_message SET client_id = '' FROM imported WHERE imported.id = chat_message.id;
ALTER TABLE chat_message ENABLE TRIGGER pgtrigger_tell_change_ef4e8;
UPDATE chat_thread SET imported_count = count
FROM (SELECT thread_id, max(number::bigint) AS count FROM imported GROUP BY thread_id) counted
WHERE counted.thread_id = chat_thread.id;
DROP TABLE imported;
"""

TO_MESSAGES = """
ALTER TABLE chat_message DISABLE TRIGGER pgtrigger_tell_change_ef4e8;
UPDATE chat_message SET client_id = numbered.client_id FROM (
    SELECT m.id, 'import:' || t.external_id || ':'
        || t.imported_count + 1 - row_number() OVER (PARTITION BY t.id ORDER BY m.seq DESC) AS client_id
    FROM chat_message m JOIN chat_thread t ON t.id = m.thread_id JOIN workspaces_participant p ON p.id = m.author_id
    WHERE p.kind IN ('imported', 'assistant') AND t.imported_count > 0 AND m.client_id = ''
) numbered WHERE numbered.id = chat_message.id;
ALTER TABLE chat_message ENABLE TRIGGER pgtrigger_tell_change_ef4e8;
"""

CLIENT_ID_ONCE = models.UniqueConstraint(
    condition=~Q(client_id=""), fields=("thread", "author", "client_id"), name="message_client_id_once"
)


class Migration(migrations.Migration):
    dependencies = [("chat", "0004_attachments")]

    operations = [
        migrations.AddField(
            model_name="thread",
            name="imported_count",
            field=models.PositiveBigIntegerField(
                db_default=0,
                default=0,
                editable=False,
                help_text="Messages of the imported conversation that are there.",
            ),
        ),
        migrations.AlterField(
            model_name="message",
            name="author",
            field=models.ForeignKey(
                db_index=False, on_delete=deletion.PROTECT, related_name="messages", to="workspaces.participant"
            ),
        ),
        migrations.AlterField(
            model_name="message",
            name="thread",
            field=models.ForeignKey(
                db_index=False, on_delete=deletion.CASCADE, related_name="messages", to="chat.thread"
            ),
        ),
        migrations.RemoveConstraint(model_name="message", name="message_client_id_once"),
        migrations.RunSQL(TO_THREADS, TO_MESSAGES),
        migrations.AddConstraint(model_name="message", constraint=CLIENT_ID_ONCE),
        migrations.AddIndex(model_name="message", index=models.Index(fields=["-created_at"], name="message_recent")),
    ]
