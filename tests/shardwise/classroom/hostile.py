"""The hostile set: what submissions try, as data. Nothing of it may gain a point, read a hidden value, change a grade,
another submission or the host, leave a process, or stop the others from being graded.

PROBES     lines that try one thing each, in one file: each must be refused
SCORES     files whose whole aim is points that they did not earn
BOUNDED    files that take too much, each alone in a sandbox, with the limits that may say so
SOURCES    files that attack who reads them, before anything is run
REPORTS    what a rank may leave in place of a result: bytes of JSON, and bytes of tensors
"""

from __future__ import annotations

import json
import struct
from collections.abc import Callable
from dataclasses import dataclass, field

HEAD = "import os, sys\ndef model_states(parameters, *, precision):\n"
"""In front of a body that is indented: the exercise on which most are tried, one rank and no group."""

PROBES = r'''
import ctypes, gc, mmap, os, resource, signal, socket, struct, sys, threading, time
from pathlib import Path

LIBC = ctypes.CDLL(None, use_errno=True)

def tried(name, what):
    try:
        print("DID", name, str(what())[:60])
    except BaseException as error:
        print("refused", name, type(error).__name__)

def call(number, *arguments):
    """A system call by its number, past whatever Python or libc would say."""
    answer = LIBC.syscall(number, *arguments)
    if answer < 0:
        raise OSError(ctypes.get_errno(), "refused")
    if answer == 0 and number in (56, 57, 58, 0x40000000 + 57):
        os._exit(0)
    return answer

HOST, CHECKOUT, LOOPBACK, ABSTRACT = %(host)r, %(checkout)r, %(port)d, %(abstract)r
EXERCISES = Path("/course/labs/exercises")

# --- reading
tried("home", lambda: os.listdir(HOST))
tried("etc-passwd", lambda: Path("/etc/passwd").read_text())
tried("checkout", lambda: os.listdir(CHECKOUT))
tried("solution", lambda: (EXERCISES / "zero_1/solution.py").read_text())
tried("broken", lambda: (EXERCISES / "zero_1/broken.py").read_text())
tried("compiled-solution", lambda: next(EXERCISES.rglob("solution*")))
tried("import-solution", lambda: __import__("labs.exercises.zero_1.solution"))
tried("bank", lambda: os.listdir("/course/quiz"))
tried("gradebook", lambda: Path(HOST, "gradebook.db").read_bytes())
tried("other-submissions", lambda: os.listdir(Path(HOST, "submitted")))
tried("host-environment", lambda: os.environ["SHARDWISE_SECRET"])
tried("environment-of-the-leader", lambda: Path(f"/proc/{os.getppid()}/environ").read_bytes())
tried("parents", lambda: 1 / (len([p for p in os.listdir("/proc") if p.isdigit()]) < 2))
tried("compare-of-the-check", lambda: __import__("labs.exercises.zero_1.check", fromlist=["x"]).compare)
tried("twin", lambda: __import__("labs.exercises.small", fromlist=["x"]).twin)
tried("answers-of-the-check", lambda: __import__("labs.exercises.model_states.check", fromlist=["x"]).PER_PARAMETER)
OBJECTS = [each for each in gc.get_objects() if isinstance(each, dict)]
tried("answers-in-memory", lambda: next(each for each in OBJECTS if each.keys() == {"fp32", "bf16"}))
tried("memory-of-the-leader", lambda: open(f"/proc/{os.getppid()}/mem", "rb"))
tried("maps-of-the-leader", lambda: Path(f"/proc/{os.getppid()}/maps").read_text())
tried("files-of-the-leader", lambda: os.readlink(f"/proc/{os.getppid()}/fd/0"))
tried("root-of-the-first", lambda: os.listdir("/proc/1/root/home"))
tried("kernel-memory", lambda: Path("/proc/kcore").read_bytes()[:1] or 1 / 0)
tried("kernel-log", lambda: call(103, 3, ctypes.create_string_buffer(100), 100))

# --- writing
tried("write-course", lambda: (EXERCISES / "zero_1/check.py").write_text("CASES = ()"))
tried("write-cell", lambda: Path("/course/cell.py").write_text("x"))
tried("write-python", lambda: Path(sys.prefix, "pyvenv.cfg").write_text("x"))
PACKAGES = next(Path(p) for p in sys.path if p.endswith("site-packages"))
tried("startup-file", lambda: (PACKAGES / "sitecustomize.py").write_text("x"))
tried("pth-file", lambda: (PACKAGES / "evil.pth").write_text("import os"))
tried("preload", lambda: Path("/etc/ld.so.preload").write_text("/tmp/x.so"))
tried("write-host", lambda: Path(HOST, "left.txt").write_text("x"))
tried("write-etc", lambda: Path("/etc/hosts").write_text("x"))
tried("write-root", lambda: Path("/left").write_text("x"))
tried("make-root", lambda: os.mkdir("/left"))
tried("link-out", lambda: os.link("/etc/hosts", "/tmp/hosts"))
CORE = Path("/proc/sys/kernel/core_pattern")  # what it names is run by the host's root; here only written back
tried("program-of-the-host", lambda: CORE.write_text(CORE.read_text()))
tried("key-of-the-kernel", lambda: Path("/proc/sysrq-trigger").write_text("h"))
tried("interrupts", lambda: open("/proc/irq/default_smp_affinity", "r+").close())
tried("user-map", lambda: Path("/proc/self/uid_map").write_text("0 0 1"))
tried("big-file", lambda: Path("/tmp/big").write_bytes(b"x" * 400_000_000))
tried("big-shared", lambda: Path("/dev/shm/big").write_bytes(b"x" * 400_000_000))
for big in ("/tmp/big", "/dev/shm/big"):
    Path(big).unlink(missing_ok=True)
tried("device", lambda: os.mknod("/tmp/disk", 0o60600, os.makedev(254, 0)))
tried("disk", lambda: next(each for each in Path("/dev").iterdir() if each.is_block_device()).read_bytes())

# --- processes
tried("fork", os.fork)
tried("program", lambda: os.execv("/usr/bin/true", ["true"]))
tried("spawn", lambda: os.posix_spawn("/usr/bin/true", ["true"], {}))
tried("shell", lambda: 1 / (os.system("true") == 0))
tried("subprocess", lambda: __import__("subprocess").run(["/usr/bin/true"]))
tried("multiprocessing", lambda: __import__("multiprocessing").get_context("fork").Process(target=print).start())
tried("terminal", lambda: __import__("pty").fork())
tried("fork-by-number", lambda: call(57))
tried("vfork-by-number", lambda: call(58))
tried("clone-by-number", lambda: call(56, 17, 0, 0, 0, 0))
tried("clone-with-namespaces", lambda: call(56, 0x10000000 | 17, 0, 0, 0, 0))
CLONE = ctypes.create_string_buffer(struct.pack("11Q", *[0] * 4, 17, *[0] * 6))
tried("clone3-by-number", lambda: call(435, CLONE, 88))
tried("fork-by-x32", lambda: call(0x40000000 + 57))
tried("exec-of-memory", lambda: call(322, call(319, b"x", 0), b"", 0, 0, 0x1000))

def by_32_bit():
    """int 0x80 with eax = 2: fork by the interface of the 386."""
    code = mmap.mmap(-1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC)
    code.write(b"\x53\xb8\x02\x00\x00\x00\xcd\x80\x5b\x48\x98\xc3")
    answer = ctypes.CFUNCTYPE(ctypes.c_long)(ctypes.addressof(ctypes.c_char.from_buffer(code)))()
    if answer == 0:
        os._exit(0)
    if answer < 0:
        raise OSError(-answer, "refused")
    return answer

tried("fork-by-386", by_32_bit)

def in_another_thread():
    """A handler in C runs in whichever thread gets the signal: one that torch or gloo started before the filter was."""
    found, got = [], threading.Event()

    @ctypes.CFUNCTYPE(None, ctypes.c_int)
    def handler(_number):
        answer = LIBC.syscall(57)
        if answer == 0:
            os._exit(0)
        found.append(answer)
        got.set()

    LIBC.signal(signal.SIGUSR2, handler)
    for thread in sorted(map(int, os.listdir("/proc/self/task"))):
        if thread != threading.get_native_id():
            LIBC.syscall(234, os.getpid(), thread, signal.SIGUSR2)
    got.wait(0.5)
    LIBC.signal(signal.SIGUSR2, ctypes.c_void_p(1))
    if not any(each > 0 for each in found):
        raise OSError("refused")
    return found

tried("fork-in-another-thread", in_another_thread)
tried("signal-to-the-leader", lambda: os.kill(os.getppid(), signal.SIGTERM))
tried("signal-to-all", lambda: os.kill(-1, signal.SIGTERM))
tried("signal-to-the-group", lambda: os.killpg(0, signal.SIGTERM))
tried("signal-to-a-thread", lambda: call(200, os.getppid(), signal.SIGTERM))
tried("queued-signal", lambda: call(129, os.getppid(), signal.SIGTERM, ctypes.create_string_buffer(128)))
tried("signal-by-descriptor", lambda: signal.pidfd_send_signal(os.pidfd_open(os.getppid()), signal.SIGTERM))
tried("priority", lambda: os.nice(-10))
tried("more-memory", lambda: resource.setrlimit(resource.RLIMIT_AS, (resource.RLIM_INFINITY,) * 2))
tried("more-time", lambda: resource.setrlimit(resource.RLIMIT_CPU, (resource.RLIM_INFINITY,) * 2))
tried("limits-of-the-leader", lambda: resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (1, 1)))

# --- the kernel
tried("setuid", lambda: os.setuid(54321))
tried("become-root", lambda: (os.setuid(0), Path("/etc/shadow").read_text())[1])
tried("setgroups", lambda: os.setgroups([0]))
tried("chroot", lambda: os.chroot("/tmp"))
tried("pivot-root", lambda: call(155, b"/tmp", b"/tmp"))
tried("namespace", lambda: call(272, 0x10000000))
tried("enter-namespace", lambda: call(308, os.open("/proc/self/ns/mnt", os.O_RDONLY), 0))
tried("mount", lambda: call(165, b"none", b"/tmp", b"tmpfs", 0, 0))
tried("remount", lambda: call(165, b"", b"/", b"", 32 | 4096, 0))
tried("open-tree", lambda: call(428, -100, b"/", 1))
tried("new-mount", lambda: call(430, b"tmpfs", 0))
tried("ptrace", lambda: call(101, 16, os.getppid(), 0, 0))
VECTOR = ctypes.create_string_buffer(16)
tried("read-others", lambda: call(310, os.getppid(), VECTOR, 1, VECTOR, 1, 0))
tried("write-others", lambda: call(311, os.getppid(), VECTOR, 1, VECTOR, 1, 0))
tried("compare-others", lambda: call(312, os.getpid(), os.getppid(), 0, 0, 0) + 1)
tried("io-uring", lambda: call(425, 8, ctypes.create_string_buffer(120)))
tried("page-faults", lambda: call(323, 1))
tried("bpf", lambda: call(321, 0, ctypes.create_string_buffer(128), 128))
tried("perf", lambda: call(298, ctypes.create_string_buffer(128), 0, -1, -1, 0))
tried("keyring", lambda: call(250, 0, -3, 1))
tried("add-key", lambda: call(248, b"user", b"x", b"y", 1, -3))
tried("by-handle", lambda: call(304, -100, ctypes.create_string_buffer(64), 0))
tried("module", lambda: call(175, b"", 0, b""))
tried("kexec", lambda: call(246, 0, 0, 0, 0))
tried("reboot", lambda: call(169, 0xFEE1DEAD, 672274793, 0, 0))
tried("clock", lambda: call(227, 0, ctypes.create_string_buffer(16)))
tried("host-name", lambda: socket.sethostname("x"))
tried("swap", lambda: call(167, b"/tmp/x", 0))
tried("hidden-memory", lambda: call(29, 0, 1 << 20, 0o1600))
tried("memory-as-file", lambda: os.memfd_create("x"))
tried("secret-memory", lambda: call(447, 0))
tried("messages", lambda: call(68, 0, 0o1600))
tried("message-queue", lambda: call(240, b"x", 0o102, 0o600, 0))

# --- the network
tried("network", lambda: socket.create_connection(("1.1.1.1", 53), timeout=2))
tried("network-6", lambda: socket.create_connection(("2606:4700:4700::1111", 53), timeout=2))
tried("datagram", lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).sendto(b"x", ("192.0.2.1", 53)))
tried("name", lambda: socket.getaddrinfo("example.org", 80))
tried("host-loopback", lambda: socket.create_connection(("127.0.0.1", LOOPBACK), timeout=2))
tried("abstract-socket", lambda: socket.socket(socket.AF_UNIX).connect("\0" + ABSTRACT))
tried("raw-socket", lambda: socket.socket(socket.AF_PACKET, socket.SOCK_RAW))
tried("ping-socket", lambda: socket.socket(socket.AF_INET, socket.SOCK_RAW, 1))
tried("hypervisor", lambda: socket.socket(socket.AF_VSOCK))
tried("kernel-crypto", lambda: socket.socket(socket.AF_ALG, socket.SOCK_SEQPACKET))
tried("bluetooth", lambda: socket.socket(31, socket.SOCK_RAW, 1))
tried("vsock-pair", lambda: socket.socketpair(socket.AF_VSOCK))

def model_states(parameters, *, precision):
    return None
'''
"""The numbers are those of x86-64; elsewhere they are other calls, and the test leaves those lines out."""

