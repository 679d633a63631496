"""A simulated Slack workspace on loopback: `Workspace` is the model, `SlackApp` serves the Web API over it."""

from resources.sources.slack.simulator.app import SlackApp
from resources.sources.slack.simulator.model import Workspace

__all__ = ["SlackApp", "Workspace"]
