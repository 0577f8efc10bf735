// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

// A program of three libraries, each of which contains cuota. The state of cuota exists once: errors of each library reach the sink that
// the program set, and its allocations are charged to the program's budget.
#include <cstdio>
#include <exception>

#include <cuota/cuota.hpp>

#include "part.hpp"

using namespace cuota::literals;

namespace {

int failures = 0;

void check(bool good, char const* what) {
    if (good) return;
    std::printf("not so: %s\n", what);
    ++failures;
}

int devices() try { return cuota::device::count(); } catch (cuota::cuda_error const&) {
    return 0;  // no driver
}

void use_the_pool() {
    cuota::budget const budget{"three", 64_MiB};
    cuota::scoped_pool pool{budget};
    cuota::stream const stream;
    for (auto const take : {three_static::take, three_shared::take, three_header_only::take})
        check(take(budget, pool, 4_MiB) >= 4_MiB, "what a part takes is charged to the program's budget");
    cuota::device_buffer<int> numbers{100, stream, pool};
    three_static::add_index(stream, numbers.write(stream));
    three_shared::add_index(stream, numbers.write(stream));
    check(numbers.to_vector(stream)[99] == 198, "each part's kernel runs");
}

}  // namespace

int main() {
    int reported = 0;
    cuota::set_error_sink([&](std::exception const&) { ++reported; });
    three_static::report();
    three_shared::report();
    three_header_only::report();
    check(reported == 3, "each part's errors reach the program's sink");
    bool const has_device = devices() > 0;
    if (has_device) use_the_pool();
    std::printf("%s on %s\n", failures == 0 ? "good" : "not good",
                !has_device             ? "no device"
                : cuota::is_simulated() ? "the simulated device"
                                        : "a GPU");
    cuota::set_error_sink({});
    return failures;
}