_FORGED_LINE = 'b\'{"outputs": [""], "files": [["rank-0.json", 4]], "failed": null}\\nnull\''


@dataclass(frozen=True, kw_only=True)
class Attack:
    """One submission that wants points. `alone`: it may end the sandbox, so that no other can share it. `exercise` is
    the one that it pretends to solve.
    """

    code: str
    exercise: str = "model-states"
    alone: bool = False

    @property
    def source(self) -> str:
        return whole(self.code)


def whole(code: str) -> str:
    """The file: a body that is indented becomes the function of the exercise."""
    return HEAD + code if code.startswith("    ") else code


def _attack(code: str, **more: object) -> Attack:
    return Attack(code=code, **more)  # type: ignore[arg-type]


_TRUTH = "{'parameters': 4 * parameters, 'gradients': 4 * parameters, 'optimizer_states': 8 * parameters}"
SCORES = {
    "equal to all": _attack(
        "    class Yes:\n        __eq__ = lambda *_: True\n        __hash__ = None\n    return Yes()"
    ),
    "numbers equal to all": _attack(
        "    class Yes(int):\n        __eq__ = lambda *_: True\n        __hash__ = int.__hash__\n"
        "    return {name: Yes(1) for name in ('parameters', 'gradients', 'optimizer_states')}"
    ),
    "dictionary that answers anything": _attack(
        "    class Any(dict):\n        get = lambda *_: True\n        __getitem__ = lambda *_: True\n    return Any()"
    ),
    "forged report": _attack(
        "    from labs.runner import rank\n    rank.report({'passed': True, 'points': 10})\n    os._exit(0)"
    ),
    "report that stays": _attack(
        "    from labs.runner import rank\n    rank.report({'passed': True})\n    rank.report = lambda *_: None\n"
    ),
    "report by a thread that lives on": _attack(
        "    import threading, time\n    from pathlib import Path\n"
        "    run = Path(os.environ['SHARDWISE_RUN'])\n"
        "    def write():\n        while True:\n            (run / 'rank-0.json').write_text('{\"points\": 10}')\n"
        "    threading.Thread(target=write, daemon=True).start()\n    time.sleep(0.2)\n    return None"
    ),
    "exit": _attack("    sys.exit(0)"),
    "exit at once": _attack("    os._exit(0)"),
    "exit of the file": _attack("import sys\ndef model_states(parameters, *, precision): pass\nsys.exit(0)"),
    "interrupt": _attack("    raise KeyboardInterrupt"),
    "end of a generator": _attack("    raise GeneratorExit"),
    "patched compare": _attack(
        "    import labs.exercises.model_states.check as c\n    c.compare = lambda *a: iter(())\n    return None"
    ),
    "patched verdict": _attack(
        "    import labs.exercises.checking as c, labs.exercises.verdict as v\n"
        "    c._run = c.check = lambda *a, **k: v.Verdict(passed=True, points=10, of=10, failed_at=None, message='',\n"
        "        finding='', rank=None)\n    return None"
    ),
    "patched work": _attack(
        "import labs.exercises.model_states.check as c\nfrom labs.exercises.trial import Work\n"
        "c.work = lambda *a: Work(value={'all': True})\nc.CASES = ()\nc.plain = lambda v: True\n"
        "def model_states(parameters, *, precision): return None"
    ),
    "patched json": _attack(
        "import json\nbefore = json.dumps\njson.dumps = lambda *a, **k: before({'passed': True, 'points': 10})\n"
        "def model_states(parameters, *, precision): return None"
    ),
    "patched torch": _attack(
        "import torch\ntorch.Tensor.__eq__ = torch.allclose = torch.equal = lambda *a, **k: True\n"
        "torch.Tensor.abs = lambda self: self * 0\ndef model_states(parameters, *, precision): return torch.tensor(1)"
    ),
    "patched builtins": _attack(
        "import builtins\nbuiltins.isinstance = lambda *_: True\nbuiltins.type = lambda *_: int\n"
        "def model_states(parameters, *, precision): return {'parameters': True}"
    ),
    "patched import": _attack(
        "import builtins\nbefore = builtins.__import__\ndef hook(name, *a, **k):\n"
        "    module = before(name, *a, **k)\n    vars(module)['compare'] = lambda *a: iter(())\n    return module\n"
        "builtins.__import__ = hook\ndef model_states(parameters, *, precision): return None"
    ),
    "patched runner": _attack(
        "import sys, types\nimport labs.runner.client as c\nc.run = lambda *a, **k: None\n"
        "sys.modules['labs.runner'] = types.SimpleNamespace(run=c.run)\n"
        "def model_states(parameters, *, precision): return None"
    ),
    "input hook": _attack(
        "try:\n    shell = get_ipython()\n"
        "    shell.input_transformers_cleanup.append(lambda lines: [l.replace('assert', '#') for l in lines])\n"
        "except NameError:\n    pass\ndef model_states(parameters, *, precision): return None"
    ),
    "traced work": _attack(
        "import sys\ndef look(frame, event, _):\n    if frame.f_code.co_name == 'work':\n"
        "        frame.f_locals['found'] = {'passed': True}\n    return look\n"
        "def model_states(parameters, *, precision):\n    sys.settrace(look)\n    sys._getframe(1).f_trace = look\n"
        "    return None"
    ),
    "finding of its own": _attack(
        "    from labs.exercises.trial import Found\n    raise Found('optimizer-states', 'bytes', got=1, expected=1)"
    ),
    "finding in no group": _attack(
        "    from labs.exercises.trial import Found\n    raise Found('no-such-group', 'passed', points=10, of=10)"
    ),
    "message of the course": _attack(
        "    from translations import CourseError\n    raise CourseError('labs.check-passed', points=10, of=10)"
    ),
    "failure file": _attack(
        "    import json\n    from pathlib import Path\n"
        "    told = dict(time=0.0, secondary=False, error='', where='', own='', full='',\n"
        "                message=['labs.check-passed', {'points': 10, 'of': 10}])\n"
        "    Path(os.environ['SHARDWISE_RUN'], 'rank-0.failure').write_text(json.dumps(told))\n    os._exit(1)"
    ),
    "heartbeat": _attack(
        "    from pathlib import Path\n    file = Path(os.environ['SHARDWISE_RUN'], 'heartbeat')\n"
        "    file.write_bytes(b'\\xff' * file.stat().st_size)\n    return None"
    ),
    "heartbeat cut off": _attack(
        "    os.truncate(os.path.join(os.environ['SHARDWISE_RUN'], 'heartbeat'), 0)\n    return None"
    ),
    "link to a file": _attack(
        "    from pathlib import Path\n    run = Path(os.environ['SHARDWISE_RUN'])\n"
        "    (run / 'rank-0.safetensors').symlink_to('/etc/hosts')\n    return None"
    ),
    "link in place of the report": _attack(
        "    from pathlib import Path\n    run = Path(os.environ['SHARDWISE_RUN'])\n"
        "    (run / 'rank-0.json').symlink_to('/proc/self/environ')\n    os._exit(0)"
    ),
    "pipe in place of the report": _attack(
        "    os.mkfifo(os.path.join(os.environ['SHARDWISE_RUN'], 'rank-0.json'))\n    os._exit(0)"
    ),
    "folder in place of the report": _attack(
        "    os.makedirs(os.path.join(os.environ['SHARDWISE_RUN'], 'rank-0.json', 'x'))\n    os._exit(0)"
    ),
    "device in place of the report": _attack(
        "    os.symlink('/dev/zero', os.path.join(os.environ['SHARDWISE_RUN'], 'rank-0.safetensors'))\n    return None"
    ),
    "pickle in place of tensors": _attack(
        "    import pickle\n    class Run:\n        __reduce__ = lambda self: (os.system, ('touch /tmp/unpickled',))\n"
        "    for name in ('rank-0.json', 'rank-0.safetensors', 'rank-0.pt'):\n"
        "        with open(os.path.join(os.environ['SHARDWISE_RUN'], name), 'wb') as out:\n"
        "            out.write(pickle.dumps(Run()))\n    os._exit(0)"
    ),
    "other ranks' files": _attack(
        "    for rank in range(-1, 64):\n"
        "        with open(os.path.join(os.environ['SHARDWISE_RUN'], f'rank-{rank}.json'), 'w') as out:\n"
        "            out.write('{\"passed\": true}')\n    return None"
    ),
    "folder of the run gone": _attack(
        "    import shutil\n    shutil.rmtree(os.environ['SHARDWISE_RUN'], ignore_errors=True)\n    return None"
    ),
    "answer on the pipe": _attack(
        f"    head = {_FORGED_LINE}\n"
        "    for pid in [p for p in os.listdir('/proc') if p.isdigit()]:\n"
        "        for fd in range(0, 24):\n            try:\n"
        "                os.write(os.open(f'/proc/{pid}/fd/{fd}', os.O_WRONLY | os.O_NONBLOCK), head * 3)\n"
        "            except OSError:\n                pass"
    ),
    "answer on every descriptor": _attack(
        f"    head = {_FORGED_LINE}\n"
        "    for fd in range(1, 64):\n        try:\n            os.set_blocking(fd, False)\n"
        "            os.write(fd, head)\n"
        "        except OSError:\n            pass"
    ),
    "all descriptors closed": _attack("    os.closerange(0, 256)\n    return None"),
    "verdict in the output": _attack(
        "    print('\\x1b[2J\\x1b[H\\x1b[32mEverything holds: 10 of 10 points.\\x1b[0m')\n    print('10/10' * 1000)"
    ),
    "verdict in the error": _attack(
        "    raise ValueError('\\n\\nEverything holds: 10 of 10 points.\\x1b]0;root\\x07')"
    ),
    "braces in the error": _attack("    raise ValueError('{points} {0.__class__.__mro__} %(seed)s ${HOME} {{')"),
    "markup in the error": _attack(
        "    raise ValueError('<script>fetch(\"//evil\")</script>](javascript:alert(1)) <img src=x onerror=alert(1)>')"
    ),
    "half a character in the error": _attack("    raise ValueError('\\ud800 \\u202e')"),
    "error that never ends": _attack(
        "    class Endless(Exception):\n        def __str__(self): return 'x' * 50_000_000\n    raise Endless"
    ),
    "error that cannot be told": _attack(
        "    class Silent(Exception):\n        def __str__(self): raise self\n    raise Silent"
    ),
    "errors without end": _attack(
        "    error = None\n    for _ in range(20_000):\n        new = ValueError('x')\n        new.__cause__ = error\n"
        "        error = new\n    raise error"
    ),
    "group of errors": _attack(
        "    error = ValueError('x')\n    for _ in range(500): error = ExceptionGroup('x', [error])\n    raise error"
    ),
    "endless recursion": _attack(
        "    sys.setrecursionlimit(10**9)\n    def down(n): return down(n + 1)\n    return down(0)", alone=True
    ),
    "endless recursion through native code": _attack(
        "    sys.setrecursionlimit(10**9)\n    class Deep:\n        __repr__ = lambda self: repr(self)\n"
        "    return repr(Deep())"
    ),
    "crash in native code": _attack("    import ctypes\n    ctypes.string_at(8)"),
    "abort": _attack("    os.abort()"),
    "stopped": _attack("    os.kill(os.getpid(), 19)", alone=True),
    "ends the runner": _attack("    os.kill(os.getppid(), 9)\n    return None"),
    "ends everything": _attack("    os.kill(-1, 9)"),
    "loads at exit": _attack(
        "import atexit, os\natexit.register(os._exit, 0)\n"
        "class Late:\n    def __del__(self): os._exit(0)\nlate = Late()\n"
        "def model_states(parameters, *, precision): raise ValueError"
    ),
    "encoding of its own": _attack(
        "# -*- coding: utf-7 -*-\ndef model_states(parameters, *, precision):\n    return None\n"
    ),
    "leftovers for the next": _attack(
        "    from pathlib import Path\n"
        "    for place in ('/student', '/tmp', '/dev/shm', '.', '/tmp/labs'):\n"
        "        for name in ('sitecustomize.py', 'usercustomize.py', 'torch.py', 'labs.py', 'x.pth', 'json.py'):\n"
        "            try:\n                Path(place, name).write_text('import os; os._exit(0)')\n"
        "            except OSError:\n                pass\n"
        "    os.environ.update(PYTHONPATH='/student', LD_PRELOAD='/tmp/x.so', PYTHONSTARTUP='/tmp/torch.py')\n"
        "    return None"
    ),
    "asks for the right bytes": _attack(
        "    import labs.exercises.model_states.check as c\n"
        "    table = getattr(c, 'PER_PARAMETER', {}).get(precision, {})\n"
        "    return {name: size * parameters for name, size in table.items()}"
    ),
    "right answers of another precision": _attack(f"    return {_TRUTH} if precision == 'bf16' else None"),
    "twin in place of communication": _attack(
        "from labs.exercises import small\ndef optimizer_step(units):\n"
        "    import sys\n    truth = small.twin(seed=int(sys.argv[4]), ranks=2, count=1, steps=2)\n"
        "    for unit, step in zip(units, truth[0].after): unit.update(step)\n",
        exercise="zero-1",
    ),
    "one rank alone": _attack(
        "import os\ndef optimizer_step(units):\n    if os.environ['RANK'] == '0': os._exit(0)\n    raise ValueError\n",
        exercise="zero-1",
    ),
    "group of its own": _attack(
        "import torch.distributed as dist\ndef optimizer_step(units):\n    dist.destroy_process_group()\n",
        exercise="zero-1",
    ),
    "collective that never comes": _attack(
        "import time\ndef optimizer_step(units):\n    time.sleep(3600)\n", exercise="zero-1", alone=True
    ),
}


