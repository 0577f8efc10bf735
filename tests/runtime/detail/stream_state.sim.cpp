// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/runtime/detail/stream_state.hpp>

#include <optional>
#include <thread>

#include <unistd.h>

#include "support/catch.hpp"
#include "support/machine.hpp"

using cuota::detail::default_stream;
using cuota::detail::host_thread;
using cuota::detail::intrusive_ptr;
using cuota::detail::stream_state;

TEST_CASE("each host thread has a unique number", "[runtime][stream_state]") {
    host_thread const mine = host_thread::current();
    host_thread first;
    host_thread second;
    std::thread{[&] { first = host_thread::current(); }}.join();
    std::thread{[&] { second = host_thread::current(); }}.join();

    CHECK(host_thread::current().number == mine.number);
    CHECK(mine.system_id == ::gettid());
    CHECK(mine.number != 0);
    CHECK(first.number != mine.number);
    CHECK(second.number != mine.number);
    CHECK(second.number != first.number);
}

TEST_CASE("a default stream handle has one state for each thread and device", "[runtime][stream_state]") {
    support::machine const on{{.devices = 2}};
    intrusive_ptr<stream_state> const mine = default_stream(cudaStreamPerThread);
    intrusive_ptr<stream_state> const legacy = default_stream(cudaStreamLegacy);
    intrusive_ptr<stream_state> theirs;
    std::thread{[&] {
        theirs = default_stream(cudaStreamPerThread);
        CHECK(default_stream(cudaStreamLegacy).get() == legacy.get());
        CHECK(!theirs->thread_has_ended);
    }}.join();

    CHECK(default_stream(cudaStreamPerThread).get() == mine.get());
    CHECK(default_stream(cudaStream_t{}).get() == legacy.get());
    CHECK(theirs.get() != mine.get());
    CHECK(theirs->thread_has_ended);
    CHECK(!mine->thread_has_ended);
    CHECK(mine->thread.number == host_thread::current().number);
    CHECK(legacy->thread.number == 0);
    cuota::device_scope const there{cuota::device{1}};
    CHECK(default_stream(cudaStreamPerThread).get() != mine.get());
    CHECK(default_stream(cudaStreamLegacy).get() != legacy.get());
    CHECK(default_stream(cudaStreamLegacy)->home == cuota::device{1});
}

TEST_CASE("is_default_handle is true for 0, the legacy stream and the per-thread stream only",
          "[runtime][stream_state]") {
    CHECK(cuota::detail::is_default_handle(cudaStream_t{}));
    CHECK(cuota::detail::is_default_handle(cudaStreamLegacy));
    CHECK(cuota::detail::is_default_handle(cudaStreamPerThread));
    int something = 0;
    CHECK(!cuota::detail::is_default_handle(reinterpret_cast<cudaStream_t>(&something)));
}
