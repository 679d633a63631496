#!/bin/sh
# Write the secrets that compose.yaml and the Kubernetes overlays refer to, once: sh secrets.sh FOLDER
# Existing files are kept. The folder is private; the files are readable by the accounts of the containers that they are mounted into.
set -eu
folder=${1:?Usage: sh secrets.sh FOLDER}
mkdir -p "$folder"
chmod 700 "$folder"
random() { od -An -N"$1" -tx1 /dev/urandom | tr -d ' \n'; }
put() {
  [ -e "$folder/$1" ] || printf '%s' "$2" >"$folder/$1"
  chmod 444 "$folder/$1"
}
put postgres-password "$(random 24)"
put postgres-url "postgresql://concordance:$(cat "$folder/postgres-password")@postgres:5432/concordance"
put qdrant-api-key "$(random 24)"
put secret-key "$(random 32)"
put encryption-keys "$(head -c 32 /dev/urandom | base64 | tr "+/" "-_")"
put metrics-token "$(random 24)"
put dagster-secret "$(random 24)"
put storage-key "$(random 10)"
put storage-secret "$(random 24)"
put storage.env "AWS_ACCESS_KEY_ID=$(cat "$folder/storage-key")
AWS_SECRET_ACCESS_KEY=$(cat "$folder/storage-secret")
"
[ -e "$folder/settings.env" ] || (umask 077; echo "# Further settings, one a line. What compose.yaml sets itself counts before them." >"$folder/settings.env")
put storage.json "{\"identities\": [{\"name\": \"concordance\", \"credentials\": [{\"accessKey\": \"$(cat "$folder/storage-key")\", \"secretKey\": \"$(cat "$folder/storage-secret")\"}], \"actions\": [\"Admin\"]}]}"
