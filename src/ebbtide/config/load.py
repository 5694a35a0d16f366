"""From file and environment to checked values, each with where it came from; and policies in files of their
own, for `ebbtide policy apply`. Reads only.

The environment wins over the file, the file over the defaults. All problems are reported at once.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError
from pydantic.fields import FieldInfo

from ebbtide.config.adapters import AdapterSections
from ebbtide.config.api import ApiKeys
from ebbtide.config.checks import check, check_policies
from ebbtide.config.document import Read, parse_documents, read_document, with_environment
from ebbtide.config.policies import PolicyKeys
from ebbtide.config.prices import price_file_of, read_book
from ebbtide.config.problems import ConfigProblem, KeyPath, leaf_fields, mask, path_text, problems_in
from ebbtide.config.profiles import with_profile
from ebbtide.config.scale_to_zero import GateKeys
from ebbtide.config.schema import Document
from ebbtide.config.section import Section
from ebbtide.core.nodes import headroom
from ebbtide.core.nodes.drain import described
from ebbtide.core.packing.pack import installed_packer
from ebbtide.core.prices import CATALOGUE, PriceBook, book_of_pools
from ebbtide.core.words import a_while
from ebbtide.errors import ConfigError
from ebbtide.model.policy import ZeroDefaults
from ebbtide.model.pool import Pool
from ebbtide.model.settings import Packer, Settings
from ebbtide.redact import keep_password_of

FILE_NAME = "ebbtide.yaml"
FILE_VARIABLE = "EBBTIDE_CONFIG"
LENGTH = 16
AWS = {"image", "launch_template", "security_groups", "instance_profile", "key_name"}
HETZNER = {"image", "networks", "ssh_keys", "firewalls", "public_ipv4"}


SIMULATED_POOL = Pool(
    name="workers",
    types=tuple(replace(CATALOGUE[name], price=None) for name in ("cpx22", "cpx32")),
    zones=("zone-a", "zone-b", "zone-c"),
)
"""Stands in where a simulated cluster is given no pool, so a first try needs no file."""


@dataclass(frozen=True, slots=True)
class Effective:
    """One key with the value that counts, and who said so."""

    key: str
    value: Any
    origin: str


@dataclass(frozen=True, slots=True)
class Config:
    settings: Settings
    cluster_kind: str
    cluster_file: str
    store_url: str
    state_table: str
    logs_table: str
    interval_seconds: int
    log_format: str
    source: str
    """The file that was read; empty where there is none."""
    effective: tuple[Effective, ...] = ()
    kubeconfig: str = ""
    context: str = ""
    metrics_addr: str = "off"
    api: ApiKeys = field(default_factory=ApiKeys)
    adapters: AdapterSections = field(default_factory=AdapterSections)
    prices: PriceBook = field(default_factory=PriceBook)
    """All that is known: the built-in list, the price file over it, the pools' own prices over both."""
    zero: ZeroDefaults = field(default_factory=ZeroDefaults)
    sleep_policies: bool = False
    sleep_annotations: bool = False
    gate: GateKeys = field(default_factory=GateKeys)
    policies: tuple[PolicyKeys, ...] = ()
    price_file_named: str = ""
    price_file: Path | None = None
    """The price file that was read."""


class ConfigProblems(ConfigError):
    """All that is wrong with a configuration, each with its line (0 where it has none in the file)."""

    def __init__(self, lines: Sequence[tuple[int, str]]) -> None:
        self.lines = tuple(lines)
        count = "1 problem" if len(lines) == 1 else f"{len(lines)} problems"
        text = "\n".join(f"  {line}" for _, line in lines)
        super().__init__(
            f"the configuration has {count}; nothing was touched.\n{text}\n"
            "Correct this and run `ebbtide config check`."
        )


def load(path: Path | None, environ: Mapping[str, str], with_prices: bool = True) -> Config:
    """`path` is what the user named; without it the variable, then the file in this folder, if any.

    Without prices, the price file need not be there: for who is about to write it.
    """
    named = path or (Path(environ[FILE_VARIABLE]) if environ.get(FILE_VARIABLE) else None)
    default = Path(FILE_NAME)
    read = Read()
    if named is not None or default.exists():
        read = read_document(named or default)
    return build_config(read, environ, with_prices)


