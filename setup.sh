#!/bin/sh
# Installs the locked dependencies and this project into $VENV. uv where it works (it is fast), pip otherwise.
set -eu
say() { printf '%s\n' "$*"; }

"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' || {
  say "Concordance needs Python 3.11 or newer; $PYTHON is $("$PYTHON" --version 2>&1). Try: make setup PYTHON=python3.12"; exit 1; }
[ -x "$VENV/bin/python" ] || "$PYTHON" -m venv "$VENV" || {
  say "Python cannot make virtual environments. On Debian or Ubuntu: apt-get install python3-venv"; exit 1; }

say "Installing dependencies into $VENV ..."
bin="$VENV/bin"
uv_pin=$(sed -n 's/^\(uv==[^ ]*\).*/\1/p' requirements.lock)
if "$bin/python" -m pip install --quiet --disable-pip-version-check "$uv_pin" 2>"$VENV/pip.log" &&
  UV_PYTHON="$bin/python" "$bin/uv" pip install --quiet --system-certs --no-deps --require-hashes --compile-bytecode -r requirements.lock 2>"$VENV/uv.log"
then :
else
  say "uv could not install (see $VENV/uv.log); pip takes over, which is slower."
  "$bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --require-hashes -r requirements.lock
fi
"$bin/python" -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation --editable .
"$bin/python" -m compileall -q sql resources assets orchestration serving
say "Installed."
