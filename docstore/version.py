"""The version of this docstore."""

__version__ = "0.1.0"
