"""The version of this docstore."""

__version__ = "1.0.0rc1"
