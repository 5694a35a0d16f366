"""The SAM template as plain CloudFormation, for who has no SAM: one source, so both always say the same.

make reference        writes deploy/lambda/cloudformation.yaml; a test fails where it is not current
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import yaml

FOLDER = Path(__file__).parents[1] / "deploy" / "lambda"
SOURCE, TARGET = FOLDER / "template.yaml", FOLDER / "cloudformation.yaml"
HEAD = """\
# Ebbtide as a Lambda function, in plain CloudFormation.
# Made from template.yaml by `make reference`; do not edit.
# Build the package (make lambda), copy it to S3 and name its place:
#   aws s3 cp build/ebbtide-lambda.zip s3://BUCKET/ebbtide-lambda.zip
#   aws cloudformation deploy --stack-name ebbtide --template-file deploy/lambda/cloudformation.yaml \\
#     --capabilities CAPABILITY_IAM --parameter-overrides CodeBucket=BUCKET CodeKey=ebbtide-lambda.zip ...
"""
CODE = {
    "CodeBucket": {"Type": "String", "Description": "S3 bucket that holds the package."},
    "CodeKey": {
        "Type": "String",
        "Description": "Its key there; another key for each version, so a new package is taken.",
    },
}
FUNCTION = "Tick"
PLAIN = (
    *("Handler", "Runtime", "Architectures", "MemorySize", "Timeout", "ReservedConcurrentExecutions"),
    *("Role", "VpcConfig", "LoggingConfig", "Environment"),
)


class _Loader(yaml.SafeLoader):
    """Keeps intrinsic functions, in their long form."""


def _intrinsic(loader: _Loader, suffix: str, node: yaml.Node) -> dict[str, Any]:
    name = suffix if suffix in ("Ref", "Condition") else f"Fn::{suffix}"
    if isinstance(node, yaml.ScalarNode):
        text = str(loader.construct_scalar(node))
        return {name: text.split(".", 1) if suffix == "GetAtt" else text}
    assert isinstance(node, yaml.SequenceNode)
    return {name: loader.construct_sequence(node, deep=True)}


_Loader.add_multi_constructor("!", _intrinsic)


def plain_template() -> str:
    found = yaml.load(SOURCE.read_text(), _Loader)
    resources: dict[str, Any] = {}
    for name, resource in found["Resources"].items():
        resources |= _function(resource["Properties"]) if name == FUNCTION else {name: resource}
    document = {
        "AWSTemplateFormatVersion": found["AWSTemplateFormatVersion"],
        "Description": found["Description"],
        "Parameters": {**CODE, **found["Parameters"]},
        "Conditions": found["Conditions"],
        "Resources": resources,
        "Outputs": found["Outputs"],
    }
    return HEAD + yaml.dump(document, Dumper=_Dumper, sort_keys=False, width=110)


class _Dumper(yaml.SafeDumper):
    def ignore_aliases(self, data: Any) -> bool:  # noqa: ARG002 - that of the dumper
        return True


def _function(properties: dict[str, Any]) -> dict[str, Any]:
    """What SAM makes of its function: the function, what happens to a failed run, a rule and a permission for
    each event."""
    code = {"S3Bucket": {"Ref": "CodeBucket"}, "S3Key": {"Ref": "CodeKey"}}
    own = {key: properties[key] for key in PLAIN}
    invoke = properties["EventInvokeConfig"]
    failed = invoke["DestinationConfig"]["OnFailure"]["Destination"]
    made: dict[str, Any] = {
        FUNCTION: {"Type": "AWS::Lambda::Function", "Properties": {"Code": code, **own}},
        f"{FUNCTION}Invoke": {
            "Type": "AWS::Lambda::EventInvokeConfig",
            "Properties": {
                "FunctionName": {"Ref": FUNCTION},
                "Qualifier": "$LATEST",
                "MaximumRetryAttempts": invoke["MaximumRetryAttempts"],
                "MaximumEventAgeInSeconds": invoke["MaximumEventAgeInSeconds"],
                "DestinationConfig": {"OnFailure": {"Destination": failed}},
            },
        },
    }
    for name, event in properties["Events"].items():
        made |= _rule(name, event["Properties"])
    return made


def _rule(name: str, event: dict[str, Any]) -> dict[str, Any]:
    target = {"Id": FUNCTION, "Arn": {"Fn::GetAtt": [FUNCTION, "Arn"]}}
    target |= {key: event[key] for key in ("RetryPolicy", "DeadLetterConfig") if key in event}
    when = (
        {"ScheduleExpression": event["Schedule"]}
        if "Schedule" in event
        else {"EventPattern": event["Pattern"]}
    )
    return {
        f"{name}Rule": {
            "Type": "AWS::Events::Rule",
            "Properties": {**when, "State": "ENABLED", "Targets": [target]},
        },
        f"{name}Permission": {
            "Type": "AWS::Lambda::Permission",
            "Properties": {
                "Action": "lambda:InvokeFunction",
                "FunctionName": {"Ref": FUNCTION},
                "Principal": "events.amazonaws.com",
                "SourceArn": {"Fn::GetAtt": [f"{name}Rule", "Arn"]},
            },
        },
    }


def main() -> None:
    TARGET.write_text(plain_template())


if __name__ == "__main__":
    main()
