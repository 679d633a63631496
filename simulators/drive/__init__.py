"""A simulated Google Drive v3 server on loopback, for tests and for trying the connector.

`SimulatedDrive` is the model with the user actions; `DriveApp` serves it (`simulators.serve`).
"""

from simulators.drive.app import DriveApp
from simulators.drive.model import SimulatedDrive
from simulators.drive.tree import DOCUMENT, FOLDER, PRESENTATION, SHORTCUT, SPREADSHEET, DriveFile

__all__ = ["DOCUMENT", "FOLDER", "PRESENTATION", "SHORTCUT", "SPREADSHEET", "DriveApp", "DriveFile", "SimulatedDrive"]
