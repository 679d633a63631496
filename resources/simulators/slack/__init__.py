"""A Slack workspace on the loopback: `Workspace` is what is true in it, `SlackApp` answers the Web API over it."""

from resources.simulators.slack.app import SlackApp
from resources.simulators.slack.model import Workspace

__all__ = ["SlackApp", "Workspace"]
