"""Django settings. What an operator may change is a field of `openvibe.settings.environment.Environment`.

Upper floors (memory, knowledge, agents) are named only where Django, Celery and drf-spectacular want a string: apps,
tasks and enums. What they plug into lower floors stands in each app's `wiring.py`."""

import sys
from pathlib import Path
from typing import Any

from csp.constants import NONE, SELF
from django.core.exceptions import ImproperlyConfigured
from django.templatetags.static import static
from kombu import Queue

from openvibe.engines.serving.logs import configure_structlog, log_uncaught_exceptions
from openvibe.settings.environment import (
    ROOT,
    create_private_folder,
    database_settings,
    file_storage,
    mail_settings,
    public_url,
    read_environment,
    read_or_create_secret_key,
    split_list,
)

ENV = read_environment()
BASE_DIR = ROOT
VAR = ENV.var.resolve()
HOME = Path(ENV.home).resolve() if ENV.home else VAR / "home"
create_private_folder(VAR)

DEBUG = ENV.debug
if ENV.secret_key:
    SECRET_KEY = ENV.secret_key
elif ENV.production:
    raise ImproperlyConfigured(
        "OPENVIBE_SECRET_KEY is not set. Set it to 50 or more random characters and start again."
    )
else:
    SECRET_KEY = read_or_create_secret_key(VAR / "secret_key")
SECRET_KEY_FALLBACKS = split_list(ENV.secret_key_fallbacks)
ALLOWED_HOSTS = split_list(ENV.allowed_hosts)
CSRF_TRUSTED_ORIGINS = split_list(ENV.csrf_trusted_origins)
SESSION_ENGINE = "openvibe.workspaces.sessions"
SESSION_COOKIE_HTTPONLY = True
SESSION_COOKIE_SAMESITE = "Lax"
CSRF_FAILURE_VIEW = "openvibe.workspaces.web.errors.csrf_failure"
X_FRAME_OPTIONS = "DENY"
SECURE_REFERRER_POLICY = "same-origin"
SECURE_REDIRECT_EXEMPT = ["^static/"]  # as `is_public_file` has it: a page that says what is wrong has its style
if ENV.production:
    SECURE_SSL_REDIRECT = True
    SESSION_COOKIE_SECURE = True
    CSRF_COOKIE_SECURE = True
    SECURE_HSTS_SECONDS = ENV.hsts_seconds
    SECURE_HSTS_INCLUDE_SUBDOMAINS = ENV.hsts_include_subdomains
    SECURE_HSTS_PRELOAD = ENV.hsts_preload
    SILENCED_SYSTEM_CHECKS = ["security.W005", "security.W021"]  # of other hosts than this one the operator decides
    SECURE_PROXY_SSL_HEADER = ("HTTP_X_FORWARDED_PROTO", "https")
DATA_UPLOAD_MAX_MEMORY_SIZE = 6 * 1024 * 1024
FILE_UPLOAD_HANDLERS = [
    "openvibe.engines.serving.request_body.BoundedUploadHandler",
    "django.core.files.uploadhandler.MemoryFileUploadHandler",
    "django.core.files.uploadhandler.TemporaryFileUploadHandler",
]
ALLOW_PRIVATE_ENDPOINTS = ENV.allow_private_endpoints
ALLOWED_ENDPOINT_HOSTS = split_list(ENV.allowed_endpoint_hosts)
PROMPT_RETENTION_DAYS = ENV.prompt_retention_days
WEBHOOK_DELIVERY_DAYS = ENV.webhook_delivery_days
MODEL_FIRST_ANSWER_SECONDS = ENV.model_first_answer_seconds
MODEL_TOTAL_SECONDS = ENV.model_total_seconds
AGENT_SILENCE_SECONDS = ENV.agent_silence_seconds
AGENT_BEGIN_MINUTES = ENV.agent_begin_minutes
OWNERS_EXPORT = ENV.owners_export
METRICS_TOKEN = ENV.metrics_token
CONTENT_SECURITY_POLICY: dict[str, Any] = {
    "EXCLUDE_URL_PREFIXES": [],
    "DIRECTIVES": {
        "default-src": [NONE],
        "script-src": [SELF],
        "style-src": [SELF],
        "img-src": [SELF, "data:"],
        "font-src": [SELF],
        "connect-src": [SELF],
        "form-action": [SELF],
        "base-uri": [NONE],
        "frame-ancestors": [NONE],
        "manifest-src": [SELF],
    },
}