@dataclass(frozen=True, kw_only=True)
class Greedy:
    """A body that takes too much, and the limits of which one must say so: "" where its own run is ended first."""

    body: str
    exercise: str = "model-states"
    ends_as: tuple[str, ...] = ()
    limits: dict[str, float] = field(default_factory=dict)


BOUNDED = {
    "memory": Greedy(
        body="    held = []\n    while True:\n        held.append(bytearray(b'x' * 50_000_000))", ends_as=("memory",)
    ),
    "memory of many": Greedy(
        body=(
            "import time\ndef ring_all_reduce(buffer, *, group):\n"
            "    held = [bytearray(b'x' * 10_000_000) for _ in range(60)]\n    time.sleep(3600)\n"
        ),
        exercise="ring-all-reduce",
        ends_as=("memory",),
    ),
    "memory that nobody sees": Greedy(
        body=(
            "    import ctypes\n    ctypes.CDLL(None).prctl(4, 0, 0, 0, 0)\n    held = []\n"
            "    while True:\n        held.append(bytearray(b'x' * 50_000_000))"
        ),
        ends_as=("memory",),
    ),
    "files in memory": Greedy(
        body=(
            "    for place in ('/tmp', '/dev/shm', '/student'):\n"
            "        try:\n            open(place + '/x', 'wb').write(b'x' * 250_000_000)\n"
            "        except OSError:\n            pass\n    import time\n    time.sleep(3600)"
        ),
        ends_as=("memory",),
        limits={"memory": 700 * 2**20},
    ),
    "many files": Greedy(
        body="    n = 0\n    while True:\n        n += 1\n        open(f'/tmp/{n}', 'w').close()", ends_as=("files",)
    ),
    "time": Greedy(body="    while True:\n        pass", ends_as=("time",)),
    "time in native code": Greedy(body="    import re\n    re.match('(a+)+$', 'a' * 60 + 'b')", ends_as=("time",)),
    "time that sleeps": Greedy(body="    import time\n    time.sleep(3600)", ends_as=("time",)),
    "a constant": Greedy(body="    return 9 ** 9 ** 9", ends_as=("time",)),
    "cpu": Greedy(
        body=(
            "    import threading, hashlib\n    data = b'x' * 50_000_000\n"
            "    def work():\n        while True:\n            hashlib.sha256(data).digest()\n"
            "    for _ in range(4): threading.Thread(target=work, daemon=True).start()\n    work()"
        ),
        ends_as=("cpu",),
        limits={"cpu": 6},
    ),
    "output": Greedy(body="    while True:\n        print('x' * 100_000)", ends_as=("time",)),
    "a long line": Greedy(body="    while True:\n        os.write(1, b'x' * 1_000_000)", ends_as=("time",)),
    "threads": Greedy(
        body=(
            "    import threading, time\n    threading.stack_size(65536)\n"
            "    while True:\n        threading.Thread(target=time.sleep, args=(99,), daemon=True).start()"
        ),
        ends_as=("threads", ""),
    ),
    "a report without end": Greedy(
        body=(
            "    with open(os.path.join(os.environ['SHARDWISE_RUN'], 'rank-0.safetensors'), 'wb') as out:\n"
            "        out.truncate(250_000_000)\n"
            "    with open(os.path.join(os.environ['SHARDWISE_RUN'], 'rank-0.json'), 'w') as out:\n"
            "        out.write('{}')\n    os._exit(0)"
        ),
        ends_as=("output", "memory"),
    ),
}
"""Bodies of `model_states`, but for one of a whole file."""

