"""What the Lambda's template allows, and that it fits the code next to it."""

from __future__ import annotations

import re
from typing import Any

import pytest
import yaml

from ebbtide.adapters.clouds import identity
from ebbtide.adapters.clouds.aws import Ec2Settings, run_request
from ebbtide.adapters.clouds.notices import EventKind, read_event
from ebbtide.adapters.stores.dynamodb import tables
from ebbtide.entrypoints import aws_lambda
from ebbtide.model.effect import Launch
from ebbtide.model.operation import Slot
from scripts.plain_cloudformation import TARGET, plain_template
from tests.servers import aws_events
from tests.unit.clouds.cloudformation import Request, allows, read_template, statements_of

EC2 = "arn:aws:ec2:eu-central-1:123456789012"
INSTANCE = f"{EC2}:instance/i-0abc"
OWN, OTHER = "shop", "bank"
FUNCTION = statements_of("FunctionRole")


def tagged(kind: str, cluster: str) -> dict[str, str]:
    return {f"aws:{kind}Tag/{identity.CLUSTER}": cluster}


def launch_context(cluster: str = OWN, **overrides: str) -> dict[str, str]:
    metadata = {"ec2:MetadataHttpTokens": "required", "ec2:MetadataHttpPutResponseHopLimit": "1"}
    return {**tagged("Request", cluster), **metadata, **overrides}


def test_an_instance_with_the_tag_of_the_cluster_may_be_terminated() -> None:
    assert allows(FUNCTION, Request("ec2:TerminateInstances", INSTANCE, tagged("Resource", OWN)))


@pytest.mark.parametrize("context", [{}, tagged("Resource", OTHER), tagged("Request", OWN)])
def test_an_instance_without_the_tag_of_the_cluster_may_not_be_terminated(context: dict[str, str]) -> None:
    assert not allows(FUNCTION, Request("ec2:TerminateInstances", INSTANCE, context))


def test_the_denial_holds_even_next_to_a_policy_that_allows_everything() -> None:
    everything = [*FUNCTION, {"Effect": "Allow", "Action": "*", "Resource": "*"}]
    assert not allows(everything, Request("ec2:TerminateInstances", INSTANCE, {}))
    assert not allows(everything, Request("ec2:TerminateInstances", INSTANCE, tagged("Resource", OTHER)))


def test_an_instance_is_launched_only_with_the_tag_and_with_safe_metadata() -> None:
    def may(context: dict[str, str]) -> bool:
        return allows(FUNCTION, Request("ec2:RunInstances", INSTANCE, context))

    assert may(launch_context())
    assert not may(launch_context(OTHER))
    assert not may({**launch_context(), "ec2:MetadataHttpTokens": "optional"})
    assert not may({**launch_context(), "ec2:MetadataHttpPutResponseHopLimit": "2"})


PARTS = ("subnet/subnet-1", "security-group/sg-1", "key-pair/ssh", "launch-template/lt-1")


@pytest.mark.parametrize(
    "resource", ["arn:aws:ec2:eu-central-1::image/ami-1", *(f"{EC2}:{part}" for part in PARTS)]
)
def test_an_instance_is_launched_only_from_parts_that_carry_the_tag(resource: str) -> None:
    assert allows(FUNCTION, Request("ec2:RunInstances", resource, tagged("Resource", OWN)))
    for context in ({}, tagged("Resource", OTHER), launch_context()):
        assert not allows(FUNCTION, Request("ec2:RunInstances", resource, context))


def test_the_function_runs_once_at_a_time() -> None:
    assert read_template()["Resources"]["Tick"]["Properties"]["ReservedConcurrentExecutions"] == 1


def test_tags_are_given_only_while_launching() -> None:
    context = {**tagged("Request", OWN), "ec2:CreateAction": "RunInstances"}
    assert allows(FUNCTION, Request("ec2:CreateTags", INSTANCE, context))
    assert not allows(FUNCTION, Request("ec2:CreateTags", INSTANCE, tagged("Request", OWN)))


@pytest.mark.parametrize("action", ["ec2:StopInstances", "iam:CreateRole", "ec2:DeleteTags", "s3:GetObject"])
def test_nothing_else_is_allowed(action: str) -> None:
    assert not allows(FUNCTION, Request(action, INSTANCE, {**launch_context(), **tagged("Resource", OWN)}))


