#!/usr/bin/env bash
# Builds build/ebbtide-lambda.zip: Ebbtide, what it needs in a Lambda function, and nothing else.
#   PYTHON_VERSION  of the function's runtime (3.13)        ARCH  x86_64 or aarch64 (x86_64)
#   CONFIG          an ebbtide.yaml to put into the package, with the price file beside it (none)
#   OUT             the zip to write (build/ebbtide-lambda.zip)
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

python=$(command -v "${PYTHON:-$PWD/.venv/bin/python}")
version=${PYTHON_VERSION:-3.13}
arch=${ARCH:-x86_64}
out=$(realpath -m "${OUT:-build/ebbtide-lambda.zip}")
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT

# What boto3, urllib3, msgspec, pydantic, pyyaml and schedules need; versions and hashes are those of the lock.
needed='boto3|botocore|s3transfer|jmespath|python-dateutil|six|urllib3'
needed+='|msgspec|pyyaml|pydantic|pydantic-core'
needed+='|annotated-types|typing-extensions|typing-inspection|cronsim|tzdata'
awk -v name="^($needed)==" '/^[^ #]/ { keep = $0 ~ name } keep && !/^ *#/' requirements.lock > "$work/needed.txt"
"$python" -m pip install --disable-pip-version-check --no-input --quiet --target "$work/package" \
  --platform "manylinux2014_$arch" --platform "manylinux_2_28_$arch" --implementation cp \
  --python-version "$version" --only-binary=:all: --no-compile --no-deps --require-hashes -r "$work/needed.txt"
find src/ebbtide -name '*.py' -o -name py.typed | tar -cf - -T - | tar -xf - -C "$work/package" --strip-components=1
if [ -n "${CONFIG:-}" ]; then
  cp "$CONFIG" "$work/package/ebbtide.yaml"
  prices=$(dirname "$CONFIG")/ebbtide-prices.yaml
  [ ! -e "$prices" ] || cp "$prices" "$work/package/"
fi

# boto3 brings the description of every AWS service, in every version: what is used stays.
data=$work/package/botocore/data
find "$data" -mindepth 1 -maxdepth 1 -type d \
  ! -name ec2 ! -name dynamodb ! -name ssm ! -name sqs ! -name sts -exec rm -rf {} +
for service in "$data"/*/; do
  find "$service" -mindepth 1 -maxdepth 1 -type d | sort | head -n -1 | xargs -r rm -rf
done
find "$data" -name 'examples-*.json' -delete
cd "$work/package"
rm -rf bin boto3/data boto3/examples ebbtide/entrypoints/cli ebbtide/simulator
find . \( -name __pycache__ -o -name tests -o -name '*.pyi' \) -prune -exec rm -rf {} +

# A function's folder cannot be written to: without bytecode every cold start compiles everything again.
if [ "$("$python" -c 'import sys; print("%d.%d" % sys.version_info[:2])')" = "$version" ]; then
  "$python" -m compileall -q -j 0 --invalidation-mode unchecked-hash .
else
  echo "No bytecode: build with PYTHON=python$version for a faster cold start." >&2
fi

mkdir -p "$(dirname "$out")"
# The same content gives the same zip: names in order, one date and one mode for all.
"$python" - "$out" <<'ZIP'
import pathlib, sys, zipfile

with zipfile.ZipFile(sys.argv[1], "w") as package:
    for path in sorted(path for path in pathlib.Path().rglob("*") if path.is_file()):
        entry = zipfile.ZipInfo(path.as_posix(), (2020, 1, 1, 0, 0, 0))
        entry.external_attr = 0o644 << 16
        package.writestr(entry, path.read_bytes(), zipfile.ZIP_DEFLATED)
ZIP
echo "$(basename "$out"): $(du -m "$out" | cut -f1) MB for Python $version on $arch"
