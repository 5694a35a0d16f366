"""Labels and annotations that Ebbtide reads and writes, and those of others that it understands."""

from __future__ import annotations

POOL = "ebbtide.dev/pool"
SYSTEM = "ebbtide.dev/system"
INSTANCE_ID = "ebbtide.dev/instance-id"
INSTANCE_TYPE = "ebbtide.dev/instance-type"
MARKET = "ebbtide.dev/market"

OWNER = "ebbtide.dev/cordoned-by"
"""Annotation: the operation whose soft taint and cordon these are; there only while they are ours."""
TOKEN = "ebbtide.dev/cordon-token"
STAGE = "ebbtide.dev/cordon-stage"
"""Annotation: `tainted` while there is only our soft taint, and a cordon would be a person's."""
TAINTED = "tainted"
FENCES = "ebbtide.dev/fences"
"""Annotation: the highest token seen from each operation, newest last; it outlives the cordon."""

DO_NOT_DISRUPT = ("ebbtide.dev/do-not-disrupt", "karpenter.sh/do-not-disrupt")
SAFE_TO_EVICT = ("ebbtide.dev/safe-to-evict", "cluster-autoscaler.kubernetes.io/safe-to-evict")
SAFE_LOCAL_VOLUMES = "cluster-autoscaler.kubernetes.io/safe-to-evict-local-volumes"
MIRROR = "kubernetes.io/config.mirror"

HETZNER_PROVIDER = "hcloud://"
ZONES = ("topology.kubernetes.io/zone", "failure-domain.beta.kubernetes.io/zone")
VOLUME_ZONES = (
    *ZONES,
    "topology.ebs.csi.aws.com/zone",
    "topology.gke.io/zone",
    "csi.hetzner.cloud/location",
)
ON_ANY_MACHINE = {"instance.hetzner.cloud/provided-by": "cloud"}
"""Labels that volumes ask for and that every machine of the cloud has once it has joined."""
TYPES = (INSTANCE_TYPE, "node.kubernetes.io/instance-type", "beta.kubernetes.io/instance-type")
OS = "kubernetes.io/os"
CONTROL_PLANE = (
    "node-role.kubernetes.io/control-plane",
    "node-role.kubernetes.io/master",
    "node-role.kubernetes.io/etcd",
)
SPOT = {
    MARKET: "spot",
    "karpenter.sh/capacity-type": "spot",
    "eks.amazonaws.com/capacityType": "spot",
    "node.kubernetes.io/lifecycle": "spot",
    "cloud.google.com/gke-spot": "true",
    "kubernetes.azure.com/scalesetpriority": "spot",
}
"""Labels by which clouds and other autoscalers mark a spot node, with the value in lower case."""

K3S_PROVIDER = "k3s://"
"""K3s writes the node's own name as its provider id; that says nothing about the instance."""
