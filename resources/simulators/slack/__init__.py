"""A simulated Slack workspace on loopback: `Workspace` is the model, `SlackApp` serves the Web API over it."""

from resources.simulators.slack.app import SlackApp
from resources.simulators.slack.model import Workspace

__all__ = ["SlackApp", "Workspace"]
