"""What the docs tell a reader to type is there: commands and options, make targets, modules, keys."""

from __future__ import annotations

import re
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path

import pytest

from ebbtide.config.document import parse_document
from ebbtide.config.load import build_config
from ebbtide.config.pools import PoolKeys
from ebbtide.config.problems import leaf_fields, path_text
from ebbtide.simulator.run.scenarios import SCENARIOS
from scripts.cli_reference import commands

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    page for page in (*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")) if page.name != "CHANGELOG.md"
)
BLOCK = re.compile(r"^```(\w*)\n(.*?)^```", re.DOTALL | re.MULTILINE)
INLINE = re.compile(r"`([^`\n]+)`")
COMMANDS = dict(commands())
TARGETS = set(re.findall(r"^([a-z-]+):", (ROOT / "Makefile").read_text(), re.MULTILINE))
EVERYWHERE = {"--config", "-c", "--debug", "--help", "-h", "--version"}


def typed(text: str) -> Iterator[list[str]]:
    """Each call that the page shows, as words; what is optional in it counts as well."""
    blocks = [body for language, body in BLOCK.findall(text) if language in ("", "sh", "console")]
    lines = [line for body in blocks for line in body.replace("\\\n", " ").splitlines()]
    for line in [*lines, *INLINE.findall(BLOCK.sub("", text))]:
        for part in re.split(r"\||&&|;|\s#", line.strip().removeprefix("$ ")):
            words = [word.strip("[]'\"") for word in part.split()]
            while words and ("=" in words[0] or words[0] == "nice"):
                words.pop(0)
            if words:
                yield [words[0].rpartition("/")[2], *words[1:]]


def wrong_with(words: list[str]) -> str:
    match words:
        case ["ebbtide", *rest] if rest:
            return wrong_with_command(rest)
        case ["make", target, *_] if re.fullmatch(r"[a-z-]+", target) and target not in TARGETS:
            return f"there is no make {target}"
        case ["python", "-m", module, *_] if module.startswith(("tests.", "bench.", "scripts.", "ebbtide.")):
            return "" if find_spec(module) else f"there is no module {module}"
    return ""


def wrong_with_command(rest: list[str]) -> str:
    while rest and rest[0] in ("-c", "--config"):
        rest = rest[2:]
    plain = [word for word in rest if not word.startswith("-")]
    found = next((COMMANDS[tuple(plain[:n])] for n in (2, 1) if tuple(plain[:n]) in COMMANDS), None)
    if found is None:
        group = plain and any(words[0] == plain[0] for words in COMMANDS)
        known = group or not plain or plain[0].isupper() or plain[0] == "..."
        return "" if known else f"there is no ebbtide {plain[0]}"
    options = EVERYWHERE | {name for each in found.params for name in (*each.opts, *each.secondary_opts)}
    given = [word.partition("=")[0] for word in rest if re.match(r"--?[a-z]", word)]
    return next((f"{plain[0]} has no {option}" for option in given if option not in options), "")


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_what_a_page_tells_to_type_is_there(page: Path) -> None:
    found = [(" ".join(words), wrong_with(words)) for words in typed(page.read_text())]
    assert [f"{line}: {wrong}" for line, wrong in found if wrong] == []


def test_such_lines_are_found_at_all() -> None:
    text = "```console\n$ ebbtide consolidat --dry-run\n```\n`make tost` and `ebbtide plan --jsn | cat`"
    assert [wrong_with(words) for words in typed(text)] == [
        "there is no ebbtide consolidat",
        "there is no make tost",
        "plan has no --jsn",
        "",
    ]


HOW_TO = [
    (page, body)
    for page in sorted((ROOT / "docs" / "how-to").glob("*.md"))
    for language, body in BLOCK.findall(page.read_text())
    if language == "yaml" and "cluster:" in body
]


@pytest.mark.parametrize(("page", "body"), HOW_TO, ids=[page.name for page, _ in HOW_TO])
def test_the_configuration_of_a_how_to_is_accepted(page: Path, body: str) -> None:
    config = build_config(parse_document(body, page.name), {"HCLOUD_TOKEN": "a" * 64})
    assert config.settings.cluster == "shop"


def test_the_readme_names_every_scenario() -> None:
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    (named,) = re.findall(r"The scenarios are ([^.]+)\.", text)
    assert re.findall(r"`([^`]+)`", named) == list(SCENARIOS)


LINK = re.compile(r"\]\(([^)#\s]+)(?:#[^)]*)?\)")
LINKING = [*PAGES, ROOT / "CHANGELOG.md", ROOT / "deploy/helm/ebbtide/README.md"]


