"""Sentences are shown and never read: code asks the fact.

The report once counted answered spot losses as failures, since it looked for the word "completed".
"""

from __future__ import annotations

import ast
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from ebbtide.model.check import Gate

PACKAGE = Path(__file__).parents[2] / "src" / "ebbtide"
MODULES = {
    str(path.relative_to(PACKAGE)): ast.parse(path.read_text("utf-8"))
    for path in sorted(PACKAGE.rglob("*.py"))
}
SCRIPTS = sorted((PACKAGE / "entrypoints" / "dashboard" / "static").glob("*.js"))
READS = re.compile(
    r"\.says\s*(\?\.|\.|===|!==|==|\[)|(exec|test|match|includes|startsWith)\([^)]*\.says\b|\bin\s+\w+\.says"
)
STORIES = "simulator/story/judge.py"
"""A story may say which words somebody must have read."""
ENTRIES_ARE_MADE_IN = {
    "narrate.py",
    "adapters/stores/sql/store.py",
    "adapters/stores/dynamodb/log.py",
}
"""By `entry_of`, and read back by the stores."""
TESTS = PACKAGE.parents[1] / "tests"
SENTENCE_IS_THE_SUBJECT = {
    "integration/kube/test_bad_access.py": "findings of the doctor",
    "integration/kube/test_sleep_policies.py": "findings of the doctor",
    "integration/test_ahead_in_words.py": "how the room for expected demand is named everywhere",
    "integration/test_doctor.py": "findings of the doctor",
    "unit/clouds/test_events.py": "the answer of a Lambda to an event that is too old",
    "unit/engine/test_loop_waits.py": "the reports of two ticks are joined",
    "unit/engine/test_observers_told.py": "the report of a tick repeats its alarms",
    "unit/engine/test_foresight.py": "how the room for expected demand is named",
    "unit/engine/test_small_changes.py": "the report of a tick does not say one thing twice",
    "unit/engine/test_single_run.py": "the report of a run that looked several times",
    "unit/engine/test_tick.py": "the sentence that a tick ends in",
    "unit/operations/test_part_sentences.py": "what is said of launches and removals",
    "unit/scaling/test_applying.py": "what is said of a policy that was applied",
    "unit/scaling/test_declaring.py": "what is reported on a Kubernetes object",
    "unit/scaling/test_eta.py": "when a target will be ready, as people read it",
    "unit/scaling/test_policy_checks.py": "errors in a policy",
    "unit/scaling/test_rounds.py": "the report of a round",
    "unit/scaling/test_scaling.py": "the report of a round that failed",
    "unit/scaling/test_small_changes.py": "errors in a policy, and the report of a round",
    "unit/scaling/test_step_sentences.py": "what steps of a policy say",
    "unit/test_check_sentences.py": "what checks and decisions say",
    "unit/test_doctor_names.py": "findings of the doctor",
    "unit/test_drain.py": "a refusal names the pod and the setting that would allow it",
    "unit/test_fit_sentences.py": "what is said of a pod that does not fit",
    "unit/test_narrate.py": "what facts say",
    "unit/test_refused_offers.py": "a check names the offer that is skipped",
    "unit/test_pending_pod.py": "why a pod is pending, as people read it, in one test",
}
"""Tests that may read sentences, and what they look at. All others ask for the data."""
REASONS = {"reason", "why", "abort_reason"}
"""Sentences that stand next to a cause. The same names also hold causes, so only words tell them apart."""
REASON_IS_THE_SUBJECT = {
    "integration/api/test_hold.py": "what a held request is answered",
    "integration/kube/test_event_ticks.py": "which decision a tick of a whole daemon made",
    "oracle/draining.py": "the oracle compares its own rulings",
    "unit/consolidation/test_log.py": "the reason in the log, as the documents give it",
    "unit/consolidation/test_scenarios.py": "the reason in the log, as the documents give it",
    "unit/operations/test_abort_sentences.py": "what is said of a scale-down that is given up",
    "unit/operations/test_consolidate.py": "a pod that left by itself has no cause but this",
    "unit/operations/test_consolidate_abort.py": "what is said of a consolidation that is given up",
    "unit/operations/test_part_sentences.py": "what is said of launches and removals",
    "unit/operations/test_removals_end.py": "what the cloud said is kept for people",
    "unit/packing/test_pack.py": "why a pod is left out of a plan, as people read it",
    "unit/test_adopting.py": "why a machine cannot be adopted, as people read it",
    "unit/test_check_sentences.py": "what checks and decisions say",
    "unit/test_consolidating.py": "a decision repeats the check that failed",
    "unit/test_decide_down.py": "a decision repeats the check that failed",
    "unit/test_decide_up.py": "a decision repeats the check that failed, and names each pool",
    "unit/test_unclaimed.py": "a decision says which command takes nodes over",
    "unit/test_underused.py": "a decision says what its nodes have in common",
}
"""Tests that may compare such sentences, and why. All others ask for the cause."""
WORDS = REASONS | {"detail", "problem", "message", "left_alone", "rule_held", "last_said"}
"""What may hold a sentence. Code may ask whether there is one, and show it."""
CUTS = {
    "startswith",
    "endswith",
    "split",
    "partition",
    "rpartition",
    "removeprefix",
    "removesuffix",
    "find",
    "index",
    "count",
}
WORDS_OF_OTHERS = {
    "adapters/kube/access.py": "the error of a parser on one line",
    "adapters/kube/dump.py": "how the JSON parser says that a file ends too early",
    "adapters/kube/connection.py": "causes that the API server tells in words, and how a connection broke",
    "adapters/kube/writer.py": "causes that the API server tells by its words",
    "adapters/prometheus/asking.py": "how a connection broke",
    "adapters/stores/sql/engine.py": "causes that SQLite tells by its words alone",
    "config/prices.py": "the error of a parser on one line",
    "simulator/backtest/sweep.py": "the first sentence of what Ray says",
}
"""Code that reads what another program says, since nothing else tells it."""
NO_SENTENCES = {"unit/kube/test_access.py", "unit/kube/test_reading.py"}
"""A server of tests answers what its `says` names."""