def test_only_describing_is_allowed_on_everything() -> None:
    anywhere = [s for s in FUNCTION if s["Resource"] == "*" and s["Effect"] == "Allow"]
    assert [action.split(":")[1][:8] for s in anywhere for action in s["Action"]] == ["Describe"] * 2


def test_the_function_cannot_read_the_join_token_and_a_node_can_read_nothing_else() -> None:
    token = "arn:aws:ssm:eu-central-1:123456789012:parameter/ebbtide/shop/join-token"
    kubeconfig = "arn:aws:ssm:eu-central-1:123456789012:parameter/ebbtide/shop/kubeconfig"
    node = statements_of("NodeRole")
    assert not allows(FUNCTION, Request("ssm:GetParameter", token))
    assert allows(FUNCTION, Request("ssm:GetParameter", kubeconfig))
    assert allows(node, Request("ssm:GetParameter", token))
    assert not allows(node, Request("ssm:GetParameter", kubeconfig))
    assert not allows(node, Request("ec2:TerminateInstances", INSTANCE, tagged("Resource", OWN)))


def test_what_the_adapter_asks_of_ec2_meets_the_conditions_of_the_policy() -> None:
    slot = Slot("op-0", "general", "eu-central-1a", "m7i.large")
    request = run_request(Launch(slot, "op"), Ec2Settings(OWN, (), image="ami-1"))
    metadata = request["MetadataOptions"]
    for specification in request["TagSpecifications"]:
        tags = {f"aws:RequestTag/{tag['Key']}": tag["Value"] for tag in specification["Tags"]}
        context = {
            **tags,
            "ec2:MetadataHttpTokens": metadata["HttpTokens"],
            "ec2:MetadataHttpPutResponseHopLimit": str(metadata["HttpPutResponseHopLimit"]),
        }
        resource = f"{EC2}:{specification['ResourceType']}/x-1"
        assert allows(FUNCTION, Request("ec2:RunInstances", resource, context))


@pytest.mark.parametrize(
    ("name", "spec"),
    [
        ("StateTable", tables._state_spec("x")),
        ("LogsTable", tables._logs_spec("x")),
        ("PoliciesTable", tables._policies_spec("x")),
    ],
)
def test_the_tables_are_those_that_the_store_makes(name: str, spec: dict[str, Any]) -> None:
    made = read_template()["Resources"][name]["Properties"]
    for key in ("AttributeDefinitions", "KeySchema", "LocalSecondaryIndexes"):
        assert made.get(key) == spec.get(key)
    assert made["TimeToLiveSpecification"]["AttributeName"] == tables.TTL_ATTRIBUTE
    assert made["PointInTimeRecoverySpecification"] == {"PointInTimeRecoveryEnabled": True}


def test_the_table_of_policies_has_the_name_by_which_the_store_finds_it() -> None:
    made = read_template()["Resources"]["PoliciesTable"]["Properties"]
    assert made["TableName"] == tables.Tables(state="<StateTable>").policies


def test_the_handler_of_the_template_is_there() -> None:
    module, _, function = read_template()["Resources"]["Tick"]["Properties"]["Handler"].rpartition(".")
    assert module == aws_lambda.__name__
    assert callable(getattr(aws_lambda, function))


def test_every_rule_of_the_template_matches_an_event_that_is_understood() -> None:
    now = 1_800_000_000
    events = [
        aws_events.interruption(now),
        aws_events.rebalance(now),
        aws_events.state_change(now),
        aws_events.maintenance(now),
    ]
    rules = read_template()["Resources"]["Tick"]["Properties"]["Events"].values()
    patterns = [rule["Properties"]["Pattern"] for rule in rules if rule["Type"] == "EventBridgeRule"]
    assert len(patterns) == len(events)
    for event in events:
        assert read_event(event, now).kind is not EventKind.FOREIGN
        assert sum(_matches(pattern, event) for pattern in patterns) == 1


