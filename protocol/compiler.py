"""What sources say to mypyc, which compiles them if asked to; interpreted or compiled, nothing of mypyc is installed.

Owns: the decorators of mypyc that we use, without effect when interpreted. Does not own: what is compiled
(`hatch_build.py`).
"""

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from mypy_extensions import mypyc_attr as mypyc_attr
else:

    def mypyc_attr(**_):
        return lambda decorated: decorated
