"""The HBase backend: a store in tables of an HBase cluster, written by any number of processes."""
