# SPDX-FileCopyrightText: 2026 The cuota authors
# SPDX-License-Identifier: Apache-2.0
"""Array libraries take cuota's tensors, and cuota takes theirs, by Python's protocol: capsules, through ctypes.

Of numpy, torch and tvm_ffi those that are installed; the others are named.
"""

import ctypes
import gc
import importlib
import os
import sys

api = ctypes.pythonapi
api.PyCapsule_New.restype, api.PyCapsule_New.argtypes = ctypes.py_object, [ctypes.c_void_p, ctypes.c_char_p, ctypes.c_void_p]
api.PyCapsule_GetPointer.restype, api.PyCapsule_GetPointer.argtypes = ctypes.c_void_p, [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_IsValid.argtypes = [ctypes.py_object, ctypes.c_char_p]
api.PyCapsule_SetName.argtypes = [ctypes.py_object, ctypes.c_char_p]
VERSIONED, OLD = b"dltensor_versioned", b"dltensor"
USED = {VERSIONED: b"used_dltensor_versioned", OLD: b"used_dltensor"}  # kept: a capsule only has the address

cuota = ctypes.CDLL(os.environ["CUOTA_DLPACK_FUNCTIONS"])
size = ctypes.c_int64
for name, result, arguments in (("tensor_made", ctypes.c_void_p, [size, size, ctypes.c_int, ctypes.c_int]),
                                ("old_tensor_made", ctypes.c_void_p, [size, size]),
                                ("tensor_sum", ctypes.c_double, [ctypes.c_void_p]), ("old_tensor_sum", ctypes.c_double, [ctypes.c_void_p]),
                                ("tensor_bytes", ctypes.c_size_t, []), ("tensor_message", ctypes.c_char_p, [])):
    function = getattr(cuota, name)
    function.restype, function.argtypes = result, arguments


def check(claim, holds, *shown):
    if not holds:
        sys.exit("\n".join(["NOT SO: " + claim, *map(str, shown)]))


class Exporter:
    """A tensor of 2 x 3 floats, 0 to 5, for from_dlpack."""

    def __init__(self, plain=True, read_only=False):
        self.plain, self.read_only = plain, read_only

    def __dlpack_device__(self):
        return (1 if self.plain else 3, 0)

    def __dlpack__(self, *, stream=None, max_version=None, dl_device=None, copy=None):
        if max_version is None or max_version[0] < 1:
            if self.read_only or not self.plain:
                raise BufferError("a consumer of before DLPack 1.0")
            return api.PyCapsule_New(cuota.old_tensor_made(2, 3), OLD, None)
        return api.PyCapsule_New(cuota.tensor_made(2, 3, self.plain, self.read_only), VERSIONED, None)


def takes_over(array, **asked):
    """The sum that cuota comes to by the tensor of an array; -1 when it refuses."""
    capsule = array.__dlpack__(**asked)
    name = VERSIONED if api.PyCapsule_IsValid(capsule, VERSIONED) else OLD
    tensor = api.PyCapsule_GetPointer(capsule, name)
    api.PyCapsule_SetName(capsule, USED[name])
    return (cuota.tensor_sum if name == VERSIONED else cuota.old_tensor_sum)(tensor)


def ends(claim):
    gc.collect()
    check(claim + ": its memory is back", cuota.tensor_bytes() == 0, cuota.tensor_bytes())


def numpy_takes(numpy):
    for plain in (True, False):
        array = numpy.from_dlpack(Exporter(plain))
        check("NumPy has the values", array.tolist() == [[0, 1, 2], [3, 4, 5]] and array.dtype == numpy.float32, array)
        check("without a copy", cuota.tensor_bytes() == 24, cuota.tensor_bytes())
        array[1, 2] = 9
        view = array[1]
        del array
        check("a view keeps it", cuota.tensor_bytes() == 24 and view.sum() == 16)
        del view
        ends("an array that is gone")
    array = numpy.from_dlpack(Exporter(read_only=True))
    check("what is read-only is not written", not array.flags.writeable)
    del array
    ends("a read-only array")

    numbers = numpy.arange(12, dtype=numpy.float32).reshape(3, 4)
    users = sys.getrefcount(numbers)
    for asked in ({}, {"max_version": (1, 0)}):
        check("cuota has NumPy's values", takes_over(numbers, **asked) == 66, cuota.tensor_message())
        check("cuota takes a part that is contiguous", takes_over(numbers[1:], **asked) == 60, cuota.tensor_message())
        for wrong, why in ((numbers.T, b"not contiguous"), (numbers[:, 1:], b"not contiguous"), (numbers.astype(numpy.float64), b"of float64, and float32"),
                           (numbers.view(numpy.int32), b"of int32, and float32")):
            check("cuota refuses the rest", takes_over(wrong, **asked) == -1 and why in cuota.tensor_message(), why, cuota.tensor_message())
    numbers.flags.writeable = False
    check("cuota reads what is read-only", takes_over(numbers, max_version=(1, 0)) == 66, cuota.tensor_message())
    del wrong
    gc.collect()
    check("every deleter was called", sys.getrefcount(numbers) == users, sys.getrefcount(numbers), users)


def takes(module):
    array = module.from_dlpack(Exporter())
    check(module.__name__ + " has the shape", tuple(array.shape) == (2, 3), array)
    check(module.__name__ + " gives it back as it was", takes_over(array) == 15, cuota.tensor_message())
    del array
    ends(module.__name__)


done = []
for name, test in (("numpy", numpy_takes), ("torch", takes), ("tvm_ffi", takes)):
    try:
        module = importlib.import_module(name)
    except ImportError:
        print("SKIPPED: dlpack_arrays with " + name + ", which is not installed")
        continue
    test(module)
    done.append(name)
if not done:
    sys.exit(77)
print("done with " + ", ".join(done))
