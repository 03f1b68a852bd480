"""What models were asked in the background about a conversation counts against the budget of its channel, too."""

import django.db.models.deletion
from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [
        ("chat", "0019_agent_limits"),
        ("workspaces", "0002_invitation_squashed_0012_names_that_look_alike"),
    ]

    operations = [
        migrations.AddField(
            model_name="spending",
            name="channel",
            field=models.ForeignKey(
                db_index=False,
                help_text="Whose budget it counts against, too: that of the conversation it is about.",
                null=True,
                on_delete=django.db.models.deletion.SET_NULL,
                related_name="+",
                to="chat.channel",
            ),
        )
    ]