INSTALLED_APPS = [
    "unfold",
    "unfold.contrib.filters",
    "django.contrib.admin.apps.SimpleAdminConfig",  # its pages, 8 MB, are loaded with the addresses
    "django.contrib.auth",
    "django.contrib.contenttypes",
    "django.contrib.sessions",
    "django.contrib.messages",
    "django.contrib.postgres",
    "django.contrib.staticfiles",
    "allauth",
    "allauth.account",
    "allauth.mfa",
    "allauth.socialaccount",
    "allauth.socialaccount.providers.openid_connect",
    "allauth.usersessions",
    "csp",
    "django_htmx",
    "drf_spectacular",
    "pgtrigger",
    "rest_framework",
    "django_filters",
    "django_celery_beat",
    "openvibe.base",
    "openvibe.runner",
    "openvibe.engines.search",
    "openvibe.engines.llm",
    "openvibe.api",
    "openvibe.workspaces",
    "openvibe.chat",
    "openvibe.webhooks",
    "memory",
    "memory.plugins.lcm",
    "knowledge",
    "agents",
]
MIDDLEWARE = [
    "openvibe.base.health.HealthMiddleware",
    "agents.statistics.metrics.MetricsMiddleware",
    "openvibe.engines.serving.middleware.RequestIdMiddleware",
    "openvibe.engines.serving.hosts.HostMiddleware",
    "openvibe.engines.serving.middleware.MultipartCharsetMiddleware",
    "openvibe.engines.serving.proxy_headers.ProxyHeadersMiddleware",
    "django.middleware.security.SecurityMiddleware",
    "whitenoise.middleware.WhiteNoiseMiddleware",
    "openvibe.engines.serving.middleware.CompressionMiddleware",
    "openvibe.engines.serving.middleware.PathContentSecurityPolicyMiddleware",
    "openvibe.engines.serving.middleware.PrivateCacheMiddleware",
    "django.contrib.sessions.middleware.SessionMiddleware",
    "openvibe.engines.serving.middleware.SlashMiddleware",
    "django.middleware.common.CommonMiddleware",
    "django.middleware.csrf.CsrfViewMiddleware",
    "django.contrib.auth.middleware.AuthenticationMiddleware",
    "openvibe.workspaces.middleware.LastSeenMiddleware",
    "django.contrib.messages.middleware.MessageMiddleware",
    "django.middleware.clickjacking.XFrameOptionsMiddleware",
    "allauth.account.middleware.AccountMiddleware",
    "django_htmx.middleware.HtmxMiddleware",
    "openvibe.workspaces.middleware.TwoFactorMiddleware",
    "openvibe.engines.serving.wsgi_threads.WholeStreamMiddleware",
]
ROOT_URLCONF = "openvibe.urls"
WSGI_APPLICATION = "openvibe.wsgi.application"
TEMPLATES = [
    {
        "BACKEND": "django.template.backends.django.DjangoTemplates",
        "DIRS": [BASE_DIR / "templates"],
        "OPTIONS": {
            "loaders": [
                (
                    "django.template.loaders.cached.Loader",
                    [
                        "openvibe.engines.serving.template_loader.Loader",
                        "django.template.loaders.app_directories.Loader",
                    ],
                )
            ],
            "context_processors": [
                "django.template.context_processors.request",
                "django.contrib.auth.context_processors.auth",
                "django.contrib.messages.context_processors.messages",
                "openvibe.chat.web.shell.shell_context",
            ],
            "libraries": {
                "agents": "agents.web.filters",
                "conversation": "openvibe.chat.web.presenters",
                "fragments": "openvibe.engines.serving.fragments",
                "names": "openvibe.workspaces.web.names",
                "shell": "openvibe.chat.web.shell",
            },
        },
    }
]

