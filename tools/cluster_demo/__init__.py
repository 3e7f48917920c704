"""A store on HBase and a sweep on Spark while servers die, shown from end to end: see `__main__`."""
