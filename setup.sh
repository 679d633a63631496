#!/bin/sh
# Installs the locked dependencies and this project into $VENV. uv where it works (it is fast), pip otherwise.
# No bytecode is compiled ahead: what is imported gets compiled once anyway, and all of it would take longer than the installing.
set -eu
say() { printf '%s\n' "$*"; }
fail() { say "$*"; exit 1; }

command -v "$PYTHON" >/dev/null ||
  fail "Concordance needs Python 3.11 or newer, and there is no $PYTHON here. Name yours: make setup PYTHON=/path/to/python3"
"$PYTHON" -c 'import sys; sys.exit(sys.version_info < (3, 11))' ||
  fail "Concordance needs Python 3.11 or newer; $PYTHON is $("$PYTHON" --version 2>&1). Name another: make setup PYTHON=python3.12"

# Installers take a package of which a killed run left half for installed: such an environment is made again from nothing.
unfinished="$VENV/.unfinished"
[ ! -e "$unfinished" ] || say "The setup before this one did not finish: starting afresh."
if [ -e "$unfinished" ] || ! [ -x "$VENV/bin/python" ]; then
  rm -rf "$VENV" 2>/dev/null || fail "Another setup is still writing to $VENV. Run the same command again in a moment."
  mkdir -p "$VENV"
  : >"$unfinished"
  "$PYTHON" -m venv "$VENV" ||
    fail "Python could not make the environment $VENV. On Debian or Ubuntu this often helps: apt-get install python3-venv"
fi
: >"$unfinished"

say "Installing dependencies into $VENV: 1.8 GB, half a minute or a few, by your network ..."
bin="$VENV/bin"
pip() { "$bin/python" -m pip install --quiet --disable-pip-version-check --no-compile "$@"; }
uv_pin=$(sed -n 's/^\(uv==[^ ]*\).*/\1/p' requirements.lock)
if pip "$uv_pin" 2>"$VENV/pip.log" &&
  UV_PYTHON="$bin/python" "$bin/uv" pip install --quiet --system-certs --no-deps --require-hashes -r requirements.lock 2>"$VENV/uv.log"
then :
else
  say "uv could not install (see $VENV/pip.log and $VENV/uv.log); pip takes over, which is slower."
  pip --no-deps --require-hashes -r requirements.lock ||
    fail "The dependencies could not be installed; the reason stands above. Run the same command again once it is gone."
fi
pip --no-deps --no-build-isolation --editable . ||
  fail "The project itself could not be installed; the reason stands above."
rm -f "$unfinished"
say "Installed."
