"""A simulated Google Drive v3 server on loopback, for tests and for trying the connector.

`Drive` is the model with the user actions; `DriveApp` serves it (`resources.simulators.serve`).
"""

from resources.simulators.drive.app import DriveApp
from resources.simulators.drive.model import Drive
from resources.simulators.drive.tree import DOCUMENT, FOLDER, PRESENTATION, SHORTCUT, SPREADSHEET, DriveFile

__all__ = ["DOCUMENT", "FOLDER", "PRESENTATION", "SHORTCUT", "SPREADSHEET", "Drive", "DriveApp", "DriveFile"]
