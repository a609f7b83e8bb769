"""Agents on other machines: the server's gateway, the processes that host agents there, and how they talk."""
