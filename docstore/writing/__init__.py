"""The write half: analysis ahead, the sequencer, rows in flight, shared bodies, the commit point."""
