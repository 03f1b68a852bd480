from django.db import migrations

# A reply that another version takes the place of is in no prompt: summaries that stand for it are written anew, and once
# more where it becomes the answer again.
FORGET_REPLACED = """
CREATE TRIGGER lcm_forget_replaced AFTER UPDATE OF state ON chat_message
    FOR EACH ROW WHEN ((OLD.state = 'replaced') <> (NEW.state = 'replaced'))
    EXECUTE FUNCTION lcm_forget_changed();
"""


class Migration(migrations.Migration):
    dependencies = [("lcm", "0003_drop_covered_indexes"), ("chat", "0014_replaced_answers")]

    operations = [migrations.RunSQL(FORGET_REPLACED, "DROP TRIGGER lcm_forget_replaced ON chat_message")]
