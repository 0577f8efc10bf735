// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/training/detail/step_leak_check.hpp>

#include <cstddef>
#include <string>

#include <cuota/buffer/device_buffer.hpp>
#include <cuota/guard/budgeted.hpp>
#include <cuota/guard/reclaimer.hpp>
#include <cuota/pool/scoped_pool.hpp>
#include <cuota/resource/device_memory.hpp>

#include "support/catch.hpp"
#include "support/sink.hpp"
#include "support/thrown.hpp"

namespace {

using cuota::budget;
using cuota::detail::step_leak_check;
using namespace cuota::literals;

std::string left_after(step_leak_check const& mark) {
    return support::thrown<cuota::usage_error>([&] { mark.check("a step", {}); }).what();
}

TEST_CASE("a step after which no more bytes are in use has left nothing behind", "[training][left_behind]") {
    budget account{"b", 1000};
    account.charge(100);
    step_leak_check const mark{account};
    CHECK_NOTHROW(mark.check("a step", {}));
    account.refund(60);
    CHECK_NOTHROW(mark.check("a step", {}));
    account.charge(61);
    CHECK(left_after(mark) == "cuota::usage_error: budget b: 1 B more in use after a step than before it: "
                              "charged without a tag 1 B");
    account.refund(101);
}

TEST_CASE("bytes held in nested budgets count, and the holders that grew are named",
          "[training][left_behind][gpu]") {
    cuota::stream const s;
    budget const outer{"outer", 1_MiB};
    budget const inner{"inner", 1_MiB, outer};
    cuota::budgeted const memory{inner, cuota::device_memory{}};
    cuota::device_buffer<char> const before{4096, s, memory, cuota::no_init, "weights"};
    step_leak_check const mark{outer};
    cuota::device_buffer<char> const small{512, s, memory, cuota::no_init, "loss"};
    cuota::device_buffer<char> const large{1024, s, memory, cuota::no_init, "kept"};
    std::string const text = left_after(mark);
    CHECK(support::has(text, "budget outer: 1.5 KiB more in use"));
    CHECK(text.find("kept 1.0 KiB") < text.find("loss 512 B"));
    CHECK(text.find("loss 512 B") != std::string::npos);
    CHECK(!support::has(text, "weights"));
}

TEST_CASE("cached bytes of pools and reclaimers are not in use", "[training][left_behind][gpu]") {
    cuota::stream const s;
    budget account{"b", 64_MiB};
    cuota::scoped_pool const pool{account};
    step_leak_check const mark{account};
    {
        cuota::device_buffer<char> const large{8_MiB, s, pool, cuota::no_init};
        cuota::device_buffer<char> const small{100, s, pool, cuota::no_init};
        CHECK(support::has(left_after(mark), "8.0 MiB more in use"));
    }
    CHECK(account.held() >= 8_MiB);
    CHECK_NOTHROW(mark.check("a step", {}));
    CHECK(cuota::detail::cached_in(cuota::detail::holders_of(account)) == account.held());

    account.charge(1000);
    {
        cuota::reclaimer const cache{account, "cache", [](std::size_t) { return std::size_t{1000}; },
                                     [](std::size_t) { return std::size_t{0}; }};
        CHECK_NOTHROW(mark.check("a step", {}));
    }
    CHECK(support::has(left_after(mark), "1000 B more in use"));
    account.refund(1000);
}

}  // namespace
