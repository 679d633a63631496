"""A simulated Slack workspace on loopback: `Workspace` is the model, `SlackApp` serves the Web API over it."""

from simulators.slack.app import SlackApp
from simulators.slack.model import Workspace

__all__ = ["SlackApp", "Workspace"]
