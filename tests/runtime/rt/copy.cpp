// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

#include <cuota/runtime/rt/copy.hpp>

#include <cstring>
#include <vector>

#include <cuota/runtime/rt/memory.hpp>

#include "support/catch.hpp"
#include "support/kernels.hpp"

namespace {

struct ends {
    explicit ends(std::size_t n)
        : bytes{n},
          host{static_cast<unsigned char*>(cuota::rt::pinned_allocate(n))},
          device{cuota::rt::device_allocate(n)},
          other{cuota::rt::device_allocate(n)} {}
    ~ends() {
        cuota::rt::pinned_free(host);
        cuota::rt::device_free(device);
        cuota::rt::device_free(other);
    }
    std::size_t bytes;
    unsigned char* host;
    void* device;
    void* other;
};

}  // namespace

TEST_CASE("bytes that are copied to a device, on it and back are unchanged", "[runtime][copy]") {
    ends const e{100'001};
    cuota::stream const s;
    for (std::size_t i = 0; i != e.bytes; ++i) e.host[i] = support::pattern_byte(i, 3);
    cuota::rt::copy_to_device(e.device, e.host, e.bytes, s);
    cuota::rt::copy_on_device(e.other, e.device, e.bytes, s);
    s.synchronize();
    std::memset(e.host, 0, e.bytes);
    cuota::rt::copy_to_host(e.host, e.other, e.bytes, s);
    s.synchronize();
    REQUIRE(support::has_pattern(e.host, e.bytes, 3));
}

TEST_CASE("copy_anywhere copies between any combination of host and device", "[runtime][copy]") {
    ends const e{1000};
    cuota::stream const s;
    for (std::size_t i = 0; i != e.bytes; ++i) e.host[i] = support::pattern_byte(i, 4);
    cuota::rt::copy_anywhere(e.device, e.host, e.bytes, s);
    cuota::rt::copy_anywhere(e.other, e.device, e.bytes, s);
    s.synchronize();
    std::memset(e.host, 0, e.bytes);
    cuota::rt::copy_anywhere(e.host, e.other, e.bytes, s);
    s.synchronize();
    REQUIRE(support::has_pattern(e.host, e.bytes, 4));
    REQUIRE_NOTHROW(cuota::rt::copy_anywhere(nullptr, nullptr, 0, s));
}

TEST_CASE("fill_bytes sets the given bytes only", "[runtime][copy]") {
    ends const e{1000};
    cuota::stream const s;
    cuota::rt::fill_bytes(e.device, 0xff, e.bytes, s);
    cuota::rt::fill_bytes(static_cast<unsigned char*>(e.device) + 1, 0x11, e.bytes - 2, s);
    cuota::rt::copy_to_host(e.host, e.device, e.bytes, s);
    s.synchronize();
    std::vector<unsigned char> expected(e.bytes, 0x11);
    expected.front() = expected.back() = 0xff;
    REQUIRE(std::memcmp(e.host, expected.data(), e.bytes) == 0);
}

TEST_CASE("copying 0 bytes is allowed with null pointers", "[runtime][copy]") {
    cuota::stream const s;
    REQUIRE_NOTHROW(cuota::rt::copy_to_device(nullptr, nullptr, 0, s));
    REQUIRE_NOTHROW(cuota::rt::copy_to_host(nullptr, nullptr, 0, s));
    REQUIRE_NOTHROW(cuota::rt::copy_on_device(nullptr, nullptr, 0, s));
    REQUIRE_NOTHROW(cuota::rt::fill_bytes(nullptr, 0, 0, s));
}

TEST_CASE("fill_words writes words of one, two and four bytes, and nothing beside them",
          "[runtime][copy][gpu]") {
    ends const e{1000};
    cuota::stream const s;
    auto const filled = [&](cuota::rt::fill_word value, std::size_t at, std::size_t count) {
        cuota::rt::fill_bytes(e.device, 0x55, e.bytes, s);
        cuota::rt::fill_words(static_cast<std::byte*>(e.device) + at, value, count, s);
        cuota::rt::copy_to_host(e.host, e.device, e.bytes, s);
        s.synchronize();
        std::vector<unsigned char> expected(e.bytes, 0x55);
        for (std::size_t i = 0; i != count * value.bytes; ++i)
            expected[at + i] = static_cast<unsigned char>(value.bits >> (i % value.bytes * 8));
        return std::memcmp(e.host, expected.data(), e.bytes) == 0;
    };
    CHECK(filled({0xa1, 1}, 3, 700));
    CHECK(filled({0xa1b2, 2}, 2, 400));
    CHECK(filled({0xa1a1, 2}, 2, 400));
    CHECK(filled({0xa1b2c3d4, 4}, 4, 200));
    CHECK(filled({0xa1a1a1a1, 4}, 4, 200));
    CHECK(filled({0xa1b2a1b2, 4}, 4, 200));
    CHECK(filled({0xa1b2c3d4, 4}, 0, 0));
    CHECK(filled({0xffffff11, 1}, 0, 10));  // bits beyond the word are ignored
    CHECK(filled({0xffff1111, 2}, 0, 10));
}
