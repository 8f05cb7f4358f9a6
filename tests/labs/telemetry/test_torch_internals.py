"""What telemetry takes from torch without a promise. Each test names what to mend when an upgrade breaks it."""

from __future__ import annotations

import subprocess
import sys
import threading
import weakref
from typing import Any

import pytest
import torch
from torch.profiler import record_function
from torch.utils._python_dispatch import TorchDispatchMode

from labs.telemetry import Tracker
from labs.telemetry.collectives import _OPERATIONS


class Names(TorchDispatchMode):
    def __init__(self) -> None:
        super().__init__()
        self.seen: list[str] = []

    def __torch_dispatch__(self, func: Any, types: Any, args: Any = (), kwargs: Any = None) -> Any:
        self.seen.append(func._schema.name)
        return func(*args, **(kwargs or {}))


def test_record_function_is_seen_as_two_operations_of_the_profiler() -> None:
    with Names() as names, record_function("forward"):
        pass
    assert names.seen == ["profiler::_record_function_enter_new", "profiler::_record_function_exit"]


def test_a_storage_keeps_its_address_and_its_weak_reference_while_any_tensor_looks_at_it() -> None:
    tensor = torch.empty(4)
    freed: list[Any] = []
    reference = weakref.ref(tensor.untyped_storage(), freed.append)
    key = tensor.untyped_storage()._cdata
    view = tensor[1:]
    del tensor
    assert view.untyped_storage()._cdata == key
    assert freed == []
    del view
    assert freed == [reference]


def test_resize_of_a_storage_is_a_method_that_can_be_watched() -> None:
    assert "resize_" not in vars(torch.UntypedStorage)
    assert callable(torch.UntypedStorage.resize_)


@pytest.mark.parametrize("operation", sorted(_OPERATIONS))
def test_each_collective_that_is_counted_still_exists(operation: str) -> None:
    import torch.distributed._functional_collectives

    assert operation in torch._C._dispatch_get_all_op_names() or any(
        name.startswith(f"{operation}.") for name in torch._C._dispatch_get_all_op_names()
    )


def printed(code: str) -> str:
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True, timeout=60)
    return done.stdout.strip()


def test_the_tracker_does_not_load_torchs_compiler() -> None:
    """Seconds of a rank's start: `_should_skip_dynamo` keeps torch from wrapping the mode."""
    work = "from labs.telemetry import Tracker\nwith Tracker(): torch.ones(3) + 1"
    assert printed(f"import sys, torch\n{work}\nprint('torch._dynamo' in sys.modules)") == "False"


def test_words_and_drawings_load_no_torch() -> None:
    modules = "labs.telemetry.drawing, labs.telemetry.rows, labs.telemetry.live"
    assert printed(f"import sys, {modules}\nprint('torch' in sys.modules)") == "False"


def test_what_was_not_promised_is_still_there() -> None:
    assert issubclass(Tracker, TorchDispatchMode)
    assert Tracker._should_skip_dynamo() is False
    from torch.distributed.tensor import DTensor

    assert DTensor.__name__ == "DTensor"
    assert "_local_tensor" in DTensor.__slots__


def test_the_profiler_can_watch_every_thread() -> None:
    """In profiling.py: without it, the spans of gloo's threads and of the slow link are missing from a trace."""
    from torch.profiler import ProfilerActivity, profile

    going = threading.Event()

    def elsewhere() -> None:
        going.wait()
        with record_function("elsewhere"):
            torch.ones(2)

    thread = threading.Thread(target=elsewhere)
    thread.start()
    everywhere = torch._C._profiler._ExperimentalConfig(profile_all_threads=True)
    with profile(activities=[ProfilerActivity.CPU], experimental_config=everywhere) as profiler:
        going.set()
        thread.join()
    assert "elsewhere" in {event.name for event in profiler.events() or ()}
