"""The keys of a gate that reads HTTP: which requests wake, and what browsers get."""

from __future__ import annotations

import re
from ipaddress import ip_network
from typing import Annotated

from pydantic import AfterValidator, Field

from ebbtide.config.section import Section
from ebbtide.model.gate import HttpRules, NeverWake, WakeHeader

DEFAULTS = NeverWake()
HOST = re.compile(r"(\*\.)?[a-z0-9]([a-z0-9.-]{0,251}[a-z0-9])?", re.IGNORECASE)
PATH = re.compile(r"/[^\s?#*]*\*?")
REQUEST = re.compile(r"[A-Z]+ /[^\s?#]*")
TOKEN = r"^[A-Za-z0-9!#$%&'*+.^_`|~-]+$"
PRINTABLE = r"^[\x21-\x7e]([\x20-\x7e]*[\x21-\x7e])?$|^$"
MOST_RULES = 100


def _network(text: str) -> str:
    try:
        return str(ip_network(text))
    except ValueError:
        raise ValueError("no network; allowed: a CIDR such as 10.0.0.0/8") from None


def _host(text: str) -> str:
    if not HOST.fullmatch(text):
        raise ValueError(
            "not a host; allowed: a name such as shop.example.com, or *.example.com, without a port"
        )
    return text.lower()


def _path(text: str) -> str:
    if not PATH.fullmatch(text):
        raise ValueError("no path; allowed: /exact, or /beginning* with one * at the end; no query")
    return text


def _request(text: str) -> str:
    if not REQUEST.fullmatch(text):
        raise ValueError("no request; allowed: METHOD /path, such as HEAD /")
    return text


Network = Annotated[str, AfterValidator(_network)]
Host = Annotated[str, Field(max_length=255), AfterValidator(_host)]
Path = Annotated[str, Field(max_length=1000), AfterValidator(_path)]
Request = Annotated[str, Field(max_length=1000), AfterValidator(_request)]
Agent = Annotated[str, Field(min_length=2, max_length=100)]


class NeverWakeKeys(Section):
    known: bool = Field(
        DEFAULTS.known, description="Also probes, scanners and crawlers known to this version (docs/gate.md)."
    )
    hosts: tuple[Host, ...] = Field(
        (), max_length=MOST_RULES, strict=False, description="Hosts: exact, or `*.example.com`."
    )
    paths: tuple[Path, ...] = Field(
        (),
        max_length=MOST_RULES,
        strict=False,
        description="Paths: exact, or a beginning that ends with `*`.",
    )
    agents: tuple[Agent, ...] = Field(
        (),
        max_length=MOST_RULES,
        strict=False,
        description="Parts of the user agent; upper and lower case are the same.",
    )
    requests: tuple[Request, ...] = Field(
        DEFAULTS.requests, max_length=MOST_RULES, strict=False, description="Method and exact path."
    )


class WakeHeaderKeys(Section):
    name: str = Field(pattern=TOKEN, max_length=100, description="Name of the header.")
    value: str = Field("", pattern=PRINTABLE, max_length=1000, description="Its exact value. Default: any.")


class HttpKeys(Section):
    waiting_page: bool = Field(
        False, description="Whether browsers get a page that reloads by itself, instead of being held."
    )
    never_wake: NeverWakeKeys = Field(
        NeverWakeKeys(),
        description="Requests that do not wake it.",
        json_schema_extra={"allowed": "see below"},
    )
    wake_header: WakeHeaderKeys | None = Field(
        None, description="A header that a request needs to wake.", json_schema_extra={"allowed": "see below"}
    )
    trusted_proxies: tuple[Network, ...] = Field(
        (), max_length=50, strict=False, description="Networks whose X-Forwarded-For header is trusted."
    )

    def rules(self) -> HttpRules:
        never, header = self.never_wake, self.wake_header
        return HttpRules(
            waiting_page=self.waiting_page,
            never_wake=NeverWake(never.known, never.hosts, never.paths, never.agents, never.requests),
            wake_header=WakeHeader(header.name, header.value) if header is not None else None,
            trusted_proxies=self.trusted_proxies,
        )


def http_keys_of(rules: HttpRules) -> HttpKeys:
    """Rules as they would be written."""
    never, header = rules.never_wake, rules.wake_header
    return HttpKeys(
        waiting_page=rules.waiting_page,
        never_wake=NeverWakeKeys(
            known=never.known,
            hosts=never.hosts,
            paths=never.paths,
            agents=never.agents,
            requests=never.requests,
        ),
        wake_header=WakeHeaderKeys(name=header.name, value=header.value) if header is not None else None,
        trusted_proxies=rules.trusted_proxies,
    )