@pytest.mark.parametrize("page", LINKING, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_of_a_page_leads_somewhere(page: Path) -> None:
    targets = [target for target in LINK.findall(page.read_text()) if "://" not in target]
    assert [target for target in targets if not (page.parent / target).exists()] == []


@pytest.mark.parametrize("page", LINKING, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_link_of_a_page_leads_to_what_the_site_has(page: Path) -> None:
    """The site is built of copies: a link to a file that is not copied works in a clone, and is an error for
    `make docs`."""
    recipe = re.search(r"cp --parents -r (.+) build/pages", (ROOT / "Makefile").read_text())
    assert recipe is not None
    copied = {found.resolve() for words in recipe[1].split() for found in ROOT.glob(words)}
    targets = [target for target in LINK.findall(page.read_text()) if target and "://" not in target]
    resolved = {target: (page.parent / target).resolve() for target in targets}
    assert [target for target, path in resolved.items() if not copied & {path, *path.parents}] == []


ANCHOR = re.compile(r"\]\(([^)#\s]*)#([^)\s]+)\)")
HEADING = re.compile(r"^#+ +(.+?) *$", re.MULTILINE)


def slugs(page: Path) -> set[str]:
    """The anchors of a page, as the site and GitHub both make them of its headings."""
    text = BLOCK.sub("", page.read_text())
    plain = (re.sub(r"\[([^]]*)\]\([^)]*\)", r"\1", heading) for heading in HEADING.findall(text))
    return {re.sub(r"[^\w\- ]", "", heading.lower()).strip().replace(" ", "-") for heading in plain}


@pytest.mark.parametrize("page", LINKING, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_anchor_of_a_link_is_a_heading_there(page: Path) -> None:
    found = [(target, anchor) for target, anchor in ANCHOR.findall(page.read_text()) if "://" not in target]
    places = [((page.parent / target) if target else page, anchor) for target, anchor in found]
    assert [anchor for place, anchor in places if place.suffix == ".md" and anchor not in slugs(place)] == []


def test_every_page_of_the_docs_is_in_the_navigation_of_the_site_and_in_the_list_of_pages() -> None:
    """`make docs` builds the site and is an error for a link that leads nowhere, but needs its tools. This
    needs nothing, so a page that nobody finds is noticed with every change."""
    pages = {page.relative_to(ROOT).as_posix() for page in (ROOT / "docs").rglob("*.md")}
    named = re.findall(r"(?:- |: )([\w./-]+\.md)$", (ROOT / "mkdocs.yml").read_text(), re.MULTILINE)
    assert [name for name in named if not (ROOT / name).exists()] == []
    assert sorted(pages - set(named)) == []
    listed = set(LINK.findall((ROOT / "docs/README.md").read_text()))
    assert sorted(name for name in pages - {"docs/README.md"} if name[len("docs/") :] not in listed) == []


def test_the_settings_named_next_to_those_of_other_autoscalers_are_there() -> None:
    known = {key for path, _ in leaf_fields() for key in (path_text(path), path[-1])}
    known |= set(PoolKeys.model_fields) | {"pools", "budgets"}
    rows = [
        line for line in (ROOT / "docs/migrating.md").read_text().splitlines() if line.startswith("| `--")
    ]
    named = [key for row in rows for key in re.findall(r"`([a-z_.]+)(?::[^`]*)?`", row.split("|")[3])]
    assert len(named) > 12
    assert [key for key in named if key not in known] == []


NAMED_TEST = re.compile(r"`(?:tests/[\w/]*/)?(test_\w+?)(?:\.py)?(?:\[[^`]*\])?`")
NAMED_FILE = re.compile(r"`((?:tests|bench|scripts)/[\w/*.-]+\.(?:py|yaml))`")


@pytest.fixture(scope="module")
def tests_there() -> set[str]:
    """Test functions, and files of tests without their ending."""
    files = list((ROOT / "tests").rglob("*.py"))
    defined = re.compile(r"^ *(?:async )?def (test_\w+)", re.MULTILINE)
    functions = (defined.findall(file.read_text()) for file in files)
    return {file.stem for file in files} | {name for names in functions for name in names}


@pytest.mark.parametrize("page", LINKING, ids=lambda page: page.relative_to(ROOT).as_posix())
def test_every_test_that_a_page_names_is_there(page: Path, tests_there: set[str]) -> None:
    text = page.read_text()
    assert sorted(set(NAMED_TEST.findall(text)) - tests_there) == []
    assert [name for name in NAMED_FILE.findall(text) if not list(ROOT.glob(name))] == []
