"""Stand-ins for programs of the CANN toolkit; started by path, so they use the standard library only."""
