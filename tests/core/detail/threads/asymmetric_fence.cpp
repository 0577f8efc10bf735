// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/core/detail/threads/asymmetric_fence.hpp>

#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstddef>
#include <iterator>
#include <thread>

#include <sys/prctl.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <unistd.h>

#if defined(__linux__) && __has_include(<linux/seccomp.h>)
#include <linux/filter.h>
#include <linux/seccomp.h>
#endif

#include "support/catch.hpp"

namespace {

// The store-buffering litmus test. Returns the number of rounds in which both threads read 0, which happens if fences are missing.
template <class Fence>
int times_neither_saw_the_other(Fence fence) {
    std::atomic<int> x = 0;
    std::atomic<int> y = 0;
    std::atomic<int> round = 0;
    std::atomic<int> read_by_light = -1;
    constexpr int rounds = 20'000;
    std::thread light{[&] {
        for (int i = 1; i <= rounds; ++i) {
            while (round.load() != i) std::this_thread::yield();
            x.store(1, std::memory_order_relaxed);
            cuota::detail::asymmetric_fence_light();
            read_by_light.store(y.load(std::memory_order_relaxed));
        }
    }};
    int neither = 0;
    for (int i = 1; i <= rounds; ++i) {
        x = y = 0;
        read_by_light = -1;
        round = i;
        y.store(1, std::memory_order_relaxed);
        fence();
        int const read_by_heavy = x.load(std::memory_order_relaxed);
        while (read_by_light == -1) std::this_thread::yield();
        if (read_by_heavy == 0 && read_by_light == 0) ++neither;
    }
    light.join();
    return neither;
}

// ThreadSanitizer does not support fork.
#if defined(__linux__) &&                                                                                    \
    __has_include(<linux/seccomp.h>) && __has_include(<linux/membarrier.h>) && !defined(__SANITIZE_THREAD__)
#define CUOTA_TEST_FILTERS 1
// Makes the kernel refuse membarrier(2) to the calling process and report each mprotect(2) by SIGSYS. Returns false if the kernel does not
// support such a filter.
bool refuse_membarrier() {
    sock_filter rules[]{
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(seccomp_data, nr)),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_membarrier, 2, 0),
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_mprotect, 2, 0),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM),
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_TRAP),
    };
    sock_fprog const filter{static_cast<unsigned short>(std::size(rules)), rules};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &filter) == 0 &&
           ::syscall(SYS_membarrier, MEMBARRIER_CMD_PRIVATE_EXPEDITED, 0) == -1;
}

volatile std::sig_atomic_t protections = 0;
#endif

}  // namespace

TEST_CASE("a heavy fence in one thread and a light fence in the other order both", "[core][sync]") {
    if (!cuota::detail::fences_are_asymmetric()) {
        WARN("not run: this system has no membarrier(2)");
        return;
    }
    CHECK(times_neither_saw_the_other([] { cuota::detail::asymmetric_fence_heavy(); }) == 0);
    CHECK(times_neither_saw_the_other([] { cuota::detail::fence_by_protection(); }) == 0);
}

TEST_CASE("a heavy fence changes page protections once the kernel refuses membarrier", "[core][sync]") {
#if defined(CUOTA_TEST_FILTERS)
    if (!cuota::detail::fences_are_asymmetric()) {
        WARN("not run: this system has no membarrier(2)");
        return;
    }
    pid_t const child = ::fork();
    if (child == 0) {
        std::signal(SIGSYS, [](int) { protections = protections + 1; });
        if (!refuse_membarrier()) ::_exit(77);
        cuota::detail::asymmetric_fence_heavy();
        ::_exit(protections == 1 ? 0 : 1);
    }
    int status = -1;
    REQUIRE(::waitpid(child, &status, 0) == child);
    REQUIRE(WIFEXITED(status));
    if (WEXITSTATUS(status) == 77) WARN("not run: this system has no filters of system calls");
    else CHECK(WEXITSTATUS(status) == 0);
#else
    WARN("not run: no filters of system calls, or ThreadSanitizer, which cannot follow a fork");
#endif
}
