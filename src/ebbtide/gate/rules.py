"""Which requests wake. Pure; each rule answers with a reason, or nothing where it has no objection."""

from __future__ import annotations

from ebbtide.gate.limits import is_in, may_wake
from ebbtide.gate.request import Request
from ebbtide.model.gate import Gate, HttpRules, NeverWake

KNOWN_PATHS = (
    # Probes, and what browsers and crawlers fetch by themselves.
    "/healthz",
    "/livez",
    "/readyz",
    "/health",
    "/metrics",
    "/favicon.ico",
    "/robots.txt",
    "/sitemap.xml",
    "/apple-touch-icon*",
    # Scanners.
    "/.env*",
    "/.git/*",
    "/.aws/*",
    "/wp-login.php",
    "/wp-admin/*",
    "/xmlrpc.php",
    "/phpmyadmin*",
    "/cgi-bin/*",
)
KNOWN_AGENTS = (
    # Probes and monitors.
    "kube-probe",
    "googlehc",
    "elb-healthchecker",
    "prometheus/",
    "uptimerobot",
    "uptime-kuma",
    "pingdom",
    "statuscake",
    "blackbox-exporter",
    # Crawlers and scanners.
    "bot/",
    "bot;",
    "-bot",
    "googlebot",
    "bingpreview",
    "crawler",
    "spider",
    "slurp",
    "facebookexternalhit",
    "censys",
    "zgrab",
    "masscan",
    "nmap",
    "nuclei",
    "nikto",
    "expanse",
)


def why_not_wake(gate: Gate, request: Request, source: str) -> str:
    """Why this request wakes nobody; nothing where it wakes."""
    return (
        _never(gate.http.never_wake, request)
        or _no_header(gate.http, request)
        or ("" if may_wake(gate, source) else "this address may not wake it")
    )


def source_of(rules: HttpRules, request: Request, peer: str) -> str:
    """Whom the request comes from: the last address of `X-Forwarded-For` that is no trusted proxy. What
    stands before it was written by the client itself."""
    if not is_in(rules.trusted_proxies, peer):
        return peer
    source = peer
    for address in reversed(request.headers.get("x-forwarded-for", "").split(",")):
        if not address.strip():
            break
        source = address.strip()
        if not is_in(rules.trusted_proxies, source):
            break
    return source


def is_a_browser(request: Request) -> bool:
    """Somebody who looks at a page, and not its scripts, images or sockets."""
    if request.method != "GET" or "upgrade" in request.headers:
        return False
    if request.headers.get("sec-fetch-mode", "navigate") != "navigate":
        return False
    return "text/html" in request.headers.get("accept", "").lower()


def _never(rules: NeverWake, request: Request) -> str:
    if any(_host_matches(host, request.host) for host in rules.hosts):
        return "requests for this host do not wake it"
    known = rules.known
    paths = (*rules.paths, *KNOWN_PATHS) if known else rules.paths
    if any(_path_matches(path, request.path) for path in paths):
        return "requests for this path do not wake it"
    if f"{request.method} {request.path}" in rules.requests:
        return "this kind of request does not wake it"
    agent = request.headers.get("user-agent", "").lower()
    agents = (*(each.lower() for each in rules.agents), *(KNOWN_AGENTS if known else ()))
    if any(each in agent for each in agents):
        return "requests of this user agent do not wake it"
    return ""


def _no_header(rules: HttpRules, request: Request) -> str:
    wanted = rules.wake_header
    if wanted is None:
        return ""
    found = request.headers.get(wanted.name.lower())
    if found is None or (wanted.value and found.strip() != wanted.value):
        return f"only requests with the right {wanted.name} header wake it"
    return ""


def _host_matches(rule: str, host: str) -> bool:
    return host.endswith(rule[1:].lower()) if rule.startswith("*.") else host == rule.lower()


def _path_matches(rule: str, path: str) -> bool:
    return path.startswith(rule[:-1]) if rule.endswith("*") else path == rule
