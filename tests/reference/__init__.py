"""The readable reference of the native kernel: it defines every result, which native code gives with the same bits."""
