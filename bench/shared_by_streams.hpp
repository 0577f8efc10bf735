// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// The load of fragmentation.cpp, for pools of any library.
#pragma once

#include <cmath>
#include <cstddef>
#include <latch>
#include <optional>
#include <random>
#include <utility>
#include <vector>

#include <cuota/core/bytes.hpp>
#include <cuota/runtime/rt/call.hpp>
#include <cuota/runtime/stream.hpp>

namespace bench {

using namespace cuota::literals;

constexpr std::size_t cap = 8_GiB;
constexpr int allocations = 60'000;

struct request {
    std::size_t stream;
    std::size_t bytes;
};

// Calls take(request) -> optional<handle> and give(request, handle). Returns the number of refusals.
template <class Handle, class Take, class Give>
std::size_t run(std::size_t streams, double live_share, unsigned seed, Take take, Give give) {
    struct live_block {
        request of;
        Handle at;
    };
    auto const most = static_cast<std::size_t>(live_share * static_cast<double>(cap));
    std::mt19937_64 random{seed};
    std::uniform_real_distribution<double> exponent{16.0, 28.0};
    std::vector<live_block> live;
    std::size_t bytes_live = 0;
    std::size_t refusals = 0;
    for (int i = 0; i != allocations; ++i) {
        request const wanted{random() % streams,
                             cuota::round_up(static_cast<std::size_t>(std::exp2(exponent(random))), 256)};
        while (bytes_live + wanted.bytes > most) {
            std::swap(live[random() % live.size()], live.back());
            give(live.back().of, live.back().at);
            bytes_live -= live.back().of.bytes;
            live.pop_back();
        }
        if (std::optional<Handle> const at = take(wanted)) {
            live.push_back({wanted, *at});
            bytes_live += wanted.bytes;
        } else {
            ++refusals;
        }
    }
    for (live_block const& b : live) give(b.of, b.at);
    return refusals;
}

// Keeps the streams busy until it is destroyed. After the destructor, all work enqueued there has finished.
class busy {
public:
    explicit busy(std::vector<cuota::stream> const& streams) : streams_{streams} {
        for (cuota::stream const& s : streams_)
            cuota::rt::check(cudaLaunchHostFunc(
                                 s.get(), [](void* end) { static_cast<std::latch*>(end)->wait(); }, &end_),
                             "cudaLaunchHostFunc");
    }
    ~busy() {
        end_.count_down();
        for (cuota::stream const& s : streams_) (void)cudaStreamSynchronize(s.get());
    }
    busy(busy const&) = delete;
    busy& operator=(busy const&) = delete;

private:
    std::vector<cuota::stream> const& streams_;
    std::latch end_{1};
};

}  // namespace bench
