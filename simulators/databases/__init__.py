"""Servers of databases, for fleets whose journal is on one."""
