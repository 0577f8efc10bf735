// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// C functions that exchange tensors between cuota and Python in both directions, for interop/dlpack_arrays.py.
#include <cuota/interop/dlpack.hpp>

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <exception>
#include <numeric>
#include <string>
#include <utility>

#include <cuota/guard/budgeted.hpp>

namespace {

cuota::budget const& account() {
    static cuota::budget const& one = *new cuota::budget{"python", std::size_t{1} << 20};
    return one;
}

std::string& message() {
    static thread_local std::string one;
    return one;
}

// Returns the result of `step`. If it throws, stores the message and returns `otherwise` (null or -1).
template <class R, class Step>
R guarded(R otherwise, Step step) noexcept {
    try {
        return step();
    } catch (std::exception const& error) {
        message() = error.what();
        return otherwise;
    }
}

// Makes a buffer with the values 0, 1, 2, ...
cuota::pinned_buffer<float> counted(std::int64_t count) {
    cuota::pinned_buffer<float> made{count, account()};
    auto const all = made.write();
    std::iota(all.begin(), all.end(), 0.0F);
    return made;
}

template <class Managed>
double sum_of(Managed* tensor) noexcept {
    return guarded(-1.0, [&] {
        auto const all = cuota::from_dlpack_on_host<float const>(tensor);
        double sum = 0;
        for (float const x : all.read()) sum += static_cast<double>(x);
        return sum;
    });
}

}  // namespace

extern "C" {

/// Exports rows x columns counted floats, in pinned memory that may be labelled as plain.
void* tensor_made(std::int64_t rows, std::int64_t columns, int is_plain, int is_read_only) {
    return guarded<void*>(nullptr, [&] {
        auto const called = is_plain ? cuota::dlpack_host::plain : cuota::dlpack_host::pinned;
        auto made = counted(rows * columns);
        if (!is_read_only) return cuota::to_dlpack(std::move(made), {rows, columns}, called).release();
        auto const shared = std::make_shared<cuota::pinned_buffer<float> const>(std::move(made));
        return cuota::to_dlpack(shared, {rows, columns}, called).release();
    });
}
/// Does the same for a consumer older than DLPack 1.0.
void* old_tensor_made(std::int64_t rows, std::int64_t columns) {
    return guarded<void*>(nullptr, [&] {
        return cuota::to_dlpack(counted(rows * columns), {rows, columns}, cuota::dlpack_host::plain)
            .release_unversioned();
    });
}
/// Takes ownership of the tensor and returns its sum, or -1 if it is rejected.
double tensor_sum(void* tensor) {
    return sum_of(static_cast<cuota::dlpack::managed_tensor_versioned*>(tensor));
}
double old_tensor_sum(void* tensor) { return sum_of(static_cast<cuota::dlpack::managed_tensor*>(tensor)); }
std::size_t tensor_bytes() { return account().held(); }
char const* tensor_message() { return message().c_str(); }
}
