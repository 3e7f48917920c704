"""The routes of `/v1`: each module knows one part of the public class, and nothing of where it is served."""
