import django.db.models.deletion
import pgtrigger.compiler
import pgtrigger.migrations
from django.db import migrations, models

CONFIRM_WHAT_MEMBERS_SET = """
    UPDATE memory_workitem SET confirmed_by_id = author_id
    WHERE kind = 'constraint' AND author_id IN (SELECT participant_id FROM workspaces_member WHERE role <> 'guest')
"""
"""What members had set binds as before; what agents and guests had set waits for a member."""


class Migration(migrations.Migration):
    dependencies = [("chat", "0001_initial"), ("memory", "0001_initial"), ("workspaces", "0002_invitation")]

    operations = [
        migrations.AddField(
            model_name="workitem",
            name="confirmed_by",
            field=models.ForeignKey(
                null=True, on_delete=django.db.models.deletion.PROTECT, related_name="+", to="workspaces.participant"
            ),
        ),
        pgtrigger.migrations.AddTrigger(
            model_name="workitem",
            trigger=pgtrigger.compiler.Trigger(
                name="members_confirm_constraints",
                sql=pgtrigger.compiler.UpsertTriggerSql(
                    condition="WHEN (NEW.kind = 'constraint')",
                    declare="DECLARE member bigint;",
                    func="SELECT participant_id INTO member FROM workspaces_member WHERE participant_id = COALESCE(NEW.confirmed_by_id, NEW.author_id) AND role <> 'guest'; IF NEW.confirmed_by_id IS NOT NULL AND member IS NULL THEN RAISE EXCEPTION 'Only members confirm constraints.' USING ERRCODE = 'check_violation'; END IF; IF TG_OP = 'INSERT' THEN NEW.confirmed_by_id := member; END IF; RETURN NEW;",
                    hash="c88c1222aa71928f1680b8374ef49abd1e465616",
                    operation='INSERT OR UPDATE OF "confirmed_by_id"',
                    pgid="pgtrigger_members_confirm_constraints_0fcc3",
                    table="memory_workitem",
                    when="BEFORE",
                ),
            ),
        ),
        migrations.AddConstraint(
            model_name="workitem",
            constraint=models.CheckConstraint(
                condition=models.Q(("confirmed_by", None), ("kind", "constraint"), _connector="OR"),
                name="work_only_constraints_are_confirmed",
            ),
        ),
        migrations.RunSQL(CONFIRM_WHAT_MEMBERS_SET, migrations.RunSQL.noop),
    ]
