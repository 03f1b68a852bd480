"""Addresses of conversations, all under /w/<slug>/."""

from django.urls import path

from openvibe.chat.web import channels, direct_messages, dives, inbox, quotes, search, threads, tokens

urlpatterns = [
    path("", inbox.inbox, name="inbox"),
    path("mentions/", inbox.mentions, name="mentions"),
    path("next/", inbox.next_unread, name="next-unread"),
    path("sidebar/", inbox.sidebar, name="sidebar"),
    path("direct/", direct_messages.direct_message, name="direct-message"),
    path("search/", search.search, name="search"),
    path("tokens/", tokens.tokens, name="tokens"),
    path("tokens/<int:token_id>/revoke/", tokens.token_revoke, name="token-revoke"),
    path("events/", inbox.events, name="events"),
    path("channels/new/", channels.channel_create, name="channel-create"),
    path("c/<int:channel_id>/", channels.channel, name="channel"),
    path("c/<int:channel_id>/edit/", channels.channel_edit, name="channel-edit"),
    path("c/<int:channel_id>/members/", channels.channel_members, name="channel-members"),
    path("c/<int:channel_id>/members/change/", channels.channel_membership, name="channel-membership"),
    path("c/<int:channel_id>/threads/", channels.thread_create, name="thread-create"),
    path("t/<int:thread_id>/", threads.thread, name="thread"),
    path("t/<int:thread_id>/export/", threads.thread_export, name="thread-export"),
    path("t/<int:thread_id>/edit/", threads.thread_edit, name="thread-edit"),
    path("t/<int:thread_id>/agents/", threads.thread_agents, name="thread-agents"),
    path("t/<int:thread_id>/read/", threads.thread_read, name="thread-read"),
    path("t/<int:thread_id>/draft/", threads.thread_draft, name="thread-draft"),
    path("t/<int:thread_id>/names/", threads.thread_names, name="thread-names"),
    path("t/<int:thread_id>/dives/", dives.thread_dives, name="thread-dives"),
    path("dive/<int:dive_id>/", dives.dive, name="dive"),
    path("dive/<int:dive_id>/publish/", dives.dive_publish, name="dive-publish"),
    path("dive/<int:dive_id>/preview/", dives.dive_preview, name="dive-preview"),
    path("dive/<int:dive_id>/draft/", dives.dive_draft, name="dive-draft"),
    path("dive/<int:dive_id>/discard/", dives.dive_discard, name="dive-discard"),
    path("m/<int:message_id>/dive/", dives.dive_start, name="dive-start"),
    path("m/<int:message_id>/full/", dives.result_full, name="result-full"),
    path("m/<int:message_id>/", threads.message, name="message"),
    path("m/<int:message_id>/edit/", threads.message_edit, name="message-edit"),
    path("m/<int:message_id>/delete/", threads.message_delete, name="message-delete"),
    path("m/<int:message_id>/quotes/", quotes.message_quotes, name="message-quotes"),
    path("files/<int:attachment_id>/", threads.attachment, name="attachment"),
    path("m/<int:message_id>/history/", threads.message_history, name="message-history"),
]
