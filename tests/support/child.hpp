// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Child processes for tests. ThreadSanitizer does not support fork in a program with threads.
#pragma once

#include <csignal>
#include <cstdlib>
#include <string>

#include <sys/wait.h>
#include <unistd.h>

#include <cuota/core/error.hpp>

#include "support/catch.hpp"
#include "support/sanitizer.hpp"
#include "support/this_program.hpp"

namespace support {

/// Returns the wait status of a child that runs f and then exits with status 0, unless f has ended it earlier. A child that hangs is killed
/// after 30 seconds. GCC 12's AddressSanitizer can deadlock in a child, on a lock of its allocator that another thread had at the fork; under
/// it, a child that hangs is run once more.
template <class F>
[[nodiscard]] int status_of_child(F f) {
    for (int tries = under_address_sanitizer ? 2 : 1;;) {
        pid_t const child = ::fork();
        if (child == 0) {
            std::signal(SIGALRM, SIG_DFL);
            ::alarm(30);
            f();
            ::_exit(0);
        }
        int status = -1;
        REQUIRE(::waitpid(child, &status, 0) == child);
        if (--tries == 0 || !WIFSIGNALED(status) || WTERMSIG(status) != SIGALRM) return status;
    }
}

/// Returns true if f throws usage_error because the process was forked.
template <class F>
[[nodiscard]] bool is_refused_in_child(F f) {
    try {
        f();
    } catch (cuota::usage_error const& e) {
        return std::string{e.what()}.find("after fork()") != std::string::npos;
    } catch (...) {}
    return false;
}

/// For tests with static owners. Returns true in a process that runs only this test. Otherwise it runs such a process, checks its exit
/// status and returns false. Leak detection is off in it, because sanitizers report false leaks in a forked child.
[[nodiscard]] inline bool is_alone(char const* test, int wanted = 0) {
    if (std::getenv("CUOTA_PLANTED")) return true;
    std::string const command = "exec " + this_program() + " \"$0\" --out /dev/null";
    int const status = status_of_child([&] {
        ::alarm(0);  // the test's own time limit applies
        ::setenv("CUOTA_PLANTED", "1", 1);
        ::setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
        ::execl("/bin/sh", "sh", "-c", command.c_str(), test, nullptr);
        ::_exit(99);
    });
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == wanted);
    return false;
}

}  // namespace support
