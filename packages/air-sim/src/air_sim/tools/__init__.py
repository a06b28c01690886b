"""Stand-ins for programs of the CANN toolkit; started by path, with the Python that air-sim is installed in."""
