#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Trains a small network with PyTorch, whose device memory is cuota's, under a budget; then asks for too much.

    CUOTA_BUDGET=256MiB python3 pytorch_allocator.py libcuota_pytorch.so [mempool | pluggable]

mempool    what is done in `with use_mem_pool` takes its segments of cuota; a refusal is torch.OutOfMemoryError
pluggable  all of the process does, tensor by tensor; a refusal is a RuntimeError with cuota's text
Without a word both are run, each in a process of its own: an allocator is changed once, before CUDA is used.
"""

import ctypes
import os
import subprocess
import sys


def skip(why):
    print("SKIPPED: pytorch_allocator.py needs " + why)
    sys.exit(77)


class Library:
    """What the shared library tells, by ctypes."""

    def __init__(self, path):
        self.path, self.functions = path, ctypes.CDLL(path)

    def number(self, name, device=0):
        function = getattr(self.functions, "cuota_" + name)
        function.restype, function.argtypes = ctypes.c_size_t, [ctypes.c_int]
        return function(device)

    def text(self, name):
        function = getattr(self.functions, "cuota_" + name)
        function.restype, function.argtypes = ctypes.c_size_t, [ctypes.c_char_p, ctypes.c_size_t]
        buffer = ctypes.create_string_buffer(function(None, 0) + 256)  # figures may grow until it is asked again
        function(buffer, len(buffer))
        return buffer.value.decode()

    def address(self, name):
        return ctypes.cast(getattr(self.functions, "cuota_" + name), ctypes.c_void_p).value


def train(torch, steps=20):
    model = torch.nn.Sequential(torch.nn.Linear(784, 512), torch.nn.ReLU(), torch.nn.Linear(512, 10)).cuda()
    optimizer = torch.optim.Adam(model.parameters())
    images, labels = torch.randn(256, 784, device="cuda"), torch.randint(0, 10, (256,), device="cuda")
    for _ in range(steps):
        optimizer.zero_grad()
        loss = torch.nn.functional.cross_entropy(model(images), labels)
        loss.backward()
        optimizer.step()
    return loss.item()


def ask_for_too_much(torch, library):
    """The name of the exception that a tensor larger than the budget is refused with."""
    limit = library.number("limit")
    if limit > 1 << 60:
        sys.exit("pytorch_allocator.py: device 0 is unlimited; set CUOTA_BUDGET")
    try:
        torch.empty(limit + 1, dtype=torch.uint8, device="cuda")
    except (RuntimeError, MemoryError) as error:  # torch.OutOfMemoryError is a RuntimeError
        return type(error).__name__
    sys.exit("pytorch_allocator.py: more than the budget was served")


def by_mempool(torch, library):
    allocator = torch.cuda.memory.CUDAPluggableAllocator(library.path, "cuota_alloc", "cuota_free")
    pool = torch.cuda.MemPool(allocator.allocator())
    # The pool is its thread's, so the backward pass has to be done by this one.
    with torch.cuda.use_mem_pool(pool), torch.autograd.set_multithreading_enabled(False):
        return train(torch), ask_for_too_much(torch, library)


def by_pluggable(torch, library):
    allocator = torch.cuda.memory.CUDAPluggableAllocator(library.path, "cuota_alloc_or_throw", "cuota_free")
    for setter, name in (("set_record_stream_fn", "record_stream"), ("set_reset_fn", "reset"), ("set_memory_fraction_fn", "set_fraction")):
        getattr(allocator.allocator(), setter)(library.address(name))
    torch.cuda.memory.change_current_allocator(allocator)
    return train(torch), ask_for_too_much(torch, library)


def main():
    if len(sys.argv) < 2 or sys.argv[2:] not in ([], ["mempool"], ["pluggable"]):
        sys.exit(__doc__)
    os.environ.setdefault("CUOTA_BUDGET", "256MiB")
    try:
        import torch
    except ImportError:
        skip("PyTorch, which is not installed")
    if not torch.cuda.is_available():
        skip("a GPU that PyTorch can use")
    if len(sys.argv) == 2:
        for route in ("mempool", "pluggable"):
            subprocess.run([sys.executable, __file__, sys.argv[1], route], check=True)
        return
    library = Library(os.path.abspath(sys.argv[1]))
    loss, refusal = {"mempool": by_mempool, "pluggable": by_pluggable}[sys.argv[2]](torch, library)
    print(f"{sys.argv[2]}: loss {loss:.3f}, at most {library.number('peak') / 2**20:.1f} of {library.number('limit') / 2**20:.1f} MiB;"
          f" too much is refused by {refusal}:")
    print(library.text("last_failure"))
    print(library.text("summary"), flush=True)


main()
