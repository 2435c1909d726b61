"""What the rooms of the client pass to each other: records and positions, errors, checked arguments, deadlines.

This room owns the values of the public API, its exceptions, the checks of single values, and the time that a call may
take. Nothing here sends a request, and nothing here imports another room.
"""
