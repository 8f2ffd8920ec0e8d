"""The broker's shell: the only place where loop, sockets, files and clock meet."""
