from django.db import migrations, models

FORGET_ZEROS = "UPDATE agents_run SET cached_tokens = NULL WHERE cached_tokens = 0"
"""Until now 0 also stood for a provider that said nothing; which of the two it was is not known any more."""

ZEROS_AGAIN = "UPDATE agents_run SET cached_tokens = 0 WHERE cached_tokens IS NULL"

FORGET_FIRST_PROMPTS = """
    UPDATE agents_snapshot SET prefix_shared = NULL
    WHERE prefix_shared = 0 AND NOT EXISTS (
        SELECT 1 FROM agents_snapshot earlier
        JOIN agents_run earlier_run ON earlier_run.id = earlier.run_id
        JOIN agents_run run ON run.id = agents_snapshot.run_id
        WHERE earlier_run.agent_id = run.agent_id AND earlier_run.thread_id = run.thread_id
            AND earlier.id < agents_snapshot.id
            AND earlier.created_at > agents_snapshot.created_at - interval '30 days'
    )
"""
"""The first prompt of an agent in a thread had none to be compared with; texts were kept for 30 days."""

FIRST_PROMPTS_AGAIN = "UPDATE agents_snapshot SET prefix_shared = 0 WHERE prefix_shared IS NULL"


class Migration(migrations.Migration):
    dependencies = [("agents", "0002_tool_sources")]

    operations = [
        migrations.AlterField(
            model_name="run",
            name="cached_tokens",
            field=models.PositiveIntegerField(
                help_text="Of the input, read from the provider's cache. Empty where the provider did not say.",
                null=True,
            ),
        ),
        migrations.AlterField(
            model_name="snapshot",
            name="prefix_shared",
            field=models.PositiveIntegerField(
                help_text="Tokens in common with the start of the prompt before it. Empty where there was none.",
                null=True,
            ),
        ),
        migrations.RunSQL(FORGET_ZEROS, ZEROS_AGAIN),
        migrations.RunSQL(FORGET_FIRST_PROMPTS, FIRST_PROMPTS_AGAIN),
    ]
