// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0
#pragma once

#include <cstddef>
#include <span>

#include <cuota/runtime/rt/copy.hpp>
#include <cuota/runtime/rt/memory.hpp>

namespace support {

/// Device memory for tests of layers below buffers. Work of the last stream that used it must have finished before it is destroyed.
class device_bytes {
public:
    explicit device_bytes(std::size_t bytes)
        : at_{bytes == 0 ? nullptr : cuota::rt::device_allocate(bytes)}, bytes_{bytes} {}
    device_bytes(device_bytes const&) = delete;
    device_bytes& operator=(device_bytes const&) = delete;
    ~device_bytes() {
        if (at_) cuota::rt::device_free(at_);
    }

    [[nodiscard]] void* at() const { return at_; }
    [[nodiscard]] std::size_t size() const { return bytes_; }

    void write(std::span<std::byte const> from, cuota::stream_ref s) const {
        cuota::rt::copy_to_device(at_, from.data(), from.size(), s);
        s.synchronize();
    }
    void read(std::span<std::byte> to, cuota::stream_ref s) const {
        cuota::rt::copy_to_host(to.data(), at_, to.size(), s);
        s.synchronize();
    }

private:
    void* at_;
    std::size_t bytes_;
};

}  // namespace support
