// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/pool/detail/blocks/pending_frees.hpp>

#include <cstddef>
#include <cstdint>
#include <vector>

#include <cuota/runtime/stream.hpp>

#include "support/catch.hpp"
#include "support/gate.hpp"

using cuota::detail::observed_block;
using cuota::detail::pending_frees;
using cuota::detail::stream_order;

namespace {

class completions final : public cuota::detail::pool_observer {
public:
    void allocated(observed_block const&) noexcept override {}
    void free_requested(observed_block const&) noexcept override {}
    void free_completed(observed_block const& b) noexcept override { over.push_back(b.bytes); }
    void segment_allocated(void const*, std::size_t, cuota::source_location) noexcept override {}
    void segment_freed(void const*, std::size_t) noexcept override {}
    void step_begun(cuota::source_location) noexcept override {}
    void step_ended() noexcept override {}
    void ended() noexcept override {}

    std::vector<std::size_t> over;  // bytes of completed frees, in order
};

struct given_back {
    stream_order order;
    completions told;
    pending_frees pending;

    void operator()(cuota::stream_ref s, std::size_t bytes) {
        std::uint32_t const stream_index = order.index_of(s);
        pending.add({nullptr, bytes, bytes, {}, {}, s.id()}, order.release_on(stream_index), order, told);
    }
    void settle() { pending.settle(order, told); }
};

}  // namespace

TEST_CASE("pending_frees reports frees whose work has finished, and no others", "[pool][pending_frees]") {
    cuota::stream const slow;
    cuota::stream const fast;
    given_back free;
    support::gate closed{slow};
    free(slow, 1);
    free(fast, 2);
    free(slow, 3);
    fast.synchronize();
    free.settle();
    REQUIRE(free.told.over == std::vector<std::size_t>{2});
    closed.open();
    slow.synchronize();
    free.settle();
    REQUIRE(free.told.over == std::vector<std::size_t>{2, 1, 3});
    free.settle();
    REQUIRE(free.told.over.size() == 3);
}

TEST_CASE("pending_frees queries the streams by itself after a fixed number of frees",
          "[pool][pending_frees]") {
    cuota::stream const stream;
    stream.synchronize();
    given_back free;
    for (std::size_t i = 0; i != pending_frees::look_every - 1; ++i) free(stream, i);
    REQUIRE(free.told.over.empty());
    free(stream, 0);
    REQUIRE(free.told.over.size() == pending_frees::look_every - 1);
}

TEST_CASE("pending_frees drops the oldest frees when its capacity is exceeded", "[pool][pending_frees]") {
    cuota::stream const stream;
    given_back free;
    support::gate closed{stream};
    for (std::size_t i = 0; i != pending_frees::most + 10; ++i) free(stream, i);
    REQUIRE(free.told.over.empty());
    closed.open();
    stream.synchronize();
    free.settle();
    REQUIRE(free.told.over.size() == pending_frees::most);
    REQUIRE(free.told.over.front() == 10);
    REQUIRE(free.told.over.back() == pending_frees::most + 9);
}
