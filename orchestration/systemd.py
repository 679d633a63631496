"""The systemd unit of `concordance up` on one machine."""

import shlex
from pathlib import Path
from string import Template

NAME = "concordance.service"
FOLDER = Path("/etc/systemd/system")
PROCESSES = Path("/proc")
_HOME = "Environment=CONCORDANCE_HOME="

_UNIT = Template("""\
# Written by `concordance service install`. Settings are in .env in the working directory.
[Unit]
Description=Concordance, search over the company's sources
After=network-online.target
Wants=network-online.target

[Service]
Type=exec
User=$account
WorkingDirectory=$folder
Environment=CONCORDANCE_HOME=$home
ExecStart=$program up
Restart=on-failure
RestartSec=5
# The supervisor ends its services in order; Postgres may take a minute.
KillMode=mixed
TimeoutStopSec=120
# One process that takes too much memory ends by itself, such as a sync, and not everything with it.
OOMPolicy=continue
LimitNOFILE=65536
UMask=0077
NoNewPrivileges=yes
PrivateDevices=yes
ProtectSystem=strict
ProtectHome=read-only
ProtectControlGroups=yes
ProtectKernelModules=yes
ProtectKernelTunables=yes
RestrictAddressFamilies=AF_INET AF_INET6 AF_UNIX AF_NETLINK
ReadWritePaths=$writable

[Install]
WantedBy=multi-user.target
""")


def runs(pid: int) -> bool:
    """Return True if a process was started by the unit: the last part of its control group is the unit's name."""
    try:
        groups = (PROCESSES / str(pid) / "cgroup").read_text(encoding="utf-8").splitlines()
    except OSError:
        return False
    return any(group.rpartition("/")[2] == NAME for group in groups)


def home_of(file: Path) -> Path | None:
    """Return the HOME that a unit file starts; None if there is no unit."""
    try:
        lines = file.read_text(encoding="utf-8").splitlines()
    except OSError:
        return None
    found = (line.removeprefix(_HOME) for line in lines if line.startswith(_HOME))
    return next((Path(shlex.split(home)[0]) for home in found if home), None)


def unit(program: Path, folder: Path, home: Path, lake: Path, account: str) -> str:
    """Return the unit. `folder` is the working directory, which holds `.env`; `lake` may be in `home`."""
    writable = [home, *([] if lake.is_relative_to(home) else [lake]), Path("/tmp")]  # noqa: S108 # sockets, temporary files
    return _UNIT.substitute(
        program=shlex.quote(str(program)),
        folder=folder,
        home=shlex.quote(str(home)),
        account=account,
        writable=shlex.join(map(str, writable)),
    )
