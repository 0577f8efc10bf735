// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// One budget for all libraries: buffers of cuota, a device_vector of Thrust, scratch memory of CUB.
/// Computes how much memory it will hold, sets that as the budget's limit, and prints the peak; exit status 1 if the peak is higher.
///
/// --limit sets another limit: with one byte less than the plan, nothing is run.
#include <cuota/cuota.hpp>
#include <cuota/guard/footprint.hpp>
#include <cuota/interop/cub.hpp>
#include <cuota/interop/thrust_allocator.hpp>
#include <cuota/resource/async_memory.hpp>

#include <thrust/device_vector.h>
#include <thrust/iterator/counting_iterator.h>
#include <thrust/transform.h>

#include <cstddef>
#include <cstdio>
#include <optional>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "command_line.hpp"
#include "inclusive_sum.hpp"

namespace {

using numbers = thrust::device_vector<int, cuota::thrust_allocator<int>>;

struct options {
    std::optional<std::size_t> limit{};
    bool help = false;
};

constexpr char const* usage =
    "usage: one_budget [--limit SIZE]\n"
    "\n"
    "  --limit SIZE   what it may hold on the device: bytes, or so many KiB, MiB or GiB    (what it plans)\n";

[[nodiscard]] options parse(std::vector<std::string_view> const& arguments) {
    options o;
    for (std::size_t at = 0; at != arguments.size(); ++at) {
        if (arguments[at] == "--limit" && at + 1 != arguments.size())
            o.limit = command_line::size("--limit", arguments[++at]);
        else if (arguments[at] == "--help" || arguments[at] == "-h") o.help = true;
        else throw command_line::usage_error{"unknown option '" + std::string{arguments[at]} + "'"};
    }
    return o;
}

struct is_odd {
    CUOTA_HOST_DEVICE int operator()(int i) const { return i % 2; }
};

/// Flags the odd numbers with Thrust and scans the flags with CUB, into a buffer of cuota. Returns the last sum.
[[nodiscard]] int count_odd(int count, cuota::stream const& stream, cuota::any_resource const& memory) {
    auto const n = static_cast<std::size_t>(count);
    numbers flags(n, cuota::thrust_allocator<int>{stream, memory, "flags"});
    cuota::device_buffer<int> sums{n, stream, memory, cuota::no_init, "sums"};

    cuota::run_thrust(stream, memory, [to = flags.begin(), count](auto const& on) {
        thrust::counting_iterator<int> const first{0};
        thrust::transform(on, first, first + count, to, is_odd{});
    });
    {
        auto const result = sums.write(stream);
        cuota::run_cub(stream, memory, [&](void* scratch, std::size_t& bytes) {
            return inclusive_sum(scratch, bytes, flags.data().get(), result.span().data(), count,
                                 stream.get());
        });
    }
    return sums.to_vector(stream).back();
}

void run(options const& how) {
    constexpr int count = 1'000'000;
    cuota::stream const stream;
    cuota::async_memory const device;

    cuota::footprint plan{device};
    plan.add<int>("flags", count)
        .add<int>("sums", count)
        .add<std::byte>("cub", cuota::cub_temp_storage_bytes(stream, [](void* scratch, std::size_t& bytes) {
                            return inclusive_sum(scratch, bytes, nullptr, nullptr, count, nullptr);
                        }));
    cuota::budget const budget{"one budget", how.limit.value_or(plan.bytes())};
    std::printf("%s\n\n", plan.text(0).c_str());
    plan.check(budget);

    cuota::measured const memory{cuota::budgeted{budget, device}};
    int const odd = count_odd(count, stream, memory);
    std::printf("%s\n\nodd: %d of %d; sums by %s\n", memory.report().text().c_str(), odd, count, who_sums);
    if (odd != count / 2) throw std::runtime_error{"that is not how many there are"};
    if (budget.peak() != plan.bytes() || memory.report().peak != plan.bytes())
        throw std::runtime_error{"it held " + std::to_string(budget.peak()) + " bytes, and planned " +
                                 std::to_string(plan.bytes())};
    std::printf("held at the most what was planned: %zu bytes\n", budget.peak());
}

}  // namespace

int main(int argc, char** argv) {
    return command_line::run("one_budget", usage, {argv + 1, argv + argc}, parse, run);
}
