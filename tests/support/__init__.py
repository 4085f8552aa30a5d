"""What tests of several folders share: real daemons, servers and histories."""
