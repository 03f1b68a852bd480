"""The signs of every second pair in an index of their own, so that a long thread is compared without reading its vectors."""

from django.db import migrations, models
from django.db.models.functions import Cast
from django.db.models.lookups import Exact

from openvibe.search.models import SignsField


class Migration(migrations.Migration):
    dependencies = [
        ("chat", "0006_passages_of_long_messages"),
        ("search", "0002_address"),
    ]

    operations = [
        migrations.AddField(
            model_name="messagevector",
            name="pair_signs",
            field=models.GeneratedField(
                expression=Cast(models.Func("pair", function="binary_quantize"), SignsField()),
                output_field=SignsField(),
                db_persist=True,
            ),
        ),
        migrations.AddIndex(
            model_name="messagevector",
            index=models.Index(
                fields=["thread", "space", "seq"],
                include=["dimension", "pair_signs"],
                condition=models.Q(Exact(models.F("seq") % 2, 0)),
                name="message_vector_signs",
            ),
        ),
    ]
