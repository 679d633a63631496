"""The tree of commands, built from the catalogue."""

from cyclopts import App

from orchestration.cli import installed_version
from orchestration.cli.catalogue import APPS, COMMANDS, arranged, epilogue

app = App(
    name="concordance",
    help="Search for your company's knowledge: keeps a search index in sync with your sources, and shows each person only "
    "documents that they may read.",
    help_epilogue=epilogue(""),
    version_flags=["--version"],
    version=installed_version,
    suppress_keyboard_interrupt=False,
    # The default, Markdown, takes a quarter of a second to import.
    help_format="plaintext",
    result_action="return_value",
)
key = App(name="key", help="Manage API keys for programs.", result_action="return_value")
model = App(name="model", help="Get embedding models and rerankers, and try them.", result_action="return_value")
sessions = App(name="session", help="List and end sessions of browsers.", result_action="return_value")
connections = App(name="connect", help="Connect accounts that sources are read with.", result_action="return_value")
simulators = App(
    name="simulate",
    help="Simulate Google Drive or Slack on this machine, to try the connectors without an account.",
    result_action="return_value",
)
prune = App(
    name="prune", help="Approve or reject mass deletions, which are held for a decision.", result_action="return_value"
)
source_roots = App(
    name="source",
    help="List roots, drives and channels, and remove those that are no longer wanted.",
    result_action="return_value",
)
question_set = App(
    name="questions",
    help="Manage the questions that measure search quality each month and before a change of model.",
    result_action="return_value",
)
units = App(name="service", help="Run Concordance as a service of this machine.", result_action="return_value")
rebuild = App(name="rebuild", help="Rebuild what was lost from what is left.", result_action="return_value")
audit = App(name="audit", help="Check permissions, and list grants and revocations.", result_action="return_value")

GROUPS = {"": app} | {
    one.name[0]: one
    for one in (key, sessions, connections, simulators, source_roots, prune, question_set, model, audit, rebuild, units)
}

for name, group in list(GROUPS.items())[1:]:
    group.group, group.help_epilogue = arranged(name), epilogue(name)
    app.command(group)
for module, commands in COMMANDS.items():
    for command, summary in commands.items():
        parent, _, name = command.rpartition(" ")
        path = f"orchestration.cli.{module}:{command.replace(' ', '_').replace('-', '_')}"
        own = {} if command in APPS else {"help_epilogue": epilogue(command)}
        GROUPS[parent].command(path, name=name, help=summary, group=None if parent else arranged(name), **own)
