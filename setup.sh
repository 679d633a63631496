#!/bin/sh
# Install the locked dependencies and this project into $VENV, with uv if it works (it is faster), else with pip.
# Bytecode is not compiled here: Python compiles what is imported, and compiling everything takes longer than installing.
set -eu
say() { printf '%s\n' "$*"; }
fail() { say "$*"; exit 1; }

# Installers treat a package that a killed run left half installed as complete, so such an environment is created again.
unfinished="$VENV/.unfinished"
[ ! -e "$unfinished" ] || say "The previous setup did not finish. Starting again."
if [ -e "$unfinished" ] || ! [ -x "$VENV/bin/python" ]; then
  command -v "$PYTHON" >/dev/null ||
    fail "Concordance needs Python 3.11 to 3.14, and $PYTHON was not found. Name yours: make setup PYTHON=/path/to/python3"
  "$PYTHON" -c 'import sys; sys.exit(not (3, 11) <= sys.version_info[:2] <= (3, 14))' ||
    fail "Concordance needs Python 3.11 to 3.14; $PYTHON is $("$PYTHON" --version 2>&1). Name another: make setup PYTHON=python3.12"
  rm -rf "$VENV" 2>/dev/null || fail "Another setup is still writing to $VENV. Run the same command again in a moment."
  mkdir -p "$VENV"
  : >"$unfinished"
  "$PYTHON" -m venv "$VENV" ||
    fail "Python could not create the environment $VENV. On Debian or Ubuntu this often helps: apt-get install python3-venv"
fi
: >"$unfinished"
# What fails before anything is written, as without a network, leaves the environment as it was.
export PYTHONDONTWRITEBYTECODE=1  # a folder that is newer has lost or won a file by an installer
keep_unwritten() {
  if written=$(find "$VENV/lib" \( -type f ! -name '*.pyc' -o -type d ! -name __pycache__ \) -cnewer "$unfinished" -print -quit) && [ -z "$written" ]; then
    rm -f "$unfinished"
  fi
}
trap keep_unwritten EXIT
trap 'exit 130' HUP INT TERM

say "Installing dependencies into $VENV: 1.8 GB, half a minute to several minutes depending on your network ..."
bin="$VENV/bin"
pip() { "$bin/python" -m pip install --quiet --disable-pip-version-check --no-compile "$@"; }
uv_pin=$(sed -n 's/^\(uv==[^ ]*\).*/\1/p' requirements.lock)
if pip "$uv_pin" 2>"$VENV/pip.log" &&
  UV_PYTHON="$bin/python" "$bin/uv" pip install --quiet --system-certs --no-deps --require-hashes -r requirements.lock 2>"$VENV/uv.log"
then :
else
  say "uv could not install (see $VENV/pip.log and $VENV/uv.log); using pip, which is slower."
  pip --no-deps --require-hashes -r requirements.lock ||
    fail "The dependencies could not be installed. Fix the error shown above and run the same command again."
fi
pip --no-deps --no-build-isolation --editable . ||
  fail "The project itself could not be installed. The error is shown above."
rm -f "$unfinished"
trap - EXIT
say "Installed."