SOURCES: dict[str, Callable[[], str]] = {
    "a million brackets": lambda: "def model_states(parameters, *, precision): return " + "(" * 10**6 + ")" * 10**6,
    "brackets": lambda: "def model_states(parameters, *, precision): return " + "[" * 95_000 + "]" * 95_000,
    "signs": lambda: "def model_states(parameters, *, precision): return " + "-" * 190_000 + "1",
    "nots": lambda: "def model_states(parameters, *, precision): return " + "not " * 45_000 + "1",
    "attributes": lambda: "def model_states(parameters, *, precision): return x" + ".a" * 95_000,
    "calls": lambda: "def model_states(parameters, *, precision): return x" + "()" * 95_000,
    "sums": lambda: "def model_states(parameters, *, precision): return 1" + "+1" * 95_000,
    "powers": lambda: "def model_states(parameters, *, precision): return 1" + "**1" * 60_000,
    "comparisons": lambda: "def model_states(parameters, *, precision): return 1" + "<1" * 95_000,
    "lambdas": lambda: "def model_states(parameters, *, precision): return " + "lambda:" * 27_000 + "1",
    "conditions": lambda: "def model_states(parameters, *, precision): return " + "1 if 1 else " * 16_000 + "1",
    "targets": lambda: "a=" * 95_000 + "1\ndef model_states(parameters, *, precision): pass",
    "blocks": lambda: "\n".join(" " * n + "if 1:" for n in range(600)) + "\n" + " " * 600 + "pass",
    "elses": lambda: "if 1: pass\n" + "elif 1: pass\n" * 15_000 + "def model_states(parameters, *, precision): pass",
    "subscripts": lambda: "def model_states(parameters, *, precision): return " + "x[" * 60_000 + "]" * 60_000,
    "f-strings": lambda: "def model_states(parameters, *, precision): return " + "f'{" * 50_000 + "}'" * 40_000,
    "a long number": lambda: "def model_states(parameters, *, precision): return " + "9" * 190_000,
    "a power of powers": lambda: "X = 9 ** 9 ** 9 ** 9\ndef model_states(parameters, *, precision): return X",
    "a long string": lambda: "X = 'x' * 10 ** 11\ndef model_states(parameters, *, precision): return X",
    "a long line": lambda: "def model_states(parameters, *, precision): return '" + "x" * 190_000 + "'",
    "nul": lambda: "def model_states(parameters, *, precision):\n    return '\0'\n",
    "half a character": lambda: "def model_states(parameters, *, precision):\n    return '\ud800'\n",
    "turned lines": lambda: "def model_states(parameters, *, precision):\n    '''\u202e '''; return '\u2066'\n",
    "alike letters": lambda: "def model_state\u0455(parameters, *, precision):\n    return None\n",
    "names that are made alike": lambda: "def \U0001d426odel_states(parameters, *, precision):\n    return None\n",
    "form feeds": lambda: "\f" * 190_000 + "def model_states(parameters, *, precision): return None",
    "an endless magic line": lambda: "%%exercise " + "model-states " * 10_000 + "\ndef model_states(): pass",
    "white space": lambda: " \n\t" * 60_000,
    "continued lines": lambda: "\\\n" * 90_000 + "def model_states(parameters, *, precision): return None",
}
"""Each must get a verdict in seconds, whoever reads it: it is parsed outside the sandbox."""


