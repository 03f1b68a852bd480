"""A hundred pairs of entries as a team writes them, made without a look at what the rule finds: by kind, 50 that
contradict each other, and 50 that only look like it."""

Text = tuple[str, str]
"""Topic and content."""

CONTRADICT: dict[str, list[tuple[Text, Text]]] = {
    "amounts": [
        (
            ("Pricing", "The Team plan is $18 per seat per month, billed yearly."),
            ("Plans", "Team plan: $15 per seat per month, billed yearly."),
        ),
        (("Overages", "Extra storage costs €2 per GB."), ("Storage add-on", "Extra storage costs €3 per GB.")),
        (
            ("Learning budget", "Everybody has a learning budget of 1,500 EUR a year. Ask your lead before you book."),
            ("Training", "The learning budget is 2,000 EUR per person and year."),
        ),
        (("Referral bonus", "Whoever refers a hire gets $1,000."), ("Referrals", "The referral bonus is $2,500.")),
        (
            ("Hotel limits", "Hotels: up to 140 € a night in Germany"),
            ("Travel policy", "## Hotels\nHotels in Germany may cost up to 120 € a night."),
        ),
        (
            ("Purchases", "Purchases above $500 need the approval of a director."),
            ("Purchases", "Purchases above $1,000 need approval by a director."),
        ),
    ],
    "shares": [
        (
            ("Annual discount", "Paying annually saves 15 %."),
            ("Annual discount", "Customers who pay annually save 20%."),
        ),
        (("SLO", "Our availability target is 99.9%."), ("Availability", "The availability target is 99.95 %.")),
        (
            ("Commission", "Resellers keep a commission of 25 percent."),
            ("Reseller programme", "The commission for resellers is 30 %."),
        ),
    ],
    "lengths of time": [
        (("Trial", "The free trial lasts 14 days."), ("Trials", "Our free trial is 21 days long.")),
        (
            ("Support", "Priority tickets get a first response within 2 hours."),
            ("Support SLA", "First response to priority tickets: 4 hours"),
        ),
        (
            ("Notice", "The notice period is three months for everyone."),
            ("Contracts", "Our contracts have a notice period of 4 weeks."),
        ),
        (
            ("Logs", "Application logs are retained for 30 days, then deleted."),
            ("Log retention", "We retain application logs for 90 days."),
        ),
        (("Tokens", "Access tokens expire after 1 hour."), ("API tokens", "An access token expires after 15 minutes.")),
        (
            ("Probation", "Probation lasts six months."),
            ("Onboarding", "- Laptop on the first day\n- Probation lasts three months\n- A buddy for the first month"),
        ),
    ],
    "dates": [
        (
            ("Offsite", "The summer offsite is on 18 June 2026 in Porto."),
            ("Offsite", "The summer offsite takes place on June 25, 2026."),
        ),
        (
            ("API v1", "API v1 will be shut down on 2026-09-30."),
            ("Deprecations", "API v1 is going to be shut down on 31 December 2026."),
        ),
        (
            ("Audit", "The SOC 2 audit starts in October."),
            ("SOC 2", "Our SOC 2 audit starts in November, with Moss & Partners."),
        ),
        (("Fiscal year", "Our fiscal year begins in April."), ("Finance", "The fiscal year begins in January.")),
        (
            ("Release train", "Releases go out every Tuesday."),
            ("Release train", "We release on Thursdays. Releases go out every Thursday after standup."),
        ),
        (("Beta", "The public beta opens in Q2 2026."), ("Roadmap", "The public beta opens in Q3 2026.")),
    ],
    "times of day": [
        (("Standup", "Daily standup is at 9:15."), ("Meetings", "The daily standup is at 9:45.")),
        (
            ("Maintenance", "The maintenance window begins at 02:00 UTC on Sundays."),
            ("Maintenance window", "Maintenance window: Sundays, begins at 04:00 UTC"),
        ),
        (
            ("Support hours", "Phone support is open until 6 pm."),
            ("Phone support", "Phone support is open until 8 pm."),
        ),
    ],
    "numbers": [
        (
            ("Rate limits", "Each key may send 120 requests a minute."),
            ("API", "Each key may send 60 requests a minute."),
        ),
        (("Reviews", "A pull request needs two approvals."), ("Code review", "Every pull request needs one approval.")),
        (("Attachments", "Attachments are limited to 20 MB."), ("Uploads", "Attachments: the limit is 50 MB")),
        (("Vacation", "Everyone gets 28 days of vacation."), ("Holidays", "Everyone has 30 days of holiday a year.")),
        (("Runtime", "Production runs on Python 3.11."), ("Python", "In production we run Python 3.12.")),
        (
            ("Regions", "| Region | Replicas |\n|---|---|\n| Frankfurt | 3 |\n| Oregon | 2 |"),
            ("Replicas", "The Frankfurt region has 5 replicas."),
        ),
        (("Interviews", "Candidates have four interviews."), ("Hiring", "Each candidate has 3 interviews.")),
        (("Free plan", "The free plan is limited to 5 members."), ("Plans", "The free plan is limited to 10 members.")),
    ],
    "negation": [
        (
            ("Force pushes", "Force pushes to main are forbidden."),
            ("Git", "Force pushes to main are allowed for maintainers."),
        ),
        (("Refunds", "Setup fees are refundable."), ("Refunds", "Setup fees are not refundable.")),
        (("Dogs", "Dogs are welcome in the office."), ("Office dogs", "Dogs are not welcome in the office.")),
        (("SAML", "SAML is included in the Business plan."), ("SAML", "The Business plan does not include SAML.")),
        (
            ("Customer data", "Support may open customer workspaces without asking."),
            ("Privacy", "Support may not open customer workspaces without asking first."),
        ),
        (("Telemetry", "Telemetry is off by default."), ("Telemetry", "Telemetry is enabled by default.")),
        (("Contractors", "Contractors cannot access production."), ("Access", "Contractors can access production.")),
        (("IE", "Internet Explorer is unsupported."), ("Browsers", "Internet Explorer is supported.")),
        (("Feature flags", "Old flags are never deleted."), ("Flags", "Old flags are deleted after the rollout.")),
        (("Cameras", "Cameras are mandatory in customer calls."), ("Calls", "Cameras are optional in customer calls.")),
    ],
    "replacement": [
        (
            ("Error tracking", "We replaced Bugsnag with Sentry in spring."),
            ("Errors", "Errors of the app are reported to Bugsnag."),
        ),
        (("Chat", "We no longer use Slack for support."), ("Support chat", "We use Slack for support.")),
        (("CI", "Builds moved from Jenkins to GitHub Actions."), ("Builds", "Builds run on Jenkins.")),
        (
            ("Payroll", "Payroll is done with Deel instead of Gusto."),
            ("Payroll", "Payroll runs through Gusto on the 25th."),
        ),
    ],
    "words": [
        (("Billing", "Ana owns the billing service."), ("Service owners", "The billing service is owned by Ben.")),
        (("Hosting", "The marketing site is hosted on Netlify."), ("Website", "The marketing site runs on Vercel.")),
        (("Design", "Designs live in Figma."), ("Design files", "Designs are kept in Sketch.")),
        (("Office", "The Lisbon office is near the station."), ("Lisbon", "The Lisbon office is at the airport.")),
    ],
}

