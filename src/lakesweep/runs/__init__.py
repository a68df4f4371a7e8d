"""What every long job stands on: leases, fencing, run records, sessions, task progress."""