def build_config(read: Read, environ: Mapping[str, str], with_prices: bool = True) -> Config:
    values, variables, found = with_environment(read.values, environ)
    values, from_profile = with_profile(values)
    try:
        document = Document.model_validate(values)
    except ValidationError as error:
        found.extend(problems_in(error))
        document = _without_wrong_keys(values, found)
    wrong = {problem.path[0] for problem in found if problem.path}
    found.extend(p for p in check(document) if not wrong.intersection((p.path[0], *p.others)))
    file = price_file_of(document.prices.file, read.name) if with_prices and "prices" not in wrong else None
    try:
        book = read_book(file)
    except ConfigError as error:
        found.append(ConfigProblem(("prices", "file"), str(error)))
    if found:
        raise ConfigProblems(sorted(_line(problem, read, variables) for problem in found))
    return _config(document, Origins(read, variables, from_profile), (file, book))


def _without_wrong_keys(values: Mapping[str, Any], found: Iterable[ConfigProblem]) -> Document:
    """What is left to check together once every wrong key is taken out."""
    wrong = {problem.path[0] for problem in found if problem.path}
    return Document.model_validate({key: value for key, value in values.items() if key not in wrong})


def _line(problem: ConfigProblem, read: Read, variables: Mapping[KeyPath, str]) -> tuple[int, str]:
    """Where it sorts, and what it says; variables come before the file."""
    path = problem.path
    for length in range(len(path), 0, -1):
        if variable := variables.get(path[:length]):
            rest = f", {path_text(path)}" if len(path) > length else ""
            return -1, f"environment variable {variable}{rest}: {problem.says}"
    place = read.place(path) if read.name else "defaults"
    return read.line(path), f"{place}, {path_text(path)}: {problem.says}"


@dataclass(frozen=True, slots=True)
class Origins:
    """Who said what: the file, the environment, the profile, or nobody."""

    read: Read
    variables: Mapping[KeyPath, str]
    from_profile: frozenset[tuple[str, ...]]

    def of(self, path: KeyPath, profile: str) -> str:
        if path in self.variables:
            return f"environment {self.variables[path]}"
        if path in self.read.lines:
            return f"file {self.read.place(path)}"
        return f"profile {profile}" if path in self.from_profile else "default"


def _config(document: Document, origins: Origins, prices: tuple[Path | None, PriceBook]) -> Config:
    own = tuple(pool.pool() for pool in document.pools)
    price_file, book = prices
    priced = (book.priced_pool(pool) for pool in own or (SIMULATED_POOL,))
    pools = tuple(replace(pool, launch_hash=launch_hash(pool, document)) for pool in priced)
    given: dict[str, Any] = {
        "cluster": document.cluster.name,
        "pools": pools,
        "budgets": tuple(budget.budget() for budget in document.budgets),
        "headroom": tuple(one.headroom() for one in document.headroom),
        "consolidation": document.consolidation.settings(),
        "forecast": document.forecast.settings(),
        "packer": _packer(document),
        "waking": (),
        "awake_min_workers": 0,
    }
    for one in fields(Settings):
        if one.name not in given:
            given[one.name] = getattr(document, key_of(one.name))
    return Config(
        settings=Settings(**given),
        cluster_kind=document.cluster.kind,
        cluster_file=document.cluster.file,
        store_url=document.store.url,
        state_table=document.state_table,
        logs_table=document.logs_table,
        interval_seconds=document.interval_sec,
        log_format=document.log_format,
        source=origins.read.name,
        effective=tuple(_effective(document, origins, pools)),
        kubeconfig=document.cluster.kubeconfig,
        context=document.cluster.context,
        metrics_addr=document.metrics_addr,
        api=document.api,
        zero=document.scale_to_zero.defaults(),
        sleep_policies=document.scale_to_zero.sleep_policies,
        sleep_annotations=document.scale_to_zero.sleep_annotations,
        gate=document.gate,
        policies=document.policies,
        adapters=document,
        prices=book.under(book_of_pools(own)),
        price_file_named=document.prices.file,
        price_file=price_file,
    )


def _packer(document: Document) -> Packer:
    """A real cluster gets the packer that is named, or an error at start-up; nothing depends on what a
    simulated one is packed with, so a first try needs no solver."""
    named = "packer" in document.model_fields_set
    return Packer(document.packer) if named or document.cluster.kind != "simulator" else installed_packer()


