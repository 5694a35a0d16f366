"""The README of the chart, made from its values and their schema.

make reference        writes deploy/helm/ebbtide/README.md; a test fails where it is not that of the chart
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import yaml

CHART = Path(__file__).parents[1] / "deploy" / "helm" / "ebbtide"
HEAD = """\
# Ebbtide as a Helm chart

Made from `values.yaml` and `values.schema.json` by `make reference`; do not edit.

```sh
kubectl create namespace ebbtide
kubectl -n ebbtide create secret generic ebbtide-store --from-literal=url=postgresql+psycopg://...
helm install ebbtide deploy/helm/ebbtide --namespace ebbtide --values my-values.yaml
```

`my-values.yaml` needs `image.repository` and `config`; `ci/hetzner-values.yaml` is an example. Without
them, with an unknown key, or with a value that `ebbtide init` left to be filled in, the chart is refused
before anything is installed.

A job creates or upgrades the tables first. Removals are paused with the installation until you run
`ebbtide resume` (`paused: false` installs without the pause). `helm upgrade` never pauses again.
`helm uninstall` removes everything that the chart made; the secrets that you made, the record in the store
and the nodes stay.

| value | default | what it is |
| --- | --- | --- |
"""


def chart_page() -> str:
    schema = json.loads((CHART / "values.schema.json").read_text())
    values = yaml.safe_load((CHART / "values.yaml").read_text())
    return HEAD + "\n".join(_rows(schema["properties"], values, "")) + "\n"


def _rows(properties: Mapping[str, Any], values: Mapping[str, Any], above: str) -> Iterator[str]:
    for name, schema in properties.items():
        if name == "global":
            continue
        key, parts = f"{above}{name}", schema.get("properties")
        if parts:
            yield f"| **`{key}`** | | {schema['description']} |"
            yield from _rows(parts, values[name], f"{key}.")
            continue
        allowed = f" One of {', '.join(schema['enum'])}." if "enum" in schema else ""
        yield f"| `{key}` | `{json.dumps(values[name])}` | {schema['description']}{allowed} |"


def main() -> None:
    (CHART / "README.md").write_text(chart_page())


if __name__ == "__main__":
    main()