TEXT_IS_THE_PRODUCT = {
    "contract/stores/test_db_command.py": "what `ebbtide db` prints",
    "simulation/test_budget_windows.py": "a tick names the budget that keeps every worker",
    "stories/test_backtests.py": "what `ebbtide backtest` prints",
    "stories/test_command.py": "what `ebbtide simulate` prints",
    "stories/test_forecasts.py": "what `ebbtide forecast` prints",
    "stories/test_recording_files.py": "what `ebbtide record` prints",
    "stories/test_tuning.py": "what `ebbtide tune` prints",
    "stories/test_wrong_stories.py": "an error in a story names its line",
    "unit/rows/test_row_48_tick_interval.py": "a template of CloudFormation",
    "unit/scaling/test_declared.py": "why a target is awake, in the status of its Kubernetes object",
    "unit/scaling/test_wake_answers.py": "the message of the answer to a wake",
    "unit/test_assess_prices.py": "the basis of a price, as `ebbtide assess` shows it",
    "unit/test_budget_lines.py": "a budget as `ebbtide status` shows it",
    "unit/test_config_adapters.py": "errors in the configuration",
    "unit/test_config_budgets.py": "a value of the configuration as `ebbtide config show` shows it",
    "unit/test_config_headroom.py": "errors in the configuration",
    "unit/test_config_pools.py": "errors in the configuration",
    "unit/test_config_prices.py": "errors in a price file",
    "unit/test_config_replacing.py": "errors in the configuration",
    "unit/test_config_sources.py": "where `ebbtide config show` says that a value comes from",
    "unit/test_config_values.py": "errors in the configuration",
    "unit/test_extras.py": "the command that adds an extra",
    "unit/test_headline.py": "the headline of the page Now",
    "unit/test_profiles.py": "where `ebbtide config show` says that a value comes from",
    "unit/test_refusal_sentences.py": "why a node is kept, as people read it; other tests ask for the cause",
    "unit/test_repacking.py": "what `ebbtide consolidate` prints",
    "unit/test_words.py": "how times, durations and lists are written",
}
"""Tests of what a person or a program gets to read: there is nothing behind the text to compare."""
AREAS = {
    "contract": "nothing",
    "oracle": "nothing",
    "simulation": "nothing",
    "stories": "what the log of a story says of faults and of policies",
    "unit": "how budgets and headroom are described, why the daemon is not ready, and notes of a recording",
    "unit/consolidation": "nothing",
    "unit/engine": "what `ebbtide resume` answers",
    "unit/operations": "nothing",
    "unit/rows": "why the load is not known",
    "unit/scaling": "what a round says of a failure, and calls in the words of a fake",
}
"""Where rules, engine, stores and simulator are tested, and what sentences are still compared there."""
MOST_SENTENCES = {
    "contract": 0,
    "oracle": 0,
    "simulation": 0,
    "stories": 7,
    "unit": 14,
    "unit/consolidation": 0,
    "unit/engine": 4,
    "unit/operations": 0,
    "unit/rows": 1,
    "unit/scaling": 6,
}
"""At most so many in each area, without the files above whose subject they are. Lower a number with each that
goes: none may be raised. Tests of the command line, pages and API are not counted: there the text is the
product."""