def key_of(field_name: str) -> str:
    """The key of a field of `Settings`: its unit is written shorter."""
    stem = field_name.removesuffix("_seconds")
    return field_name if stem == field_name else f"{stem}_sec"


def _effective(document: Document, origins: Origins, pools: tuple[Pool, ...]) -> list[Effective]:
    found = []
    for path, info in leaf_fields():
        value: Any = document
        for part in path:
            value = getattr(value, str(part))
        if isinstance(value, str):
            keep_password_of(value)
        if path == ("pools",):
            value = [_pool_line(pool) for pool in pools]
        if path == ("policies",):
            value = [policy.name for policy in document.policies]
        if path == ("headroom",):
            value = [headroom.described(one.headroom()) for one in document.headroom]
        if path == ("budgets",):
            value = [described(budget.budget()) for budget in document.budgets]
        origin = origins.of(path, document.profile)
        found.append(Effective(path_text(path), _masked(value, info), origin))
    return found


def _masked(value: Any, info: FieldInfo) -> Any:
    extra = info.json_schema_extra
    if value and isinstance(extra, dict) and extra.get("secret"):
        return "***"
    return mask(value) if isinstance(value, str) else value


def _pool_line(pool: Pool) -> str:
    types = ", ".join(node_type.name for node_type in pool.types)
    most = f"to {pool.max_workers}" if pool.max_workers is not None else "or more"
    limits = f"{pool.min_workers} {most}"
    limits += f"; weight {pool.weight}" if pool.weight else ""
    if pool.limits is not None and pool.limits.cpu_milli is not None:
        limits += f"; {pool.limits.cpu_milli}m CPU at most"
    if pool.limits is not None and pool.limits.memory_mib is not None:
        limits += f"; {pool.limits.memory_mib} MiB at most"
    budgets = "".join(f"; budget {described(budget)}" for budget in pool.budgets)
    expires = f"; expires after {a_while(pool.expire_seconds)}" if pool.expire_seconds else ""
    return f"{pool.name}: {types} in {', '.join(pool.zones)}; {pool.market}; {limits}{expires}{budgets}"


def launch_hash(pool: Pool, sections: AdapterSections) -> str:
    parts: dict[str, Any] = {
        "labels": pool.labels,
        "taints": [[taint.key, taint.value, taint.effect] for taint in pool.taints],
        "join": sections.join.model_dump(mode="json", exclude_defaults=True),
    }
    if sections.cloud.kind != "hetzner":
        parts["aws"] = sections.aws.model_dump(mode="json", include=AWS, exclude_defaults=True)
    if sections.cloud.kind != "aws":
        parts["hetzner"] = sections.hetzner.model_dump(mode="json", include=HETZNER, exclude_defaults=True)
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False)
    return hashlib.sha256(text.encode()).hexdigest()[:LENGTH]


HINT = "Correct it and run the command again."
AROUND = 2
"""Problems are found under `policies[3].name`; the first two parts are not in the file."""


class _PolicyFile(Section):
    policies: tuple[PolicyKeys, ...]


def read_policies(texts: Iterable[tuple[str, str]], pools: Sequence[str]) -> tuple[PolicyKeys, ...]:
    """Of texts, each with the name of its file. `ConfigError` with every problem of all of them."""
    documents = [read for name, text in texts for read in parse_documents(text, name, HINT)]
    if not documents:
        raise ConfigError(f"there is no policy in what was given; nothing was touched. {HINT}")
    try:
        found = _PolicyFile.model_validate({"policies": tuple(read.values for read in documents)}).policies
        problems = list(check_policies(found, pools))
    except ValidationError as error:
        problems = problems_in(error)
    if problems:
        count = "1 problem" if len(problems) == 1 else f"{len(problems)} problems"
        lines = "\n".join(f"  {_line_of_policy(problem, documents)}" for problem in problems)
        raise ConfigError(f"the policies have {count}; nothing was touched.\n{lines}\n{HINT}")
    return found


def _line_of_policy(problem: ConfigProblem, documents: Sequence[Read]) -> str:
    _, number, *rest = problem.path
    read, path = documents[int(number)], tuple(rest)
    line = read.line(path) or read.lines[()]
    where = f", {path_text(path)}" if path else ""
    return f"{read.name} line {line}{where}: {problem.says}"
