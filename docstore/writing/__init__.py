"""The write half: analysis ahead, the sequencer, rows in flight, bases, the commit point."""
