// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Child processes for tests. ThreadSanitizer does not support fork in a program with threads.
#pragma once

#include <chrono>
#include <csignal>
#include <cstdlib>
#include <string>
#include <thread>

#include <sys/wait.h>
#include <unistd.h>

#include <cuota/core/error.hpp>

#include "support/catch.hpp"
#include "support/fork_turn.hpp"
#include "support/sanitizer.hpp"
#include "support/this_program.hpp"

namespace support {

/// Waits for a child and returns its wait status. Kills it after 40 seconds.
[[nodiscard]] inline int status_when_ended(pid_t child) {
    int status = -1;
    for (int waits = 0; waits != 40'000; ++waits) {
        pid_t const ended = ::waitpid(child, &status, WNOHANG);
        if (ended == child) return status;
        REQUIRE(ended == 0);
        std::this_thread::sleep_for(std::chrono::milliseconds{1});
    }
    (void)::kill(child, SIGKILL);
    REQUIRE(::waitpid(child, &status, 0) == child);
    return status;
}

/// Returns the wait status of a child that runs f and then exits with status 0, unless f has ended it earlier. A child that hangs is killed:
/// by SIGALRM after 30 seconds in f, by SIGKILL if it hangs before f. Under AddressSanitizer such a child is run once more, because of its
/// allocator's locks (fork_turn), which the simulator's threads use too.
template <class F>
[[nodiscard]] int status_of_child(F f) {
    for (int tries = under_address_sanitizer ? 2 : 1;;) {
        pid_t const child = fork_in_turn();
        if (child == 0) {
            std::signal(SIGALRM, SIG_DFL);
            ::alarm(30);
            f();
            ::_exit(0);
        }
        REQUIRE(child > 0);
        int const status = status_when_ended(child);
        bool const hung = WIFSIGNALED(status) && (WTERMSIG(status) == SIGALRM || WTERMSIG(status) == SIGKILL);
        if (--tries == 0 || !hung) return status;
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
    std::string const command = "exec " + this_program() + ' ' + word_of_test(test) + " --out /dev/null";
    pid_t const child = ::fork();
    if (child == 0) {
        ::setenv("CUOTA_PLANTED", "1", 1);
        ::setenv("ASAN_OPTIONS", "detect_leaks=0", 1);
        ::execl("/bin/sh", "sh", "-c", command.c_str(), nullptr);
        ::_exit(99);
    }
    REQUIRE(child > 0);
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    CHECK(WEXITSTATUS(status) == wanted);
    return false;
}

}  // namespace support
