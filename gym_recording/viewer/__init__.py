"""The page that shows a recording in a browser: a server of this machine alone, and the page as one file."""

from .page import whole_page
from .server import RecordingServer

__all__ = ["RecordingServer", "whole_page"]
