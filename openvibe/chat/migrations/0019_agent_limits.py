"""What holds for agents in a channel: who answers, what they may use, how many tokens a day."""

import django.contrib.postgres.fields
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("chat", "0018_lexemes"), ("workspaces", "0002_invitation_squashed_0012_names_that_look_alike")]

    operations = [
        migrations.AddField(
            model_name="channel",
            name="added_agents_only",
            field=models.BooleanField(
                db_default=False,
                default=False,
                help_text="Only agents that were added answer here; else also those whose level reads every public channel.",
            ),
        ),
        migrations.AddField(
            model_name="channel",
            name="agent_tools",
            field=django.contrib.postgres.fields.ArrayField(
                base_field=models.TextField(),
                blank=True,
                help_text="What agents may use here at most: OpenVibe's own tools by name, mcp:server, mcp:server/tool, "
                "call:kind of agents elsewhere. Null: all that they may use.",
                null=True,
                size=None,
            ),
        ),
        migrations.AddField(
            model_name="channel",
            name="daily_token_budget",
            field=models.PositiveIntegerField(
                blank=True,
                help_text="Tokens that agents may use here in one UTC day. Null: no limit of its own.",
                null=True,
            ),
        ),
        migrations.AddConstraint(
            model_name="channel",
            constraint=models.CheckConstraint(
                condition=models.Q(
                    ("first_participant", None),
                    models.Q(("added_agents_only", False), ("agent_tools", None), ("daily_token_budget", None)),
                    _connector="OR",
                ),
                name="direct_messages_have_no_limits",
            ),
        ),
    ]
