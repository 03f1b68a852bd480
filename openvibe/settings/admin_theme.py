"""How the admin looks and what stands in its sidebar: the settings of django-unfold. Functions are named as strings."""

from typing import Any

UNFOLD: dict[str, Any] = {
    "SITE_TITLE": "OpenVibe",
    "SITE_HEADER": "OpenVibe",
    "SITE_SUBHEADER": "Administration",
    "SITE_URL": "/",
    "SITE_SYMBOL": "forum",
    "SITE_FAVICONS": [{"rel": "icon", "type": "image/svg+xml", "href": "openvibe.base.admin.favicon"}],
    "SHOW_HISTORY": True,
    "SHOW_VIEW_ON_SITE": False,
    "STYLES": ["openvibe.base.admin.admin_stylesheet"],
    "DASHBOARD_CALLBACK": "openvibe.base.admin.dashboard",
    "COLORS": {
        "primary": {  # indigo-violet, the platform's accent
            "50": "oklch(96.5% .016 285)",
            "100": "oklch(93.5% .03 285)",
            "200": "oklch(88% .06 285)",
            "300": "oklch(79% .11 285)",
            "400": "oklch(71% .15 285)",
            "500": "oklch(60% .2 284)",
            "600": "oklch(53% .22 283)",
            "700": "oklch(46% .2 282)",
            "800": "oklch(40% .17 282)",
            "900": "oklch(34% .14 283)",
            "950": "oklch(25% .1 283)",
        }
    },
    "SIDEBAR": {"show_search": False, "show_all_applications": False, "navigation": "openvibe.base.admin.sidebar"},
}
