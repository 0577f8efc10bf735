// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/runtime/rt/drain.hpp>

#include <csignal>
#include <cstdio>
#include <mutex>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/runtime/event.hpp>
#include <cuota/runtime/for_each_index.hpp>
#include <cuota/runtime/graph.hpp>

#include "support/catch.hpp"
#include "support/foreign_capture.hpp"
#include "support/machine.hpp"
#include "support/sanitizer.hpp"
#include "support/thrown.hpp"

namespace rt = cuota::rt;

using support::has;
using support::thrown;

TEST_CASE("drain waits, and reports errors instead of throwing", "[runtime][drain]") {
    support::machine sim;
    cuota::stream const s;
    cuota::simulator::fail_call("cudaStreamSynchronize", 1, cudaErrorUnknown);
    CHECK(rt::drain(s));
    CHECK(sim.errors.take().size() == 1);
    CHECK(cuota::simulator::calls("cudaStreamSynchronize") == 2);
}

TEST_CASE("is_known_idle asks about a stream, but not while it is captured", "[runtime][drain]") {
    support::machine sim;
    cuota::stream const s, other;
    CHECK(rt::is_known_idle(s));
    {
        cuota::simulator::hold const running;
        cuota::for_each_index(
            s, 1, [](std::size_t) {}, "work");
        CHECK(!rt::is_known_idle(s));
    }
    s.synchronize();
    auto const graph = cuota::capture(s, [&] {
        auto const queries = cuota::simulator::calls("cudaStreamQuery");
        CHECK(!rt::is_known_idle(s));
        CHECK(cuota::simulator::calls("cudaStreamQuery") == queries);
        CHECK(rt::is_known_idle(other));
    });
}

TEST_CASE("synchronize_or_drain waits again after a failure and throws the error", "[runtime][drain]") {
    support::machine sim;
    cuota::stream const s;
    cuota::simulator::fail_call("cudaStreamSynchronize", 1, cudaErrorUnknown);
    auto const error = thrown<cuota::cuda_error>([&] { rt::synchronize_or_drain(s, {"train.cpp", 7}); });
    CHECK(error.code() == cudaErrorUnknown);
    CHECK(error.where().line == 7);
    CHECK(cuota::simulator::calls("cudaStreamSynchronize") == 2);
}

TEST_CASE("memory is freed after the work of its stream, but not if a foreign capture may use it",
          "[runtime][drain][foreign_capture]") {
    support::machine machine;
    support::native_stream const s;
    auto const waits = [] { return cuota::simulator::calls("cudaStreamSynchronize"); };
    CHECK(rt::drain_to_free(s));
    CHECK_FALSE(rt::is_kept_for_foreign_graph(s));
    CHECK(waits() == 1);
    {
        support::foreign_capture capture{s};
        CHECK_FALSE(rt::drain_to_free(s));
        CHECK(rt::is_kept_for_foreign_graph(s));
        CHECK_FALSE(rt::drain(s));
        CHECK(machine.errors.take().size() == 3);
        CHECK(waits() == 1);
        CHECK(capture.is_intact());
        (void)capture.end();
    }
    CHECK(rt::drain_to_free(s));
}

TEST_CASE("refusals on a captured stream differ for the library's own captures and foreign ones",
          "[runtime][drain][foreign_capture]") {
    support::machine const machine;
    support::native_stream const s;
    CHECK_NOTHROW(rt::check_not_capturing(s, "work", "wait"));
    {
        support::foreign_capture capture{s};
        CHECK_NOTHROW(rt::refuse_own_capture(s, "work", "wait"));
        for (auto* const refuse : {&rt::refuse_foreign_capture, &rt::check_not_capturing}) {
            auto const error = thrown<cuota::usage_error>([&] {
                refuse(s, "work", "wait", {"train.cpp", 7});
            });
            CHECK(has(error.what(), "work on a stream that is captured outside cuota::capture; wait"));
            CHECK(error.where().line == 7);
        }
        CHECK(capture.is_intact());
        (void)capture.end();
    }
    (void)cuota::capture(s.ref(), [&] {
        CHECK_NOTHROW(rt::refuse_foreign_capture(s, "work", "wait"));
        CHECK(has(thrown<cuota::usage_error>([&] { rt::refuse_own_capture(s, "work", "wait"); }).what(),
                  "work on a stream that is being captured; wait"));
        CHECK_THROWS_AS(rt::check_not_capturing(s, "work", "wait"), cuota::usage_error);
        int unused = 0;
        cuota::for_each_index(s.ref(), 1, [at = &unused](std::size_t) { ++*at; });
    });
}

TEST_CASE("waiting for a stream under a lock aborts a checked program", "[runtime][drain]") {
#if CUOTA_CHECKED
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    support::machine const sim;
    cuota::stream const s;
    cuota::event const e{s};
    auto const ends = [](auto wait) {
        pid_t const child = ::fork();
        if (child == 0) {
            std::signal(SIGABRT, SIG_DFL);
            (void)::freopen("/dev/null", "w", stderr);
            std::mutex guard;
            cuota::detail::region_lock const lock{guard};
            try {
                wait();
            } catch (...) {}
            ::_exit(0);
        }
        int status = 0;
        return ::waitpid(child, &status, 0) == child && WIFSIGNALED(status) && WTERMSIG(status) == SIGABRT;
    };
    CHECK(ends([&] { s.synchronize(); }));
    CHECK(ends([&] { e.synchronize(); }));
    CHECK(ends([&] { s.device().synchronize(); }));
    CHECK(ends([&] { (void)rt::drain(s); }));
    CHECK(ends([&] { (void)rt::drain(e); }));
    CHECK_FALSE(ends([] {}));
#else
    CUOTA_SKIP("it is not looked at where NDEBUG is set");
#endif
}