def test_what_cannot_be_delivered_or_fails_ends_in_the_dead_letter_queue() -> None:
    resources = read_template()["Resources"]
    tick, queue = resources["Tick"]["Properties"], "<DeadLetters.Arn>"
    rules = [rule["Properties"] for rule in tick["Events"].values() if rule["Type"] == "EventBridgeRule"]
    assert [rule["DeadLetterConfig"]["Arn"] for rule in rules] == [queue] * len(rules)
    assert tick["EventInvokeConfig"]["DestinationConfig"]["OnFailure"]["Destination"] == queue
    assert allows(FUNCTION, Request("sqs:SendMessage", queue))
    (policy,) = [r["Properties"] for r in resources.values() if r["Type"] == "AWS::SQS::QueuePolicy"]
    (statement,) = policy["PolicyDocument"]["Statement"]
    assert policy["Queues"] == ["<DeadLetters>"]
    assert (statement["Principal"], statement["Action"]) == (
        {"Service": "events.amazonaws.com"},
        "sqs:SendMessage",
    )
    source = statement["Condition"]["ArnLike"]["aws:SourceArn"]
    assert source == "arn:aws:events:eu-central-1:123456789012:rule/*", "only rules of this account"


def _matches(pattern: dict[str, Any], event: dict[str, Any]) -> bool:
    return all(
        _matches(wanted, event[key]) if isinstance(wanted, dict) else event.get(key) in wanted
        for key, wanted in pattern.items()
    )


def test_every_alarm_tells_somebody_and_watches_the_function_or_its_queue() -> None:
    resources = read_template()["Resources"]
    alarms = {name: r["Properties"] for name, r in resources.items() if r["Type"] == "AWS::CloudWatch::Alarm"}
    assert set(alarms) == {"Failing", "NotTicking", "LettersArrive"}
    for alarm in alarms.values():
        assert alarm["AlarmActions"] == alarm["OKActions"] == ["<AlarmTopic>"]
        assert alarm["Dimensions"][0]["Value"] in ("<Tick>", "<DeadLetters.QueueName>")
    assert alarms["NotTicking"]["TreatMissingData"] == "breaching", "a function that is gone sends no metric"
    assert resources["AlarmMail"]["Properties"]["TopicArn"] == "<AlarmTopic>"


def test_the_lines_of_the_function_are_kept_for_a_limited_time() -> None:
    resources = read_template()["Resources"]
    assert resources["Tick"]["Properties"]["LoggingConfig"] == {"LogGroup": "<TickLogs>"}
    assert resources["TickLogs"]["Properties"]["RetentionInDays"] == "<LogRetentionDays>"


def test_endpoints_and_the_spot_role_are_made_only_where_they_are_asked_for() -> None:
    resources = read_template()["Resources"]
    endpoints = {n: r for n, r in resources.items() if r["Type"] == "AWS::EC2::VPCEndpoint"}
    services = {r["Properties"]["ServiceName"].rpartition(".")[2] for r in endpoints.values()}
    assert services == {"dynamodb", "ec2", "ssm"}
    assert {r["Condition"] for r in endpoints.values()} == {"HasEndpoints"}
    assert resources["SpotRole"]["Condition"] == "MakesSpotRole"


def test_the_plain_template_is_made_from_that_of_sam() -> None:
    assert TARGET.read_text() == plain_template(), "run make reference"
    plain, source = yaml.safe_load(plain_template()), read_template()
    kinds = [r["Type"] for r in plain["Resources"].values()]
    assert "Transform" not in plain
    assert not [kind for kind in kinds if "Serverless" in kind]
    events = source["Resources"]["Tick"]["Properties"]["Events"]
    assert kinds.count("AWS::Events::Rule") == kinds.count("AWS::Lambda::Permission") == len(events)
    own = plain["Resources"]["Tick"]["Properties"]
    left_out = {"CodeUri", "EventInvokeConfig", "Events"}
    assert set(source["Resources"]["Tick"]["Properties"]) - left_out == set(own) - {"Code"}


def test_the_terraform_module_gives_every_parameter_of_the_plain_template() -> None:
    folder = TARGET.parents[1] / "terraform"
    main, variables = (folder / "main.tf").read_text(), (folder / "variables.tf").read_text()
    given = dict(re.findall(r"^    (\w+) += (.+)$", main.partition("parameters = {")[2], re.MULTILINE))
    plain = yaml.safe_load(TARGET.read_text())
    assert set(given) == set(plain["Parameters"])
    declared = set(re.findall(r'^variable "(\w+)"', variables, re.MULTILINE))
    assert set(re.findall(r"var\.(\w+)", main)) == declared
    outputs = re.findall(r'outputs\["(\w+)"\]', (folder / "outputs.tf").read_text())
    assert set(outputs) <= set(plain["Outputs"])
    assert len(TARGET.read_bytes()) < 51_200, "a larger template cannot be given as text"
