# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""examples/pytorch_allocator.py, with a module in PyTorch's place that has its ways to take memory and no more."""

import os
import pathlib
import subprocess
import sys
import tempfile

example = pathlib.Path(__file__).resolve().parents[2] / "examples" / "pytorch_allocator.py"
library = os.environ["CUOTA_PYTORCH"]

# Serves torch.empty by the library, as the two routes of PyTorch do; all arithmetic is a mock's.
TORCH = '''
import contextlib, ctypes, unittest.mock as mock

class OutOfMemoryError(RuntimeError): pass
nn, optim = mock.MagicMock(), mock.MagicMock()
nn.functional.cross_entropy.return_value.item.return_value = 0.25
uint8 = "uint8"
current = None  # (allocator, whether PyTorch's cache stands between)
randn = randint = lambda *shape, device: empty(1 << 20, uint8, device)

class Allocator:
    def __init__(self, alloc, free):
        self.alloc, self.free, self.told = alloc, free, {}
    def __getattr__(self, name):
        if name not in ("set_record_stream_fn", "set_reset_fn", "set_memory_fraction_fn"): raise AttributeError(name)
        return lambda address: self.told.update({name: address}) if isinstance(address, int) else 1 / 0

class Memory:
    class CUDAPluggableAllocator:
        def __init__(self, path, alloc, free):
            library = ctypes.CDLL(path)
            alloc, free = getattr(library, alloc), getattr(library, free)
            alloc.restype, alloc.argtypes = ctypes.c_void_p, [ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
            free.restype, free.argtypes = None, [ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int, ctypes.c_void_p]
            self._allocator = Allocator(alloc, free)
        def allocator(self): return self._allocator
    def change_current_allocator(self, allocator):
        global current
        assert current is None and len(allocator.allocator().told) == 3
        current = allocator.allocator(), False

class Cuda:
    memory = Memory()
    def is_available(self): return %(gpu)s
    def MemPool(self, allocator):
        assert isinstance(allocator, Allocator)
        return allocator
    @contextlib.contextmanager
    def use_mem_pool(self, pool):
        global current
        current = pool, True
        yield
        current = None
cuda = Cuda()

class autograd:
    set_multithreading_enabled = staticmethod(contextlib.nullcontext)

def empty(count, dtype, device):
    assert device == "cuda"
    allocator, cached = current
    segment = -(-count // (2 << 20)) * (2 << 20) if cached else count
    if not cached and count > 1 << 24:  # what ctypes cannot do: see an exception of C++
        raise RuntimeError("cuota::budget_exceeded")
    if not (p := allocator.alloc(segment, 0, None)): raise OutOfMemoryError("CUDA out of memory")
    allocator.free(p, segment, 0, None)
'''


def check(claim, holds, *shown):
    if not holds:
        sys.exit("\n".join(["NOT SO: " + claim, *map(str, shown)]))


def run(*arguments, torch, **more):
    with tempfile.TemporaryDirectory() as folder:
        (pathlib.Path(folder) / "torch.py").write_text(torch)
        environment = {**os.environ, "PYTHONPATH": folder, "PYTHONDONTWRITEBYTECODE": "1", "CUOTA_SIM_MEMORY": "8GiB", **more}
        return subprocess.run([sys.executable, example, library, *arguments], env=environment, capture_output=True, text=True)


done = run(torch=TORCH % {"gpu": True})
check("both routes train and are refused", done.returncode == 0, done)
for line in ("mempool: loss 0.250, at most 2.0 of 256.0 MiB; too much is refused by OutOfMemoryError:",
             "cuota::budget_exceeded: cannot allocate 258.0 MiB", "pluggable: loss 0.250, at most 2.0 of 256.0 MiB; too much is refused by RuntimeError:"):
    check("it says: " + line, line in done.stdout, done.stdout)
check("it shows the summary of each", done.stdout.count("device 0") >= 2, done.stdout)

done = run("mempool", torch=TORCH % {"gpu": True}, CUOTA_BUDGET="unlimited")
check("without a limit nothing can be shown", done.returncode == 1 and "set CUOTA_BUDGET" in done.stderr, done)
done = run("other", torch=TORCH % {"gpu": True})
check("another route is refused", done.returncode == 1 and "mempool | pluggable" in done.stderr, done)
done = run(torch=TORCH % {"gpu": False})
check("without a GPU it is skipped", done.returncode == 77 and done.stdout == "SKIPPED: pytorch_allocator.py needs a GPU that PyTorch can use\n", done)
done = run(torch="raise ImportError")
check("without PyTorch it is skipped", done.returncode == 77 and "PyTorch, which is not installed" in done.stdout, done)
