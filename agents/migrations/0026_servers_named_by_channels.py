"""What channels name of an MCP server goes by its new name, and is gone with it."""

from django.db import migrations
from pgtrigger.migrations import AddTrigger

from openvibe.engines.database.migration_operations import trigger

NAME_IN_CHANNELS = """
UPDATE chat_channel SET agent_tools = (
    SELECT coalesce(array_agg(
        regexp_replace(tool.tool, '^mcp:' || OLD.name || '(/|$)', 'mcp:' || coalesce(NEW.name, '') || '\\1')
        ORDER BY tool.ordinality
    ), '{}')
    FROM unnest(agent_tools) WITH ORDINALITY AS tool
    WHERE TG_OP = 'UPDATE' OR tool.tool !~ ('^mcp:' || OLD.name || '(/|$)')
) WHERE workspace_id = OLD.workspace_id AND agent_tools IS NOT NULL;
RETURN NULL;
"""


class Migration(migrations.Migration):
    dependencies = [("agents", "0025_join_codes"), ("chat", "0019_agent_limits")]

    operations = [
        AddTrigger(
            model_name="mcpserver",
            trigger=trigger(
                "pgtrigger_channels_name_it_1a19e",
                "agents_mcpserver",
                "AFTER",
                'UPDATE OF "name" OR DELETE',
                func=NAME_IN_CHANNELS,
                hash="373ade2e792f67846483a4a14413943a0a4382ac",
            ),
        )
    ]
