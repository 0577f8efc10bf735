// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/detail/process.hpp>

#include <mutex>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

#include <cuota/core/detail/smart_pointers.hpp>
#include <cuota/core/detail/threads/locked_region.hpp>
#include <cuota/core/detail/threads/thread_slot.hpp>
#include <cuota/core/error.hpp>
#include <cuota/core/error_sink.hpp>

#include "support/catch.hpp"
#include "support/sanitizer.hpp"

namespace detail = cuota::detail;

namespace {

// Returns the exit status of a child that runs f: 0, or a number made from the line of the first failed check.
template <class F>
int in_child(F f) {
    pid_t const child = ::fork();
    if (child == 0) {
        ::alarm(60);
        ::_exit(f());
    }
    int status = 0;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    return WEXITSTATUS(status);
}

struct counted final : cuota::detail::ref_counted {
    explicit counted(int& ended) : ended_{ended} {}
    ~counted() { ++ended_; }
    int& ended_;
};

}  // namespace

#define EXPECT_IN_CHILD(what)                                                                                \
    if (!(what)) return __LINE__ % 250 + 1

TEST_CASE("a child process has another number than its parent and than its own children", "[core][process]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    unsigned const mine = detail::process_number::remembered();
    CHECK(in_child([&] {
              EXPECT_IN_CHILD(detail::process_number::now() == mine + 1);
              pid_t const child = ::fork();
              if (child == 0) ::_exit(detail::process_number::now() == mine + 2 ? 0 : 1);
              int status = 0;
              EXPECT_IN_CHILD(::waitpid(child, &status, 0) == child && status == 0);
              return 0;
          }) == 0);
    CHECK(detail::process_number::now() == mine);
}

TEST_CASE("a child process cannot lock objects of its parent, but can lock its own", "[core][process]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    detail::object_lock of_parent;
    std::lock_guard const as_by_another_thread{of_parent};
    CHECK(in_child([&] {
              EXPECT_IN_CHILD(of_parent.is_of_parent());
              bool is_refused = false;
              try {
                  detail::region_lock const lock{of_parent};
              } catch (cuota::usage_error const& e) {
                  is_refused = std::string{e.what()}.find("after fork()") != std::string::npos;
              }
              EXPECT_IN_CHILD(is_refused);
              EXPECT_IN_CHILD(!detail::locked_region::is_here());
              detail::object_lock own;
              EXPECT_IN_CHILD(!own.is_of_parent());
              detail::region_lock const lock{own};
              return 0;
          }) == 0);
    CHECK(!of_parent.is_of_parent());
}

TEST_CASE("a child process does not delete objects of its parent", "[core][process]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    int ended = 0;
    auto of_parent = cuota::detail::intrusive_ptr<counted>::make(ended);
    CHECK(in_child([&] {
              EXPECT_IN_CHILD(of_parent->is_of_parent());
              of_parent = {};
              EXPECT_IN_CHILD(ended == 0);
              { auto const own = cuota::detail::intrusive_ptr<counted>::make(ended); }
              EXPECT_IN_CHILD(ended == 1);
              return 0;
          }) == 0);
    of_parent = {};
    CHECK(ended == 1);
}

TEST_CASE("process locks are unlocked in a child process, and its thread has another slot",
          "[core][process]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    static auto& lock = *new detail::process_lock;
    std::lock_guard const as_by_another_thread{lock};
    std::lock_guard const no_thread_comes_or_goes{detail::thread_registry::instance().guard};
    auto const* const me = detail::this_thread_slot();
    CHECK(in_child([&] {
              { std::lock_guard const own{lock}; }
              auto const* const in_child = detail::this_thread();
              EXPECT_IN_CHILD(in_child != nullptr && in_child != me);
              return 0;
          }) == 0);
}

TEST_CASE("a child process detects that CUDA was used by its parent", "[core][process]") {
    if (support::under_thread_sanitizer) CUOTA_SKIP("it does not take a fork of a program with threads");
    detail::process_number::note_cuda();
    CHECK(!detail::process_number::is_cuda_of_parent());
    CHECK(in_child([] {
              detail::process_number::note_cuda();
              EXPECT_IN_CHILD(detail::process_number::is_cuda_of_parent());
              return 0;
          }) == 0);
}
