"""Restante: poste restante for machines. Signals, commands and event tokens wait here until their addressee polls."""

__version__ = "0.1.0"
