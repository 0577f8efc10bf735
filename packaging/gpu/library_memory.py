#!/usr/bin/env python3
# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""What NVIDIA's libraries allocate on a device by themselves: a line for each call, with the change of cudaMemGetInfo's free bytes.

A change counts the code that the call loads (CUDA loads kernels at their first use) as well as workspaces. Uses the libraries that PyTorch brings.
Status 77: PyTorch is not installed, or sees no GPU.
"""
import ctypes
import os
import subprocess
import sys

from pytorch_peers import MIB, torch  # ends the program where there is no PyTorch


def free():
    torch.cuda.synchronize()
    return torch.cuda.mem_get_info()[0]


def step(what, call=lambda: 0):
    """Prints what `call` returned, and what it took."""
    begun = free()
    status = call()
    print(f"{what:62} {'' if status in (0, None) else f'status {status} '}{(begun - free()) / MIB:9.2f} MiB")


def load(*names):
    for name in names:
        try:
            return ctypes.CDLL(name)
        except OSError:
            pass
    print(f"not here: {names[0]}")
    return None


def address(tensor):
    return ctypes.c_void_p(tensor.data_ptr())


def stream_of(stream):
    return ctypes.c_void_p(stream.cuda_stream)


ONE, ZERO = ctypes.byref(ctypes.c_float(1)), ctypes.byref(ctypes.c_float(0))
FLOAT, BFLOAT16, COMPUTE_FLOAT = 0, 14, 68


def products(handle, blas, a, b, c, n, kind):
    if kind == FLOAT:
        return blas.cublasSgemm_v2(handle, 0, 0, n, n, n, ONE, address(a), n, address(b), n, ZERO, address(c), n)
    return blas.cublasGemmEx(handle, 0, 0, n, n, n, ONE, address(a), kind, n, address(b), kind, n, ZERO, address(c), kind, n, COMPUTE_FLOAT, -1)


def cublas():
    blas = load("libcublas.so.13", "libcublas.so.12")
    if not blas:
        return
    n = 2048
    a, b, c = (torch.zeros(n, n, device="cuda") for _ in range(3))
    short = [torch.zeros(n, n, device="cuda", dtype=torch.bfloat16) for _ in range(3)]
    first, second, own = torch.cuda.Stream(), torch.cuda.Stream(), torch.zeros(32 * MIB, dtype=torch.uint8, device="cuda")
    handle, other = ctypes.c_void_p(), ctypes.c_void_p()
    step("cublasCreate", lambda: blas.cublasCreate_v2(ctypes.byref(handle)))
    step("cublasSgemm, the default stream", lambda: products(handle, blas, a, b, c, n, FLOAT))
    step("cublasSgemm again", lambda: products(handle, blas, a, b, c, n, FLOAT))
    step("cublasGemmEx of bfloat16", lambda: products(handle, blas, *short, n, BFLOAT16))
    for name, stream in (("first", first), ("second", second), ("first", first)):
        step(f"cublasSetStream, {name} stream", lambda: blas.cublasSetStream_v2(handle, stream_of(stream)))
        step("cublasSgemm there", lambda: products(handle, blas, a, b, c, n, FLOAT))
        step("cublasGemmEx there", lambda: products(handle, blas, *short, n, BFLOAT16))
    step("cublasCreate, another", lambda: blas.cublasCreate_v2(ctypes.byref(other)))
    step("cublasSetWorkspace of 32 MiB, before a product", lambda: blas.cublasSetWorkspace_v2(other, address(own), ctypes.c_size_t(32 * MIB)))
    step("cublasSgemm", lambda: products(other, blas, a, b, c, n, FLOAT))
    step("cublasSetStream, first stream", lambda: blas.cublasSetStream_v2(other, stream_of(first)))
    step("cublasSgemm, the workspace is the library's again", lambda: products(other, blas, a, b, c, n, FLOAT))
    step("cublasSetWorkspace of 0 bytes", lambda: blas.cublasSetWorkspace_v2(other, None, ctypes.c_size_t(0)))
    step("cublasSgemm", lambda: products(other, blas, a, b, c, n, FLOAT))
    step("cublasDestroy, another", lambda: blas.cublasDestroy_v2(other))
    step("cublasDestroy, the first", lambda: blas.cublasDestroy_v2(handle))
    step("cublasCreate after that", lambda: blas.cublasCreate_v2(ctypes.byref(handle)))
    step("cublasDestroy", lambda: blas.cublasDestroy_v2(handle))
    lt = load("libcublasLt.so.13", "libcublasLt.so.12")
    if lt:
        step("cublasLtCreate", lambda: lt.cublasLtCreate(ctypes.byref(handle)))
        step("cublasLtDestroy", lambda: lt.cublasLtDestroy(handle))


def cufft():
    fft = load("libcufft.so.12", "libcufft.so.11")
    if not fft:
        return
    complex_to_complex = 0x29
    for n, batch in ((1 << 20, 8), (1_000_003, 1), (1 << 26, 1)):
        numbers = torch.zeros(n * batch, dtype=torch.complex64, device="cuda")
        plan, size = ctypes.c_int(), ctypes.c_size_t()
        step(f"cufftPlan1d, {batch} of {n} complex numbers", lambda: fft.cufftPlan1d(ctypes.byref(plan), n, complex_to_complex, batch))
        fft.cufftGetSize(plan, ctypes.byref(size))
        print(f"  cufftGetSize: {size.value / MIB:.2f} MiB")
        step("cufftExecC2C", lambda: fft.cufftExecC2C(plan, address(numbers), address(numbers), -1))
        step("cufftDestroy", lambda: fft.cufftDestroy(plan))
        step("cufftCreate", lambda: fft.cufftCreate(ctypes.byref(plan)))
        step("cufftSetAutoAllocation of 0", lambda: fft.cufftSetAutoAllocation(plan, 0))
        step("cufftMakePlan1d", lambda: fft.cufftMakePlan1d(plan, n, complex_to_complex, batch, ctypes.byref(size)))
        print(f"  its size: {size.value / MIB:.2f} MiB")
        print(f"  cufftExecC2C without a work area: status {fft.cufftExecC2C(plan, address(numbers), address(numbers), -1)}")
        own = torch.zeros(max(size.value, 256), dtype=torch.uint8, device="cuda")
        step("cufftSetWorkArea, cufftExecC2C",
             lambda: fft.cufftSetWorkArea(plan, address(own)) or fft.cufftExecC2C(plan, address(numbers), address(numbers), -1))
        step("cufftDestroy", lambda: fft.cufftDestroy(plan))
        del numbers, own


def handles():
    """One create and one destroy each."""
    for names, create, destroy in ((("libcusolver.so.12", "libcusolver.so.11"), "cusolverDnCreate", "cusolverDnDestroy"),
                                   (("libcusparse.so.12",), "cusparseCreate", "cusparseDestroy"),
                                   (("libcudnn.so.9",), "cudnnCreate", "cudnnDestroy")):
        library, handle = load(*names), ctypes.c_void_p()
        if library:
            step(create, lambda: getattr(library, create)(ctypes.byref(handle)))
            step(destroy, lambda: getattr(library, destroy)(handle))
            step(f"{create} again", lambda: getattr(library, create)(ctypes.byref(handle)))
            step(destroy, lambda: getattr(library, destroy)(handle))
    random, generator = load("libcurand.so.10"), ctypes.c_void_p()
    if random:
        numbers = torch.zeros(MIB, device="cuda")
        for name, kind in (("XORWOW", 101), ("Philox", 161), ("MTGP32", 141)):
            step(f"curandCreateGenerator, {name}", lambda: random.curandCreateGenerator(ctypes.byref(generator), kind))
            step("curandGenerateUniform", lambda: random.curandGenerateUniform(generator, address(numbers), ctypes.c_size_t(MIB)))
            step("curandDestroyGenerator", lambda: random.curandDestroyGenerator(generator))


def communicator():
    nccl, handle = load("libnccl.so.2"), ctypes.c_void_p()
    if nccl:
        step("ncclCommInitAll, one device", lambda: nccl.ncclCommInitAll(ctypes.byref(handle), 1, ctypes.byref(ctypes.c_int(0))))
        step("ncclCommDestroy", lambda: nccl.ncclCommDestroy(handle))


def cublas_by_configuration():
    """CUBLAS_WORKSPACE_CONFIG is read when the library is loaded: a process for each value."""
    for value in (":0:0", ":16:8", ":4096:8"):
        done = subprocess.run([sys.executable, __file__, "--cublas"], env={**os.environ, "CUBLAS_WORKSPACE_CONFIG": value}, capture_output=True, text=True)
        print(f"with CUBLAS_WORKSPACE_CONFIG={value}:")
        print(*(line for line in done.stdout.splitlines() if line.startswith(("cublasCreate ", "cublasSgemm, the default", "cublasGemmEx of"))), sep="\n")


if __name__ == "__main__":
    print(f"PyTorch {torch.__version__}, CUDA {torch.version.cuda}, {torch.cuda.get_device_name()}")
    torch.zeros(1, device="cuda")
    torch.cuda.synchronize()
    torch.zeros(4 << 30, dtype=torch.uint8, device="cuda")  # stays in PyTorch's cache, so that tensors change nothing
    step("nothing")
    cublas()
    if sys.argv[1:] == ["--cublas"]:
        sys.exit()
    cublas_by_configuration()
    cufft()
    handles()
    communicator()
