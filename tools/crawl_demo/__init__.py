"""Crawls of small sites on the loopback interface: what a crawler with docstore does, shown and measured."""