DATABASES = {"default": database_settings(ENV.database_url, VAR)}
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
CACHES = {  # shared by all processes: rate limits of sign-in, one-time codes that were used
    "default": {"BACKEND": "openvibe.base.cache.SharedCache", "LOCATION": "base_cacheentry"}
}
CELERY_BROKER_URL = ENV.celery_broker_url or "pgmq://localhost"  # the database; openvibe/celery.py adds where it is
CELERY_BROKER_TRANSPORT_OPTIONS: dict[str, Any] = (
    {}
    if ENV.celery_broker_url
    else {
        "init_extension": False,
        "use_notify": True,
        "notify_throttle_interval_ms": 0,
        "wait_time_seconds": 0,  # PostgreSQL wakes the worker; it does not hold a query open
        "polling_interval": 2,
        "visibility_timeout": 1800,  # seconds until a dead worker's job is given to another
        "pool_size": 4,
        "pool_timeout": 1.0,  # seconds a worker waits for a database that is gone before it connects anew
    }
)
CELERY_BROKER_CONNECTION_RETRY_ON_STARTUP = True
CELERY_BROKER_CONNECTION_MAX_RETRIES = None  # for ever
CELERY_TASK_ACKS_LATE = True
CELERY_TASK_REJECT_ON_WORKER_LOST = True
CELERY_TASK_IGNORE_RESULT = True
# Agents' runs have a queue and a worker of their own: no background job delays an answer.
CELERY_TASK_DEFAULT_QUEUE = "background"
CELERY_TASK_QUEUES = tuple(Queue(name, routing_key=name) for name in ("runs", "background"))
CELERY_TASK_ROUTES = {"agents.carry_out_run": {"queue": "runs"}}
CELERY_WORKER_POOL = "threads"  # a run mostly waits, for the model or for the database
CELERY_TASK_SERIALIZER = "json"
CELERY_ACCEPT_CONTENT = ["json"]
CELERY_ENABLE_UTC = True
CELERY_TIMEZONE = "UTC"
CELERY_DB_REUSE_MAX = 1_000_000_000  # jobs; Django's own CONN_MAX_AGE decides (openvibe/celery.py)
CELERY_WORKER_PREFETCH_MULTIPLIER = 1
CELERY_WORKER_CONCURRENCY = ENV.worker_concurrency
CELERY_WORKER_HIJACK_ROOT_LOGGER = False
CELERY_WORKER_REDIRECT_STDOUTS = ENV.production  # else what is printed is for somebody at a terminal, such as an e-mail
CELERY_WORKER_CANCEL_LONG_RUNNING_TASKS_ON_CONNECTION_LOSS = True
CELERY_WORKER_ENABLE_REMOTE_CONTROL = bool(ENV.celery_broker_url)  # its queue names are too long for pgmq
CELERY_BEAT_SCHEDULER = "openvibe.engines.jobs.scheduler.Scheduler"
# Jobs that come again, with the seconds in between, until an admin chooses otherwise. Tasks are named as strings, as
# Celery wants them.
CELERY_BEAT_SCHEDULE: dict[str, Any] = {
    "sweep runs": {"task": "agents.sweep_runs", "schedule": 10.0},
    "start due schedules": {"task": "agents.start_due_schedules", "schedule": 10.0},
    "look at watched threads": {"task": "agents.start_due_looks", "schedule": 30.0},
    "sweep exports": {"task": "agents.sweep_exports", "schedule": 60.0},
    "thin snapshots": {"task": "agents.thin_snapshots", "schedule": 86_400.0},
    "erase entries": {"task": "agents.erase_entries", "schedule": 10.0},
    "sweep compactions": {"task": "memory.sweep_compactions", "schedule": 15.0},
    "forget episodes": {"task": "memory.forget_episodes", "schedule": 3_600.0},
    "lapse approvals": {"task": "memory.lapse_approvals", "schedule": 3_600.0},
    "review sessions": {"task": "memory.review_sessions", "schedule": 3_600.0},
    "embed messages": {"task": "chat.embed_messages", "schedule": 10.0},
    "erase texts": {"task": "chat.erase_texts", "schedule": 10.0},
    "sweep imports": {"task": "chat.sweep_imports", "schedule": 60.0},
    "store files": {"task": "chat.store_files", "schedule": 30.0},
    "send digests": {"task": "chat.send_digests", "schedule": 60.0},
    "send pushes": {"task": "chat.send_pushes", "schedule": 3.0},
    "forget pushes": {"task": "chat.forget_pushes", "schedule": 3_600.0},
    "send webhooks": {"task": "webhooks.send_due", "schedule": 3.0},
    "forget deliveries": {"task": "webhooks.forget_deliveries", "schedule": 86_400.0},
    "expire entries": {"task": "knowledge.expire_entries", "schedule": 60.0},
    "archive unused entries": {"task": "knowledge.archive_unused", "schedule": 86_400.0},
    "find contradictions": {"task": "knowledge.find_contradictions", "schedule": 60.0},
    "embed entries": {"task": "knowledge.embed_entries", "schedule": 10.0},
    "index texts": {"task": "search.backfill_lexemes", "schedule": 10.0},
    "settle vector spaces": {"task": "search.settle_spaces", "schedule": 10.0},
    "send mail": {"task": "base.send_mail", "schedule": 10.0},
    "analyze tables": {"task": "base.analyze_tables", "schedule": 60.0},
    "forget events": {"task": "base.forget_events", "schedule": 3_600.0},
    "forget sessions": {"task": "base.forget_sessions", "schedule": 3_600.0},
    "forget job results": {"task": "base.forget_job_runs", "schedule": 3_600.0},
    "forget idempotency keys": {"task": "api.forget_old_keys", "schedule": 3_600.0},
}

