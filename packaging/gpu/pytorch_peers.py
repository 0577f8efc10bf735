#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""PyTorch's own figures beside cuota's, a line each.

pytorch_peers.py [kernels | loader | grow | step [LIBRARY] | capture LIBRARY]

kernels  copies, casts, a fused AdamW of 10^8 numbers, an allocation
loader   rows a second of a DataLoader with four workers and pinned memory
grow     blocks of 8 MiB until there are 8 GiB of them, and their end, with PyTorch's allocator as for step
step     a training step, with PyTorch's allocator as PYTORCH_CUDA_ALLOC_CONF chooses it, or with libcuota_pytorch.so
capture  a graph captured by PyTorch whose memory is cuota's and grows within the capture; fails if its result is wrong

Status 77: PyTorch is not installed, or sees no GPU.
"""
import statistics
import sys
import time

try:
    import torch
except ImportError:
    print("SKIPPED: PyTorch is not installed for this python3")
    sys.exit(77)
if not torch.cuda.is_available():
    print("SKIPPED: PyTorch sees no GPU")
    sys.exit(77)

MIB, GIB = 1 << 20, 1 << 30


def seconds(call, turns=20):
    for _ in range(3):
        call()
    begin, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
    begin.record()
    for _ in range(turns):
        call()
    end.record()
    torch.cuda.synchronize()
    return begin.elapsed_time(end) / turns / 1e3


def rate(name, count, call):
    """Prints the bytes that `call` reads and writes, in a second."""
    print(f"{name:28} {count / seconds(call) / 1e9:8.0f} GB/s")


def kernels():
    source = torch.empty(4 * GIB, dtype=torch.uint8, device="cuda")
    target = torch.empty_like(source)
    rate("copy_, read and write", 2 * source.numel(), lambda: target.copy_(source))
    del source, target
    floats = torch.empty(GIB // 2, dtype=torch.float32, device="cuda").normal_()
    for kind in (torch.half, torch.bfloat16):
        name = str(kind).removeprefix("torch.")
        short = torch.empty_like(floats, dtype=kind)
        rate(f"float to {name}", 6 * floats.numel(), lambda: short.copy_(floats))
        rate(f"{name} to float", 6 * floats.numel(), lambda: floats.copy_(short))
        rate(f"isfinite of {name}", 2 * short.numel(), lambda: short.isfinite().all())
        del short
    codes = torch.randint(0, 256, (GIB // 2,), dtype=torch.uint8, device="cuda")
    rate("byte to float, scaled", 5 * codes.numel(), lambda: torch.mul(codes, 1 / 255, out=floats))
    del codes, floats
    numbers = torch.nn.Parameter(torch.randn(100_000_000, device="cuda"))
    numbers.grad = torch.randn_like(numbers)
    optimizer = torch.optim.AdamW([numbers], fused=True)
    print(f"{'fused AdamW of 10^8':28} {seconds(optimizer.step) * 1e3:8.3f} ms")
    del optimizer, numbers
    torch.cuda.synchronize()
    begin = time.perf_counter()
    for _ in range(20_000):
        block = torch.empty(65536, dtype=torch.uint8, device="cuda")
        del block
    print(f"{'torch.empty and del':28} {(time.perf_counter() - begin) / 20_000 * 1e6:8.2f} us, Python's share included")


class Rows(torch.utils.data.Dataset):
    """Rows in memory, by batches: of 64 KiB, as loader_of_memory of bench-device has them."""

    def __init__(self):
        self.data = torch.full((16384, 64 << 10), 7, dtype=torch.uint8)

    def __len__(self):
        return len(self.data)

    def __getitems__(self, rows):
        return self.data[rows]


def whole(rows):
    return rows


def loader():
    batches = torch.utils.data.DataLoader(Rows(), batch_size=128, shuffle=True, num_workers=4, pin_memory=True,
                                          collate_fn=whole, persistent_workers=True)
    for epoch in range(2):
        begin, seen = time.perf_counter(), 0
        for rows in batches:
            seen += rows.cuda(non_blocking=True).shape[0]
        torch.cuda.synchronize()
        took = time.perf_counter() - begin
        print(f"DataLoader, epoch {epoch}: {seen / took:.0f} rows/s, {seen * (64 << 10) / took / 1e9:.2f} GB/s, in batches of 8 MiB")


def grow(turns=5):
    torch.empty(1, device="cuda")
    for count in (100, 1024):
        ups, downs = [], []
        for _ in range(turns):
            torch.cuda.empty_cache()
            torch.cuda.synchronize()
            begin = time.perf_counter()
            held = [torch.empty(8 * MIB, dtype=torch.uint8, device="cuda") for _ in range(count)]
            torch.cuda.synchronize()
            ups.append(time.perf_counter() - begin)
            begin = time.perf_counter()
            held.clear()
            torch.cuda.empty_cache()
            torch.cuda.synchronize()
            downs.append(time.perf_counter() - begin)
        up, down = (statistics.median(times) * 1e3 for times in (ups, downs))
        print(f"{count} blocks of 8 MiB: up {up:.2f} ms, down {down:.2f} ms, both {up + down:.2f} ms")


def step(library=None, *, layers=24, width=2048, batch=2048):
    if library:
        ours = torch.cuda.memory.CUDAPluggableAllocator(library, "cuota_alloc_or_throw", "cuota_free")
        torch.cuda.memory.change_current_allocator(ours)
    torch.manual_seed(1)
    parts = [part for _ in range(layers) for part in (torch.nn.Linear(width, width), torch.nn.GELU())]
    net = torch.nn.Sequential(*parts).cuda()
    optimizer = torch.optim.AdamW(net.parameters(), fused=True)
    images = torch.randn(batch, width, device="cuda")

    def one():
        optimizer.zero_grad()
        loss = net(images).square().mean()
        loss.backward()
        optimizer.step()
        return loss

    took = seconds(one)
    free, total = torch.cuda.mem_get_info()
    print(f"step {took * 1e3:.2f} ms, loss {one().item():.9g}, the device holds {(total - free) / MIB:.0f} MiB")


def capture(library):
    ours = torch.cuda.memory.CUDAPluggableAllocator(library, "cuota_alloc", "cuota_free")
    pool = torch.cuda.MemPool(ours.allocator())
    numbers = torch.randn(MIB, device="cuda")
    with torch.cuda.use_mem_pool(pool):
        torch.empty(64 * MIB, device="cuda")  # so that the pool knows a stream
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph, pool=pool.id):
        result = numbers * 2
        ones = torch.empty(96 * MIB, device="cuda")  # more than is cached: a segment, while the stream is captured
        ones.fill_(1)
        result = result + ones[:MIB]
    graph.replay()
    torch.cuda.synchronize()
    if not torch.equal(result, numbers * 2 + 1):
        sys.exit("capture: WRONG result")
    print("capture: right")


def main():
    words = sys.argv[1:]
    parts = {"kernels": kernels, "loader": loader, "grow": grow, "step": step, "capture": capture}
    if not words or words[0] not in parts:
        sys.exit(__doc__)
    print(f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}")
    parts[words[0]](*words[1:])


if __name__ == "__main__":
    main()
