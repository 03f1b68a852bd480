from django.db import migrations, models


class Migration(migrations.Migration):
    dependencies = [("llm", "0009_sees_images")]

    operations = [
        migrations.AlterField(
            model_name="endpoint",
            name="kind",
            field=models.CharField(
                choices=[
                    ("offline", "Offline (quotes, no network)"),
                    ("openai", "OpenAI-compatible"),
                    ("anthropic", "Anthropic"),
                    ("responses", "OpenAI Responses"),
                ],
                default="openai",
                max_length=20,
            ),
        )
    ]
