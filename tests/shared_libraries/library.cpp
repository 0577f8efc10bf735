// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include "library.hpp"

#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>
#include <cuota/resource/device_memory.hpp>
#include <cuota/runtime/for_each_index.hpp>

namespace {

struct copy_more {
    cuota::device_span<float> to;
    cuota::device_span<float const> from;
    float more;
    CUOTA_KERNEL void operator()(std::size_t i) const { to[i] = from[i] + more; }
};

void step(cuota::scoped_pool& pool, cuota::stream_ref s, cuota::device_buffer<float>& x) {
    cuota::device_buffer<float> scratch{x.size(), s, pool, cuota::no_init, "scratch"};
    cuota::for_each_index(s, x.size(), copy_more{scratch.write(s), x.read(s), 1.0f});
    cuota::for_each_index(s, x.size(), copy_more{x.write(s), scratch.read(s), 0.0f});
}

constexpr library_calls calls{
    [] { cuota::report_error(cuota::usage_error{"of the library"}); },
    [](std::size_t bytes) { return cuota::device_memory{cuota::device{0}}.allocate_sync(bytes); },
    [](void* p, std::size_t bytes) { cuota::device_memory{cuota::device{0}}.deallocate_sync(p, bytes); },
    &step,
    [](cuota::budget& account, std::size_t bytes) {
        account.charge(bytes, "library");
        account.refund(bytes);
    },
    [](cuota::lease<float const> const& lease) { return lease.span().size(); },
    [] { return cuota::stream_ref{cudaStreamPerThread}.id(); },
    [](cuota::stream_ref s) { return cuota::detail::is_captured(s); },
    &types_of_errors,
};

}  // namespace

library_calls const* calls_of_library() { return &calls; }
