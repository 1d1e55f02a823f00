"""Owners of records: a job under its id, and others under names that no job id can have."""

from typing import Final

HIDDEN: Final = "\x00"
"""First character of the names of owners that are not jobs."""
STAGE_OWNER: Final = HIDDEN + "stage:"
"""Prefix of the owner of a stage's records; the id of the stage follows."""
ELSEWHERE: Final = HIDDEN + "elsewhere"
"""Owner of what other instances draw from the suppliers that a child instance shares with them."""
