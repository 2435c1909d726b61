"""What was freed between what is still in use goes back to the system."""

import subprocess
import sys

import pytest

_PROGRAM = """
import ctypes, re
from oncelog.broker.system.limits import return_memory

def resident_mib():
    return int(re.search(r"VmRSS:\\s+(\\d+)", open("/proc/self/status").read())[1]) >> 10

libc = ctypes.CDLL(None)
libc.malloc.restype, libc.malloc.argtypes, libc.free.argtypes = ctypes.c_void_p, [ctypes.c_size_t], [ctypes.c_void_p]
blocks = []
for _ in range(2_000):
    blocks.append(libc.malloc(100_000))
    ctypes.memset(blocks[-1], 1, 100_000)
for block in blocks[::2] + blocks[1:1_900:2]:
    libc.free(block)
before = resident_mib()
return_memory()
print(before - resident_mib())
"""


@pytest.mark.skipif(sys.platform != "linux", reason="of glibc")
def test_what_lies_free_between_used_blocks_is_given_back() -> None:
    run = subprocess.run([sys.executable, "-c", _PROGRAM], capture_output=True, text=True, check=True)
    assert int(run.stdout) > 100, "of 190 MB that are free"
