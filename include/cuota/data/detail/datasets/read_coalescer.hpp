// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Coalesces adjacent pieces of a file into few reads.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <utility>

#include <sys/uio.h>

#include <cuota/core/config.hpp>

namespace cuota::inline v0::detail {

/// Reads a run of samples at once, even if scattered to many fields. `read(offset, parts)` reads into several parts, or one span of bytes.
template <class Read>
class run_reader {
public:
    explicit run_reader(Read read) : read_{std::move(read)} {}

    void add(std::uint64_t offset, std::span<std::byte> to) {
        if (offset != end_) flush();
        bool const extends = used_ != 0 && end_of(parts_[used_ - 1]) == to.data();
        if (!extends && used_ == parts_.size()) flush();
        if (used_ == 0) begin_ = offset;
        if (extends) parts_[used_ - 1].iov_len += to.size();
        else parts_[used_++] = {to.data(), to.size()};
        end_ = offset + to.size();
    }

    void flush() {
        std::size_t const used = std::exchange(used_, 0);
        if (used == 1)
            read_(begin_, std::span{static_cast<std::byte*>(parts_[0].iov_base), parts_[0].iov_len});
        else if (used != 0) read_(begin_, std::span{parts_.data(), used});
    }

private:
    static std::byte* end_of(iovec const& part) noexcept {
        return static_cast<std::byte*>(part.iov_base) + part.iov_len;
    }
    Read read_;
    std::array<iovec, 256> parts_;
    std::size_t used_ = 0;
    std::uint64_t begin_ = 0;
    std::uint64_t end_ = 0;
};

}  // namespace cuota::inline v0::detail
