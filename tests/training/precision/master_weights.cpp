// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/precision/master_weights.hpp>

#include <cstddef>
#include <span>
#include <type_traits>
#include <utility>
#include <vector>

#include <cuota/guard/budget.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/pool/scoped_pool.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

using namespace cuota::literals;
using cuota::half;
using cuota::master_weights;
using support::has;
using support::thrown;

static_assert(!std::is_copy_constructible_v<master_weights<half>> &&
              std::is_nothrow_move_constructible_v<master_weights<half>>);

namespace {

struct add_to_weights {
    float* to;
    float value;
    CUOTA_KERNEL void operator()(std::size_t i) const { to[i] += value; }
};

template <class Half>
void add_to(master_weights<Half>& w, float value, cuota::stream_ref s) {
    auto const all = w.write(s);
    cuota::for_each_index(s, w.size(), add_to_weights{all.span().data(), value});
}

template <class T>
std::vector<float> floats_there(cuota::lease<T const> const& of, cuota::stream_ref s) {
    std::vector<T> host(of.size());
    cuota::rt::copy_to_host(host.data(), of.span().data(), of.span().bytes(), s);
    s.synchronize();
    std::vector<float> all;
    for (T const x : host) all.push_back(static_cast<float>(x));
    return all;
}

}  // namespace

TEST_CASE("master_weights::bytes returns the size, or unlimited if it overflows",
          "[training][master_weights]") {
    CHECK(master_weights<half>::bytes(1000) == 6000);
    CHECK(master_weights<half>::bytes(1, 512) == 1024);
    CHECK(master_weights<half>::bytes(0, 512) == 0);
    CHECK(master_weights<half>::bytes(cuota::unlimited / 4) == cuota::unlimited);
    CHECK(master_weights<half>::bytes(cuota::unlimited / 4 + 1) == cuota::unlimited);
    CHECK(master_weights<half>::bytes(cuota::unlimited / 6) != cuota::unlimited);
}

TEMPLATE_TEST_CASE("updates that are too small for 16 bits accumulate in the master weights",
                   "[training][master_weights][gpu]", half, cuota::bfloat16) {
    cuota::stream const s;
    cuota::scoped_pool const pool{cuota::budget{"test", 1_MiB}};
    std::vector<float> const host{1, 1, 1};
    master_weights<TestType> w{host, s, pool};
    CHECK(w.size() == 3);
    CHECK(w.bytes() == 18);
    CHECK(floats_there(w.low_precision(s), s) == host);
    for (int i = 0; i != 32; ++i) {
        add_to(w, 0x1p-13f, s);
        w.refresh(s);
    }
    // Each update is less than half the spacing of either type at 1.
    CHECK(floats_there(w.read(s), s) == std::vector<float>(3, 1 + 0x1p-8f));
    CHECK(floats_there(w.low_precision(s), s) ==
          std::vector<float>(3, static_cast<float>(TestType{1 + 0x1p-8f})));
}

TEST_CASE("weights are zero unless values are given", "[training][master_weights][gpu]") {
    cuota::stream const s;
    cuota::scoped_pool const pool{cuota::budget{"test", 1_MiB}};
    { cuota::device_buffer<int> const dirty{1000, -1, s, pool}; }
    master_weights<half> const w{100, s, pool};
    CHECK(floats_there(w.read(s), s) == std::vector<float>(100, 0));
    CHECK(floats_there(w.low_precision(s), s) == std::vector<float>(100, 0));
    master_weights<half> none{0, s, pool};
    none.refresh(s);
    CHECK(none.bytes() == 0);
}

TEST_CASE("an outdated working copy is refused", "[training][master_weights][gpu]") {
    cuota::stream const s;
    cuota::scoped_pool const pool{cuota::budget{"test", 1_MiB}};
    master_weights<half> w{4, s, pool};
    CHECK(w.is_in_sync());
    add_to(w, 2, s);
    CHECK_FALSE(w.is_in_sync());
    cuota::usage_error const error = thrown<cuota::usage_error>([&] { (void)w.low_precision(s); });
    CHECK(has(error.what(), "the working copy is outdated"));
    CHECK(has(error.what(), "master_weights.cpp"));
    w.refresh(s);
    CHECK(w.is_in_sync());
    CHECK(floats_there(w.low_precision(s), s) == std::vector<float>(4, 2));
}

TEST_CASE("a refused refresh does not change whether the copy is in sync",
          "[training][master_weights][gpu]") {
    cuota::stream const s;
    cuota::stream const other;
    cuota::scoped_pool const pool{cuota::budget{"test", 1_MiB}};
    master_weights<half> w{4, s, pool};
    {
        auto const open = w.write(s);
        CHECK_THROWS_AS(w.refresh(other), cuota::usage_error);
        CHECK_FALSE(w.is_in_sync());
    }
    {
        master_weights<half> v{4, s, pool};
        auto const reader = v.low_precision(s);
        CHECK_THROWS_AS(v.refresh(other), cuota::usage_error);
        CHECK(v.is_in_sync());
    }
}

TEST_CASE("master_weights hold exactly their computed bytes, and a refusal leaves nothing held",
          "[training][master_weights][gpu]") {
    cuota::stream const s;
    std::size_t const granularity = cuota::any_resource{cuota::device_memory{}}.granularity();
    std::vector<float> const host(1000, 1.0f);
    std::size_t const needed = master_weights<half>::bytes(host.size(), granularity);
    for (std::size_t limit = 0; limit <= needed; limit += granularity) {
        cuota::budget const b{"test", limit};
        cuota::budgeted<> const memory{b};
        if (limit < needed) {
            CHECK_THROWS_AS((master_weights<half>{host.size(), s, memory}), cuota::budget_exceeded);
            CHECK_THROWS_AS((master_weights<half>{host, s, memory}), cuota::budget_exceeded);
        } else {
            master_weights<half> w{host, s, memory};
            CHECK(b.held() == needed);
            master_weights<half> const moved = std::move(w);
            CHECK(moved.size() == 1000);
        }
        CHECK(b.held() == 0);
    }
}
