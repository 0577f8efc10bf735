// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// Wraps the C library's wait functions in this test program, so that tests can check how threads wait.
#include "support/thread_waits.hpp"

#include <atomic>
#include <cstdint>

#include <dlfcn.h>
#include <pthread.h>
#include <time.h>
#include <unistd.h>

#include "support/sanitizer.hpp"

namespace support {
namespace {

std::atomic<std::uint64_t> until_told{0};
std::atomic<std::uint64_t> timed{0};
thread_local bool is_marked = false;

}  // namespace

void mark_this_thread() noexcept { is_marked = true; }
void forget_waits() noexcept { until_told = timed = 0; }
thread_waits waits_of_marked_threads() noexcept { return {until_told, timed}; }
bool are_waits_counted() noexcept { return !under_thread_sanitizer && !under_address_sanitizer; }

}  // namespace support

#if !defined(__SANITIZE_THREAD__) && !defined(__SANITIZE_ADDRESS__) &&                                       \
    !CUOTA_HAS_FEATURE(thread_sanitizer) && !CUOTA_HAS_FEATURE(address_sanitizer)

namespace {

// Returns the next definition of the function, which ours hides.
template <class Function>
Function* next_of(char const* name) noexcept {
    return reinterpret_cast<Function*>(::dlsym(RTLD_NEXT, name));
}
bool is_in_this_program(void const* code) noexcept {
    Dl_info there{};
    Dl_info here{};
    return ::dladdr(code, &there) != 0 &&
           ::dladdr(reinterpret_cast<void const*>(&is_in_this_program), &here) != 0 &&
           there.dli_fbase == here.dli_fbase;
}
// Counts timed waits only if the caller is in this program: such waits are inlined from headers of the standard library.
void note(std::atomic<std::uint64_t>& count, void const* caller) noexcept {
    if (support::is_marked && (&count != &support::timed || is_in_this_program(caller))) ++count;
}

}  // namespace

#define CUOTA_TEST_WAIT(count, result, name, parameters, arguments)                                          \
    extern "C" result name parameters {                                                                      \
        static auto* const next = next_of<result parameters>(#name);                                         \
        note(support::count, __builtin_return_address(0));                                                   \
        return next arguments;                                                                               \
    }

CUOTA_TEST_WAIT(until_told, int, pthread_cond_wait, (pthread_cond_t * c, pthread_mutex_t* m), (c, m))
CUOTA_TEST_WAIT(timed, int, pthread_cond_timedwait,
                (pthread_cond_t * c, pthread_mutex_t* m, timespec const* until), (c, m, until))
CUOTA_TEST_WAIT(timed, int, pthread_cond_clockwait,
                (pthread_cond_t * c, pthread_mutex_t* m, clockid_t by, timespec const* until),
                (c, m, by, until))
CUOTA_TEST_WAIT(timed, int, nanosleep, (timespec const* time, timespec* left), (time, left))
CUOTA_TEST_WAIT(timed, int, clock_nanosleep, (clockid_t by, int how, timespec const* time, timespec* left),
                (by, how, time, left))
CUOTA_TEST_WAIT(timed, int, usleep, (useconds_t time), (time))

#endif
