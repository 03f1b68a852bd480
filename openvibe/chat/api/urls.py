from django.urls import path

from openvibe.chat.api import dives, events, imports, messages, notifications, reactions, saved_messages, views

urlpatterns = [
    path("people/", views.People.as_view(), name="api-people"),
    path("notifications/", notifications.Notifications.as_view(), name="api-notifications"),
    path("do-not-disturb/", notifications.DoNotDisturbSettings.as_view(), name="api-do-not-disturb"),
    path(
        "channels/<int:pk>/notifications/",
        notifications.ChannelNotifications.as_view(),
        name="api-channel-notifications",
    ),
    path(
        "threads/<int:pk>/notifications/", notifications.ThreadNotifications.as_view(), name="api-thread-notifications"
    ),
    path("channels/", views.Channels.as_view(), name="api-channels"),
    path("channels/<int:pk>/", views.OneChannel.as_view(), name="api-channel"),
    path("direct-messages/", views.DirectMessages.as_view(), name="api-direct-messages"),
    path("threads/", views.Threads.as_view(), name="api-threads"),
    path("threads/<int:pk>/", views.OneThread.as_view(), name="api-thread"),
    path("threads/<int:pk>/export/", views.ThreadExport.as_view(), name="api-thread-export"),
    path("threads/<int:pk>/read/", views.ThreadRead.as_view(), name="api-thread-read"),
    path("threads/<int:pk>/messages/", messages.Messages.as_view(), name="api-messages"),
    path("threads/<int:pk>/search/", messages.MessagesBearing.as_view(), name="api-messages-search"),
    path("messages/<int:pk>/", messages.OneMessage.as_view(), name="api-message"),
    path("saved/", saved_messages.SavedMessages.as_view(), name="api-saved"),
    path("messages/<int:pk>/saved/", saved_messages.SaveMessage.as_view(), name="api-message-saved"),
    path("messages/<int:pk>/reactions/", reactions.Reactions.as_view(), name="api-reactions"),
    path("messages/<int:pk>/quotes/", messages.QuotesOfMessage.as_view(), name="api-message-quotes"),
    path("messages/<int:pk>/quotes/<slug:kind>/<int:ref>/", messages.OneQuote.as_view(), name="api-message-quote"),
    path("images/<int:pk>/", messages.OneImage.as_view(), name="api-image"),
    path("images/<int:pk>/content/", messages.ImageContent.as_view(), name="api-image-content"),
    path("attachments/<int:pk>/", messages.OneAttachment.as_view(), name="api-attachment"),
    path("attachments/<int:pk>/content/", messages.AttachmentContent.as_view(), name="api-attachment-content"),
    path("dives/", dives.Dives.as_view(), name="api-dives"),
    path("dives/<int:pk>/", dives.OneDive.as_view(), name="api-dive"),
    path("dives/<int:pk>/draft/", dives.DiveDraft.as_view(), name="api-dive-draft"),
    path("dives/<int:pk>/publish/", dives.Publish.as_view(), name="api-dive-publish"),
    path("dives/<int:pk>/discard/", dives.Discard.as_view(), name="api-dive-discard"),
    path("search/", messages.SearchMessages.as_view(), name="api-search"),
    path("imports/", imports.Imports.as_view(), name="api-imports"),
    path("imports/notes/", imports.ImportNotes.as_view(), name="api-import-notes"),
    path("imports/<int:pk>/", imports.OneImport.as_view(), name="api-import"),
    path("imports/<int:pk>/account/", imports.ImportAccount.as_view(), name="api-import-account"),
    path("events/", events.Events.as_view(), name="api-events"),
]
