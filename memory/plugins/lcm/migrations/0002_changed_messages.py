"""When the text of a message changes, every summary that stands for it loses its words in the same transaction.

The trigger stands on chat's table, which knows nothing of memory: whatever changes a text, by whatever way, cannot
leave it in a summary. The words are those of `models.REWRITING`.
"""

from django.db import migrations

FORWARDS = """
CREATE FUNCTION lcm_forget_changed() RETURNS trigger LANGUAGE plpgsql AS $$
DECLARE
    held bigint;
BEGIN
    SELECT summary_id INTO held FROM lcm_summarymessage WHERE message_id = NEW.id;
    IF held IS NULL THEN
        RETURN NULL;
    END IF;
    WITH RECURSIVE above AS (
        SELECT held AS id
        UNION
        SELECT e.container_id FROM lcm_summaryedge e JOIN above ON e.constituent_id = above.id
    )
    UPDATE lcm_summary SET stale = true, token_count = 20, content =
        '[This part of the conversation is being summarised anew, because a message in it was changed.]'
    WHERE id IN (SELECT id FROM above);
    UPDATE lcm_conversation SET version = version + 1 WHERE thread_id = NEW.thread_id;
    RETURN NULL;
END $$;
CREATE TRIGGER lcm_forget_changed AFTER UPDATE OF body ON chat_message
    FOR EACH ROW WHEN (OLD.body IS DISTINCT FROM NEW.body AND OLD.state <> 'writing')
    EXECUTE FUNCTION lcm_forget_changed();
"""
BACKWARDS = "DROP TRIGGER lcm_forget_changed ON chat_message; DROP FUNCTION lcm_forget_changed();"


class Migration(migrations.Migration):
    dependencies = [("lcm", "0001_initial"), ("chat", "0002_initial")]
    operations = [migrations.RunSQL(FORWARDS, BACKWARDS)]