def is_sentence(node: ast.AST) -> bool:
    return isinstance(node, ast.Attribute) and node.attr == "says"


def holds_sentence(node: ast.AST) -> bool:
    """Also as one value of several: `(check.passed, check.says)`."""
    return is_sentence(node) or (isinstance(node, ast.Tuple) and any(map(is_sentence, node.elts)))


def readers(tree: ast.AST) -> Iterator[int]:
    """Lines that look into a sentence: compare, search, cut or measure it."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare() if any(map(holds_sentence, [node.left, *node.comparators])):
                yield node.lineno
            case ast.Attribute() | ast.Subscript() if is_sentence(node.value):
                yield node.lineno
            case ast.For() | ast.comprehension() if is_sentence(node.iter):
                yield node.iter.lineno
            case ast.Match() if is_sentence(node.subject):
                yield node.lineno
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"))) if any(map(is_sentence, node.args)):
                yield node.lineno
            case ast.Call(func=ast.Name(id="len" | "sorted" | "set")) if any(map(is_sentence, node.args)):
                yield node.lineno


def reason_readers(tree: ast.AST) -> Iterator[int]:
    """Lines that compare the sentence next to a cause with words."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare():
                sides = [node.left, *node.comparators]
                if any(map(holds_reason, sides)) and any(map(is_wordy, sides)):
                    yield node.lineno
            case ast.Call(func=ast.Attribute(attr="startswith" | "endswith", value=value)):
                if holds_reason(value) and any(map(is_wordy, node.args)):
                    yield node.lineno


def holds_reason(node: ast.AST) -> bool:
    match node:
        case ast.Attribute():
            return node.attr in REASONS
        case ast.Tuple() | ast.List() | ast.Set():
            return any(map(holds_reason, node.elts))
        case ast.ListComp() | ast.SetComp() | ast.GeneratorExp():
            return holds_reason(node.elt)
        case ast.DictComp():
            return holds_reason(node.value)
    return False


def is_wordy(node: ast.AST) -> bool:
    """Whether it holds a text of three words or more."""
    match node:
        case ast.Constant(value=str(text)):
            return len(text.split()) > 2
        case ast.JoinedStr():
            parts = (part.value if isinstance(part, ast.Constant) else "x" for part in node.values)
            return len("".join(map(str, parts)).split()) > 2
        case ast.Tuple() | ast.List() | ast.Set():
            return any(map(is_wordy, node.elts))
        case ast.Dict():
            return any(map(is_wordy, node.values))
    return False


def exact_sentences(tree: ast.AST, names: frozenset[str] = frozenset()) -> Iterator[int]:
    """Lines that compare a text of three words or more with what they got, by `==`, `!=`, `in` or `not in`.
    The names of checks are stable, so comparing them compares no sentence."""
    for node in ast.walk(tree):
        if isinstance(node, ast.Compare) and all(
            isinstance(op, ast.Eq | ast.NotEq | ast.In | ast.NotIn) for op in node.ops
        ):
            texts = [text for side in (node.left, *node.comparators) for text in texts_in(side)]
            if any(is_wordy(text) and getattr(text, "value", None) not in names for text in texts):
                yield node.lineno


def texts_in(node: ast.AST) -> Iterator[ast.AST]:
    match node:
        case ast.Constant() | ast.JoinedStr():
            yield node
        case ast.Tuple() | ast.List() | ast.Set():
            for each in node.elts:
                yield from texts_in(each)
        case ast.Dict():
            for each in node.values:
                yield from texts_in(each)