AUTH_USER_MODEL = "workspaces.User"
AUTHENTICATION_BACKENDS = ["allauth.account.auth_backends.AuthenticationBackend"]
AUTH_PASSWORD_VALIDATORS = [
    {"NAME": "django.contrib.auth.password_validation.UserAttributeSimilarityValidator"},
    {"NAME": "django.contrib.auth.password_validation.MinimumLengthValidator", "OPTIONS": {"min_length": 10}},
    {"NAME": "django.contrib.auth.password_validation.CommonPasswordValidator"},
]
ACCOUNT_ADAPTER = "openvibe.workspaces.web.adapters.AccountAdapter"
ACCOUNT_LOGIN_METHODS = {"email"}
ACCOUNT_SIGNUP_FIELDS = ["email*", "password1*"]
ACCOUNT_FORMS = {
    "add_email": "openvibe.workspaces.web.email_change.NewAddressForm",
    "login": "openvibe.workspaces.web.signin.LoginForm",
    "signup": "openvibe.workspaces.web.signup.SignupForm",
    "reset_password": "openvibe.workspaces.web.password_reset.RequestLinkForm",
    "reset_password_from_key": "openvibe.workspaces.web.password_reset.NewPasswordForm",
}
ACCOUNT_SIGNUP_FORM_CLASS = "openvibe.workspaces.web.adapters.SignupNameForm"
ACCOUNT_USER_MODEL_USERNAME_FIELD = None
ACCOUNT_EMAIL_VERIFICATION = "none"
ACCOUNT_EMAIL_SUBJECT_PREFIX = "OpenVibe: "
ACCOUNT_SESSION_REMEMBER = True
ACCOUNT_LOGOUT_ON_GET = False
ACCOUNT_PREVENT_ENUMERATION = True
ALLAUTH_TRUSTED_PROXY_COUNT = ENV.trusted_proxies
ACCOUNT_RATE_LIMITS = {
    "login": "120/m/ip",  # what one address may cost in hashes of passwords, right ones too
    "login_failed": "20/m/ip,5/5m/key",  # of unknown browsers; the key: address and account (`AccountAdapter`)
    "login_account": "50/h/key",  # of all unknown browsers at one account
    "login_known_browser": "10/5m/key",
    "invitation": "60/h/user",
    "connect_model": "60/h/user",  # each may ask a provider twice
    "test_model": "60/h/user",  # each may keep a thread of the web waiting for 45 seconds
    "list_models": "120/h/user",
    "reset_password": "20/m/ip,5/h/key",
    "signup_mail": "20/m/ip,5/h/key",
}
ACCOUNT_EMAIL_NOTIFICATIONS = bool(ENV.email_url)  # of changed passwords and factors
MFA_ADAPTER = "openvibe.workspaces.web.adapters.TwoFactorAdapter"
MFA_SUPPORTED_TYPES = ["totp", "webauthn", "recovery_codes"]
MFA_PASSKEY_LOGIN_ENABLED = True
MFA_ALLOW_UNVERIFIED_EMAIL = True  # accounts come by invitation, not by address
MFA_TOTP_ISSUER = "OpenVibe"
MFA_TOTP_TOLERANCE = 1  # of 30 seconds before and after, for clocks that differ
MFA_WEBAUTHN_ALLOW_INSECURE_ORIGIN = not ENV.production  # http://localhost
TWO_FACTOR_REQUIRED = ENV.two_factor_required
OIDC_URL = ENV.oidc_url
if ENV.production and OIDC_URL and not OIDC_URL.startswith("https://"):
    raise ImproperlyConfigured("OPENVIBE_OIDC_URL must start with https://: whoever stands between could be anybody.")
