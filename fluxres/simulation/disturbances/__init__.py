"""What no job causes: failures, repairs, reservations and other external events, and what they cost."""