def _tensors(header: bytes, data: bytes = b"", *, length: int | None = None) -> bytes:
    return struct.pack("<Q", len(header) if length is None else length) + header + data


def _tensor(**changed: object) -> bytes:
    one = {"dtype": "F64", "shape": [1], "data_offsets": [0, 8], **changed}
    return _tensors(json.dumps({"update-0-0": one}).encode(), bytes(8))


REPORTS: dict[str, tuple[bytes, bytes]] = {
    "nothing": (b"", b""),
    "deep": (b"[" * 1_000_000, b""),
    "deep and closed": (b"[" * 100_000 + b"]" * 100_000, b""),
    "deep as it may be": (b"[" * 900 + b"]" * 900, b""),
    "many": (b"[" + b"[]," * 300_000 + b"0]", b""),
    "a long number": (b"9" * 1_000_000, b""),
    "a number of many digits": (b'{"fp32-1": {"parameters": ' + b"9" * 4_000 + b"}}", b""),
    "numbers that are none": (b'{"fp32-1": [NaN, Infinity, -Infinity, 1e999]}', b""),
    "a float that counts": (b'{"fp32-1": {"parameters": 4.0, "gradients": 4.0, "optimizer_states": 8.0}}', b""),
    "true": (b'{"fp32-1": {"parameters": true}}', b""),
    "half a character": (b'{"fp32-1": "\\ud800\\u001b[2J"}', b""),
    "a long text": (b'{"fp32-1": "' + b"x" * 4_000_000 + b'"}', b""),
    "keys twice": (b'{"fp32-1": {}, "fp32-1": [], "__class__": "x", "__proto__": 1}', b""),
    "no UTF-8": (b'{"\xff\xfe": 1}', b""),
    "UTF-16": ("﻿{}".encode("utf-16"), b""),
    "a verdict": (b'{"passed": true, "points": 10, "of": 10, "failed_at": null}', b""),
    "a pickle": (b"\x80\x04cos\nsystem\n(S'touch /tmp/unpickled'\ntR.", b"\x80\x04cos\nsystem\n(S'x'\ntR."),
    "a header longer than all": (b"{}", _tensors(b"{}", length=2**63)),
    "a header of a gigabyte": (b"{}", _tensors(b"{}", length=2**30)),
    "a deep header": (b"{}", _tensors(b'{"a":' * 100_000)),
    "a header of many names": (b"{}", _tensors(b"{" + b",".join(b'"%d":{}' % n for n in range(100_000)) + b"}")),
    "an offset outside": (b"{}", _tensor(data_offsets=[0, 2**62])),
    "an offset that is negative": (b"{}", _tensor(data_offsets=[-8, 0])),
    "offsets turned": (b"{}", _tensor(data_offsets=[8, 0])),
    "a shape beyond everything": (b"{}", _tensor(shape=[2**40, 2**40])),
    "a shape that is negative": (b"{}", _tensor(shape=[-1])),
    "no such type": (b"{}", _tensor(dtype="PICKLE")),
    "a zip": (b"{}", b"PK\x03\x04" + bytes(100)),
    "cut off": (b"{}", _tensor()[:-3]),
    "not finite": (b"{}", _tensor()[:-8] + struct.pack("<d", float("nan"))),
}
