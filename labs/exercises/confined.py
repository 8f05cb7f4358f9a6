"""What a rank gives up before it runs a student's code in a sandbox: starting programs and processes, and reaching
into others.

A seccomp filter, set by the rank itself and never to be taken back. A limit on the number of processes would do for
an ordinary user, but does not bind for root (measured), so that new processes are refused here. Threads are allowed:
torch needs them.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
import sys
from dataclasses import dataclass

VARIABLE = "SHARDWISE_CONFINED"
"""Set in the environment of a rank that has to confine itself."""

_LOAD, _EQUALS, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_THREAD = 0x00010000
"""The flag of clone that makes a thread."""
_OTHER_INTERFACE = 0x40000000
"""From here on stand the calls of x86-64's second interface, x32."""
_SET_NO_NEW_PRIVILEGES, _SET_SECCOMP, _FILTER = 38, 22, 2


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    """The numbers of system calls on one architecture, and its own number."""

    audit: int
    clone: int
    refused: tuple[int, ...]


_CLONE3 = 435
_MACHINES = {
    "x86_64": _Machine(
        audit=0xC000003E,
        clone=56,
        refused=(57, 58, 59, 322, 101, 310, 311, 438, 434, 272, 308, 165, 166, 321, 298, 323, 425, 248, 249, 250),
    ),
    "aarch64": _Machine(
        audit=0xC00000B7,
        clone=220,
        refused=(221, 281, 117, 270, 271, 438, 434, 97, 268, 40, 39, 280, 241, 282, 425, 217, 218, 219),
    ),
}
"""Refused, where an architecture has them: fork, vfork, execve, execveat, ptrace, process_vm_readv and writev,
pidfd_getfd and open, unshare, setns, mount, umount, bpf, perf_event_open, userfaultfd, io_uring_setup, and keys.
"""


def confine() -> None:
    """Refuse from now on, in this process and all its threads. Raises OSError where the kernel does not allow it."""
    machine = _MACHINES.get(platform.machine())
    if sys.platform != "linux" or machine is None:
        raise OSError(errno.ENOSYS, f"no filter is known for {sys.platform} on {platform.machine()}")
    code = _program(machine)
    libc = ctypes.CDLL(None, use_errno=True)
    instructions = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(instructions)))
    for option, first, second in ((_SET_NO_NEW_PRIVILEGES, 1, None), (_SET_SECCOMP, _FILTER, program)):
        if libc.prctl(option, first, second, 0, 0) != 0:
            raise OSError(ctypes.get_errno(), "the kernel refuses the filter of a sandboxed rank")


def _program(machine: _Machine) -> bytes:
    """The filter: calls of another architecture and those refused fail with EPERM, clone unless it makes a thread.

    clone3 has its flags in memory, where no filter can look: it is said to be missing, so that libc takes clone.
    """
    steps = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUALS, 1, 0, machine.audit),
        (_RETURN, 0, 0, _REFUSE | errno.EPERM),
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _OTHER_INTERFACE),
        (_RETURN, 0, 0, _REFUSE | errno.EPERM),
        (_EQUALS, 0, 1, _CLONE3),
        (_RETURN, 0, 0, _REFUSE | errno.ENOSYS),
    ]
    for number in machine.refused:
        steps += [(_EQUALS, 0, 1, number), (_RETURN, 0, 0, _REFUSE | errno.EPERM)]
    steps += [
        (_EQUALS, 0, 3, machine.clone),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_ANY_BIT, 1, 0, _THREAD),
        (_RETURN, 0, 0, _REFUSE | errno.EPERM),
        (_RETURN, 0, 0, _ALLOW),
    ]
    return b"".join(struct.pack("HBBI", *step) for step in steps)
