"""What tests of mmtool, and of code that uses mmtool, are made with."""
