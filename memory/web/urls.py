"""Addresses of feedback and episodes, under /w/<slug>/."""

from django.urls import path

from memory.web import review, views

urlpatterns = [
    path("m/<int:message_id>/feedback/", views.feedback, name="feedback"),
    path("episodes/<int:episode_id>/applied/", views.episode_applied, name="episode-applied"),
    path("episodes/<int:episode_id>/reopen/", views.episode_reopen, name="episode-reopen"),
    path("episodes/<int:episode_id>/delete/", views.episode_delete, name="episode-delete"),
    path("proposals/<int:proposal_id>/<slug:verb>/", review.decide, name="proposal-decide"),
]
