"""A simulated Google Drive v3 server on loopback, for tests and for trying the connector.

`SimulatedDrive` is the model with the user actions; `DriveApp` serves it (`resources.sources.simulation.serve`).
"""

from resources.sources.drive.simulator.app import DriveApp
from resources.sources.drive.simulator.model import SimulatedDrive
from resources.sources.drive.simulator.tree import DOCUMENT, FOLDER, PRESENTATION, SHORTCUT, SPREADSHEET, DriveFile

__all__ = ["DOCUMENT", "FOLDER", "PRESENTATION", "SHORTCUT", "SPREADSHEET", "DriveApp", "DriveFile", "SimulatedDrive"]
