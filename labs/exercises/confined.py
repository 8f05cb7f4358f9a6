"""What a process gives up for good before code of a stranger runs: a seccomp filter, set by itself, never taken back.

`confine` is a rank's, before a student's file runs: it starts no program and no process, reaches into no other one and
signals none, and opens no socket but those of the machine's own networks. A limit on the number of processes would do
for an ordinary user, but does not bind for root (measured), so that new processes are refused here. Threads are
allowed: torch needs them. `harden` is that of everything else in a sandbox, which must still start ranks: no
namespace, mount, key, program in the kernel or ring of it. The filter binds every thread that there is, not only the
one that sets it: code of a student may be called in any.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import re
import struct
import sys
from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from labs.runner import processes

VARIABLE = processes.CONFINED
"""Set in the environment of a rank that has to confine itself."""

_LOAD, _EQUALS, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_ALLOW, _REFUSE = 0x7FFF0000, 0x00050000
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_THREAD = 0x00010000
"""The flag of clone that makes a thread."""
_NAMESPACES = 0x7E020000
"""The flags of clone that make namespaces: of mounts, cgroups, host name, messages, users, processes and network."""
_OTHER_INTERFACE = 0x40000000
"""From here on stand the calls of x86-64's second interface, x32."""
_SET_NO_NEW_PRIVILEGES = 38
_CAP_SETUID = 7
_SET_FILTER, _ALL_THREADS = 1, 1
_FAMILIES = (1, 2, 10, 16)
"""Families of sockets: local, IPv4, IPv6, and netlink, by which libc lists interfaces. Not AF_VSOCK, which no network
namespace holds: it reaches the host of a virtual machine.
"""
_COMMON = (425, 426, 427, 428, 429, 430, 431, 432, 433, 442, 438, 447)
"""With one number everywhere: io_uring (3), the new calls that mount (7), pidfd_getfd, memfd_secret."""


@dataclass(frozen=True, slots=True, kw_only=True)
class _Machine:
    """The numbers of system calls on one architecture, and its own number.

    hidden    memory that no process is seen to hold: shmget, shmat, msgget, semget, mq_open, memfd_create
    never     for nobody in a sandbox: ptrace, process_vm_readv and writev, unshare, setns, mount, umount2, pivot_root,
              chroot, bpf, perf_event_open, userfaultfd, kcmp, keys (3), modules (3), kexec (2), open_by_handle_at,
              acct, reboot, swapon, swapoff, syslog, settimeofday, clock_settime, adjtimex, clock_adjtime
    starting  fork and vfork where there are any, execve, execveat
    queueing  rt_sigqueueinfo, rt_tgsigqueueinfo: signals with a sender of one's choice
    own       kill, tgkill and prlimit64, of which a rank keeps those to itself
    """

    audit: int
    seccomp: int
    clone: int
    socket: tuple[int, int]
    hidden: tuple[int, ...]
    never: tuple[int, ...]
    starting: tuple[int, ...]
    queueing: tuple[int, ...]
    own: tuple[int, int, int]
    tkill: int


_CLONE3 = 435
_PIDFD = (424, 434)
"""pidfd_send_signal and pidfd_open."""
_MACHINES = {
    "x86_64": _Machine(
        audit=0xC000003E,
        seccomp=317,
        clone=56,
        socket=(41, 53),
        hidden=(29, 30, 68, 64, 240, 319),
        never=(
            *(101, 310, 311, 272, 308, 165, 166, 155, 161, 321, 298, 323, 312, 248, 249, 250, 175, 176, 313, 246, 320),
            *(304, 163, 169, 167, 168, 103, 164, 227, 159, 305),
        ),
        starting=(57, 58, 59, 322),
        queueing=(129, 297),
        own=(62, 234, 302),
        tkill=200,
    ),
    "aarch64": _Machine(
        audit=0xC00000B7,
        seccomp=277,
        clone=220,
        socket=(198, 199),
        hidden=(194, 196, 186, 190, 180, 279),
        never=(
            *(117, 270, 271, 97, 268, 40, 39, 41, 51, 280, 241, 282, 272, 217, 218, 219, 105, 106, 273, 104, 294),
            *(265, 89, 142, 224, 225, 116, 170, 112, 171, 266),
        ),
        starting=(221, 281),
        queueing=(138, 240),
        own=(129, 131, 261),
        tkill=130,
    ),
}
_Step = tuple[int, int, int, int]


def confine() -> None:
    """A rank's filter, from now on, in all threads. Raises OSError where the kernel does not allow it."""
    machine = _machine()
    refused = (*_COMMON, *_PIDFD, *machine.never, *machine.hidden, *machine.starting, *machine.queueing, machine.tkill)
    _set(machine, refused, ranks=True)