if OIDC_URL and not ENV.oidc_client_id:
    raise ImproperlyConfigured(
        "OPENVIBE_OIDC_CLIENT_ID is not set: what the provider at OPENVIBE_OIDC_URL knows OpenVibe as."
    )
SOCIALACCOUNT_ADAPTER = "openvibe.workspaces.oidc.SocialAccountAdapter"
SOCIALACCOUNT_LOGIN_ON_GET = True  # `openvibe.workspaces.oidc.login` says why
SOCIALACCOUNT_EMAIL_AUTHENTICATION = True  # only where the provider verified the address: the adapter decides
SOCIALACCOUNT_EMAIL_AUTHENTICATION_AUTO_CONNECT = True
SOCIALACCOUNT_PROVIDERS: dict[str, Any] = {
    "openid_connect": {
        "OAUTH_PKCE_ENABLED": True,
        "APPS": [
            {
                "provider_id": "sso",
                "name": ENV.oidc_name,
                "client_id": ENV.oidc_client_id,
                "secret": ENV.oidc_client_secret,
                "settings": {"server_url": ENV.oidc_url},
            }
        ]
        if ENV.oidc_url
        else [],
    }
}
LOGIN_URL = "account_login"
LOGIN_REDIRECT_URL = "/"
ACCOUNT_LOGOUT_REDIRECT_URL = "/accounts/login/"
OPEN_SIGNUP = ENV.open_signup

LANGUAGE_CODE = "en"
FORMAT_MODULE_PATH = "openvibe.formats"
TIME_ZONE = "UTC"
STATIC_URL = "/static/"
STATICFILES_DIRS = [BASE_DIR / "static"]
STATIC_ROOT = VAR / "static"
STORAGES = {
    "default": {"BACKEND": "django.core.files.storage.FileSystemStorage"},
    "staticfiles": {"BACKEND": "openvibe.engines.serving.static_files.StaticStorage"},
    **file_storage(ENV),
}
MAX_FILE_BYTES = ENV.max_file_mb * 1024**2
WHITENOISE_USE_FINDERS = True
PUBLIC_URL = public_url(ENV)
EMAIL_CONFIGURED = bool(ENV.email_url)
DIGEST_AFTER_MINUTES = ENV.digest_after_minutes
DEFAULT_FROM_EMAIL = ENV.from_email
globals().update(mail_settings(ENV.email_url))

# How the admin looks: django-unfold.
UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "OpenVibe",
    "SITE_HEADER": "OpenVibe",
    "SITE_SUBHEADER": "Administration",
    "SITE_URL": "/",
    "SITE_SYMBOL": "forum",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": lambda request: static("img/mark.svg")}],
    "SHOW_HISTORY": True,
    "SHOW_VIEW_ON_SITE": False,
    "STYLES": [
        lambda request: static("css/palette.css"),
        lambda request: static("css/charts.css"),
        lambda request: static("css/admin.css"),
    ],
    "DASHBOARD_CALLBACK": "openvibe.base.admin_site.dashboard",
    "SIDEBAR": {"show_search": False, "show_all_applications": False, "navigation": "openvibe.base.admin_site.sidebar"},
}