def names_of_checks() -> frozenset[str]:
    """What is given to a check as its name."""
    return frozenset(
        text.value
        for tree in MODULES.values()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "Check"
        for text in node.args[:1]
        if isinstance(text, ast.Constant) and isinstance(text.value, str)
    ) | set(Gate)


def area_of(name: str) -> str:
    folder, _, _ = name.rpartition("/")
    parts = folder.split("/")
    found = "/".join(parts[:2]) if parts[0] == "unit" else parts[0]
    return found if found in AREAS or found.startswith("unit/") else parts[0]


def word_readers(tree: ast.AST) -> Iterator[int]:
    """Lines of the code that compare what may be a sentence with a literal, or cut it."""
    for node in ast.walk(tree):
        match node:
            case ast.Compare():
                sides = [node.left, *node.comparators]
                if any(map(may_say, sides)) and any(map(is_text, sides)):
                    yield node.lineno
            case ast.Call(func=ast.Attribute(attr=name, value=value)) if name in CUTS and may_say(value):
                yield node.lineno
            case ast.Call(func=ast.Attribute(value=ast.Name(id="re"))) if any(map(may_say, node.args)):
                yield node.lineno


def may_say(node: ast.AST) -> bool:
    """An attribute that holds words, or an error as text."""
    match node:
        case ast.Attribute():
            return node.attr in WORDS
        case ast.Call(func=ast.Name(id="str"), args=[ast.Name(id=name)]):
            return name in {"error", "cause", "origin"}
        case ast.Tuple() | ast.List() | ast.Set():
            return any(map(may_say, node.elts))
    return False


def is_text(node: ast.AST) -> bool:
    """A text that is not empty: to ask whether there is a sentence reads none."""
    match node:
        case ast.Constant(value=str(text)):
            return text != ""
        case ast.JoinedStr():
            return True
        case ast.Name():
            return node.id.isupper()
        case ast.Tuple() | ast.List() | ast.Set():
            return any(map(is_text, node.elts))
    return False


def id_readers(tree: ast.AST) -> Iterator[int]:
    """Lines that ask what an id of an operation begins or ends with."""
    for node in ast.walk(tree):
        match node:
            case ast.Call(func=ast.Attribute(attr="startswith" | "endswith" | "removeprefix", value=value)):
                name = value.attr if isinstance(value, ast.Attribute) else getattr(value, "id", "")
                if name in {"id", "operation_id", "decision_id"}:
                    yield node.lineno


def test_no_module_reads_a_sentence_or_the_beginning_of_an_id() -> None:
    found = [
        f"{name}:{line}"
        for name, tree in MODULES.items()
        if name != STORIES
        for line in (*readers(tree), *id_readers(tree))
    ]
    assert found == []
    assert list(readers(MODULES[STORIES])), "it need not be excused any more"


def test_no_module_decides_by_words() -> None:
    """What another program says may be all there is; what we say never is."""
    found = {name for name, tree in MODULES.items() if list(word_readers(tree))}
    assert found - {STORIES} == set(WORDS_OF_OTHERS)


@pytest.mark.parametrize(
    "code",
    [
        "'may not go' in removal.reason",
        "state.left_alone == 'the policy is paused'",
        "outcome.detail.startswith('no capacity')",
        "str(error).partition(' Next: ')",
        "'no such table' in str(error)",
        "re.search('quota', outcome.detail)",
        "(a, reading.problem) == (1, 'it was not read')",
        "SEVERAL_BUDGETS in status.message",
    ],
)
def test_code_that_decides_by_words_is_found(code: str) -> None:
    assert list(word_readers(ast.parse(code)))


@pytest.mark.parametrize(
    "code", ["outcome.detail == ''", "why = state.left_alone", "after.reason == before.reason", "str(error)"]
)
def test_asking_whether_there_are_words_reads_none(code: str) -> None:
    assert not list(word_readers(ast.parse(code)))


def test_tests_ask_for_data_unless_the_sentence_is_their_subject() -> None:
    """Rules and state machines are tested by what they decide: better words must not break their tests."""
    found = {
        str(path.relative_to(TESTS))
        for path in TESTS.rglob("*.py")
        if list(readers(ast.parse(path.read_text("utf-8"))))
    }
    assert found - NO_SENTENCES == set(SENTENCE_IS_THE_SUBJECT)


