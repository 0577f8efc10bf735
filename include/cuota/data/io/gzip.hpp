// SPDX-FileCopyrightText: 2026 The cuota authors
// SPDX-License-Identifier: Apache-2.0

/// Opens files that may be compressed. Requires zlib (link it). In no umbrella header.
#pragma once

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <limits>
#include <new>
#include <span>
#include <string>
#include <string_view>
#include <utility>

#include <stdlib.h>
#include <unistd.h>
#include <zlib.h>

#include <cuota/core/error.hpp>
#include <cuota/data/io/file.hpp>

namespace cuota::inline v0 {

namespace detail {

/// Creates an unlinked file in $TMPDIR or /tmp.
inline unique_descriptor temporary_file() {
    char const* const folder = std::getenv("TMPDIR");
    std::string path = std::string{folder != nullptr && *folder != '\0' ? folder : "/tmp"} + "/cuota-XXXXXX";
    unique_descriptor descriptor{::mkostemp(path.data(), O_CLOEXEC)};
    if (!descriptor) throw_data_error(path, 0, "cannot be created: {}", {errno_text(errno)});
    if (::unlink(path.c_str()) != 0) throw_data_error(path, 0, "cannot be unlinked: {}", {errno_text(errno)});
    return descriptor;
}

/// Decompresses into a temporary file.
class gzip_reader {
public:
    gzip_reader(file const& from, std::uint64_t limit) : from_{from}, limit_{limit}, to_{temporary_file()} {
        constexpr int gzip_only = 15 + 16;  // the largest window; no zlib or raw streams
        if (inflateInit2(&stream_, gzip_only) != Z_OK) throw std::bad_alloc{};
    }
    gzip_reader(gzip_reader const&) = delete;
    gzip_reader& operator=(gzip_reader const&) = delete;
    ~gzip_reader() { inflateEnd(&stream_); }

    [[nodiscard]] unique_descriptor run() && {
        do {  // a file has at least one member
            inflateReset(&stream_);
            do {
                if (stream_.avail_in == 0) refill();
            } while (!step());
        } while (has_another_member());
        return std::move(to_);
    }

private:
    /// Skips zero padding, as gzip does. Throws: data_error for anything but a member.
    [[nodiscard]] bool has_another_member() {
        while (stream_.avail_in != 0 || read_ != from_.size()) {
            if (stream_.avail_in == 0) refill();
            if (*stream_.next_in == 0x1f) return true;
            if (*stream_.next_in != 0)
                throw refuse("the data after the last gzip member is neither a member nor zero padding");
            ++stream_.next_in;
            --stream_.avail_in;
        }
        return false;
    }

    void refill() {
        std::size_t const bytes = std::min<std::uint64_t>(in_.size(), from_.size() - read_);
        if (bytes == 0) throw refuse("the compressed data ends inside a member");
        from_.read_exact(read_, std::span{in_}.first(bytes));
        read_ += bytes;
        stream_.next_in = reinterpret_cast<Bytef*>(in_.data());
        stream_.avail_in = static_cast<uInt>(bytes);
    }

    /// Decompresses a chunk; returns true at the end of a member.
    bool step() {
        stream_.next_out = reinterpret_cast<Bytef*>(out_.data());
        stream_.avail_out = static_cast<uInt>(out_.size());
        int const result = inflate(&stream_, Z_NO_FLUSH);
        if (result == Z_MEM_ERROR) throw std::bad_alloc{};
        if (result != Z_OK && result != Z_STREAM_END && result != Z_BUF_ERROR)
            throw refuse(std::string{"the compressed data is corrupt: "} +
                         (stream_.msg != nullptr ? stream_.msg : "not gzip"));
        write(std::span{out_}.first(out_.size() - stream_.avail_out));
        return result == Z_STREAM_END;
    }

    void write(std::span<std::byte const> bytes) {
        if (bytes.size() > limit_ - written_)
            throw refuse("the decompressed data exceeds the limit of " + std::to_string(limit_) + " bytes");
        written_ += bytes.size();
        while (!bytes.empty()) {
            auto const put = ::write(to_.get(), bytes.data(), bytes.size());
            if (put < 0 && errno != EINTR)
                throw refuse("cannot write the decompressed data: " + errno_text(errno));
            if (put > 0) bytes = bytes.subspan(static_cast<std::size_t>(put));
        }
    }

    [[nodiscard]] data_error refuse(std::string const& why) const {
        return {from_.name(), read_ - stream_.avail_in, why};
    }

    static constexpr std::size_t chunk = 64 << 10;
    file const& from_;
    std::uint64_t limit_;
    unique_descriptor to_;
    std::uint64_t read_ = 0;
    std::uint64_t written_ = 0;
    z_stream stream_{};
    std::array<std::byte, chunk> in_;
    std::array<std::byte, chunk> out_;
};

[[nodiscard]] inline bool is_gzip(file const& from) {
    std::array<std::byte, 2> start{};
    if (from.size() < start.size()) return false;
    from.read_exact(0, start);
    return start[0] == std::byte{0x1f} && start[1] == std::byte{0x8b};
}

}  // namespace detail

/// Opens a file as it is or, if gzip, decompressed into a temporary file in $TMPDIR or /tmp, deleted with its last owner. Its name is the
/// compressed file's.
/// Throws:  data_error, at the compressed offset, if the file is truncated, corrupt, followed by anything but members or zeros, or exceeds
///          `limit` bytes decompressed.
/// Cost:    disk space for the decompressed bytes; 170 KiB of memory.
/// Threads: any. Example: cuota::idx_dataset images{cuota::open_maybe_gzip("images.gz")};
[[nodiscard]] inline file open_maybe_gzip(std::string path,
                                          std::uint64_t limit = std::numeric_limits<std::uint64_t>::max()) {
    file plain{std::move(path)};
    if (!detail::is_gzip(plain)) return plain;
    return file::adopt(detail::gzip_reader{plain, limit}.run().release(), plain.name());
}

}  // namespace cuota::inline v0