def harden() -> None:
    """The filter of what starts ranks. Raises OSError where the kernel does not allow it."""
    machine = _machine()
    _set(machine, (*_COMMON, *machine.never, *machine.hidden), ranks=False)


def lose_root(user: int) -> None:
    """From root of this machine to a user who owns nothing on it, for good. Nothing where this is no root with the
    right to do so: in a namespace of users whoever is there is nobody outside already.
    """
    if os.getuid() == 0 and _may_change_users():
        os.setgroups([])
        os.setresgid(user, user, user)
        os.setresuid(user, user, user)
        if os.getresuid() != (user, user, user) or _may_change_users():
            raise OSError(errno.EPERM, "the user could not be changed")


def _may_change_users() -> bool:
    status = Path("/proc/self/status").read_text(encoding="ascii", errors="replace")
    found = re.search(r"^CapEff:\s*([0-9a-f]+)$", status, re.MULTILINE)
    return found is not None and bool(int(found[1], 16) >> _CAP_SETUID & 1)


def _machine() -> _Machine:
    machine = _MACHINES.get(platform.machine())
    if sys.platform != "linux" or machine is None:
        raise OSError(errno.ENOSYS, f"no filter is known for {sys.platform} on {platform.machine()}")
    return machine


def _set(machine: _Machine, refused: Iterable[int], *, ranks: bool) -> None:
    code = b"".join(struct.pack("HBBI", *step) for step in _program(machine, refused, ranks=ranks))
    libc = ctypes.CDLL(None, use_errno=True)
    instructions = ctypes.create_string_buffer(code, len(code))
    program = ctypes.create_string_buffer(struct.pack("HxxxxxxP", len(code) // 8, ctypes.addressof(instructions)))
    if libc.prctl(_SET_NO_NEW_PRIVILEGES, 1, 0, 0, 0) != 0:
        raise OSError(ctypes.get_errno(), "the kernel refuses to bar new privileges")
    # A positive answer is the id of a thread that could not be bound: it would be a way out.
    answer = libc.syscall(machine.seccomp, _SET_FILTER, _ALL_THREADS, program)
    if answer != 0:
        raise OSError(ctypes.get_errno() or errno.EBUSY, "the kernel refuses the filter of a sandboxed process")


def _program(machine: _Machine, refused: Iterable[int], *, ranks: bool) -> list[_Step]:
    """The filter: calls of another architecture and those refused fail with EPERM.

    clone3 has its flags in memory, where no filter can look: it is said to be missing, so that libc takes clone. The
    lower half of an argument is looked at: flags, families and process ids have no other.
    """
    refuse = (_RETURN, 0, 0, _REFUSE | errno.EPERM)
    steps: list[_Step] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUALS, 1, 0, machine.audit),
        refuse,
        (_LOAD, 0, 0, _NUMBER),
        (_AT_LEAST, 0, 1, _OTHER_INTERFACE),
        refuse,
        (_EQUALS, 0, 1, _CLONE3),
        (_RETURN, 0, 0, _REFUSE | errno.ENOSYS),
    ]
    for number in dict.fromkeys(refused):
        steps += [(_EQUALS, 0, 1, number), refuse]
    first = (_LOAD, 0, 0, _FIRST_ARGUMENT)
    if ranks:
        clone = [first, (_ANY_BIT, 1, 0, _THREAD), refuse, (_ANY_BIT, 0, 1, _NAMESPACES), refuse]
    else:
        clone = [first, (_ANY_BIT, 0, 1, _NAMESPACES), refuse]
    steps += _only(machine.clone, clone)
    families = [first]
    for left, family in zip(reversed(range(len(_FAMILIES))), _FAMILIES, strict=True):
        families.append((_EQUALS, left + 1, 0, family))
    for number in machine.socket:
        steps += _only(number, [*families, refuse])
    if ranks:
        for number, nobody in zip(machine.own, (os.getpid(), os.getpid(), 0), strict=True):
            steps += _only(number, [first, (_EQUALS, 2, 0, os.getpid()), (_EQUALS, 1, 0, nobody), refuse])
    return [*steps, (_RETURN, 0, 0, _ALLOW)]


def _only(number: int, steps: list[_Step]) -> list[_Step]:
    """Steps for one call: they end in a refusal, or allow by coming to their end."""
    return [(_EQUALS, 0, len(steps) + 1, number), *steps, (_RETURN, 0, 0, _ALLOW)]