def test_tests_ask_for_the_cause_unless_its_words_are_their_subject() -> None:
    found = {
        str(path.relative_to(TESTS))
        for path in TESTS.rglob("*.py")
        if list(reason_readers(ast.parse(path.read_text("utf-8"))))
    }
    assert found <= set(REASON_IS_THE_SUBJECT), "ask for the cause: `why`, `cause` or `abort_cause`"
    assert found == set(REASON_IS_THE_SUBJECT), "it need not be excused any more"


def test_fewer_sentences_are_compared_where_rules_are_tested() -> None:
    excused = set(SENTENCE_IS_THE_SUBJECT) | set(REASON_IS_THE_SUBJECT) | set(TEXT_IS_THE_PRODUCT)
    names, found = names_of_checks(), Counter[str]()
    for path in TESTS.rglob("*.py"):
        name = str(path.relative_to(TESTS))
        if area_of(name) in AREAS and name not in excused:
            found[area_of(name)] += len(list(exact_sentences(ast.parse(path.read_text("utf-8")), names)))
    assert {area: count for area, count in found.items() if count > MOST_SENTENCES[area]} == {}


@pytest.mark.parametrize("name", TEXT_IS_THE_PRODUCT)
def test_a_test_whose_product_is_text_compares_text(name: str) -> None:
    assert list(exact_sentences(ast.parse((TESTS / name).read_text("utf-8")))), (
        "it need not be excused any more"
    )


@pytest.mark.parametrize(
    ("code", "found"),
    [
        ("said == 'the policy is paused'", 1),
        ("f'pool {name} is paused' in said", 1),
        ("found == [('a1', 'it was not there')]", 1),
        ("check.name == 'no pod pending'", 0),
        ("(check.name, check.passed) == ('a node can go', False)", 0),
        ("found == ['small in']", 0),
        ("why.cause is PolicyCause.PAUSED", 0),
    ],
)
def test_an_exact_sentence_has_three_words_and_is_no_name_of_a_check(code: str, found: int) -> None:
    assert len(list(exact_sentences(ast.parse(code), names_of_checks()))) == found


@pytest.mark.parametrize(
    "code",
    [
        "after.reason == 'no node 10 min after launch'",
        "(after.state, after.why) == (GONE, 'it was not there')",
        "'may not go' in after.abort_reason",
        "[each.reason for each in refusals] == ['it was cordoned by someone else']",
        "{r.name: r.reason for r in refusals} == {'a1': f'its pool {pool} is not configured'}",
        "after.reason.startswith('a1 cannot go')",
    ],
)
def test_a_comparison_of_a_reason_is_found(code: str) -> None:
    assert list(reason_readers(ast.parse(code)))


@pytest.mark.parametrize(
    "code", ["after.reason == ''", "judgement.reason is DrainReason.BARE", "after.why == Gate.ZONE_KEPT"]
)
def test_asking_for_a_cause_is_no_comparison_of_words(code: str) -> None:
    assert not list(reason_readers(ast.parse(code)))


@pytest.mark.parametrize("path", SCRIPTS, ids=[path.name for path in SCRIPTS])
def test_no_page_reads_a_sentence(path: Path) -> None:
    assert [line for line in path.read_text().splitlines() if READS.search(line)] == []


@pytest.mark.parametrize(
    "code",
    [
        "'completed' in entry.says",
        "entry.says == 'x'",
        "(entry.id, entry.says) == (1, 'x')",
        "entry.says.startswith('x')",
        "entry.says[0]",
        "re.search('x', entry.says)",
        "len(entry.says)",
        "[word for word in entry.says]",
    ],
)
def test_code_that_reads_a_sentence_is_found(code: str) -> None:
    assert list(readers(ast.parse(code)))
    assert list(id_readers(ast.parse("operation_id.startswith('spot:')")))


@pytest.mark.parametrize(
    "code", ["f'{entry.says}'", "show(entry.says)", "entry.says or 'nothing'", "x = e.says"]
)
def test_showing_a_sentence_is_not_reading_it(code: str) -> None:
    assert not list(readers(ast.parse(code)))


def test_entries_are_made_from_facts_alone() -> None:
    """So none is without data, and none has a sentence of its own."""
    made = {
        name
        for name, tree in MODULES.items()
        for node in ast.walk(tree)
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Name) and node.func.id == "LogEntry"
    }
    assert made == ENTRIES_ARE_MADE_IN
