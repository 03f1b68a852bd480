"""What every memory plugin promises, as rules that anybody can run against theirs.

    OPENVIBE_MEMORY_PLUGIN=acme/notebook pytest --pyargs memory.providers.conformance

runs them in a test database of the project's (`DJANGO_SETTINGS_MODULE` names its settings), against the plugin named,
else against every installed one. OPENVIBE_MEMORY_CONFIG may hold its config as JSON. `RULES` is the list; a rule
takes a scene and the provider, and raises Broken with a sentence when the promise is not kept. Rules about a
capability bind only plugins that have it.
"""
