"""The keys of a real cluster: its cloud, how new machines join it, where its CPU use is read.

No secret is among them. Tokens are named by where they are kept: a file, a parameter of SSM, a command
that runs on the new machine, or the variable HCLOUD_TOKEN.
"""

from __future__ import annotations

from typing import Any, Literal

from pydantic import Field

from ebbtide.config.section import Section

HTTP = r"^(https?://[^\s/]+.*)?$"
IMAGE_FORM = "the name of an image, or the id of a snapshot in quotes"
INSTALL = "curl -sfL https://get.k3s.io | sh -s - agent"


def text(says: str, form: str = "text") -> Any:
    return Field("", description=says, json_schema_extra={"allowed": form})


def url(says: str, form: str) -> Any:
    return Field("", pattern=HTTP, description=says, json_schema_extra={"allowed": form})


class CloudKeys(Section):
    kind: Literal["aws", "hetzner"] | None = Field(
        None, description="Where nodes are launched; needed for a cluster of kind kubernetes."
    )


class JoinKeys(Section):
    kind: Literal["k3s", "rke2", "kubeadm", "eks", "custom"] = Field(
        "k3s", description="Which kind of cluster new nodes join; see `docs/how-to/joining.md`."
    )
    server_url: str = Field(
        "",
        pattern=r"^(https://[^\s/]+.*)?$",
        description="URL of the server that new nodes join. Without it, the image joins by itself.",
        json_schema_extra={"allowed": "a URL such as https://10.0.0.2:6443"},
    )
    token_parameter: str = text("`aws`: name of the SSM parameter that holds the join token.")
    token_secret: str = text("`aws`: name of the secret in Secrets Manager that holds the join token.")
    token_file: str = text(
        "File in the image that contains the join token. Default on `hetzner`: /etc/ebbtide/join-token.",
        "the path of a file on the new machine",
    )
    token_command: str = Field(
        "",
        description="Command that prints the join token on the new machine.",
        json_schema_extra={"allowed": "text", "secret": True},
    )
    k3s_version: str = text("Version of K3s that is installed.", "a version such as v1.34.1+k3s1")
    version: str = text(
        "`rke2`: version that is installed; `custom`: for the template.", "a version such as v1.34.1+rke2r1"
    )
    install_command: str = Field(
        INSTALL,
        min_length=1,
        description="Command that installs the agent; `kubeadm`: what is run before kubeadm join.",
    )
    ca_cert_hash: str = Field(
        "",
        pattern=r"^(sha256:[0-9a-f]{64}|fill-me-in)?$",
        description="`kubeadm`: hash of the certificate of the cluster's authority. It is not secret.",
        json_schema_extra={"allowed": "sha256: and 64 hexadecimal digits, as kubeadm prints it"},
    )
    cluster_name: str = text("`eks`: name of the cluster in EKS.")
    ca_certificate: str = Field(
        "",
        pattern=r"^([A-Za-z0-9+/=]*|fill-me-in)$",
        description="`eks`: certificate authority of the cluster. It is not secret.",
        json_schema_extra={"allowed": "base64, as `aws eks describe-cluster` prints it"},
    )
    service_cidr: str = text("`eks`: addresses of Services.", "a network such as 10.100.0.0/16")
    template: str = Field(
        "",
        max_length=12_000,
        description="`custom`: user data of new nodes, with `{{ pool }}` and other values filled in.",
        json_schema_extra={"allowed": "text"},
    )


class AwsKeys(Section):
    region: str = text("Region of EC2 and SQS.", "a region such as eu-central-1")
    image: str = text("AMI of new nodes; this or a launch template is needed.", "the id of an AMI")
    launch_template: str = text(
        "Launch template of new nodes.", "the id or name of a template, with :VERSION where not the default"
    )
    subnets: dict[str, str] = Field(
        {},
        description="Subnet of each zone. Default: the zone's default subnet.",
        json_schema_extra={"allowed": "pairs of a zone and a subnet, such as {eu-central-1a: subnet-0aaa}"},
    )
    security_groups: tuple[str, ...] = Field((), description="Ids of the security groups of new nodes.")
    instance_profile: str = text("Instance profile of new nodes, with which they read the join token.")
    key_name: str = text("SSH key of new nodes.", "the name of a key pair")
    queue_url: str = url("SQS queue from which spot notices are read.", "the URL of a queue")
    endpoint: str = url("Another endpoint of EC2 and SQS, for tests.", "a URL")


class HetznerKeys(Section):
    image: str = text("Image of new nodes; needed.", IMAGE_FORM)
    networks: tuple[int, ...] = Field((), description="Ids of the private networks of new nodes.")
    ssh_keys: tuple[str, ...] = Field((), description="Names of the SSH keys of new nodes.")
    firewalls: tuple[int, ...] = Field((), description="Ids of the firewalls of new nodes.")
    placement_groups: tuple[int, ...] = Field(
        (), description="Ids of the placement groups of new nodes; the emptiest one is used."
    )
    public_ipv4: bool = Field(True, description="Whether new nodes get a public IPv4 address.")
    token_file: str = text("File with the API token, where HCLOUD_TOKEN is not set.", "the path of a file")
    endpoint: str = url("Another endpoint of the API, for tests.", "a URL")


class MetricsKeys(Section):
    prometheus_url: str = url(
        "Prometheus that has the CPU usage; metrics-server is the fallback.",
        "a URL such as http://prometheus.monitoring:9090",
    )
    query: str = text(
        "Your own query: CPU usage from 0 to 1, by node or one value for all.", "a query in PromQL"
    )
    token_file: str = text(
        "File with the bearer token for Prometheus, read for each query.", "the path of a file"
    )


class AdapterSections(Section):
    """The sections of a real cluster, all of them optional."""

    cloud: CloudKeys = CloudKeys()
    join: JoinKeys = JoinKeys()
    aws: AwsKeys = AwsKeys()
    hetzner: HetznerKeys = HetznerKeys()
    metrics: MetricsKeys = MetricsKeys()


ADAPTERS: tuple[tuple[str, type[Section]], ...] = (
    ("cloud", CloudKeys),
    ("join", JoinKeys),
    ("aws", AwsKeys),
    ("hetzner", HetznerKeys),
    ("metrics", MetricsKeys),
)