ONLY_LOOK_SO: dict[str, list[tuple[Text, Text]]] = {
    "other subjects": [
        (("Pricing", "The Team plan is $18 per seat."), ("Pricing", "The Business plan is $32 per seat.")),
        (("Hotel limits", "Hotels in Germany: up to 140 €"), ("Hotel limits", "Hotels in France: up to 160 €")),
        (("Notice", "The notice period is 3 months."), ("Probation", "In probation the notice period is 2 weeks.")),
        (("Tokens", "Access tokens expire after 1 hour."), ("Tokens", "Refresh tokens expire after 30 days.")),
        (("Databases", "orders-db has 4 replicas."), ("Databases", "users-db has 2 replicas.")),
        (("Standup", "The backend standup is at 9:15."), ("Standup", "The design standup is at 10:00.")),
        (("Uploads", "Avatars are limited to 2 MB."), ("Uploads", "Attachments are limited to 20 MB.")),
        (("Offices", "The Lisbon office seats 40 people."), ("Offices", "The Porto office seats 25 people.")),
        (("Referrals", "The referral bonus is $2,500."), ("Bonuses", "The signing bonus is $5,000.")),
        (
            ("Limits", "Each key may send 120 requests a minute."),
            ("Limits", "Each webhook may send 20 events a minute."),
        ),
        (("Python", "The worker runs on Python 3.12."), ("Python", "The notebook image runs on Python 3.11.")),
        (("Ana", "Ana works from 8:00 to 16:00."), ("Ben", "Ben works from 10:00 to 18:00.")),
        (("SLA", "| Plan | Uptime |\n|---|---|\n| Team | 99.5 % |"), ("SLA", "Business has an uptime of 99.9 %.")),
        (
            ("Vendors", "The contract with Hetzner ends on 31 May."),
            ("Vendors", "The contract with AWS ends on 30 June."),
        ),
        (("Alerts", "Disk alerts fire at 80 %."), ("Alerts", "Memory alerts fire at 90 %.")),
    ],
    "other times": [
        (("Revenue", "Revenue was $1.2M in Q1."), ("Revenue", "Revenue was $1.5M in Q2.")),
        (("Offsite 2025", "The offsite of 2025 cost €18,000."), ("Offsite 2026", "The offsite of 2026 cost €24,000.")),
        (("Users", "In January we had 900 weekly users."), ("Users", "In May we had 1,300 weekly users.")),
        (("Outage", "The outage of 3 March lasted 40 minutes."), ("Outage", "The outage of 9 April lasted 2 hours.")),
        (("Retro", "In sprint 41 we finished 22 points."), ("Retro", "In sprint 42 we finished 31 points.")),
        (("Prices", "Until 2025 the Team plan was $12."), ("Prices", "The Team plan is $18.")),
        (("Board", "The board met on 12 May with 5 members."), ("Board", "The board met on 8 June with 6 members.")),
        (("NPS", "Our NPS was 41 in the spring survey."), ("NPS", "Our NPS was 47 in the autumn survey.")),
        (("Release 4.1", "Release 4.1 shipped on 3 May."), ("Release 4.2", "Release 4.2 shipped on 1 June.")),
    ],
    "the same in other words": [
        (("Trial", "The free trial lasts two weeks."), ("Trial", "Our free trial is 14 days long.")),
        (("Standup", "Standup is at 9:30."), ("Standup", "Standup is at 9:30 am.")),
        (("Pricing", "Team costs $18 a month."), ("Pricing", "Team costs 18 USD per month.")),
        (("Storage", "Backups take 1,000 GB."), ("Storage", "Backups take 1 TB.")),
        (("Flag", "The new editor is enabled."), ("Flag", "The new editor is not disabled.")),
        (("Launch", "We launch on 12 March 2026."), ("Launch", "The launch is in March 2026.")),
        (("Response", "We answer within 24 hours."), ("Response", "We answer within one day.")),
        (("Latency", "A search takes about 48 ms."), ("Latency", "A search takes 50 ms.")),
        (("Budget", "The budget is $120k."), ("Budget", "The budget is $120,000.")),
    ],
    "more detail": [
        (("Team plan", "The Team plan is $18."), ("Team plan", "The Team plan is $18, has 20 seats and 100 GB.")),
        (
            ("Deploys", "We deploy on Tuesdays."),
            ("Deploys", "We deploy on Tuesdays at 14:00. A rollback takes 5 minutes."),
        ),
        (
            ("Passwords", "Passwords have at least 12 characters."),
            ("Passwords", "Passwords have at most 128 characters."),
        ),
        (("Retries", "Webhooks are retried 5 times."), ("Retries", "Webhooks are retried after 10 seconds.")),
        (("Vacation", "Everyone gets 28 days of vacation."), ("Vacation", "Vacation is requested 2 weeks ahead.")),
        (("Hiring", "Candidates have four interviews."), ("Hiring", "Candidates hear from us within 3 days.")),
        (("On-call", "On-call lasts one week."), ("On-call", "On-call pays 300 € and begins on Mondays.")),
    ],
    "negation of something else": [
        (("SAML", "SAML is included in the Business plan."), ("SAML", "SAML is not included in the Team plan.")),
        (("Git", "Force pushes to main are forbidden."), ("Git", "Force pushes to your own branch are allowed.")),
        (("Access", "Contractors cannot access production."), ("Access", "Contractors can access staging.")),
        (("Data", "We do not sell customer data."), ("Data", "We back up customer data every night.")),
        (("Guests", "Guests cannot create channels."), ("Members", "Members can create channels.")),
        (("Refunds", "No refunds after 30 days."), ("Refunds", "Refunds within 30 days are granted.")),
        (("Mail", "Do not send passwords by mail."), ("Mail", "Send invoices by mail.")),
    ],
    "replacement that agrees": [
        (("CI", "Builds moved from Jenkins to GitHub Actions."), ("CI", "Builds run on GitHub Actions.")),
        (("Chat", "We no longer use Slack for support."), ("Chat", "We use Slack with two partners.")),
        (("Errors", "We replaced Bugsnag with Sentry."), ("Errors", "Errors are reported to Sentry, not to Bugsnag.")),
    ],
}