API_CALLS_PER_MINUTE = 600  # of one token, or of one member's browser pages together
REST_FRAMEWORK: dict[str, Any] = {
    "DEFAULT_AUTHENTICATION_CLASSES": [
        "openvibe.api.auth.BearerAuthentication",
        "openvibe.workspaces.api.auth.MemberSession",
    ],
    "DEFAULT_PERMISSION_CLASSES": ["openvibe.api.auth.HasScope"],
    "DEFAULT_THROTTLE_CLASSES": ["openvibe.api.throttles.CallerThrottle"],
    "DEFAULT_PARSER_CLASSES": ["openvibe.api.parsers.BoundedJSONParser"],
    "DEFAULT_RENDERER_CLASSES": ["rest_framework.renderers.JSONRenderer"],
    "DEFAULT_CONTENT_NEGOTIATION_CLASS": "openvibe.api.parsers.JsonContentNegotiation",
    "DEFAULT_PAGINATION_CLASS": "openvibe.api.pagination.KeysetPagination",
    "DEFAULT_SCHEMA_CLASS": "openvibe.api.schema.ApiSchema",
    "DEFAULT_METADATA_CLASS": None,
    "EXCEPTION_HANDLER": "openvibe.api.problems.exception_handler",
    "UNAUTHENTICATED_USER": None,
}
SPECTACULAR_SETTINGS: dict[str, Any] = {
    "TITLE": "OpenVibe",
    "DESCRIPTION": "The agents' API: what people and agents do here, for scripts and for agents that run elsewhere.",
    "VERSION": "1",
    "OAS_VERSION": "3.1.1",
    "SERVERS": [{"url": "/", "description": "The server that this description comes from."}],
    "SCHEMA_PATH_PREFIX": "/api/v1/",
    "SERVE_PERMISSIONS": ["rest_framework.permissions.AllowAny"],
    "COMPONENT_SPLIT_REQUEST": True,
    "COMPONENT_SPLIT_PATCH": False,
    "ENUM_NAME_OVERRIDES": {
        "AttachmentFormat": "openvibe.chat.models.Attachment.Format",
        "MessageKind": "openvibe.chat.models.Message.Kind",
        "AuditAction": "openvibe.base.models.AuditRecord.Action",
        "WebhookState": "openvibe.webhooks.models.Webhook.State",
        "DeliveryState": "openvibe.webhooks.models.Delivery.State",
        "EpisodeKind": "memory.models.Episode.Kind",
        "ParticipantKind": "openvibe.workspaces.models.Participant.Kind",
        "MessageState": "openvibe.chat.models.Message.State",
        "LevelEnum": "agents.models.Agent.Level",
        "NotificationLevel": "openvibe.workspaces.models.NotificationLevel",
        "RunState": "agents.models.Run.State",
        "ProposalKind": "memory.models.Proposal.Kind",
        "ProposalState": "memory.models.Proposal.State",
        "WorkKind": "memory.models.WorkItem.Kind",
        "WorkState": "memory.models.WorkItem.State",
        "ApprovalState": "memory.models.Approval.State",
        "PermissionState": "agents.models.Permission.State",
        "PlanStatus": "agents.models.AgentPlan.Status",
        "EntryKind": "knowledge.models.Entry.Kind",
        "EntryVisibility": "knowledge.models.Entry.Visibility",
        "EntryStatus": "knowledge.models.Entry.Status",
        "EntrySource": "knowledge.models.Entry.Source",
        "EntryReason": "knowledge.models.Entry.Reason",
        "EntryFreshness": "knowledge.expiry.FRESHNESS_STATES",
    },
    "POSTPROCESSING_HOOKS": [
        "drf_spectacular.hooks.postprocess_schema_enums",
        "openvibe.api.schema.add_problem_responses",
        "openvibe.api.descriptions.add_descriptions",
        "openvibe.api.examples.add_examples",
    ],
}

configure_structlog()
if ENV.production:
    log_uncaught_exceptions()
LOGGING: dict[str, Any] = {
    "version": 1,
    "disable_existing_loggers": False,
    "filters": {
        "not_routine": {
            "()": "django.utils.log.CallbackFilter",
            "callback": "ext://openvibe.engines.serving.logs.is_not_routine",
        }
    },
    "formatters": {"json": {"()": "openvibe.engines.serving.logs.json_formatter"}},
    "handlers": {"stderr": {"class": "logging.StreamHandler", "stream": sys.stderr, "formatter": "json"}},
    "root": {"handlers": ["stderr"], "level": ENV.log_level},
    "loggers": {
        "django.request": {"level": "ERROR"},
        # Celery tells three lines of each recurring job, some of which come every few seconds.
        "celery.beat": {"filters": ["not_routine"]},
        **{name: {"level": "WARNING"} for name in ("celery.app.trace", "celery.worker.strategy")},
        # httpx2 names each address it calls, and addresses of webhooks hold secrets
        **{name: {"level": "WARNING"} for name in ("httpx2", "kombu", "mcp", "pgmq")},
    },
}
