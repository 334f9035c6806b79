"""A private value, and whether it is anywhere in an error."""

from __future__ import annotations

SECRET = 4711.25


MARK = str(SECRET)


# ---- errors ---------------------------------------------------------------------------------------------


def seen_in(error: BaseException | None) -> str:
    """Return all that hangs on an exception: texts and the local variables of frames, of its causes, too."""
    found = []
    while error is not None:
        found.append(repr(error))
        traceback = error.__traceback__
        while traceback is not None:
            found.append(repr(traceback.tb_frame.f_locals))
            traceback = traceback.tb_next
        assert error.__cause__ is None or error.__cause__ is error.__context__
        error = error.__context__
    return "\n".join(found)
